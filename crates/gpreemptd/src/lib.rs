//! The daemon: polls the compute queues of processes that compete for a gpu, decides with `gpreempt-core`, stops and
//! resumes queues through the driver, and publishes what it did.
//!
//! ```text
//!   discovery ────────> host <────────── control <──── clients
//!   (processes, gpus)  (poll, decide)   (socket)
//!                        │    ^
//!                commands│    │events
//!                        v    │
//!     guardian ─── actuator process: one thread per target process, the only one that opens the driver and traces
//! ```
//!
//! One thread decides ([`host`]). It waits for its inbox; it opens no file, starts no process and waits for none. It
//! reads rings through descriptors that are open already, and writes log records to stderr: [`host`] says what can
//! delay these. What may take long (files of the driver, states of other processes, the end of the actuator, the
//! driver's calls, sockets, the disk) happens in other threads and comes back as an [`Input`].
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
