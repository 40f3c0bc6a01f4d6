//! Decides which tenants of a machine's gpus to preempt and to resume, and when.
//!
//! The host is a daemon, a kernel or a simulation. It passes observations of each *tenant* (all compute queues of one
//! process on one gpu) to [`Scheduler::observe`]. [`Scheduler::decide`] returns a [`Plan`]: the tenants to preempt and
//! the tenants to resume, each with its reason, and the instant of the next decision. The host executes the plan and
//! passes the result of each entry, by its number, to [`Scheduler::report`]. Tenants belong to *jobs*; a job is stopped
//! and resumed as a whole.
//!
//! The core has no clock, no threads, no memory of its own and no dependencies: time is an argument, the host provides
//! the storage ([`Parts`]), arithmetic is integer and saturates, and no input causes a panic. Equal input gives equal
//! output. The code that the tests run in virtual time is therefore the code that runs in the daemon and in a kernel.
//!
//! ```
//! use gpreempt_core::*;
//!
//! let storage = Parts {
//!     gpus: [GpuSlot::EMPTY; 1],
//!     jobs: [JobSlot::EMPTY; 2],
//!     tenants: [TenantSlot::EMPTY; 2],
//!     order: [0; 2],
//!     plan: [Entry::EMPTY; 2],
//! };
//! let mut core = Scheduler::new(storage)?;
//! let gpu = GpuIndex(0);
//! core.set_gpu(gpu, GpuParams::default())?;
//! let level = |n| Level::new(n).unwrap_or_default();
//! let at_once = Patience::Fixed(Nanos::ZERO);
//! let online = core.add_job(JobParams { level: level(12), patience: at_once, ..JobParams::default() })?;
//! let offline = core.add_job(JobParams { level: level(3), ..JobParams::default() })?;
//! let (a, b) = (core.add_tenant(online, gpu, true)?, core.add_tenant(offline, gpu, true)?);
//!
//! // Both have work: the offline tenant is preempted for the online job.
//! let now = Nanos::from_millis(5);
//! let look = Observation { at: now, since: now, activity: Activity::Running, queues: 4, ..Observation::default() };
//! core.observe(a, look)?;
//! core.observe(b, look)?;
//! let plan = core.decide(now, &ActuatorKind::DebugTrap);
//! assert_eq!((plan.entries[0].tenant, plan.entries[0].action), (b, Action::Preempt));
//! assert_eq!((plan.entries[0].why.cause, plan.entries[0].why.reason), (Some(online), Reason::HigherWants));
//!
//! // The driver has stopped its four queues, in one cycle.
//! let number = plan.entries[0].number;
//! let took = Nanos::from_micros(200);
//! core.report(b, number, Report { at: now.plus(took), took, cycles: Some(1), stopped_queues: Some(4) })?;
//! assert_eq!(core.job(offline).map(|job| job.phase), Some(Phase::Stopped));
//! # Ok::<(), Error>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic, clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "a test that panics has failed, as it should"
    )
)]

#[cfg(test)]
extern crate std;

/// Returns whether a mutant is active; always false outside the core's own tests.
#[cfg(test)]
macro_rules! mutant {
    ($name:ident) => {
        crate::mutant::active(crate::mutant::Mutant::$name)
    };
}
#[cfg(not(test))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}

pub mod bounds;
mod budget;
mod cost;
mod decide;
mod id;
mod learn;
#[cfg(test)]
mod mutant;
mod observe;
mod order;
mod params;
mod plan;
mod policy;
#[cfg(test)]
mod proofs;
mod scheduler;
mod snapshot;
mod state;
mod storage;
mod time;

pub use cost::{ActuatorKind, Batch, Cost};
pub use id::{GpuIndex, GpuSet, Gpus, JobId, Level, Permille, TenantId};
pub use observe::{Activity, Observation, Report};
pub use params::{GpuParams, JobParams, Patience, PolicyKind};
pub use plan::{Action, Bound, Entry, EntryNumber, Plan, Reason, Why};
pub use scheduler::{Error, Scheduler};
pub use snapshot::{GpuSnapshot, JobSnapshot, TenantSnapshot};
pub use state::{GpuSlot, JobSlot, Phase, TenantSlot};
pub use storage::{Parts, Storage, Tables, View};
pub use time::Nanos;
