//! What only reads the scheduler.

use core::ffi::c_int;

use gpreempt_core::{JobId, Phase};
use gpreempt_kernel_abi::RawReason;

use crate::errno::{Errno, code, number};
use crate::memory::store;
use crate::place::{Gpc, scheduler};
use crate::scheduler::{gpu_of, job_of, tenant_of};
use crate::types::{GpcGpuState, GpcJobState};

/// Stores the state of a job.
///
/// # Safety
/// Pointers that are neither null nor misaligned point to what the header says; nothing changes the scheduler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_job_state(gpc: *const Gpc, job: u64, state: *mut GpcJobState) -> c_int {
    // SAFETY: the caller's promise about pointers is passed on.
    let call = || unsafe {
        let job = scheduler(gpc)?.scheduler.job(job_of(job)?).ok_or(Errno::NoEntry)?;
        let found = GpcJobState {
            cause: job.cause.map_or(0, JobId::to_bits),
            stopped_at_ns: job.stopped_at.0,
            stopped: u32::from(job.phase == Phase::Stopped),
            reason: job.reason.into(),
            works: u32::from(job.works),
            reserved: 0,
        };
        store(state, found)
    };
    code(call())
}

/// Stores the state of a gpu.
///
/// # Safety
/// Pointers that are neither null nor misaligned point to what the header says; nothing changes the scheduler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_gpu_state(gpc: *const Gpc, gpu: u32, state: *mut GpcGpuState) -> c_int {
    // SAFETY: the caller's promise about pointers is passed on.
    let call = || unsafe {
        let gpu = scheduler(gpc)?.scheduler.gpu(gpu_of(gpu)?).ok_or(Errno::NoEntry)?;
        let found = GpcGpuState {
            holder: gpu.holder.map_or(0, JobId::to_bits),
            cycle_ns: gpu.cycle.0,
            cycles: gpu.cycles,
            measured: u32::from(gpu.measured),
            overcommitted: u32::from(gpu.overcommitted),
        };
        store(state, found)
    };
    code(call())
}

/// Returns whether the next decision may depend on a sample of the occupancy of a tenant.
///
/// # Safety
/// A pointer that is neither null nor misaligned points to a scheduler, which nothing changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_wants_occupancy(gpc: *const Gpc, tenant: u64) -> bool {
    // SAFETY: the caller's promise is passed on.
    let Ok(gpc) = (unsafe { scheduler(gpc) }) else { return false };
    tenant_of(tenant).is_ok_and(|tenant| gpc.scheduler.wants_occupancy(tenant))
}

/// Returns the reason for which the policy could ever stop `lower` for `upper`, or an error if it never would.
///
/// # Safety
/// A pointer that is neither null nor misaligned points to a scheduler, which nothing changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_could_displace(gpc: *const Gpc, upper: u64, lower: u64, gpu: u32) -> c_int {
    let call = || {
        // SAFETY: the caller's promise is passed on.
        let gpc = unsafe { scheduler(gpc)? };
        let reason = gpc.scheduler.could_displace(job_of(upper)?, job_of(lower)?, gpu_of(gpu)?);
        c_int::try_from(RawReason::from(reason.ok_or(Errno::NoEntry)?).0).map_err(|_| Errno::Invalid)
    };
    number(call())
}

/// Returns whether the policy could ever stop a job although no other wants the gpu.
///
/// # Safety
/// A pointer that is neither null nor misaligned points to a scheduler, which nothing changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_could_throttle(gpc: *const Gpc, job: u64, gpu: u32) -> bool {
    // SAFETY: the caller's promise is passed on.
    let Ok(gpc) = (unsafe { scheduler(gpc) }) else { return false };
    let (Ok(job), Ok(gpu)) = (job_of(job), gpu_of(gpu)) else { return false };
    gpc.scheduler.could_throttle(job, gpu)
}
