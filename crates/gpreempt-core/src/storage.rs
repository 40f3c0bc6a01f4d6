//! The slots of the core as the host provides them, and as the core borrows them.

use crate::state::{GpuSlot, JobSlot, NONE, Phase, Stop, TenantSlot};
use crate::{Entry, GpuIndex, JobId, TenantId};

/// The slots of a scheduler, borrowed from the host's storage.
#[derive(Debug)]
pub struct Tables<'a> {
    /// One per gpu; at most [`GpuSet::CAPACITY`](crate::GpuSet::CAPACITY) are used.
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

/// The slots of gpus, jobs and tenants, borrowed to be read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// See [`Tables::gpus`].
    pub gpus: &'a [GpuSlot],
    /// See [`Tables::jobs`].
    pub jobs: &'a [JobSlot],
    /// See [`Tables::tenants`].
    pub tenants: &'a [TenantSlot],
}

/// Memory for the slots: vectors in a daemon, borrowed memory in a kernel.
pub trait Storage {
    /// Borrows all slots. Must return the same slots in every call.
    fn tables(&mut self) -> Tables<'_>;

    /// Borrows the slots of [`Storage::tables`] to read them.
    fn view(&self) -> View<'_>;
}

/// Storage made of anything that borrows as a slice: arrays, vectors, boxes, borrowed memory.
///
/// A host whose stack is small, such as a kernel, makes it of `&mut` slices: then nothing that grows with the number of
/// slots is ever moved. The memory behind them must hold valid slots before it is borrowed: a static array of `EMPTY`
/// slots, or allocated memory into which the host has written [`GpuSlot::EMPTY`], [`JobSlot::EMPTY`],
/// [`TenantSlot::EMPTY`], zero and [`Entry::EMPTY`] one by one. Zeroed memory is not enough: the representation of the
/// slots is unspecified.
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
    G: AsRef<[GpuSlot]> + AsMut<[GpuSlot]>,
    J: AsRef<[JobSlot]> + AsMut<[JobSlot]>,
    T: AsRef<[TenantSlot]> + AsMut<[TenantSlot]>,
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

    fn view(&self) -> View<'_> {
        View { gpus: self.gpus.as_ref(), jobs: self.jobs.as_ref(), tenants: self.tenants.as_ref() }
    }
}

impl<'a> View<'a> {
    pub(crate) fn gpu(self, id: GpuIndex) -> Option<&'a GpuSlot> {
        self.gpus.get(usize::from(id.0)).filter(|gpu| gpu.live)
    }

    pub(crate) fn job(self, index: u32) -> Option<&'a JobSlot> {
        self.jobs.get(index as usize).filter(|job| job.live)
    }

    pub(crate) fn find_job(self, id: JobId) -> Option<&'a JobSlot> {
        self.job(id.index).filter(|job| job.generation == id.generation)
    }

    pub(crate) fn find_tenant(self, id: TenantId) -> Option<&'a TenantSlot> {
        self.tenants.get(id.index as usize).filter(|tenant| tenant.live && tenant.generation == id.generation)
    }

    /// Returns the id of the job in a slot.
    pub(crate) fn job_id(self, index: u32) -> Option<JobId> {
        self.job(index).map(|job| JobId { index, generation: job.generation })
    }

    /// Returns the slot of the job that caused `stop`, if that job still exists.
    pub(crate) fn cause_of(self, stop: Stop) -> Option<&'a JobSlot> {
        self.job(stop.cause).filter(|job| job.generation == stop.cause_generation)
    }

    /// Returns the id of the job that caused `stop`, if that job still exists.
    pub(crate) fn cause_id(self, stop: Stop) -> Option<JobId> {
        self.cause_of(stop).map(|job| JobId { index: stop.cause, generation: job.generation })
    }

    /// Lists the gpus that exist.
    pub(crate) fn live_gpus(self) -> impl Iterator<Item = (GpuIndex, &'a GpuSlot)> {
        let ids = (0..).map_while(GpuIndex::new);
        ids.zip(self.gpus).filter(|(_, gpu)| gpu.live)
    }
}

impl Tables<'_> {
    /// Borrows the slots to read them.
    pub(crate) fn view(&self) -> View<'_> {
        View { gpus: self.gpus, jobs: self.jobs, tenants: self.tenants }
    }

    pub(crate) fn gpu(&self, id: GpuIndex) -> Option<&GpuSlot> {
        self.view().gpu(id)
    }

    pub(crate) fn gpu_mut(&mut self, id: GpuIndex) -> Option<&mut GpuSlot> {
        self.gpus.get_mut(usize::from(id.0)).filter(|gpu| gpu.live)
    }

    pub(crate) fn job(&self, index: u32) -> Option<&JobSlot> {
        self.view().job(index)
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
