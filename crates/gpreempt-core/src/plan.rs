//! What to change now, and why: the output of the core.

use crate::{GpuId, GpuSet, JobId, Nanos, TenantId};

/// The two verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stop the tenant's queues; their waves are saved.
    Preempt,
    /// Let them go on where they were.
    Resume,
}

/// The reason behind an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Preempt: a job of a higher level wants the gpu.
    HigherWants,
    /// Preempt: an equal's turn.
    SliceOver,
    /// Preempt: the share of another job is due.
    ShareDue,
    /// Preempt: the job used up its limit.
    LimitReached,
    /// Preempt: an earlier deadline.
    EarlierDeadline,
    /// Preempt: by hand.
    Held,
    /// Preempt: a queue or tenant of a stopped job came to life.
    JobStopped,
    /// Resume: nothing above wants the job's gpus any more.
    NothingAbove,
    /// Resume: the job's turn or share is due.
    TurnDue,
    /// Resume: stopped for long enough; it runs for a turn, whatever wants.
    Aged,
    /// Resume: the job that caused the stop used up its share of stopping time.
    StopShareSpent,
    /// Resume: the hold ended.
    Released,
    /// Resume: part of the job could not be stopped, so none of it is.
    GaveUp,
}

/// What decided the moment: the bound that ran out last before the entry was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nothing had to be waited for beyond seeing it.
    Detection,
    /// The waiting job's patience.
    Patience,
    /// The victim's exempt time.
    Exempt,
    /// The gpu's cycle budget.
    Budget,
    /// The victim was too small to be worth a cycle until now.
    Small,
    /// The gpu stayed reserved.
    Linger,
    /// A slice.
    Slice,
    /// `max_stop` or ageing.
    Age,
    /// An earlier attempt had to be settled first.
    Retry,
}

/// Why, in four words that fit a trace record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// The job on whose account it happens, if there is one and it still exists.
    pub cause: Option<JobId>,
    /// The reason.
    pub reason: Reason,
    /// What set the moment.
    pub bound: Bound,
    /// How long the inversion (preempt) or the stop (resume) had lasted.
    pub after: Nanos,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// To whom.
    pub tenant: TenantId,
    /// Its job.
    pub job: JobId,
    /// Its gpu.
    pub gpu: GpuId,
    /// What.
    pub action: Action,
    /// Why.
    pub why: Why,
    /// Sort key of a preemption; larger victims first.
    pub(crate) weight: u64,
}

impl Entry {
    /// What the host fills its storage with.
    pub const EMPTY: Entry = Entry {
        tenant: TenantId { index: u32::MAX, generation: 0 },
        job: JobId { index: u32::MAX, generation: 0 },
        gpu: GpuId(0),
        action: Action::Resume,
        why: Why { cause: None, reason: Reason::NothingAbove, bound: Bound::Detection, after: Nanos::ZERO },
        weight: 0,
    };
}

/// What to do now, and when to ask again.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Preempts first, biggest victim first; then resumes, highest job first. The tenants of a job stand together.
    pub entries: &'a [Entry],
    /// Ask again at this instant even if nothing is observed; [`Nanos::NEVER`] if there is nothing to wait for.
    pub wake: Nanos,
    /// Gpus whose deadline jobs together ask for more than the gpu has.
    pub overcommitted: GpuSet,
}
