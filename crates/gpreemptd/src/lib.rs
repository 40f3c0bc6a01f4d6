//! The daemon: watches every compute queue of every process, decides with `gpreempt-core`, stops and resumes through the
//! driver, and says what it did.
//!
//! ```text
//!   scout ──────────> engine <────────── control <──── clients
//!   (who is there)   (observe, decide)  (socket)
//!                        │    ^
//!                  orders│    │reports
//!                        v    │
//!     guardian ─── actuator process: one thread per target process, the only one that opens the driver and traces
//! ```
//!
//! One thread decides ([`engine`]). It reads rings and never waits for anything: what is slow (files of the driver, other
//! processes' states, the driver's calls, sockets) happens in other threads and comes back as an [`Input`].
//!
//! [`Input`]: inbox::Input
#![forbid(unsafe_code)]

pub mod actuate;
pub mod clock;
pub mod config;
pub mod control;
pub mod daemon;
pub mod discovery;
pub mod host;
pub mod identity;
pub mod inbox;
pub mod observe;
pub mod os;
mod panic_hook;
pub mod record;
