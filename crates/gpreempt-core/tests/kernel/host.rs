//! A host as a kernel would link it: the whole interface of the core over borrowed slots. `tests/kernel.rs` compiles
//! it; it is never run.
#![no_std]
#![allow(missing_docs, reason = "compiled for its object code only")]

use core::mem::MaybeUninit;

use gpreempt_core::*;

pub type Static = Parts<
    &'static mut [GpuSlot],
    &'static mut [JobSlot],
    &'static mut [TenantSlot],
    &'static mut [u32],
    &'static mut [Entry],
>;

/// Memory of the module, filled by the compiler.
pub static SLOTS: ([GpuSlot; 8], [JobSlot; 64], [TenantSlot; 128], [Entry; 128]) =
    ([GpuSlot::EMPTY; 8], [JobSlot::EMPTY; 64], [TenantSlot::EMPTY; 128], [Entry::EMPTY; 128]);

/// Fills allocated memory in place.
#[unsafe(no_mangle)]
pub fn kernel_fill(
    gpus: &mut [MaybeUninit<GpuSlot>],
    jobs: &mut [MaybeUninit<JobSlot>],
    tenants: &mut [MaybeUninit<TenantSlot>],
    plan: &mut [MaybeUninit<Entry>],
) {
    gpus.iter_mut().for_each(|slot| drop(slot.write(GpuSlot::EMPTY)));
    jobs.iter_mut().for_each(|slot| drop(slot.write(JobSlot::EMPTY)));
    tenants.iter_mut().for_each(|slot| drop(slot.write(TenantSlot::EMPTY)));
    plan.iter_mut().for_each(|slot| drop(slot.write(Entry::EMPTY)));
}

#[unsafe(no_mangle)]
pub fn kernel_new(storage: Static) -> Result<Scheduler<Static>, Error> {
    Scheduler::new(storage)
}

#[unsafe(no_mangle)]
pub fn kernel_setup(
    core: &mut Scheduler<Static>,
    gpu: u8,
    params: GpuParams,
    job: JobParams,
) -> Result<TenantId, Error> {
    core.set_gpu(GpuIndex(gpu), params)?;
    core.set_resetting(GpuIndex(gpu), false)?;
    let id = core.add_job(job)?;
    core.set_job(id, job)?;
    core.hold(id, Nanos::NEVER)?;
    core.release(id)?;
    let tenant = core.add_tenant(id, GpuIndex(gpu), true)?;
    core.set_stoppable(tenant, false)?;
    Ok(tenant)
}

#[unsafe(no_mangle)]
pub fn kernel_teardown(core: &mut Scheduler<Static>, tenant: TenantId, job: JobId) -> Result<(), Error> {
    core.remove_tenant(tenant)?;
    core.remove_gpu(GpuIndex(0))?;
    core.remove_job(job)
}

#[unsafe(no_mangle)]
pub fn kernel_tick(
    core: &mut Scheduler<Static>,
    tenant: TenantId,
    look: Observation,
    entry: EntryNumber,
    report: Report,
    now: u64,
    actuator: ActuatorKind,
) -> u64 {
    let _ = core.observe(tenant, look);
    let _ = core.report(tenant, entry, report);
    let plan = core.decide(Nanos(now), &actuator);
    plan.wake.0.wrapping_add(plan.entries.len() as u64)
}

/// Leads from one list to another: the jobs and gpus of tenants whose occupancy matters.
#[unsafe(no_mangle)]
pub fn kernel_list(core: &Scheduler<Static>) -> usize {
    let sampled = core.tenants().filter(|&id| core.wants_occupancy(id));
    let tenants = sampled.filter_map(|id| core.tenant(id));
    let placed = tenants.filter(|tenant| core.jobs().any(|job| job == tenant.job));
    placed.filter(|tenant| core.gpus().any(|gpu| gpu == tenant.gpu)).count()
}

#[unsafe(no_mangle)]
pub fn kernel_show(core: &Scheduler<Static>, job: JobId, gpu: u8, actuator: ActuatorKind) -> Option<u64> {
    let status = core.job(job)?;
    let gpu_status = core.gpu(GpuIndex(gpu))?;
    let inversion = core.inversion_bound(GpuIndex(gpu), job, Nanos::ZERO, &actuator)?;
    let starvation = core.starvation_bound(job, Nanos::ZERO)?;
    let total = bounds::inversion(&inversion).plus(bounds::starvation(&starvation));
    Some(total.plus(gpu_status.cycle).0.wrapping_add(u64::from(status.victims)))
}
