//! Who goes before whom. A policy is one file that implements [`Policy`].
//!
//! The machinery around it (patience, exempt time, budgets, turns of aged jobs, failures) is the same for all of them and
//! lives in `decide`. A policy answers two questions: where a job stands in the total order of jobs, and whether a job that
//! wants may stop one that stands below it where they meet.

mod deadline;
mod fair;
mod priority;

use crate::plan::Reason;
use crate::state::{GpuSlot, JobSlot, Phase};
use crate::{Nanos, PolicyKind};

pub(crate) use deadline::utilisation;

/// What happened to a job since the last decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// How much time passed.
    pub(crate) length: Nanos,
    /// Whether the job ran during it.
    pub(crate) ran: bool,
    /// The share of a gpu it is entitled to beside the others that have work, in thousandths.
    pub(crate) entitled: u32,
}

/// A scheduling policy.
pub(crate) trait Policy: Sync {
    /// Where the job stands; larger goes first. Ties are broken by the age of the slot, so the order is total.
    fn rank(&self, job: &JobSlot, gpu: &GpuSlot, now: Nanos) -> u64;

    /// The reason for which `upper`, once it stands above and wants, may stop `lower` on `gpu`. The answer depends on
    /// parameters only, not on what the jobs do at the moment.
    fn displaces(&self, upper: &JobSlot, lower: &JobSlot, gpu: &GpuSlot) -> Option<Reason>;

    /// Whether the policy may stop `job` although no other job wants its gpu.
    fn throttles(&self, _job: &JobSlot) -> bool {
        false
    }

    /// The job got work after `idle` without any.
    fn work_began(&self, _job: &mut JobSlot, _idle: Nanos, _now: Nanos) {}

    /// Keeps the books; called for every job with every decision.
    fn charge(&self, _job: &mut JobSlot, _span: Span) {}

    /// When the answers may change although nothing is observed.
    fn next_change(&self, _job: &JobSlot, _gpu: &GpuSlot, _now: Nanos) -> Nanos {
        Nanos::NEVER
    }
}

/// The policy behind a name.
pub(crate) fn of(kind: PolicyKind) -> &'static dyn Policy {
    match kind {
        PolicyKind::Priority => &priority::Priority,
        PolicyKind::Fair => &fair::Fair,
        PolicyKind::Deadline => &deadline::Deadline,
    }
}

/// Bits of a rank below the class: one for "within its slice", the rest for a key.
const CLASS_SHIFT: u32 = 56;
const IN_SLICE: u64 = 1 << 55;
const KEY_MASK: u64 = IN_SLICE - 1;

/// A key under which earlier instants stand higher.
fn earlier_first(at: Nanos) -> u64 {
    KEY_MASK - at.0.min(KEY_MASK)
}

/// End of the slice the job is in, if it runs.
fn slice_end(job: &JobSlot, gpu: &GpuSlot) -> Option<Nanos> {
    (job.phase == Phase::Running && job.works).then(|| job.slice_start.plus(gpu.params.turn_length()))
}

fn in_slice(job: &JobSlot, gpu: &GpuSlot, now: Nanos) -> bool {
    slice_end(job, gpu).is_some_and(|end| now < end)
}
