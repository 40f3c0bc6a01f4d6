//! Plans: the output of the core. A plan lists the tenants to preempt and to resume, each with its reason.

use crate::{GpuIndex, GpuSet, JobId, Nanos, TenantId};

/// What to do with a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stop the tenant's queues; their waves are saved.
    Preempt,
    /// Let the tenant's queues continue; their waves are restored.
    Resume,
}

/// The rule of the scheduler behind an entry. The first seven are reasons to preempt, the others to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Preempt: a job of a higher level wants the gpu.
    HigherWants,
    /// Preempt: the job's slice is over and a job of the same level waits for its turn.
    SliceOver,
    /// Preempt: another job is owed its share of the gpu.
    ShareDue,
    /// Preempt: the job used up its limit.
    LimitReached,
    /// Preempt: a job with an earlier deadline wants the gpu.
    EarlierDeadline,
    /// Preempt: the operator holds the job.
    Held,
    /// Preempt: a stopped job has a new queue or tenant that runs.
    JobStopped,
    /// Resume: no job above wants the job's gpus any more.
    NothingAbove,
    /// Resume: the job's turn or share is due.
    TurnDue,
    /// Resume: the job was stopped for its age limit and runs for one turn, whichever jobs want its gpus.
    Aged,
    /// Resume: the job that caused the stop used up its share of stopping time.
    StopShareSpent,
    /// Resume: the hold ended.
    Released,
    /// Resume: part of the job could not be stopped, so none of it stays stopped.
    GaveUp,
}

/// What set the time of an entry: the condition that was met last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The host's observation; nothing else had to be waited for.
    Detection,
    /// The waiting job's patience.
    Patience,
    /// The victim's exempt time.
    Exempt,
    /// The gpu's cycle budget.
    Budget,
    /// The victim held too little of the gpu to be worth a cycle until now.
    Small,
    /// The time for which the gpu stays reserved after the higher job stopped wanting it.
    Linger,
    /// The end of a slice.
    Slice,
    /// `max_stop` or ageing.
    Age,
    /// The retry time after an entry that failed or got lost.
    Retry,
}

/// Why an entry was planned. Fits a trace record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// The job for which the entry is made; `None` if there is none or it was removed.
    pub cause: Option<JobId>,
    /// The rule that asks for the entry.
    pub reason: Reason,
    /// The condition that set its time.
    pub bound: Bound,
    /// How long the inversion (preempt) or the stop (resume) has lasted.
    pub after: Nanos,
}

/// The number of an entry, which its report repeats. No two entries of a scheduler have the same: one that is planned
/// again, because its report was lost or a refusal, is another entry with a number of its own. Otherwise a late report
/// of the first would pass for that of the second, which the driver may not have carried out yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryNumber(pub u64);

/// One entry of a plan: an action on one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, in the order of planning.
    pub number: EntryNumber,
    /// The tenant to act on.
    pub tenant: TenantId,
    /// The tenant's job.
    pub job: JobId,
    /// The tenant's gpu.
    pub gpu: GpuIndex,
    /// The action.
    pub action: Action,
    /// Cause, reason and time of the entry.
    pub why: Why,
    /// Sort key of a preemption; larger victims first.
    pub(crate) weight: u64,
}

impl Entry {
    /// Initial value for the host's storage.
    pub const EMPTY: Entry = Entry {
        number: EntryNumber(0),
        tenant: TenantId { index: u32::MAX, generation: 0 },
        job: JobId { index: u32::MAX, generation: 0 },
        gpu: GpuIndex(0),
        action: Action::Resume,
        why: Why { cause: None, reason: Reason::NothingAbove, bound: Bound::Detection, after: Nanos::ZERO },
        weight: 0,
    };
}

/// The result of a decision: what to do now, and when to decide again.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Preemptions first, the largest victim first; then resumes, the highest job first. Entries of a job are adjacent.
    pub entries: &'a [Entry],
    /// Call [`crate::Scheduler::decide`] at this instant even if nothing is observed; [`Nanos::NEVER`] if nothing is
    /// due.
    pub wake: Nanos,
    /// Gpus whose deadline jobs together need more than all of the gpu's time.
    pub overcommitted: GpuSet,
}
