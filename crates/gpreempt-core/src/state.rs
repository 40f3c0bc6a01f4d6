//! The state of the core: a slot for each gpu, job and tenant, in memory that the host provides.
//!
//! Every slot has an `EMPTY` constant. A host writes it into fresh memory, slot by slot or as the value of a static
//! array, so that no table ever lies on a stack.

use crate::budget::Bucket;
use crate::cost::Batch;
use crate::learn::Habits;
use crate::plan::{Reason, Why};
use crate::{Action, Activity, EntryNumber, GpuIndex, GpuParams, GpuSet, JobParams, Nanos, Observation, Permille};

/// The index of no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// State of a gpu. Opaque to the host, which only provides the memory.
#[derive(Clone, Copy, Debug)]
pub struct GpuSlot {
    pub(crate) live: bool,
    pub(crate) resetting: bool,
    pub(crate) params: GpuParams,
    pub(crate) bucket: Bucket,
    /// Moving average of the measured time of a cycle; zero before the first.
    pub(crate) cycle: Nanos,
    /// Cycles spent so far: as reported, else by the cost function.
    pub(crate) cycles: u64,
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
    /// What the budget can still take, without what open entries may give back.
    pub(crate) room: i64,
    /// Cycles to resume one by one everything that is stopped on the gpu.
    pub(crate) reserve: u32,
    pub(crate) preempt: Batch,
    pub(crate) resume: Batch,
    /// Tenants that would have to be stopped to empty the gpu.
    pub(crate) loose: Batch,
    /// Share of the gpu that waves occupy, in thousandths, and whether the occupancy of a tenant with work is unknown.
    pub(crate) occupied: u32,
    pub(crate) unmeasured: bool,
    /// Whether a stop there depends on what tenants occupy.
    pub(crate) weighs: bool,
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    /// Sum of the shares of jobs that cannot use more.
    pub(crate) capped: u32,
    /// Sum of the nominal shares of the other jobs, which divide the rest.
    pub(crate) uncapped: u32,
}

impl Split {
    pub(crate) const EMPTY: Split = Split { capped: 0, uncapped: 0 };

    /// Returns what a nominal share becomes when the other jobs divide the rest.
    pub(crate) fn spread(self, share: u32) -> u32 {
        let rest = 1000u32.saturating_sub(self.capped);
        share.saturating_mul(rest).checked_div(self.uncapped).unwrap_or(share)
    }
}

impl GpuNow {
    pub(crate) const EMPTY: GpuNow = GpuNow {
        holder: NONE,
        lingerer: NONE,
        claimed: Nanos::NEVER,
        saver: NONE,
        saving_since: Nanos::NEVER,
        room: 0,
        reserve: 0,
        preempt: Batch::EMPTY,
        resume: Batch::EMPTY,
        loose: Batch::EMPTY,
        occupied: 0,
        unmeasured: false,
        weighs: false,
        weights: 0,
        requests: 0,
        split: Split::EMPTY,
        next_split: Split::EMPTY,
        waiter: NONE,
    };

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
    /// No gpu: the value of fresh memory.
    pub const EMPTY: GpuSlot = GpuSlot {
        live: false,
        resetting: false,
        params: GpuParams::DEFAULT,
        bucket: Bucket::EMPTY,
        cycle: Nanos::ZERO,
        cycles: 0,
        gate: Nanos::ZERO,
        waiter: NONE,
        now: GpuNow::EMPTY,
    };

    /// Charges a plan of `cycles`.
    pub(crate) fn spend(&mut self, cycles: u32) {
        self.cycles = self.cycles.saturating_add(u64::from(cycles));
        self.bucket.spend(&self.params, cycles);
    }

