//! Stops and resumes queues: the actuator process, its guardian, and the link to them.
//!
//! The actuator is the only process that opens the driver and traces others. When it ends, for whatever reason, the
//! driver resumes everything it had stopped. There are three: one over the driver's debug interface (`debug_trap`), one
//! over that of a patched driver (`combined`), and one that tells the scheduler in the kernel the policy (`kernel`),
//! which then stays in force for a while without it; `choice` says which serves. The guardian, its parent, ends it when
//! it, or the daemon, gives no sign of life.
//!
//! ```text
//!            orders, reports: a socket
//!   daemon <──────────────────────────────> actuator
//!      └──── beats ────> guardian <──── beats ──┘
//! ```
//!
//! Each process sees the end of another by the end of what connects them: the actuator leaves when its socket is closed
//! and is killed with its guardian; the guardian leaves when the daemon's beats end, after the actuator.

mod abi_text;
mod actuator;
mod choice;
mod combined;
mod debug_trap;
mod guardian;
mod json_lines;
mod kernel;
mod link;
mod policy;
mod reaper;
mod refusal;
mod reports;
mod reset_queues;
mod signals;
mod target;
mod wire;

use std::time::Duration;

pub use abi_text::AbiText;
pub use actuator::actuator_main;
pub use choice::{ActuatorChoice, ActuatorOptions, unavailable};
pub use guardian::guardian_main;
pub use link::Link;
pub use policy::{CgroupJob, KernelPolicy, PolicyChange};
pub use reaper::LinkReaper;
pub use wire::{ActuatorCommand, ActuatorEvent, CommandRefusal, CommandRefusalKind, QueueChange, TracedQueue};
pub use wire::{KernelStatus, PolicyFailure};

/// Longest time between two signs of life of the daemon, and of the actuator.
pub const BEAT: Duration = Duration::from_millis(100);

/// Longest silence that the guardian tolerates.
pub const SILENCE: Duration = Duration::from_millis(500);
