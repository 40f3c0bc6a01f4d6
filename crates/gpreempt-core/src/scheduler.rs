//! The scheduler: the interface of the core to its host.

use crate::budget::Bucket;
use crate::cost::Cost;
use crate::decide::{self, Found, Moment};
use crate::plan::{Action, Plan};
use crate::state::{GpuSlot, JobSlot, NONE, OpenEntry, Phase, TenantSlot};
use crate::storage::{Storage, Tables};
use crate::{
    Activity, EntryNumber, GpuIndex, GpuParams, GpuSet, JobId, JobParams, Nanos, Observation, Report, TenantId,
};

/// Errors of the scheduler's calls. A call that fails changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `order` is shorter than `jobs`, `plan` than `tenants`, or there are more gpus than [`GpuSet::CAPACITY`].
    StorageTooSmall,
    /// The gpu does not exist or was never set up.
    UnknownGpu,
    /// The job does not exist, or no longer.
    UnknownJob,
    /// The tenant does not exist, or no longer.
    UnknownTenant,
    /// The entry is not the last that was planned for the tenant, or was reported before.
    StaleEntry,
    /// The host's storage has no free slot.
    Full,
    /// The job still has tenants.
    JobInUse,
    /// The gpu still has tenants.
    GpuInUse,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::StorageTooSmall => "storage too small: order needs one slot per job, plan one per tenant",
            Error::UnknownGpu => "no such gpu",
            Error::UnknownJob => "no such job",
            Error::UnknownTenant => "no such tenant",
            Error::StaleEntry => "the entry was reported, or planned again",
            Error::Full => "no free slot in the storage",
            Error::JobInUse => "the job still has tenants",
            Error::GpuInUse => "the gpu still has tenants",
        })
    }
}

impl core::error::Error for Error {}

/// Turns observations into plans. Not thread safe: the host serialises the calls.
#[derive(Debug)]
pub struct Scheduler<S> {
    pub(crate) storage: S,
    /// Time of the last decision, and of the next one if nothing is observed before.
    last: Nanos,
    wake: Nanos,
    /// Time of the newest observation.
    newest: Nanos,
    /// Whether anything changed since the last decision.
    stale: bool,
    /// Whether jobs, tenants, gpus or settings changed since the last decision.
    regroup: bool,
    /// Number of used entries of `order`.
    jobs: usize,
    /// The number of the last entry that was planned.
    number: EntryNumber,
    pub(crate) overcommitted: GpuSet,
}

/// Wait after the first refusal; it doubles with each further one.
const RETRY: Nanos = Nanos::from_millis(1);
const RETRY_DOUBLINGS: u32 = 6;

impl<S: Storage> Scheduler<S> {
    /// Creates a scheduler; empties all slots of `storage` in place, one by one.
    ///
    /// # Errors
    /// [`Error::StorageTooSmall`] if the sizes of the parts do not fit each other.
    pub fn new(mut storage: S) -> Result<Self, Error> {
        let Tables { gpus, jobs, tenants, order, plan } = storage.tables();
        if order.len() < jobs.len() || plan.len() < tenants.len() || gpus.len() > GpuSet::CAPACITY {
            return Err(Error::StorageTooSmall);
        }
        gpus.fill(GpuSlot::EMPTY);
        jobs.fill(JobSlot::EMPTY);
        tenants.fill(TenantSlot::EMPTY);
        Ok(Scheduler {
            storage,
            last: Nanos::ZERO,
            wake: Nanos::NEVER,
            newest: Nanos::ZERO,
            stale: true,
            regroup: true,
            jobs: 0,
            number: EntryNumber(0),
            overcommitted: GpuSet::EMPTY,
        })
    }

