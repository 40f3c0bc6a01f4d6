//! A host as a kernel would link it: the whole interface over borrowed slots. `tests/kernel.rs` compiles it; it is
//! never run.
#![no_std]
#![allow(missing_docs, reason = "compiled for its object code only")]

use core::mem::MaybeUninit;

use gpreempt_core::Nanos;
use gpreempt_observe::*;

pub type Probe = TenantProbe<&'static mut [RingState]>;

unsafe extern "C" {
    safe fn host_read(context: usize, address: u64, to: *mut u8, size: usize) -> i32;
}

/// Memory that is read by a function of the kernel.
pub struct UserMemory(pub usize);

impl TenantMemory for UserMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), ReadFailure> {
        match host_read(self.0, address, bytes.as_mut_ptr(), bytes.len()) {
            0 => Ok(()),
            1 => Err(ReadFailure::Gone),
            _ => Err(ReadFailure::Away),
        }
    }
}

/// Memory of the module, filled by the compiler.
pub static RINGS: [RingState; 4] = [RingState::EMPTY; 4];

/// Fills allocated memory in place.
#[unsafe(no_mangle)]
pub fn kernel_fill(
    rings: &mut [MaybeUninit<RingState>],
    scratch: &mut MaybeUninit<Scratch>,
    probe: &mut MaybeUninit<Probe>,
    slots: &'static mut [RingState],
) {
    rings.iter_mut().for_each(|slot| {
        slot.write(RingState::EMPTY);
    });
    scratch.write(Scratch::EMPTY);
    probe.write(TenantProbe::new(slots));
}

#[unsafe(no_mangle)]
pub fn kernel_set_rings(probe: &mut Probe, rings: &[RingPlace]) -> usize {
    let unwatched = probe.set_rings(rings.iter().copied());
    unwatched.invalid + unwatched.no_room + probe.unwatched().no_room
}

#[unsafe(no_mangle)]
pub fn kernel_poll(probe: &mut Probe, scratch: &mut Scratch, context: usize, now: u64, stopped: bool) -> i64 {
    match probe.poll(&UserMemory(context), scratch, Nanos(now), stopped) {
        Ok(found) if found.activity.has_work() => found.pending.cast_signed(),
        Ok(found) => i64::from(found.unsure),
        Err(PollError::Gone { .. }) => -14,
        Err(PollError::Away) => -11,
    }
}

#[unsafe(no_mangle)]
pub fn kernel_sampled(probe: &mut Probe, context: usize, at: u64, cus: u32, evicted_ms: u64, alone: bool) -> u32 {
    probe.sampled(&UserMemory(context), Nanos(at), Some(cus), Some(evicted_ms), alone);
    if probe.refutes_retirement() {
        probe.refute_retirement();
    }
    u32::from(probe.trusts_index()) | u32::from(probe.failed()) << 1
}
