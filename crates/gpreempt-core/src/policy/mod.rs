//! Scheduling policies. A policy is one file that implements [`Policy`].
//!
//! A policy answers two questions: the rank of a job in the total order of jobs, and whether a job that wants a gpu may
//! stop a job of lower rank there. Everything else (patience, exempt time, budgets, turns of aged jobs, failures) is
//! common to all policies and belongs to `decide`.

mod deadline;
mod fair;
mod priority;

use crate::plan::Reason;
use crate::state::{GpuSlot, JobSlot, Phase};
use crate::{Nanos, PolicyKind};

pub(crate) use deadline::utilisation;

/// The time since the last decision, as a job spent it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Its length.
    pub(crate) length: Nanos,
    /// Whether the job ran during it.
    pub(crate) ran: bool,
    /// The share of the gpu to which the job is entitled beside the other jobs with work, in thousandths.
    pub(crate) entitled: u32,
}

/// A scheduling policy.
pub(crate) trait Policy: Sync {
    /// Returns the rank of the job; larger goes first. The slot's index breaks ties, so the order is total.
    fn rank(&self, job: &JobSlot, gpu: &GpuSlot, now: Nanos) -> u64;

    /// Returns the reason for which `upper`, if it ranks higher and wants the gpu, may stop `lower` on `gpu`. Depends
    /// on settings only, not on what the jobs do.
    fn displaces(&self, upper: &JobSlot, lower: &JobSlot, gpu: &GpuSlot) -> Option<Reason>;

    /// Returns whether the policy may stop `job` although no other job wants its gpu.
    fn throttles(&self, _job: &JobSlot) -> bool {
        false
    }

    /// Notes that the job has work again after being idle for `idle`.
    fn work_began(&self, _job: &mut JobSlot, _idle: Nanos, _now: Nanos) {}

    /// Updates the job's account; called for every job in every decision.
    fn charge(&self, _job: &mut JobSlot, _span: Span) {}

    /// Returns when the policy's answers may change without an observation.
    fn next_change(&self, _job: &JobSlot, _gpu: &GpuSlot, _now: Nanos) -> Nanos {
        Nanos::NEVER
    }
}

/// Returns the implementation of a policy.
pub(crate) fn of(kind: PolicyKind) -> &'static dyn Policy {
    match kind {
        PolicyKind::Priority => &priority::Priority,
        PolicyKind::Fair => &fair::Fair,
        PolicyKind::Deadline => &deadline::Deadline,
    }
}

// A rank is a class, a bit for "within its slice", and a key.
const CLASS_SHIFT: u32 = 56;
const IN_SLICE: u64 = 1 << 55;
const KEY_MASK: u64 = IN_SLICE - 1;

/// Returns a key that is larger for earlier instants.
fn earlier_first(at: Nanos) -> u64 {
    KEY_MASK - at.0.min(KEY_MASK)
}

/// Returns the end of the slice of a job that runs.
fn slice_end(job: &JobSlot, gpu: &GpuSlot) -> Option<Nanos> {
    (job.phase == Phase::Running && job.works).then(|| job.slice_start.plus(gpu.params.turn_length()))
}

fn in_slice(job: &JobSlot, gpu: &GpuSlot, now: Nanos) -> bool {
    slice_end(job, gpu).is_some_and(|end| now < end)
}