    /// Adds a gpu, or changes its settings.
    ///
    /// # Errors
    /// [`Error::UnknownGpu`] if the storage has no such slot.
    pub fn set_gpu(&mut self, id: GpuIndex, params: GpuParams) -> Result<(), Error> {
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

    /// Removes a gpu without tenants: it was unplugged or repartitioned.
    ///
    /// # Errors
    /// [`Error::UnknownGpu`], [`Error::GpuInUse`].
    pub fn remove_gpu(&mut self, id: GpuIndex) -> Result<(), Error> {
        let mut tables = self.storage.tables();
        if tables.tenants.iter().any(|tenant| tenant.live && tenant.gpu == id) {
            return Err(Error::GpuInUse);
        }
        *tables.gpu_mut(id).ok_or(Error::UnknownGpu)? = GpuSlot::EMPTY;
        self.changed();
        Ok(())
    }

    /// Sets whether a gpu is being reset. Nothing is planned for a gpu in reset.
    ///
    /// # Errors
    /// [`Error::UnknownGpu`].
    pub fn set_resetting(&mut self, id: GpuIndex, resetting: bool) -> Result<(), Error> {
        self.storage.tables().gpu_mut(id).ok_or(Error::UnknownGpu)?.resetting = resetting;
        self.changed();
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
        *slot = JobSlot { live: true, generation, params, ..JobSlot::EMPTY };
        slot.stop_credit = JobParams::STOP_WINDOW.permille(u64::from(params.stop_share.get()));
        slot.fill_limit();
        self.changed();
        Ok(JobId { index, generation })
    }

    /// Changes the settings of a job; allowed at any time.
    ///
    /// # Errors
    /// [`Error::UnknownJob`].
    pub fn set_job(&mut self, id: JobId, params: JobParams) -> Result<(), Error> {
        let mut tables = self.storage.tables();
        let job = tables.find_job(id).ok_or(Error::UnknownJob)?;
        let new_limit = job.params.limit != params.limit;
        job.params = params;
        if new_limit {
            job.fill_limit();
        }
        self.changed();
        Ok(())
    }

    /// Removes a job without tenants.
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

    /// Stops a job until `until`, independent of the policy. `max_stop` does not apply; the lease ends the hold if the
    /// operator's tool does not.
    ///
    /// # Errors
    /// [`Error::UnknownJob`].
    pub fn hold(&mut self, id: JobId, until: Nanos) -> Result<(), Error> {
        self.storage.tables().find_job(id).ok_or(Error::UnknownJob)?.hold_until = until;
        self.stale = true;
        Ok(())
    }

    /// Ends the hold of a job.
    ///
    /// # Errors
    /// [`Error::UnknownJob`].
    pub fn release(&mut self, id: JobId) -> Result<(), Error> {
        self.hold(id, Nanos::ZERO)
    }

    /// Adds a tenant to a job. A job with a tenant that is not `stoppable` is never a victim; it is still protected
    /// from lower jobs.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::UnknownGpu`], [`Error::Full`].
    pub fn add_tenant(&mut self, job: JobId, gpu: GpuIndex, stoppable: bool) -> Result<TenantId, Error> {
        let mut tables = self.storage.tables();
        tables.gpu(gpu).ok_or(Error::UnknownGpu)?;
        tables.find_job(job).ok_or(Error::UnknownJob)?;
        let (index, slot) = free(tables.tenants, |tenant| tenant.live)?;
        let generation = slot.generation.wrapping_add(1);
        *slot = TenantSlot { live: true, generation, stoppable, gpu, ..TenantSlot::EMPTY };
        tables.link(index, job.index);
        self.changed();
        Ok(TenantId { index, generation })
    }

    /// Sets whether a tenant can be stopped.
    ///
    /// # Errors
    /// [`Error::UnknownTenant`].
    pub fn set_stoppable(&mut self, id: TenantId, stoppable: bool) -> Result<(), Error> {
        self.storage.tables().find_tenant(id).ok_or(Error::UnknownTenant)?.stoppable = stoppable;
        self.stale = true;
        Ok(())
    }

    /// Removes a tenant: its process ended or its last queue was destroyed.
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

    /// Records an observation of a tenant. One that is older than the last is ignored.
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
        if look.activity == Activity::Running {
            tenant.ran_at = look.at;
        }
        self.newest = self.newest.max(look.at);
        let before = core::mem::replace(&mut tenant.seen, look);
        let reached = match tenant.pending() {
            Some(Action::Preempt) => look.queues > 0 && look.stopped_queues == look.queues,
            Some(Action::Resume) => look.stopped_queues == 0,
            None => false,
        };
        if reached && tenant.open.is_some_and(|open| look.at > open.planned_at) {
            // The report is late or lost, but the observation shows that the entry took effect.
            tenant.stop_waiting();
            self.stale = true;
        }
        self.stale |= Observation { at: look.at, ..before } != look;
        Ok(())
    }

