//! What the core remembers, in storage that the host hands in.

use crate::budget::Bucket;
use crate::cost::Batch;
use crate::learn::Habits;
use crate::plan::{Reason, Why};
use crate::{
    Action, Activity, Entry, GpuId, GpuParams, GpuSet, JobId, JobParams, Nanos, Observation, Permille, TenantId,
};

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Memory of a gpu.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuSlot {
    pub(crate) live: bool,
    pub(crate) resetting: bool,
    pub(crate) params: GpuParams,
    pub(crate) bucket: Bucket,
    /// Measured time of a cycle, averaged; zero before the first.
    pub(crate) cycle: Nanos,
    /// When the next aged job may take a turn here.
    pub(crate) gate: Nanos,
    /// A stopped job that is owed its turn here, as of the last decision.
    pub(crate) waiter: u32,
    pub(crate) now: GpuNow,
}

/// What one decision works out about a gpu.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuNow {
    /// The highest job that wants the gpu and may stop others for it.
    pub(crate) holder: u32,
    /// The highest job for which the gpu stays reserved although it wants nothing.
    pub(crate) lingerer: u32,
    /// Since when the oldest job that is due here, but cannot have its turn yet, is due.
    pub(crate) claimed: Nanos,
    /// The job for which the budget has been saved up longest.
    pub(crate) saver: u32,
    pub(crate) saving_since: Nanos,
    /// Cycles it takes to resume everything that is stopped here, one by one.
    pub(crate) reserve: u32,
    pub(crate) preempt: Batch,
    pub(crate) resume: Batch,
    /// All that would have to be stopped to empty the gpu.
    pub(crate) loose: Batch,
    /// Share of the gpu that waves hold, and whether some that work here were not measured.
    pub(crate) occupied: u32,
    pub(crate) unmeasured: bool,
    /// Weights and requests of the jobs that have work here.
    pub(crate) weights: u32,
    pub(crate) requests: u32,
    /// How its time is split, and as far as the next round of that has come.
    pub(crate) split: Split,
    pub(crate) next_split: Split,
    /// Who was owed a turn at the last decision.
    pub(crate) waiter: u32,
}

/// How the time of a gpu is split, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Split {
    /// What those get who cannot use more.
    pub(crate) capped: u32,
    /// Shares of the others, among whom the rest is spread.
    pub(crate) uncapped: u32,
}

impl Split {
    /// What a share is worth when the rest is spread.
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
    /// Learns from a cycle that took `took`.
    pub(crate) fn measured(&mut self, took: Nanos) {
        // An eighth of the news, and of an outlier not more than sixteen times what is known: one call that hangs must not
        // make every later stop look expensive.
        let known = self.cycle_time();
        let news = if known == Nanos::ZERO { took } else { took.min(known.times(16)) };
        self.cycle =
            if self.cycle == Nanos::ZERO { news } else { Nanos(known.0 - known.0 / 8).plus(Nanos(news.0 / 8)) };
    }

    /// What a cycle takes here: measured, or the operator's estimate.
    pub(crate) fn cycle_time(&self) -> Nanos {
        if self.cycle == Nanos::ZERO { self.params.cycle_estimate } else { self.cycle }
    }
}

/// Whether the core has decided that a job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It may run.
    #[default]
    Running,
    /// It is stopped, or being stopped.
    Stopped,
}

/// Memory of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobSlot {
    pub(crate) live: bool,
    pub(crate) phase: Phase,
    /// Had work at the last decision.
    pub(crate) works: bool,
    /// Used up its share of stopping time.
    pub(crate) spent: bool,
    /// Used up its limit.
    pub(crate) throttled: bool,
    pub(crate) generation: u32,
    /// First tenant of the job's list.
    pub(crate) tenants: u32,
    pub(crate) rank: u64,
    pub(crate) now: JobNow,
    pub(crate) work_since: Nanos,
    pub(crate) idle_since: Nanos,
    pub(crate) resumed_at: Nanos,
    /// How long it is left alone after a resume, and until when that is.
    pub(crate) exempt_for: Nanos,
    pub(crate) exempt_until: Nanos,
    pub(crate) stopped_at: Nanos,
    pub(crate) slice_start: Nanos,
    /// Not stopped before this instant, because a stop failed halfway.
    pub(crate) spared_until: Nanos,
    pub(crate) hold_until: Nanos,
    /// Since when it would be stopped if the budget allowed; zero if it would not.
    pub(crate) short_since: Nanos,
    pub(crate) stop: Stop,
    /// Stopping time the job may still spend on others.
    pub(crate) stop_credit: Nanos,
    pub(crate) account: Account,
    pub(crate) params: JobParams,
    pub(crate) habits: Habits,
}

impl JobSlot {
    /// Gives the job all that its limit allows at once.
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

/// The policies' books about a job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Fair: entitlement minus use, nanoseconds.
    pub(crate) deficit: i64,
    /// Fair: use left below the limit, nanoseconds.
    pub(crate) limit_credit: i64,
    /// Deadline: release and absolute deadline of the current instance, and its use so far.
    pub(crate) release: Nanos,
    pub(crate) deadline: Nanos,
    pub(crate) used: Nanos,
}

