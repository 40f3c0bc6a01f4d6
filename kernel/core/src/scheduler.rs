//! What changes the scheduler: gpus, jobs, tenants, looks, reports; and the decision.

use core::ffi::c_int;

use gpreempt_core::{ActuatorKind, EntryNumber, GpuIndex, JobId, Nanos, TenantId};
use gpreempt_kernel_abi::{RawGpuParams, RawJobParams};

use crate::errno::{Errno, code, number};
use crate::memory::{argument, can_store, store};
use crate::place::{Gpc, scheduler_mut};
use crate::types::{GpcEntry, GpcLook, GpcReport};

/// Returns the gpu of an index.
pub(crate) fn gpu_of(index: u32) -> Result<GpuIndex, Errno> {
    GpuIndex::new(index as usize).ok_or(Errno::Invalid)
}

/// Returns the job of a number.
pub(crate) fn job_of(bits: u64) -> Result<JobId, Errno> {
    JobId::from_bits(bits).ok_or(Errno::NoEntry)
}

/// Returns the tenant of a number.
pub(crate) fn tenant_of(bits: u64) -> Result<TenantId, Errno> {
    TenantId::from_bits(bits).ok_or(Errno::NoEntry)
}

/// Defines functions that change a scheduler and return zero or an error.
///
/// Their pointers have to be what `gpreempt_core.h` says: that is checked as far as it can be.
macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($gpc:ident $(, $argument:ident: $kind:ty)* $(,)?) $body:block
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Pointers that are neither null nor misaligned point to what the header says, which nothing else uses.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(gpc: *mut Gpc $(, $argument: $kind)*) -> c_int {
            // SAFETY: the caller's promise about pointers is passed on.
            let call = || unsafe {
                let $gpc = scheduler_mut(gpc)?;
                $body
            };
            code(call())
        }
    )*};
}

calls! {
    /// Adds a gpu, or changes its settings.
    fn gpc_set_gpu(gpc, gpu: u32, params: *const RawGpuParams) {
        let params = argument(params)?.try_into()?;
        Ok(gpc.scheduler.set_gpu(gpu_of(gpu)?, params)?)
    }

    /// Removes a gpu without tenants.
    fn gpc_remove_gpu(gpc, gpu: u32) {
        Ok(gpc.scheduler.remove_gpu(gpu_of(gpu)?)?)
    }

    /// Sets whether a gpu is being reset.
    fn gpc_set_resetting(gpc, gpu: u32, resetting: bool) {
        Ok(gpc.scheduler.set_resetting(gpu_of(gpu)?, resetting)?)
    }

    /// Adds a job without tenants, and stores its number.
    fn gpc_add_job(gpc, params: *const RawJobParams, job: *mut u64) {
        let params = argument(params)?.try_into()?;
        can_store(job)?;
        store(job, gpc.scheduler.add_job(params)?.to_bits())
    }

    /// Changes the settings of a job.
    fn gpc_set_job(gpc, job: u64, params: *const RawJobParams) {
        let params = argument(params)?.try_into()?;
        Ok(gpc.scheduler.set_job(job_of(job)?, params)?)
    }

    /// Stops a job until then; zero ends that.
    fn gpc_hold(gpc, job: u64, until_ns: u64) {
        Ok(gpc.scheduler.hold(job_of(job)?, Nanos(until_ns))?)
    }

    /// Removes a job without tenants.
    fn gpc_remove_job(gpc, job: u64) {
        Ok(gpc.scheduler.remove_job(job_of(job)?)?)
    }

    /// Adds a tenant to a job, and stores its number.
    fn gpc_add_tenant(gpc, job: u64, gpu: u32, stoppable: bool, tenant: *mut u64) {
        can_store(tenant)?;
        store(tenant, gpc.scheduler.add_tenant(job_of(job)?, gpu_of(gpu)?, stoppable)?.to_bits())
    }

    /// Sets whether a tenant can be stopped.
    fn gpc_set_stoppable(gpc, tenant: u64, stoppable: bool) {
        Ok(gpc.scheduler.set_stoppable(tenant_of(tenant)?, stoppable)?)
    }

    /// Removes a tenant.
    fn gpc_remove_tenant(gpc, tenant: u64) {
        Ok(gpc.scheduler.remove_tenant(tenant_of(tenant)?)?)
    }

    /// Records what was seen of a tenant.
    fn gpc_observe(gpc, tenant: u64, look: *const GpcLook) {
        let look = argument(look)?.try_into()?;
        Ok(gpc.scheduler.observe(tenant_of(tenant)?, look)?)
    }

    /// Records the result of an entry.
    fn gpc_report(gpc, tenant: u64, number: u64, report: *const GpcReport) {
        let report = argument(report)?.try_into()?;
        Ok(gpc.scheduler.report(tenant_of(tenant)?, EntryNumber(number), report)?)
    }
}

/// Decides; stores the entries of the plan and when to decide again. Returns the number of entries.
///
/// # Safety
/// Pointers that are neither null nor misaligned point to what the header says, which nothing else uses; `entries` to
/// `room` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_decide(
    gpc: *mut Gpc,
    now_ns: u64,
    entries: *mut GpcEntry,
    room: u32,
    wake_ns: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    number(unsafe { decide(gpc, now_ns, entries, room, wake_ns) })
}

/// # Safety
/// As [`gpc_decide`].
unsafe fn decide(
    gpc: *mut Gpc,
    now_ns: u64,
    entries: *mut GpcEntry,
    room: u32,
    wake_ns: *mut u64,
) -> Result<c_int, Errno> {
    // SAFETY: the caller's promise.
    let gpc = unsafe { scheduler_mut(gpc)? };
    can_store(entries)?;
    can_store(wake_ns)?;
    if (room as usize) < gpc.tenants {
        return Err(Errno::Invalid);
    }
    let plan = gpc.scheduler.decide(Nanos(now_ns), &ActuatorKind::Combined);
    for (index, entry) in plan.entries.iter().enumerate() {
        // SAFETY: a plan has at most as many entries as there are slots of tenants, for which there is room.
        unsafe { entries.add(index).write(GpcEntry::from(entry)) };
    }
    // SAFETY: the pointer was checked.
    unsafe { store(wake_ns, plan.wake.0)? };
    c_int::try_from(plan.entries.len()).map_err(|_| Errno::NoSpace)
}