    /// Records the result of the entry `number`: once, and only of the last entry that was planned for the tenant.
    /// Decisions may have stopped waiting for it.
    ///
    /// # Errors
    /// [`Error::UnknownTenant`]. [`Error::StaleEntry`] if the entry was reported before, or if a newer one was planned
    /// for the tenant: it timed out, and its result is told by observations only. That is no mistake of the host.
    pub fn report(&mut self, id: TenantId, number: EntryNumber, report: Report) -> Result<(), Error> {
        let mut tables = self.storage.tables();
        let tenant = tables.find_tenant(id).ok_or(Error::UnknownTenant)?;
        let is_last = |open: &mut OpenEntry| open.number == number || mutant!(AcceptsOldReports);
        let entry = tenant.open.take_if(is_last).ok_or(Error::StaleEntry)?;
        let action = entry.action;
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
            tenant.refusals = 0;
            tenant.retry_at = Nanos::ZERO;
        } else {
            let doublings = u32::from(tenant.failures).min(RETRY_DOUBLINGS);
            tenant.failures = tenant.failures.saturating_add(1);
            if action == Action::Preempt {
                tenant.refusals = tenant.refusals.saturating_add(1);
            }
            tenant.retry_at = report.at.plus(RETRY.times(1 << doublings));
            if mutant!(NoRetry) {
                tenant.retry_at = Nanos::NEVER;
            }
        }
        let (gpu, job) = (tenant.gpu, tenant.job);
        if done
            && action == Action::Resume
            && let Some(job) = tables.job_mut(job).filter(|job| job.phase == Phase::Running)
        {
            // Exempt time begins when the driver has resumed the job.
            job.resumed_at = job.resumed_at.max(report.at);
            job.slice_start = job.slice_start.max(report.at);
            job.exempt_until = job.exempt_until.max(report.at.plus(job.exempt_for));
        }
        if let Some(gpu) = tables.gpu_mut(gpu) {
            gpu.settle(&entry, report.cycles.unwrap_or(entry.cycles));
            let each = report.took.0.checked_div(u64::from(report.cycles.unwrap_or(1))).unwrap_or(0);
            if stopped.is_some() && each > 0 {
                gpu.measured(Nanos(each));
            }
        }
        self.stale = true;
        Ok(())
    }

    /// Decides what to do now. Cheap if nothing changed and nothing is due. The host must execute the entries and
    /// report each of them; an entry without a report counts as lost after `report_timeout`.
    pub fn decide(&mut self, now: Nanos, cost: &dyn Cost) -> Plan<'_> {
        // A clock that runs backwards is treated as one that stands still.
        let now = now.max(self.last);
        // The next decision corrects an observation from the future, so there must be one.
        self.stale |= self.newest > now;
        self.newest = self.newest.min(now);
        let skip = !self.stale && now < self.wake;
        let skip = skip || (mutant!(CountsCalls) && odd_call());
        let mut length = 0;
        if !skip {
            let mut tables = self.storage.tables();
            if self.regroup {
                self.jobs = regroup(&mut tables);
            }
            let found = Found { new_ranks: self.regroup, ..Found::default() };
            let mut moment = Moment { now, last: self.last, wake: Nanos::NEVER, cost, number: self.number, found };
            length = decide::decide(&mut tables, &mut moment, self.jobs);
            if self.regroup {
                self.overcommitted = decide::overcommitted(&tables);
            }
            self.wake = moment.wake;
            self.number = moment.number;
            self.last = now;
            self.stale = false;
            self.regroup = false;
        }
        let entries = self.storage.tables().plan;
        let entries: &[crate::Entry] = entries;
        Plan { entries: entries.get(..length).unwrap_or(&[]), wake: self.wake, overcommitted: self.overcommitted }
    }

    /// Notes that jobs, tenants, gpus or settings changed.
    fn changed(&mut self) {
        self.stale = true;
        self.regroup = true;
    }
}

/// Returns a free slot and its index.
fn free<T>(slots: &mut [T], used: impl Fn(&T) -> bool) -> Result<(u32, &mut T), Error> {
    let (index, slot) = slots.iter_mut().enumerate().find(|(_, slot)| !used(slot)).ok_or(Error::Full)?;
    Ok((u32::try_from(index).map_err(|_| Error::Full)?, slot))
}

/// Lists the slots of all jobs in `order` and returns their number. The decision sorts them.
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
