//! Stopping and resuming: the actuator process, its guardian, and the way to them.
//!
//! The actuator is the only process that opens the driver and traces others. When it ends, however that comes, the driver
//! resumes everything it had stopped. The guardian, its parent, ends it when it, or the daemon, gives no sign of life.

mod wire;

pub use wire::{Order, Refused, RefusedKind, Told, TracedQueue};
