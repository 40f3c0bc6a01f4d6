//! The scheduler: what a host calls.

use crate::bounds;
use crate::budget::Bucket;
use crate::cost::{Batch, Cost};
use crate::decide::{self, Found, Moment};
use crate::plan::{Action, Plan, Rule};
use crate::state::{GpuSlot, JobSlot, NONE, Phase, Storage, Tables, TenantSlot};
use crate::{GpuId, GpuParams, GpuSet, JobId, JobParams, Level, Nanos, Observation, Report, TenantId};

/// What a call can object to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `order` is shorter than `jobs`, `plan` than `tenants`, or there are more gpus than [`GpuSet::CAPACITY`].
    StorageTooSmall,
    /// No such gpu, or it was never set up.
    UnknownGpu,
    /// No such job, or no longer.
    UnknownJob,
    /// No such tenant, or no longer.
    UnknownTenant,
    /// The host's storage has no free slot.
    Full,
    /// The job still has tenants.
    JobInUse,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::StorageTooSmall => "storage too small: order needs one slot per job, plan one per tenant",
            Error::UnknownGpu => "no such gpu",
            Error::UnknownJob => "no such job",
            Error::UnknownTenant => "no such tenant",
            Error::Full => "no free slot in the storage",
            Error::JobInUse => "the job still has tenants",
        })
    }
}

impl core::error::Error for Error {}

/// How a job stands, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// Its level.
    pub level: Level,
    /// Whether it is stopped.
    pub phase: Phase,
    /// Since when, if it is stopped.
    pub stopped_at: Nanos,
    /// Why, if it is stopped.
    pub rule: Rule,
    /// For whom, if it is stopped and that job still exists.
    pub cause: Option<JobId>,
    /// Whether it has work.
    pub works: bool,
    /// Jobs stopped on its account.
    pub victims: u16,
}

/// Observations in, plans out.
#[derive(Debug)]
pub struct Scheduler<S> {
    storage: S,
    /// Time of the last decision, and of the next one if nothing is observed before.
    last: Nanos,
    wake: Nanos,
    /// Something changed since the last decision.
    stale: bool,
    /// Jobs or their settings changed since the last decision.
    regroup: bool,
    /// Entries of `order` in use.
    jobs: usize,
    overcommitted: GpuSet,
}

/// First wait after a refusal; doubles with each.
const RETRY: Nanos = Nanos::from_millis(1);
const RETRY_DOUBLINGS: u32 = 6;

impl<S: Storage> Scheduler<S> {
    /// A scheduler over empty slots.
    ///
    /// # Errors
    /// [`Error::StorageTooSmall`] if the parts do not fit each other.
    pub fn new(mut storage: S) -> Result<Self, Error> {
        let Tables { gpus, jobs, tenants, order, plan } = storage.tables();
        if order.len() < jobs.len() || plan.len() < tenants.len() || gpus.len() > GpuSet::CAPACITY {
            return Err(Error::StorageTooSmall);
        }
        gpus.fill(GpuSlot::default());
        jobs.fill(JobSlot::default());
        tenants.fill(TenantSlot::default());
        Ok(Scheduler {
            storage,
            last: Nanos::ZERO,
            wake: Nanos::NEVER,
            stale: true,
            regroup: true,
            jobs: 0,
            overcommitted: GpuSet::EMPTY,
        })
    }

    /// Sets up a gpu, or changes its settings.
    ///
    /// # Errors
    /// [`Error::UnknownGpu`] if the storage has no such slot.
    pub fn set_gpu(&mut self, id: GpuId, params: GpuParams) -> Result<(), Error> {
        let now = self.last;
        let gpu = self.storage.tables().gpus.get_mut(usize::from(id.0)).ok_or(Error::UnknownGpu)?;
        if !gpu.live || gpu.params.cycles_per_second != params.cycles_per_second {
            gpu.bucket = Bucket::full(&params, now);
        }
        gpu.live = true;
        gpu.params = params;
        self.changed();
        Ok(())
    }

    /// Tells that a gpu is being reset (nothing is decided for it) or no longer.
    ///
    /// # Errors
    /// [`Error::UnknownGpu`].
    pub fn set_resetting(&mut self, id: GpuId, resetting: bool) -> Result<(), Error> {
        self.storage.tables().gpu_mut(id).ok_or(Error::UnknownGpu)?.resetting = resetting;
        self.stale = true;
        Ok(())
    }

