//! What exists, snapshots of it for display, and the bounds that hold for it. Nothing here changes the scheduler.

use crate::bounds;
use crate::cost::{Batch, Cost};
use crate::plan::Reason;
use crate::policy;
use crate::scheduler::Scheduler;
use crate::state::{GpuSlot, JobSlot, Phase};
use crate::storage::{Storage, View};
use crate::{EntryNumber, GpuIndex, GpuSet, JobId, Level, Nanos, TenantId};

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
    /// Whether a cycle was measured.
    pub measured: bool,
    /// Cycles that plans have cost so far: as reported, else by the cost function.
    pub cycles: u64,
    /// Whether its deadline jobs together need more than all of its time.
    pub overcommitted: bool,
}

/// State of a tenant, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantSnapshot {
    /// The tenant's job.
    pub job: JobId,
    /// The tenant's gpu.
    pub gpu: GpuIndex,
    /// Whether it can be stopped.
    pub stoppable: bool,
    /// The last entry that was planned for it, if its report has not come.
    pub open: Option<EntryNumber>,
}

impl<S: Storage> Scheduler<S> {
    /// Lists the gpus that exist.
    pub fn gpus(&self) -> impl Iterator<Item = GpuIndex> {
        self.storage.view().live_gpus().map(|(id, _)| id)
    }

