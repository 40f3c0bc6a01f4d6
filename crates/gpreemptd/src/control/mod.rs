//! The control socket: reads what clients ask, answers from what the engine publishes, passes changes on. The protocol is
//! described in `docs/control.md`.
//!
//! ```text
//!   clients ══> Server (one thread, poll) ── Input::{Request, Notified, Publish, Configured} ──> engine
//!                  ^                                                                             │
//!                  └───────────────── Publisher: events, newest status and statistics <──────────────┘
//! ```
//!
//! The thread owns no state of the scheduler and never waits for anything but its descriptors, so that no client can hold
//! up another, and none can hold up the engine: what reaches it is limited by user, what it publishes is asked for at most
//! every 20 ms.

mod client;
mod handler;
mod line;
mod peer;
mod publisher;
mod rate;
mod reload;
mod server;
mod socket;
mod wake;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

pub use peer::Peer;
pub use publisher::{Published, Publisher};
pub use reload::{Load, reload};
pub use server::{Handle, Server};
pub use socket::ServerError;
