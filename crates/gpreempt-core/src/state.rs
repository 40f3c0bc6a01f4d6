//! The state of the core, in storage that the host provides.

use crate::budget::Bucket;
use crate::cost::Batch;
use crate::learn::Habits;
use crate::plan::{Reason, Why};
use crate::{
    Action, Activity, Entry, GpuIndex, GpuParams, GpuSet, JobId, JobParams, Nanos, Observation, Permille, TenantId,
};

/// The index of no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// State of a gpu. Opaque to the host, which only provides the memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuSlot {
    pub(crate) live: bool,
    pub(crate) resetting: bool,
    pub(crate) params: GpuParams,
    pub(crate) bucket: Bucket,
    /// Moving average of the measured time of a cycle; zero before the first.
    pub(crate) cycle: Nanos,
    /// When the next aged job may take a turn on this gpu.
    pub(crate) gate: Nanos,
    /// A stopped job whose turn on this gpu is due, as of the last decision.
    pub(crate) waiter: u32,
    pub(crate) now: GpuNow,
}

/// Working state of one decision about a gpu.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuNow {
    /// The highest job that wants the gpu and may stop others for it.
    pub(crate) holder: u32,
    /// The highest job for which the gpu stays reserved although it does not want it.
    pub(crate) lingerer: u32,
    /// Since when the longest waiting job is due for a turn that it cannot have yet.
    pub(crate) claimed: Nanos,
    /// The job for which the gpu has saved cycles longest, and since when.
    pub(crate) saver: u32,
    pub(crate) saving_since: Nanos,
    /// Cycles to resume one by one everything that is stopped on the gpu.
    pub(crate) reserve: u32,
    pub(crate) preempt: Batch,
    pub(crate) resume: Batch,
    /// Tenants that would have to be stopped to empty the gpu.
    pub(crate) loose: Batch,
    /// Share of the gpu that waves occupy, in thousandths, and whether the occupancy of a tenant with work is unknown.
    pub(crate) occupied: u32,
    pub(crate) unmeasured: bool,
    /// Sums of the weights and requests of the jobs with work on the gpu.
    pub(crate) weights: u32,
    pub(crate) requests: u32,
    /// How its time is split, and the result of the next round so far.
    pub(crate) split: Split,
    pub(crate) next_split: Split,
    /// The job whose turn was due at the last decision.
    pub(crate) waiter: u32,
}

/// How the time of a gpu is split, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Split {
    /// Sum of the shares of jobs that cannot use more.
    pub(crate) capped: u32,
    /// Sum of the nominal shares of the other jobs, which divide the rest.
    pub(crate) uncapped: u32,
}

impl Split {
    /// Returns what a nominal share becomes when the other jobs divide the rest.
    pub(crate) fn spread(self, share: u32) -> u32 {
        let rest = 1000u32.saturating_sub(self.capped);
        share.saturating_mul(rest).checked_div(self.uncapped).unwrap_or(share)
    }
}

impl Default for GpuNow {
    fn default() -> Self {
        GpuNow {
            holder: NONE,
            lingerer: NONE,
            claimed: Nanos::NEVER,
            saver: NONE,
            saving_since: Nanos::NEVER,
            reserve: 0,
            preempt: Batch::EMPTY,
            resume: Batch::EMPTY,
            loose: Batch::EMPTY,
            occupied: 0,
            unmeasured: false,
            weights: 0,
            requests: 0,
            split: Split::default(),
            next_split: Split::default(),
            waiter: NONE,
        }
    }
}

impl GpuNow {
    /// Counts an entry for this gpu.
    pub(crate) fn book(&mut self, action: Action, queues: u16) {
        let batch = match action {
            Action::Preempt => &mut self.preempt,
            Action::Resume => &mut self.resume,
        };
        *batch = batch.and(queues);
    }
}