    /// Lists the jobs that exist.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        let slots = (0..).zip(self.storage.view().jobs);
        slots.filter(|(_, job)| job.live).map(|(index, job)| JobId { index, generation: job.generation })
    }

    /// Lists the tenants that exist.
    pub fn tenants(&self) -> impl Iterator<Item = TenantId> {
        let slots = (0..).zip(self.storage.view().tenants);
        let live = slots.filter(|(_, tenant)| tenant.live);
        live.map(|(index, tenant)| TenantId { index, generation: tenant.generation })
    }

    /// Returns the state of a tenant; `None` if it does not exist.
    pub fn tenant(&self, id: TenantId) -> Option<TenantSnapshot> {
        let view = self.storage.view();
        let tenant = view.find_tenant(id)?;
        Some(TenantSnapshot {
            job: view.job_id(tenant.job)?,
            gpu: tenant.gpu,
            stoppable: tenant.stoppable,
            open: tenant.open.map(|open| open.number),
        })
    }

    /// Returns the state of a gpu as of the last decision; `None` if it does not exist.
    pub fn gpu(&self, id: GpuIndex) -> Option<GpuSnapshot> {
        let view = self.storage.view();
        let gpu = view.gpu(id)?;
        Some(GpuSnapshot {
            cycle: gpu.cycle_time(),
            resetting: gpu.resetting,
            holder: view.job_id(gpu.now.holder),
            gate: gpu.gate,
            measured: gpu.cycle > Nanos::ZERO,
            cycles: gpu.cycles,
            overcommitted: self.overcommitted.has(id),
        })
    }

    /// Returns the state of a job; `None` if it does not exist.
    pub fn job(&self, id: JobId) -> Option<JobSnapshot> {
        let view = self.storage.view();
        let job = view.find_job(id)?;
        Some(JobSnapshot {
            level: job.params.level,
            phase: job.phase,
            stopped_at: job.stopped_at,
            reason: job.stop.reason,
            cause: view.cause_id(job.stop),
            works: job.works,
            victims: job.now.victims,
            throttled: job.throttled,
        })
    }

    /// Returns the reason for which the policy of `gpu` could ever stop `lower` for `upper`; `None` if it never would,
    /// or if one of them does not exist. Hosts ask this to decide which tenants to observe closely and which processes
    /// to attach; they know no policy themselves.
    pub fn could_displace(&self, upper: JobId, lower: JobId, gpu: GpuIndex) -> Option<Reason> {
        if upper == lower {
            return None;
        }
        let view = self.storage.view();
        let (upper, lower) = (view.find_job(upper)?.params, view.find_job(lower)?.params);
        view.gpu(gpu)?.params.could_displace(&upper, &lower)
    }

    /// Returns whether the policy of `gpu` could ever stop the job although no other job wants the gpu.
    pub fn could_throttle(&self, id: JobId, gpu: GpuIndex) -> bool {
        let view = self.storage.view();
        let Some(params) = view.find_job(id).map(|job| job.params) else { return false };
        view.gpu(gpu).is_some_and(|gpu| gpu.params.could_throttle(&params))
    }

    /// Returns whether the next decision may depend on the occupancy of the tenant
    /// ([`Observation::occupancy`](crate::Observation::occupancy)): at the last one a stop on its gpu waited for
    /// patience, exempt time or the budget, or because it was not worth its price. Samples are expensive, so hosts take
    /// them of these tenants only. A stop that is due at once does not wait for a sample.
    pub fn wants_occupancy(&self, id: TenantId) -> bool {
        let view = self.storage.view();
        let Some(tenant) = view.find_tenant(id).filter(|tenant| tenant.has_work() && tenant.is_loose()) else {
            return false;
        };
        let Some(gpu) = view.gpu(tenant.gpu).filter(|gpu| gpu.now.weighs && !gpu.resetting) else {
            return false;
        };
        // Small victims are weighed alone, companions with all that has work on the gpu.
        gpu.params.weigh || view.job(tenant.job).is_some_and(|job| job.now.weighed.has(tenant.gpu))
    }

    /// Returns the terms of the bound on inversions that `upper` suffers on `gpu` from lower jobs, when the host
    /// observes every `detection`. `None` if the gpu's policy does not go by levels alone, so that there is no bound,
    /// or if the job or the gpu does not exist.
    pub fn inversion_bound(
        &self,
        gpu: GpuIndex,
        upper: JobId,
        detection: Nanos,
        cost: &dyn Cost,
    ) -> Option<bounds::Inversion> {
        let view = self.storage.view();
        let upper = view.find_job(upper)?;
        if !policy::of(view.gpu(gpu)?.params.policy).ranks_by_level() {
            return None;
        }
        let patience = upper.params.patience.longest();
        let mut terms = bounds::Inversion { detection, patience, ..bounds::Inversion::default() };
        let below = |job: &&JobSlot| job.live && job.params.level < upper.params.level && job.now.gpus.has(gpu);
        let mut gpus = GpuSet::one(gpu);
        let mut plan = Nanos::ZERO;
        for job in view.jobs.iter().filter(below) {
            terms.exempt = terms.exempt.max(job.params.min_run);
            terms.turn = terms.turn.max(job.params.turn());
            gpus = gpus.with(job.now.gpus);
        }
        // A job is stopped as a whole, so the cycles of its other gpus count too.
        for (id, slot) in view.live_gpus() {
            if !gpus.has(id) {
                continue;
            }
            let Cycles { once, both, .. } = cycles_of_all(view, id, cost);
            plan = plan.max(slot.cycle_time().times(u64::from(both)));
            if slot.params.spares() {
                let price = slot.cycle_time().times(2 * u64::from(once));
                terms.small = terms.small.max(bounds::small(price, None));
            }
        }
        terms.refill = refill(view, cost);
        // One plan may be in progress when the next is made; exempt times and turns do not include their cycles.
        terms.cost = plan.times(2);
        terms.exempt = terms.exempt.plus(plan);
        terms.turn = terms.turn.plus(plan);
        Some(terms)
    }

    /// Returns the bound on the deviation of a job's time on `gpu` from its share, when the host observes every
    /// `detection`. `None` if the gpu's policy has no shares, or if the gpu does not exist.
    pub fn share_error_bound(&self, gpu: GpuIndex, detection: Nanos) -> Option<Nanos> {
        let view = self.storage.view();
        let slot = view.gpu(gpu).filter(|slot| slot.params.policy.has_shares())?;
        let jobs = view.jobs.iter().filter(|job| job.live && job.now.gpus.has(gpu)).count();
        let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
        Some(bounds::share_error(jobs, slot.params.turn_length(), detection, slot.cycle_time()))
    }

    /// Returns the terms of the bound on how long higher jobs keep a job stopped, when the host observes every
    /// `detection`. `None` if the job does not exist.
    pub fn starvation_bound(&self, id: JobId, detection: Nanos) -> Option<bounds::Starvation> {
        let view = self.storage.view();
        let params = view.find_job(id)?.params;
        let mut terms = bounds::Starvation {
            age_limit: bounds::age_limit(&params, Level::MAX.get() - params.level.get()),
            detection,
            turn: params.turn(),
            ..bounds::Starvation::default()
        };
        for job in view.jobs.iter().filter(|job| job.live) {
            terms.jobs_ahead += 1;
            terms.turn = terms.turn.max(job.params.turn());
        }
        terms.jobs_ahead = terms.jobs_ahead.saturating_sub(1);
        terms.cycle = view.gpus.iter().filter(|gpu| gpu.live).map(GpuSlot::cycle_time).max().unwrap_or(Nanos::ZERO);
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

fn cycles_of_all(view: View<'_>, gpu: GpuIndex, cost: &dyn Cost) -> Cycles {
    let mut all = Batch::EMPTY;
    let mut ageing = 0u32;
    for tenant in view.tenants.iter().filter(|tenant| tenant.live && tenant.gpu == gpu) {
        all = all.and(tenant.seen.queues);
        let one = Batch::EMPTY.and(tenant.seen.queues);
        let round_trip = cost.cycles(gpu, one, Batch::EMPTY).saturating_add(cost.cycles(gpu, Batch::EMPTY, one));
        let turns = view.job(tenant.job).map_or(0, |job| bounds::ageing(&job.params, round_trip));
        ageing = ageing.saturating_add(turns);
    }
    Cycles { once: cost.cycles(gpu, all, Batch::EMPTY), both: cost.cycles(gpu, all, all), ageing }
}

/// Returns how long the cycle budgets take to refill, under any policy. Those of all gpus may refill one after the
/// other.
pub(crate) fn refill(view: View<'_>, cost: &dyn Cost) -> Nanos {
    let mut time = Nanos::ZERO;
    for (id, slot) in view.live_gpus() {
        let Cycles { once, both, ageing } = cycles_of_all(view, id, cost);
        time = time.plus(bounds::refill(&slot.params, both.saturating_add(once), ageing));
    }
    time
}