    /// Adds a job without tenants.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub fn add_job(&mut self, params: JobParams) -> Result<JobId, Error> {
        let tables = self.storage.tables();
        let (index, slot) = free(tables.jobs, |job| job.live)?;
        let generation = slot.generation.wrapping_add(1);
        *slot = JobSlot { live: true, generation, tenants: NONE, params, ..JobSlot::default() };
        slot.stop_credit = JobParams::STOP_WINDOW.permille(u64::from(params.stop_share.get()));
        self.changed();
        Ok(JobId { index, generation })
    }

    /// Changes a job's level and other settings, at any time.
    ///
    /// # Errors
    /// [`Error::UnknownJob`].
    pub fn set_job(&mut self, id: JobId, params: JobParams) -> Result<(), Error> {
        self.storage.tables().find_job(id).ok_or(Error::UnknownJob)?.params = params;
        self.changed();
        Ok(())
    }

    /// Removes a job that has no tenants left.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::JobInUse`].
    pub fn remove_job(&mut self, id: JobId) -> Result<(), Error> {
        let mut tables = self.storage.tables();
        let job = tables.find_job(id).ok_or(Error::UnknownJob)?;
        if job.tenants != NONE {
            return Err(Error::JobInUse);
        }
        job.live = false;
        self.changed();
        Ok(())
    }

    /// Stops a job by hand until `until` (a lease), whatever the policy says. `max_stop` does not apply.
    ///
    /// # Errors
    /// [`Error::UnknownJob`].
    pub fn hold(&mut self, id: JobId, until: Nanos) -> Result<(), Error> {
        self.storage.tables().find_job(id).ok_or(Error::UnknownJob)?.hold_until = until;
        self.stale = true;
        Ok(())
    }

    /// Ends a hold.
    ///
    /// # Errors
    /// [`Error::UnknownJob`].
    pub fn release(&mut self, id: JobId) -> Result<(), Error> {
        self.hold(id, Nanos::ZERO)
    }

    /// Adds a tenant to a job. One that cannot be stopped is never a victim, nor is its job, but it can be protected.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::UnknownGpu`], [`Error::Full`].
    pub fn add_tenant(&mut self, job: JobId, gpu: GpuId, stoppable: bool) -> Result<TenantId, Error> {
        let mut tables = self.storage.tables();
        tables.gpu(gpu).ok_or(Error::UnknownGpu)?;
        tables.find_job(job).ok_or(Error::UnknownJob)?;
        let (index, slot) = free(tables.tenants, |tenant| tenant.live)?;
        let generation = slot.generation.wrapping_add(1);
        *slot = TenantSlot { live: true, generation, stoppable, gpu, next: NONE, ..TenantSlot::default() };
        tables.link(index, job.index);
        self.changed();
        Ok(TenantId { index, generation })
    }

    /// Moves a tenant to another job. It becomes as that job is with the next plan.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::UnknownTenant`].
    pub fn move_tenant(&mut self, id: TenantId, job: JobId) -> Result<(), Error> {
        let mut tables = self.storage.tables();
        tables.find_job(job).ok_or(Error::UnknownJob)?;
        tables.find_tenant(id).ok_or(Error::UnknownTenant)?;
        tables.unlink(id.index);
        tables.link(id.index, job.index);
        self.changed();
        Ok(())
    }

    /// Tells whether a tenant can be stopped.
    ///
    /// # Errors
    /// [`Error::UnknownTenant`].
    pub fn set_stoppable(&mut self, id: TenantId, stoppable: bool) -> Result<(), Error> {
        self.storage.tables().find_tenant(id).ok_or(Error::UnknownTenant)?.stoppable = stoppable;
        self.stale = true;
        Ok(())
    }

    /// Forgets a tenant: its process ended or its last queue is gone.
    ///
    /// # Errors
    /// [`Error::UnknownTenant`].
    pub fn remove_tenant(&mut self, id: TenantId) -> Result<(), Error> {
        let mut tables = self.storage.tables();
        tables.find_tenant(id).ok_or(Error::UnknownTenant)?.live = false;
        tables.unlink(id.index);
        self.changed();
        Ok(())
    }

    /// Takes a look at a tenant into account; an older look than the last is ignored.
    ///
    /// # Errors
    /// [`Error::UnknownTenant`].
    pub fn observe(&mut self, id: TenantId, look: Observation) -> Result<(), Error> {
        let mut tables = self.storage.tables();
        let tenant = tables.find_tenant(id).ok_or(Error::UnknownTenant)?;
        if look.at < tenant.seen.at && !mutant!(AcceptsOldLooks) {
            return Ok(());
        }
        let look = Observation {
            since: look.since.min(look.at),
            stopped_queues: look.stopped_queues.min(look.queues),
            ..look
        };
        let before = core::mem::replace(&mut tenant.seen, look);
        self.stale |= Observation { at: look.at, ..before } != look;
        Ok(())
    }

    /// Takes the result of a plan entry into account.
    ///
    /// # Errors
    /// [`Error::UnknownTenant`].
    pub fn report(&mut self, id: TenantId, action: Action, report: Report) -> Result<(), Error> {
        let mut tables = self.storage.tables();
        let tenant = tables.find_tenant(id).ok_or(Error::UnknownTenant)?;
        if report.at < tenant.asked_at {
            // About an entry that was given up and decided anew.
            return Ok(());
        }
        tenant.pending = None;
        let stopped = report.stopped_queues;
        if let Some(stopped) = stopped {
            tenant.seen.stopped_queues = stopped.min(tenant.seen.queues);
            tenant.seen.at = tenant.seen.at.max(report.at);
        }
        let done = match action {
            Action::Preempt => stopped.is_some() && tenant.seen.stopped_queues == tenant.seen.queues,
            Action::Resume => stopped == Some(0),
        };
        if done {
            tenant.failures = 0;
            tenant.retry_at = Nanos::ZERO;
        } else {
            let doublings = u32::from(tenant.failures).min(RETRY_DOUBLINGS);
            tenant.failures = tenant.failures.saturating_add(1);
            tenant.retry_at = report.at.plus(RETRY.times(1 << doublings));
            if mutant!(NoRetry) {
                tenant.retry_at = Nanos::NEVER;
            }
        }
        let gpu = tenant.gpu;
        if let Some(gpu) = tables.gpu_mut(gpu).filter(|_| stopped.is_some() && report.took > Nanos::ZERO) {
            // An eighth of the news: cycles of different victims differ, and one slow one should not change the habits.
            gpu.cycle = if gpu.cycle == Nanos::ZERO {
                report.took
            } else {
                Nanos(gpu.cycle.0 - gpu.cycle.0 / 8).plus(Nanos(report.took.0 / 8))
            };
        }
        self.stale = true;
        Ok(())
    }

    /// What to do now. Cheap if nothing changed and nothing is due.
    pub fn decide(&mut self, now: Nanos, cost: &dyn Cost) -> Plan<'_> {
        // A clock that runs backwards is taken to stand still.
        let now = now.max(self.last);
        let skip = !self.stale && now < self.wake;
        let skip = skip || (mutant!(CountsCalls) && odd_call());
        let mut length = 0;
        if !skip {
            let mut tables = self.storage.tables();
            if self.regroup {
                self.jobs = regroup(&mut tables);
            }
            let found = Found { new_ranks: self.regroup, ..Found::default() };
            let mut moment = Moment { now, last: self.last, wake: Nanos::NEVER, cost, found };
            length = decide::decide(&mut tables, &mut moment, self.jobs);
            if self.regroup {
                self.overcommitted = decide::overcommitted(&tables);
            }
            self.wake = moment.wake;
            self.last = now;
            self.stale = false;
            self.regroup = false;
        }
        let entries = self.storage.tables().plan;
        let entries: &[crate::Entry] = entries;
        Plan { entries: entries.get(..length).unwrap_or(&[]), wake: self.wake, overcommitted: self.overcommitted }
    }

    /// How a job stands.
    pub fn job(&mut self, id: JobId) -> Option<JobStatus> {
        let mut tables = self.storage.tables();
        let job = *tables.find_job(id)?;
        Some(JobStatus {
            level: job.params.level,
            phase: job.phase,
            stopped_at: job.stopped_at,
            rule: job.stop.rule,
            cause: tables.cause_of(job.stop).and_then(|_| tables.job_id(job.stop.cause)),
            works: job.works,
            victims: job.now.victims,
        })
    }

    /// The bound on inversions that `upper` suffers on `gpu` from jobs below, when the host looks every `detection`.
    /// `None` if job or gpu do not exist.
    pub fn inversion_bound(
        &mut self,
        gpu: GpuId,
        upper: JobId,
        detection: Nanos,
        cost: &dyn Cost,
    ) -> Option<bounds::Inversion> {
        let mut tables = self.storage.tables();
        let upper = *tables.find_job(upper)?;
        tables.gpu(gpu)?;
        let patience = upper.params.patience.longest();
        let mut terms = bounds::Inversion { detection, patience, ..bounds::Inversion::default() };
        let below = |job: &&JobSlot| job.live && job.params.level < upper.params.level && job.now.gpus.has(gpu);
        let mut gpus = GpuSet::one(gpu);
        for job in tables.jobs.iter().filter(below) {
            terms.exempt = terms.exempt.max(job.params.min_run);
            terms.turn = terms.turn.max(job.params.turn());
            gpus = gpus.with(job.now.gpus);
        }
        // A job is stopped as a whole, so what its other gpus take counts too, and budgets may have to be waited for one
        // after the other.
        for (id, slot) in tables.gpus.iter().enumerate().filter(|(_, slot)| slot.live) {
            let id = GpuId(u8::try_from(id).unwrap_or(u8::MAX));
            let mut all = Batch::EMPTY;
            let mut ageing = 0u32;
            for tenant in tables.tenants.iter().filter(|tenant| tenant.live && tenant.gpu == id) {
                all = all.and(tenant.seen.queues);
                let one = Batch::EMPTY.and(tenant.seen.queues);
                let round_trip = cost.cycles(id, one, Batch::EMPTY).saturating_add(cost.cycles(id, Batch::EMPTY, one));
                let turns = tables.job(tenant.job).map_or(0, |job| bounds::ageing(&job.params, round_trip));
                ageing = ageing.saturating_add(turns);
            }
            let (once, both) = (cost.cycles(id, all, Batch::EMPTY), cost.cycles(id, all, all));
            terms.refill = terms.refill.plus(bounds::refill(&slot.params, both.saturating_add(once), ageing));
            if !gpus.has(id) {
                continue;
            }
            // One plan may be under way when the next is made.
            terms.cost = terms.cost.max(slot.cycle_time().times(2 * u64::from(both)));
            let price = slot.cycle_time().times(2 * u64::from(once));
            for tenant in tables.tenants.iter().filter(|tenant| tenant.live && tenant.gpu == id) {
                terms.small = terms.small.max(bounds::small(price, tenant.seen.occupancy, slot.params.small));
            }
        }
        Some(terms)
    }

    /// The bound on how long a job stays stopped by jobs above, when the host looks every `detection`. `None` if the job
    /// does not exist.
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

    /// Jobs, tenants or settings are others than before.
    fn changed(&mut self) {
        self.stale = true;
        self.regroup = true;
    }
}

/// Finds a slot that is not in use.
fn free<T>(slots: &mut [T], used: impl Fn(&T) -> bool) -> Result<(u32, &mut T), Error> {
    let (index, slot) = slots.iter_mut().enumerate().find(|(_, slot)| !used(slot)).ok_or(Error::Full)?;
    Ok((u32::try_from(index).map_err(|_| Error::Full)?, slot))
}

/// Lists the jobs in use; the order among them is established with the decision.
fn regroup(tables: &mut Tables<'_>) -> usize {
    let live = tables.jobs.iter().enumerate().filter(|(_, job)| job.live);
    let mut count = 0;
    for ((index, _), slot) in live.zip(tables.order.iter_mut()) {
        *slot = u32::try_from(index).unwrap_or(NONE);
        count += 1;
    }
    count
}

#[cfg(test)]
fn odd_call() -> bool {
    use core::sync::atomic::{AtomicU32, Ordering};
    static CALLS: AtomicU32 = AtomicU32::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(3)
}

#[cfg(not(test))]
const fn odd_call() -> bool {
    false
}
