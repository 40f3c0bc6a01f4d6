//! The control socket: reads requests, answers questions from what the host publishes, and passes changes on to the
//! host. `docs/control.md` describes the protocol.
//!
//! ```text
//!   clients ══> Server (one thread, poll) ── Input::{Request, Notified, Publish, Configured} ──> host
//!                  ^                                                                             │
//!                  └─────────────── Publisher: events, newest status and statistics <────────────┘
//! ```
//!
//! The thread owns no state of the scheduler. It waits for its descriptors only, so no client delays another, with one
//! exception: a reload reads the configuration and `/etc/passwd` in this thread. Only operators can cause it, and a
//! slow file system then delays answers, but never the host. Requests to the host are limited by user, and a
//! publication is requested at most every 20 ms.

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
pub use reload::{LoadConfig, reload};
pub use server::{Handle, Server};
pub use socket::ServerError;
