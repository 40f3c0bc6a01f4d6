//! Scalar memory instructions.

use crate::inst::{Env, Flow, Inst, Op, Stop};
use crate::memory::Fault;
use crate::wave::Wave;

mod address;
mod atomic;
mod cache;
mod transfer;

pub(crate) fn families() -> Vec<&'static [Op]> {
    vec![transfer::OPS, atomic::OPS, cache::OPS]
}

/// First data register.
fn data(inst: &Inst) -> usize {
    ((inst.words[0] >> 6) & 0x7F) as usize
}

/// Whether an atomic returns what memory held before.
fn returns(inst: &Inst) -> bool {
    inst.words[0] & (1 << 16) != 0
}

/// Stops the wave at an access that failed.
fn faulted(env: &mut Env<'_>, fault: Fault) -> Flow {
    env.stopped(Stop::Memory(fault))
}

/// Data registers as bytes of memory.
fn registers<const DWORDS: usize>(wave: &Wave, first: usize) -> [u32; DWORDS] {
    std::array::from_fn(|n| wave.s[(first + n) & 127])
}

/// Writes data registers.
fn set_registers(wave: &mut Wave, first: usize, values: &[u32]) {
    for (n, value) in values.iter().enumerate() {
        wave.s[(first + n) & 127] = *value;
    }
}
