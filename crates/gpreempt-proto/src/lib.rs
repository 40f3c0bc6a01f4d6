//! How programs talk to the daemon: one JSON document per line over a Unix socket, `docs/control.md`.
//!
//! A client sends [`Call`]s and gets one [`Answer`] for each, in order. After [`Request::Watch`] the daemon sends
//! [`Event`]s until the client goes away. Keys may be added to a message within one version; unknown keys are ignored.
#![forbid(unsafe_code)]

mod client;
mod event;
mod place;
mod request;
mod stats;
mod status;

pub use client::{Client, ClientError, Events, PATIENCE, Stopper};
pub use event::{Event, EventKind};
pub use place::{SOCKET_VARIABLE, runtime_dir, socket_path};
pub use request::{Answer, Call, Refusal, RefusalKind, Request, Target};
pub use stats::{Actuation, DaemonStats, Distribution, GpuStats, Stats};
pub use status::{Bounds, Breaker, GpuStatus, JobStatus, Mode, QueueStatus, State, Status, TenantStatus, Why};

/// Version of the messages. A daemon refuses calls of another.
pub const VERSION: u32 = 1;

/// Longest line that either side accepts, in bytes.
pub const LONGEST_LINE: usize = 1 << 20;