/// What one decision works out about a job from its tenants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobNow {
    /// Where it has tenants (gpus in reset left out, here and below).
    pub(crate) gpus: GpuSet,
    /// Where gpu time would advance it.
    pub(crate) working: GpuSet,
    /// Where it has work on queues that are not stopped.
    pub(crate) loose: GpuSet,
    /// Where it has stopped queues.
    pub(crate) stopped: GpuSet,
    /// Earliest start of its present work.
    pub(crate) since: Nanos,
    /// What its tenants hold together of the gpus they are on; means something only if all are known.
    pub(crate) occupancy: Option<Permille>,
    pub(crate) occupancy_unknown: bool,
    /// Entries not reported on yet.
    pub(crate) pending: u16,
    /// Some tenant cannot be stopped.
    pub(crate) fixed: bool,
    /// Some tenant refused to be stopped too often.
    pub(crate) refused: bool,
    /// Why its phase changed just now.
    pub(crate) why: Option<Why>,
    /// It takes the turn of an aged job.
    pub(crate) turn: bool,
    /// Others that are stopped on its account.
    pub(crate) victims: u16,
}

/// Time within which a tenant that works is found on the gpu again, unless somebody is in its way.
const BETWEEN_KERNELS: Nanos = Nanos::from_micros(300);

/// Memory of a tenant.
#[derive(Clone, Copy, Debug, Default)]
pub struct TenantSlot {
    pub(crate) live: bool,
    pub(crate) stoppable: bool,
    pub(crate) pending: Option<Action>,
    /// Failures in a row, and how many of those were refusals to be stopped.
    pub(crate) failures: u8,
    pub(crate) refusals: u8,
    pub(crate) generation: u32,
    pub(crate) job: u32,
    pub(crate) next: u32,
    pub(crate) gpu: GpuId,
    pub(crate) seen: Observation,
    /// The last look that found it on the gpu.
    pub(crate) ran_at: Nanos,
    /// When the pending entry was handed out.
    pub(crate) asked_at: Nanos,
    /// No entry for it before this instant.
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

    /// Whether it runs, or did until a moment ago: between two kernels a tenant is on the gpu with nothing.
    pub(crate) fn runs_lately(&self, now: Nanos) -> bool {
        self.has_work() && self.ran_at > Nanos::ZERO && self.seen.at.min(now).since(self.ran_at) <= BETWEEN_KERNELS
    }

    /// Queues an action is about: those it would change.
    pub(crate) fn queues_for(&self, action: Action) -> u16 {
        match action {
            Action::Preempt => self.seen.queues.saturating_sub(self.seen.stopped_queues),
            Action::Resume => self.seen.stopped_queues,
        }
    }

    /// Has queues that are not stopped and something to do on them.
    pub(crate) fn is_loose(&self) -> bool {
        self.seen.stopped_queues < self.seen.queues && (self.has_work() || self.seen.stopped_queues > 0)
    }
}

/// The slots the core works on.
#[derive(Debug)]
pub struct Tables<'a> {
    /// One per gpu; at most [`GpuSet::CAPACITY`] are used.
    pub gpus: &'a mut [GpuSlot],
    /// As many as there may be jobs at a time.
    pub jobs: &'a mut [JobSlot],
    /// As many as there may be tenants at a time.
    pub tenants: &'a mut [TenantSlot],
    /// Work space: one per job.
    pub order: &'a mut [u32],
    /// Room for a plan: one per tenant.
    pub plan: &'a mut [Entry],
}

/// Where the slots live: vectors in a daemon, a static array in a kernel.
pub trait Storage {
    /// Borrows all of them.
    fn tables(&mut self) -> Tables<'_>;
}

/// Storage made of anything that is a slice in the end: arrays, vectors, boxes, borrowed memory.
#[derive(Clone, Debug)]
pub struct Parts<G, J, T, O, P> {
    /// See [`Tables::gpus`].
    pub gpus: G,
    /// See [`Tables::jobs`].
    pub jobs: J,
    /// See [`Tables::tenants`].
    pub tenants: T,
    /// See [`Tables::order`].
    pub order: O,
    /// See [`Tables::plan`].
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
    pub(crate) fn gpu(&self, id: GpuId) -> Option<&GpuSlot> {
        self.gpus.get(usize::from(id.0)).filter(|gpu| gpu.live)
    }

    pub(crate) fn gpu_mut(&mut self, id: GpuId) -> Option<&mut GpuSlot> {
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

    /// The name of the job in a slot.
    pub(crate) fn job_id(&self, index: u32) -> Option<JobId> {
        self.job(index).map(|job| JobId { index, generation: job.generation })
    }

    /// Whether the job that caused `stop` still exists; its slot.
    pub(crate) fn cause_of(&self, stop: Stop) -> Option<&JobSlot> {
        self.job(stop.cause).filter(|job| job.generation == stop.cause_generation)
    }

    /// The name of the job that caused `stop`, if it still exists.
    pub(crate) fn cause_id(&self, stop: Stop) -> Option<JobId> {
        self.cause_of(stop).map(|job| JobId { index: stop.cause, generation: job.generation })
    }

    /// Takes a tenant out of its job's list.
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
                // A job without tenants is not stopped; whoever joins it starts afresh.
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

    /// Puts a tenant at the head of a job's list.
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
