//! Snapshots of jobs and gpus for display, and the bounds that hold for them.

use crate::bounds;
use crate::cost::{Batch, Cost};
use crate::plan::Reason;
use crate::policy;
use crate::scheduler::Scheduler;
use crate::state::{GpuSlot, JobSlot, Phase, Storage, Tables};
use crate::{GpuIndex, GpuSet, JobId, Level, Nanos};

/// State of a job, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSnapshot {
    /// The job's level.
    pub level: Level,
    /// Whether the core has decided that the job runs.
    pub phase: Phase,
    /// When it was stopped; meaningless while it runs.
    pub stopped_at: Nanos,
    /// Why it was stopped; meaningless while it runs.
    pub reason: Reason,
    /// The job for which it was stopped; `None` if there is none or it was removed.
    pub cause: Option<JobId>,
    /// Whether it had work at the last decision.
    pub works: bool,
    /// Number of jobs stopped for this one.
    pub victims: u16,
    /// Whether the job has used its limit up: it is to be stopped, if it can be.
    pub throttled: bool,
}

/// State of a gpu, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuSnapshot {
    /// Time of a cycle: measured, or the operator's estimate before the first.
    pub cycle: Nanos,
    /// Whether the gpu is being reset.
    pub resetting: bool,
    /// The job that has the gpu reserved, if any.
    pub holder: Option<JobId>,
    /// When the next aged job may take a turn on the gpu.
    pub gate: Nanos,
}

impl<S: Storage> Scheduler<S> {
    /// Returns the state of a gpu as of the last decision; `None` if it does not exist.
    pub fn gpu(&mut self, id: GpuIndex) -> Option<GpuSnapshot> {
        let tables = self.storage.tables();
        let gpu = tables.gpu(id)?;
        Some(GpuSnapshot {
            cycle: gpu.cycle_time(),
            resetting: gpu.resetting,
            holder: tables.job_id(gpu.now.holder),
            gate: gpu.gate,
        })
    }

    /// Returns the state of a job; `None` if it does not exist.
    pub fn job(&mut self, id: JobId) -> Option<JobSnapshot> {
        let mut tables = self.storage.tables();
        let job = *tables.find_job(id)?;
        Some(JobSnapshot {
            level: job.params.level,
            phase: job.phase,
            stopped_at: job.stopped_at,
            reason: job.stop.reason,
            cause: tables.cause_id(job.stop),
            works: job.works,
            victims: job.now.victims,
            throttled: job.throttled,
        })
    }

    /// Returns the reason for which the policy of `gpu` could ever stop `lower` for `upper`; `None` if it never would,
    /// or if one of them does not exist. Hosts ask this to decide which tenants to observe closely and which processes
    /// to attach; they know no policy themselves.
    pub fn could_displace(&mut self, upper: JobId, lower: JobId, gpu: GpuIndex) -> Option<Reason> {
        if upper == lower {
            return None;
        }
        let mut tables = self.storage.tables();
        let (upper, lower) = (tables.find_job(upper)?.params, tables.find_job(lower)?.params);
        tables.gpu(gpu)?.params.could_displace(&upper, &lower)
    }

    /// Returns whether the policy of `gpu` could ever stop the job although no other job wants the gpu.
    pub fn could_throttle(&mut self, id: JobId, gpu: GpuIndex) -> bool {
        let mut tables = self.storage.tables();
        let Some(params) = tables.find_job(id).map(|job| job.params) else { return false };
        tables.gpu(gpu).is_some_and(|gpu| gpu.params.could_throttle(&params))
    }

