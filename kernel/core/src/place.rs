//! The scheduler in the memory of the caller: a head, and behind it the slots of the core.

use core::alloc::Layout;
use core::ffi::{c_int, c_void};

use gpreempt_core::{Entry, GpuSlot, JobSlot, Parts, Scheduler, TenantSlot};
use gpreempt_kernel_abi::{MAX_GPUS, MAX_JOBS, MAX_TENANTS};

use crate::errno::{Errno, code};
use crate::memory::{Magic, after, check_memory, fill};

/// "gpreempt".
const MAGIC: u64 = 0x6770_7265_656D_7074;

/// Slots in the memory behind the head. The lifetime is that of the memory, and so of the scheduler.
type Slots = Parts<
    &'static mut [GpuSlot],
    &'static mut [JobSlot],
    &'static mut [TenantSlot],
    &'static mut [u32],
    &'static mut [Entry],
>;

/// A scheduler (`gpc`).
#[repr(C, align(64))]
pub struct Gpc {
    magic: Magic,
    /// Most tenants: as long is the longest plan.
    pub(crate) tenants: usize,
    pub(crate) scheduler: Scheduler<Slots>,
}

/// Where things lie, in bytes from the start.
struct Plot {
    gpus: usize,
    jobs: usize,
    tenants: usize,
    order: usize,
    plan: usize,
    size: usize,
}

impl Plot {
    /// Returns the places of so many slots; `None` if there are none of a kind, or too many.
    fn new(gpus: usize, jobs: usize, tenants: usize) -> Option<Plot> {
        let fits = (1..=MAX_GPUS).contains(&gpus) && (1..=MAX_JOBS).contains(&jobs);
        if !fits || !(1..=MAX_TENANTS).contains(&tenants) {
            return None;
        }
        let (all, gpus) = after::<GpuSlot>(Layout::new::<Gpc>(), gpus)?;
        let (all, first_job) = after::<JobSlot>(all, jobs)?;
        let (all, first_tenant) = after::<TenantSlot>(all, tenants)?;
        let (all, order) = after::<u32>(all, jobs)?;
        let (all, plan) = after::<Entry>(all, tenants)?;
        Some(Plot { gpus, jobs: first_job, tenants: first_tenant, order, plan, size: all.pad_to_align().size() })
    }
}

/// Returns the numbers of slots as sizes; a `u32` always fits.
fn counts(gpus: u32, jobs: u32, tenants: u32) -> (usize, usize, usize) {
    (gpus as usize, jobs as usize, tenants as usize)
}

/// Returns the bytes of a scheduler for so many gpus, jobs and tenants; zero if that cannot be.
#[unsafe(no_mangle)]
pub extern "C" fn gpc_size(gpus: u32, jobs: u32, tenants: u32) -> usize {
    let (gpus, jobs, tenants) = counts(gpus, jobs, tenants);
    Plot::new(gpus, jobs, tenants).map_or(0, |plot| plot.size)
}

/// Makes a scheduler in memory of the caller.
///
/// # Safety
/// `memory` points to `size` bytes, which nothing else uses as long as the scheduler is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpc_init(memory: *mut c_void, size: usize, gpus: u32, jobs: u32, tenants: u32) -> c_int {
    // SAFETY: the caller's promise is passed on.
    code(unsafe { init(memory.cast(), size, counts(gpus, jobs, tenants)) })
}

/// # Safety
/// As [`gpc_init`].
unsafe fn init(memory: *mut u8, size: usize, (gpus, jobs, tenants): (usize, usize, usize)) -> Result<(), Errno> {
    let plot = Plot::new(gpus, jobs, tenants).ok_or(Errno::Invalid)?;
    check_memory(memory, size, plot.size)?;
    // SAFETY: the layout puts each array into the memory, aligned, and no two of them into the same place.
    let slots = unsafe {
        Parts {
            gpus: fill(memory.add(plot.gpus).cast(), gpus, &GpuSlot::EMPTY),
            jobs: fill(memory.add(plot.jobs).cast(), jobs, &JobSlot::EMPTY),
            tenants: fill(memory.add(plot.tenants).cast(), tenants, &TenantSlot::EMPTY),
            order: fill(memory.add(plot.order).cast(), jobs, &0),
            plan: fill(memory.add(plot.plan).cast(), tenants, &Entry::EMPTY),
        }
    };
    let scheduler = Scheduler::new(slots)?;
    let head = memory.cast::<Gpc>();
    // SAFETY: the head comes first in the layout, and is aligned as the memory is.
    unsafe { head.write(Gpc { magic: Magic::at(head, MAGIC), tenants, scheduler }) };
    Ok(())
}

/// Borrows the scheduler to change it.
///
/// # Safety
/// A pointer that is neither null nor misaligned can be read, and no other call uses the scheduler.
pub(crate) unsafe fn scheduler_mut<'a>(gpc: *mut Gpc) -> Result<&'a mut Gpc, Errno> {
    // SAFETY: the magic word comes first; what has it is a scheduler.
    unsafe {
        Magic::check(gpc, MAGIC)?;
        Ok(&mut *gpc)
    }
}

/// Borrows the scheduler to read it.
///
/// # Safety
/// A pointer that is neither null nor misaligned can be read, and no other call changes the scheduler.
pub(crate) unsafe fn scheduler<'a>(gpc: *const Gpc) -> Result<&'a Gpc, Errno> {
    // SAFETY: the magic word comes first; what has it is a scheduler.
    unsafe {
        Magic::check(gpc, MAGIC)?;
        Ok(&*gpc)
    }
}
