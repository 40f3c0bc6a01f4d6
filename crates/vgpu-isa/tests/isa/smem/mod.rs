//! Cases of scalar memory instructions.

mod atomic;
mod other;
mod place;
mod transfer;

use vgpu_isa::inst::{Flow, Stop};
use vgpu_isa::memory::{Access, Fault};

use crate::harness::{Case, Machine, same};

pub(crate) fn cases() -> Vec<Case> {
    [transfer::cases(), atomic::cases(), other::cases()].into_iter().flatten().collect()
}

/// The wave stopped at an access and nothing changed.
fn faulted(before: &Machine, after: &Machine, address: u64, access: Access, mapped: bool) -> Result<(), String> {
    same("flow", after.flow, Flow::Stop)?;
    same("stop", after.stop.clone(), Some(Stop::Memory(Fault { address, access, mapped })))?;
    same("registers", after.wave.s, before.wave.s)
}

/// The next instruction follows, and registers and memory changed as named, nothing else.
fn changed(
    before: &Machine,
    after: &Machine,
    registers: &[(usize, u32)],
    memory: &[(usize, u32)],
) -> Result<(), String> {
    same("flow", after.flow, Flow::Next)?;
    same("stop", after.stop.clone(), None)?;
    let mut want = before.wave.s;
    for &(register, value) in registers {
        want[register] = value;
    }
    for (register, (got, want)) in after.wave.s.iter().zip(want).enumerate() {
        same(&format!("s{register}"), *got, want)?;
    }
    let mut bytes = before.bytes();
    for &(offset, value) in memory {
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
    if after.bytes() != bytes {
        let at = after.bytes().iter().zip(&bytes).position(|(got, want)| got != want);
        return Err(format!("memory differs at {at:x?}"));
    }
    same("scc", after.wave.scc, before.wave.scc)
}