impl GpuSlot {
    /// Updates the average with a cycle that took `took`.
    pub(crate) fn measured(&mut self, took: Nanos) {
        // A sample weighs one eighth, and an outlier counts as at most sixteen times the average: one call that hangs
        // must not make every later stop look expensive.
        let known = self.cycle_time();
        let news = if known == Nanos::ZERO { took } else { took.min(known.times(16)) };
        self.cycle =
            if self.cycle == Nanos::ZERO { news } else { Nanos(known.0 - known.0 / 8).plus(Nanos(news.0 / 8)) };
    }

    /// Returns the time of a cycle: measured, or the operator's estimate.
    pub(crate) fn cycle_time(&self) -> Nanos {
        if self.cycle == Nanos::ZERO { self.params.cycle_estimate } else { self.cycle }
    }
}

/// Whether the core has decided that a job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The job may run.
    #[default]
    Running,
    /// The job is stopped, or being stopped.
    Stopped,
}

/// State of a job. Opaque to the host, which only provides the memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobSlot {
    pub(crate) live: bool,
    pub(crate) phase: Phase,
    /// Whether the job had work at the last decision.
    pub(crate) works: bool,
    /// Whether the job used up its `stop_share`.
    pub(crate) spent: bool,
    /// Whether the job used up its `limit`.
    pub(crate) throttled: bool,
    pub(crate) generation: u32,
    /// First tenant of the job's linked list.
    pub(crate) tenants: u32,
    pub(crate) rank: u64,
    pub(crate) now: JobNow,
    pub(crate) work_since: Nanos,
    pub(crate) idle_since: Nanos,
    pub(crate) resumed_at: Nanos,
    /// Exempt time after the last resume, and its end.
    pub(crate) exempt_for: Nanos,
    pub(crate) exempt_until: Nanos,
    pub(crate) stopped_at: Nanos,
    pub(crate) slice_start: Nanos,
    /// The job is not stopped before this instant, because part of it refused the last stop.
    pub(crate) spared_until: Nanos,
    pub(crate) hold_until: Nanos,
    /// Since when only the cycle budget prevents its stop; zero if the budget does not.
    pub(crate) short_since: Nanos,
    pub(crate) stop: Stop,
    /// Time for which the job may still keep others stopped.
    pub(crate) stop_credit: Nanos,
    pub(crate) account: Account,
    pub(crate) params: JobParams,
    pub(crate) habits: Habits,
}

impl JobSlot {
    /// Fills the limit account.
    pub(crate) fn fill_limit(&mut self) {
        self.account.limit_credit = i64::try_from(self.params.limit_capacity().0).unwrap_or(i64::MAX);
    }
}

/// Why a job was stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) cause: u32,
    pub(crate) cause_generation: u32,
    pub(crate) reason: Reason,
}

impl Default for Stop {
    fn default() -> Self {
        Stop { cause: NONE, cause_generation: 0, reason: Reason::HigherWants }
    }
}

/// The accounts that the policies keep of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Fair: entitlement minus use, in nanoseconds.
    pub(crate) deficit: i64,
    /// Fair: remaining use below the limit, in nanoseconds.
    pub(crate) limit_credit: i64,
    /// Deadline: release and absolute deadline of the current release, and its use so far.
    pub(crate) release: Nanos,
    pub(crate) deadline: Nanos,
    pub(crate) used: Nanos,
}

/// Working state of one decision about a job, gathered from its tenants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobNow {
    /// Gpus on which it has tenants (here and below without gpus in reset).
    pub(crate) gpus: GpuSet,
    /// Gpus on which gpu time would advance it.
    pub(crate) working: GpuSet,
    /// Gpus on which it has work on queues that are not stopped.
    pub(crate) loose: GpuSet,
    /// Gpus on which it has stopped queues.
    pub(crate) stopped: GpuSet,
    /// Earliest start of its current work.
    pub(crate) since: Nanos,
    /// Sum of the occupancy of its tenants; valid only if every occupancy is known.
    pub(crate) occupancy: Option<Permille>,
    pub(crate) occupancy_unknown: bool,
    /// Number of entries without a report.
    pub(crate) pending: u16,
    /// Whether a tenant cannot be stopped.
    pub(crate) fixed: bool,
    /// Whether a tenant refused to be stopped too often.
    pub(crate) refused: bool,
    /// Why this decision changed its phase; `None` if it did not.
    pub(crate) why: Option<Why>,
    /// Whether the job takes the turn of an aged job.
    pub(crate) turn: bool,
    /// Number of jobs stopped for this one.
    pub(crate) victims: u16,
}