    /// Settles an entry that spent `cycles`.
    pub(crate) fn settle(&mut self, entry: &OpenEntry, cycles: u32) {
        self.cycles = self.cycles.saturating_sub(u64::from(entry.cycles)).saturating_add(u64::from(cycles));
        self.bucket.settle(&self.params, entry.cycles, cycles, entry.refundable);
    }

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
#[derive(Clone, Copy, Debug)]
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
    /// No job: the value of fresh memory.
    pub const EMPTY: JobSlot = JobSlot {
        live: false,
        phase: Phase::Running,
        works: false,
        spent: false,
        throttled: false,
        generation: 0,
        tenants: NONE,
        rank: 0,
        now: JobNow::EMPTY,
        work_since: Nanos::ZERO,
        idle_since: Nanos::ZERO,
        resumed_at: Nanos::ZERO,
        exempt_for: Nanos::ZERO,
        exempt_until: Nanos::ZERO,
        stopped_at: Nanos::ZERO,
        slice_start: Nanos::ZERO,
        spared_until: Nanos::ZERO,
        hold_until: Nanos::ZERO,
        short_since: Nanos::ZERO,
        stop: Stop::EMPTY,
        stop_credit: Nanos::ZERO,
        account: Account::EMPTY,
        params: JobParams::DEFAULT,
        habits: Habits::EMPTY,
    };

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

impl Stop {
    /// A stop that no other job causes.
    pub(crate) const EMPTY: Stop = Stop { cause: NONE, cause_generation: 0, reason: Reason::HigherWants };
}

/// The accounts that the policies keep of a job.
#[derive(Clone, Copy, Debug)]
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

impl Account {
    pub(crate) const EMPTY: Account =
        Account { deficit: 0, limit_credit: 0, release: Nanos::ZERO, deadline: Nanos::ZERO, used: Nanos::ZERO };
}

/// Working state of one decision about a job, gathered from its tenants.
#[derive(Clone, Copy, Debug)]
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
    /// Gpus on which its stop depends on what tenants occupy.
    pub(crate) weighed: GpuSet,
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

impl JobNow {
    pub(crate) const EMPTY: JobNow = JobNow {
        gpus: GpuSet::EMPTY,
        working: GpuSet::EMPTY,
        loose: GpuSet::EMPTY,
        stopped: GpuSet::EMPTY,
        since: Nanos::NEVER,
        occupancy: None,
        occupancy_unknown: false,
        weighed: GpuSet::EMPTY,
        pending: 0,
        fixed: false,
        refused: false,
        why: None,
        turn: false,
        victims: 0,
    };
}

/// Longest usual gap between two kernels: a tenant with work is on the gpu again within this time, unless another
/// blocks it.
const BETWEEN_KERNELS: Nanos = Nanos::from_micros(300);

/// An entry without a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenEntry {
    pub(crate) number: EntryNumber,
    pub(crate) action: Action,
    pub(crate) planned_at: Nanos,
    /// Cycles that the budget was charged for it, and the most of their price that a report may give back.
    pub(crate) cycles: u32,
    pub(crate) refundable: i64,
    /// Whether decisions wait for the report. They do not after `report_timeout`, nor once an observation has shown
    /// that the entry took effect; a report that comes then is taken all the same, while no newer entry was planned.
    pub(crate) awaited: bool,
}

/// State of a tenant. Opaque to the host, which only provides the memory.
#[derive(Clone, Copy, Debug)]
pub struct TenantSlot {
    pub(crate) live: bool,
    pub(crate) stoppable: bool,
    /// The last entry planned for it, until the report comes.
    pub(crate) open: Option<OpenEntry>,
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
    /// No entry is planned for it before this instant.
    pub(crate) retry_at: Nanos,
}

impl TenantSlot {
    /// No tenant: the value of fresh memory.
    pub const EMPTY: TenantSlot = TenantSlot {
        live: false,
        stoppable: false,
        open: None,
        failures: 0,
        refusals: 0,
        generation: 0,
        job: NONE,
        next: NONE,
        gpu: GpuIndex(0),
        seen: Observation::NONE,
        ran_at: Nanos::ZERO,
        retry_at: Nanos::ZERO,
    };

    pub(crate) fn has_work(&self) -> bool {
        self.seen.activity.has_work()
            || (mutant!(BlockedWants) && self.seen.activity == Activity::Blocked)
            || (mutant!(EvictedWants) && self.seen.activity == Activity::Evicted)
    }

    /// Returns the action of the entry whose report decisions wait for.
    pub(crate) fn pending(&self) -> Option<Action> {
        self.open.filter(|open| open.awaited).map(|open| open.action)
    }

    /// Ends the wait for a report.
    pub(crate) fn stop_waiting(&mut self) {
        if let Some(open) = &mut self.open {
            open.awaited = false;
        }
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
