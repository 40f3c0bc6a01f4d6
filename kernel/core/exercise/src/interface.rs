//! The C functions.

use core::ffi::{c_int, c_void};
use core::ptr;

use gpreempt_kernel_core::{Gpc, GpcProbe, gpc_init, gpc_probe_init, gpc_probe_size, gpc_size};

use crate::machine::{GPUS, JOBS, Machine, TENANTS};
use crate::process::RINGS;

const EINVAL: c_int = 22;
const ALIGN: usize = 64;

/// What was done so far (`gpcx_result`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpcxResult {
    /// Checksum of all answers.
    pub checksum: u64,
    /// Decisions.
    pub decisions: u64,
    /// Those that planned something.
    pub plans: u64,
    /// Entries of these plans.
    pub entries: u64,
    /// Entries that preempt.
    pub preempts: u64,
    /// Looks at rings.
    pub polls: u64,
    /// Time of all decisions, by the caller's clock.
    pub decide_ns: u64,
    /// Time of the longest.
    pub longest_ns: u64,
}

/// Bytes of the machine, as many as keep the scheduler behind it aligned.
const MACHINE: usize = size_of::<Machine>().next_multiple_of(ALIGN);

/// Returns the bytes of an exercise.
#[unsafe(no_mangle)]
pub extern "C" fn gpcx_size() -> usize {
    MACHINE + scheduler_size() + gpc_probe_size(RINGS)
}

/// Bytes of the scheduler, as many as keep the probe behind it aligned.
fn scheduler_size() -> usize {
    gpc_size(GPUS, JOBS, TENANTS).next_multiple_of(ALIGN)
}

/// Begins an exercise.
///
/// # Safety
/// `memory` points to `size` bytes, which nothing else uses until the last call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpcx_init(memory: *mut c_void, size: usize, seed: u64) -> c_int {
    if memory.is_null() || !memory.addr().is_multiple_of(ALIGN) || size < gpcx_size() {
        return -EINVAL;
    }
    // SAFETY: there are that many bytes, and zeros are a machine.
    let (machine, gpc, probe) = unsafe {
        ptr::write_bytes(memory.cast::<u8>(), 0, MACHINE);
        let gpc = memory.byte_add(MACHINE).cast::<Gpc>();
        (&mut *memory.cast::<Machine>(), gpc, gpc.byte_add(scheduler_size()).cast::<GpcProbe>())
    };
    // SAFETY: the rest of the memory is the scheduler's and the probe's.
    let begun = unsafe {
        match gpc_init(gpc.cast(), scheduler_size(), GPUS, JOBS, TENANTS) {
            0 => gpc_probe_init(probe.cast(), gpc_probe_size(RINGS), RINGS),
            error => error,
        }
    };
    if begun == 0 {
        machine.begin(gpc, probe, seed);
    }
    begun
}

/// Makes so many decisions more.
///
/// # Safety
/// `exercise` was given to [`gpcx_init`], and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpcx_run(
    exercise: *mut Machine,
    decisions: u32,
    clock: Option<extern "C" fn() -> u64>,
) -> c_int {
    if exercise.is_null() || !exercise.is_aligned() {
        return -EINVAL;
    }
    // SAFETY: the caller's promise.
    let machine = unsafe { &mut *exercise };
    for _ in 0..decisions {
        machine.step(clock);
    }
    0
}

/// Stores what was done so far.
///
/// # Safety
/// `exercise` was given to [`gpcx_init`], and `result` points to memory for a result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpcx_result(exercise: *const Machine, result: *mut GpcxResult) -> c_int {
    if exercise.is_null() || !exercise.is_aligned() || result.is_null() || !result.is_aligned() {
        return -EINVAL;
    }
    // SAFETY: the caller's promise.
    unsafe { result.write((*exercise).result) };
    0
}
