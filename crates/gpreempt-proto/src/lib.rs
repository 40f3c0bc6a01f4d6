//! The control protocol: one JSON document per line over a Unix socket, see `docs/control.md`.
//!
//! A client sends [`Call`]s and gets one [`Answer`] for each, in order. After [`Request::Watch`] the daemon sends
//! [`Event`]s until the client disconnects. Within one version, keys and values may be added: clients ignore keys that
//! they do not know, and every vocabulary has an `Other` for values that they do not know.
#![forbid(unsafe_code)]

mod client;
mod event;
pub mod frame;
mod place;
mod request;
mod stats;
mod status;
mod words;

pub use client::{Client, ClientError, Events, PATIENCE, Stopper};
pub use event::{Event, EventKind};
pub use place::{SOCKET_VARIABLE, socket_path};
pub use request::{Answer, Call, Refusal, Request, Target};
pub use stats::{Actuation, DaemonStats, Distribution, GpuStats, KernelStats, Stats};
pub use status::{Bounds, Breaker, GpuStatus, JobStatus, QueueStatus, Status, TenantStatus, Why};
pub use words::{Action, ActuatorKind, Bound, Mode, PolicyKind, QueueClass, Reason, RefusalKind, State};

/// Version of the messages. A daemon refuses calls of another version.
pub const VERSION: u32 = 2;

/// Longest line that either side accepts, in bytes.
pub const LONGEST_LINE: usize = 1 << 20;