/// Longest usual gap between two kernels: a tenant with work is on the gpu again within this time, unless another
/// blocks it.
const BETWEEN_KERNELS: Nanos = Nanos::from_micros(300);

/// State of a tenant. Opaque to the host, which only provides the memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct TenantSlot {
    pub(crate) live: bool,
    pub(crate) stoppable: bool,
    pub(crate) pending: Option<Action>,
    /// Consecutive failures, and consecutive refusals to be stopped among them.
    pub(crate) failures: u8,
    pub(crate) refusals: u8,
    pub(crate) generation: u32,
    pub(crate) job: u32,
    pub(crate) next: u32,
    pub(crate) gpu: GpuIndex,
    pub(crate) seen: Observation,
    /// Time of the last observation that found it running.
    pub(crate) ran_at: Nanos,
    /// When the pending entry was planned.
    pub(crate) asked_at: Nanos,
    /// No entry is planned for it before this instant.
    pub(crate) retry_at: Nanos,
}

impl TenantSlot {
    pub(crate) fn has_work(&self) -> bool {
        self.seen.activity.has_work()
            || (mutant!(BlockedWants) && self.seen.activity == Activity::Blocked)
            || (mutant!(EvictedWants) && self.seen.activity == Activity::Evicted)
    }

    pub(crate) fn can_stop(&self) -> bool {
        self.stoppable || mutant!(StopsUnstoppable)
    }

    /// Returns whether the tenant runs, or ran a moment ago: between two kernels none of its waves is on the gpu.
    pub(crate) fn runs_lately(&self, now: Nanos) -> bool {
        self.has_work() && self.ran_at > Nanos::ZERO && self.seen.at.min(now).since(self.ran_at) <= BETWEEN_KERNELS
    }

    /// Returns the number of queues that `action` would change.
    pub(crate) fn queues_for(&self, action: Action) -> u16 {
        match action {
            Action::Preempt => self.seen.queues.saturating_sub(self.seen.stopped_queues),
            Action::Resume => self.seen.stopped_queues,
        }
    }

    /// Returns whether the tenant has queues that are not stopped and a reason to stop them: work, or other stopped
    /// queues.
    pub(crate) fn is_loose(&self) -> bool {
        self.seen.stopped_queues < self.seen.queues && (self.has_work() || self.seen.stopped_queues > 0)
    }
}

/// The slots of a scheduler, borrowed from the host's storage.
#[derive(Debug)]
pub struct Tables<'a> {
    /// One per gpu; at most [`GpuSet::CAPACITY`] are used.
    pub gpus: &'a mut [GpuSlot],
    /// One per job that may exist at a time.
    pub jobs: &'a mut [JobSlot],
    /// One per tenant that may exist at a time.
    pub tenants: &'a mut [TenantSlot],
    /// Working memory: one per job.
    pub order: &'a mut [u32],
    /// Memory for a plan: one entry per tenant.
    pub plan: &'a mut [Entry],
}

/// Memory for the slots: vectors in a daemon, a static array in a kernel.
pub trait Storage {
    /// Borrows all slots. Must return the same slots in every call.
    fn tables(&mut self) -> Tables<'_>;
}

/// Storage made of anything that borrows as a slice: arrays, vectors, boxes, borrowed memory.
#[derive(Clone, Debug)]
pub struct Parts<G, J, T, O, P> {
    /// Slots of gpus; see [`Tables::gpus`].
    pub gpus: G,
    /// Slots of jobs; see [`Tables::jobs`].
    pub jobs: J,
    /// Slots of tenants; see [`Tables::tenants`].
    pub tenants: T,
    /// Working memory, as long as `jobs`; see [`Tables::order`].
    pub order: O,
    /// Memory for a plan, as long as `tenants`; see [`Tables::plan`].
    pub plan: P,
}