    /// Returns the terms of the bound on inversions that `upper` suffers on `gpu` from lower jobs, when the host
    /// observes every `detection`. `None` if the gpu's policy does not go by levels alone, so that there is no bound,
    /// or if the job or the gpu does not exist.
    pub fn inversion_bound(
        &mut self,
        gpu: GpuIndex,
        upper: JobId,
        detection: Nanos,
        cost: &dyn Cost,
    ) -> Option<bounds::Inversion> {
        let mut tables = self.storage.tables();
        let upper = *tables.find_job(upper)?;
        if !policy::of(tables.gpu(gpu)?.params.policy).ranks_by_level() {
            return None;
        }
        let patience = upper.params.patience.longest();
        let mut terms = bounds::Inversion { detection, patience, ..bounds::Inversion::default() };
        let below = |job: &&JobSlot| job.live && job.params.level < upper.params.level && job.now.gpus.has(gpu);
        let mut gpus = GpuSet::one(gpu);
        let mut plan = Nanos::ZERO;
        for job in tables.jobs.iter().filter(below) {
            terms.exempt = terms.exempt.max(job.params.min_run);
            terms.turn = terms.turn.max(job.params.turn());
            gpus = gpus.with(job.now.gpus);
        }
        // A job is stopped as a whole, so the cycles of its other gpus count too.
        for (id, slot) in tables.gpus.iter().enumerate().filter(|(_, slot)| slot.live) {
            let id = GpuIndex(u8::try_from(id).unwrap_or(u8::MAX));
            if !gpus.has(id) {
                continue;
            }
            let Cycles { once, both, .. } = cycles_of_all(&tables, id, cost);
            plan = plan.max(slot.cycle_time().times(u64::from(both)));
            if slot.params.spares() {
                let price = slot.cycle_time().times(2 * u64::from(once));
                terms.small = terms.small.max(bounds::small(price, None));
            }
        }
        terms.refill = refill(&tables, cost);
        // One plan may be in progress when the next is made; exempt times and turns do not include their cycles.
        terms.cost = plan.times(2);
        terms.exempt = terms.exempt.plus(plan);
        terms.turn = terms.turn.plus(plan);
        Some(terms)
    }

    /// Returns the bound on the deviation of a job's time on `gpu` from its share, when the host observes every
    /// `detection`. `None` if the gpu's policy has no shares, or if the gpu does not exist.
    pub fn share_error_bound(&mut self, gpu: GpuIndex, detection: Nanos) -> Option<Nanos> {
        let tables = self.storage.tables();
        let slot = tables.gpu(gpu).filter(|slot| slot.params.policy.has_shares())?;
        let jobs = tables.jobs.iter().filter(|job| job.live && job.now.gpus.has(gpu)).count();
        let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
        Some(bounds::share_error(jobs, slot.params.turn_length(), detection, slot.cycle_time()))
    }

    /// Returns the terms of the bound on how long higher jobs keep a job stopped, when the host observes every
    /// `detection`. `None` if the job does not exist.
    pub fn starvation_bound(&mut self, id: JobId, detection: Nanos) -> Option<bounds::Starvation> {
        let mut tables = self.storage.tables();
        let params = tables.find_job(id)?.params;
        let mut terms = bounds::Starvation {
            age_limit: bounds::age_limit(&params, Level::MAX.get() - params.level.get()),
            detection,
            turn: params.turn(),
            ..bounds::Starvation::default()
        };
        for job in tables.jobs.iter().filter(|job| job.live) {
            terms.jobs_ahead += 1;
            terms.turn = terms.turn.max(job.params.turn());
        }
        terms.jobs_ahead = terms.jobs_ahead.saturating_sub(1);
        terms.cycle = tables.gpus.iter().filter(|gpu| gpu.live).map(GpuSlot::cycle_time).max().unwrap_or(Nanos::ZERO);
        Some(terms)
    }
}

/// Cycles that the tenants of one gpu take.
struct Cycles {
    /// To stop all of them.
    once: u32,
    /// To stop and resume all of them.
    both: u32,
    /// Each second, for turns of aged jobs.
    ageing: u32,
}

fn cycles_of_all(tables: &Tables<'_>, gpu: GpuIndex, cost: &dyn Cost) -> Cycles {
    let mut all = Batch::EMPTY;
    let mut ageing = 0u32;
    for tenant in tables.tenants.iter().filter(|tenant| tenant.live && tenant.gpu == gpu) {
        all = all.and(tenant.seen.queues);
        let one = Batch::EMPTY.and(tenant.seen.queues);
        let round_trip = cost.cycles(gpu, one, Batch::EMPTY).saturating_add(cost.cycles(gpu, Batch::EMPTY, one));
        let turns = tables.job(tenant.job).map_or(0, |job| bounds::ageing(&job.params, round_trip));
        ageing = ageing.saturating_add(turns);
    }
    Cycles { once: cost.cycles(gpu, all, Batch::EMPTY), both: cost.cycles(gpu, all, all), ageing }
}

/// Returns how long the cycle budgets take to refill, under any policy. Those of all gpus may refill one after the
/// other.
pub(crate) fn refill(tables: &Tables<'_>, cost: &dyn Cost) -> Nanos {
    let mut time = Nanos::ZERO;
    for (id, slot) in tables.gpus.iter().enumerate().filter(|(_, slot)| slot.live) {
        let id = GpuIndex(u8::try_from(id).unwrap_or(u8::MAX));
        let Cycles { once, both, ageing } = cycles_of_all(tables, id, cost);
        time = time.plus(bounds::refill(&slot.params, both.saturating_add(once), ageing));
    }
    time
}