impl<G, J, T, O, P> Storage for Parts<G, J, T, O, P>
where
    G: AsMut<[GpuSlot]>,
    J: AsMut<[JobSlot]>,
    T: AsMut<[TenantSlot]>,
    O: AsMut<[u32]>,
    P: AsMut<[Entry]>,
{
    fn tables(&mut self) -> Tables<'_> {
        Tables {
            gpus: self.gpus.as_mut(),
            jobs: self.jobs.as_mut(),
            tenants: self.tenants.as_mut(),
            order: self.order.as_mut(),
            plan: self.plan.as_mut(),
        }
    }
}

impl Tables<'_> {
    pub(crate) fn gpu(&self, id: GpuIndex) -> Option<&GpuSlot> {
        self.gpus.get(usize::from(id.0)).filter(|gpu| gpu.live)
    }

    pub(crate) fn gpu_mut(&mut self, id: GpuIndex) -> Option<&mut GpuSlot> {
        self.gpus.get_mut(usize::from(id.0)).filter(|gpu| gpu.live)
    }

    pub(crate) fn job(&self, index: u32) -> Option<&JobSlot> {
        self.jobs.get(index as usize).filter(|job| job.live)
    }

    pub(crate) fn job_mut(&mut self, index: u32) -> Option<&mut JobSlot> {
        self.jobs.get_mut(index as usize).filter(|job| job.live)
    }

    pub(crate) fn find_job(&mut self, id: JobId) -> Option<&mut JobSlot> {
        self.job_mut(id.index).filter(|job| job.generation == id.generation)
    }

    pub(crate) fn find_tenant(&mut self, id: TenantId) -> Option<&mut TenantSlot> {
        self.tenants.get_mut(id.index as usize).filter(|tenant| tenant.live && tenant.generation == id.generation)
    }

    /// Returns the id of the job in a slot.
    pub(crate) fn job_id(&self, index: u32) -> Option<JobId> {
        self.job(index).map(|job| JobId { index, generation: job.generation })
    }

    /// Returns the slot of the job that caused `stop`, if that job still exists.
    pub(crate) fn cause_of(&self, stop: Stop) -> Option<&JobSlot> {
        self.job(stop.cause).filter(|job| job.generation == stop.cause_generation)
    }

    /// Returns the id of the job that caused `stop`, if that job still exists.
    pub(crate) fn cause_id(&self, stop: Stop) -> Option<JobId> {
        self.cause_of(stop).map(|job| JobId { index: stop.cause, generation: job.generation })
    }

    /// Removes a tenant from its job's list.
    pub(crate) fn unlink(&mut self, index: u32) {
        let Some(tenant) = self.tenants.get(index as usize) else {
            return;
        };
        let (owner, after) = (tenant.job, tenant.next);
        let Some(job) = self.jobs.get_mut(owner as usize) else {
            return;
        };
        if job.tenants == index {
            job.tenants = after;
            if after == NONE {
                // A job without tenants is not stopped: the next tenant starts in a running job.
                job.phase = Phase::Running;
            }
            return;
        }
        let mut at = job.tenants;
        while let Some(tenant) = self.tenants.get_mut(at as usize) {
            if tenant.next == index {
                tenant.next = after;
                return;
            }
            at = tenant.next;
        }
    }

    /// Inserts a tenant at the head of a job's list.
    pub(crate) fn link(&mut self, index: u32, owner: u32) {
        let (Some(tenant), Some(job)) = (self.tenants.get_mut(index as usize), self.jobs.get_mut(owner as usize))
        else {
            return;
        };
        tenant.job = owner;
        tenant.next = job.tenants;
        job.tenants = index;
    }
}
