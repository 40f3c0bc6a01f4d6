//! Cases of scalar instructions.
//!
//! Most instructions are a row of a table: mnemonic, widths, and an oracle that works with wide integers, divisions and
//! loops over bits. Every row becomes cases with registers, inline constants, literals, VCC and overlapping registers.

mod compare;
mod constant;
mod control;
mod flow;
mod hwreg;
mod mask;
mod moves;
mod one;
mod operands;
mod two;

use vgpu_isa::inst::Flow;

use crate::harness::{Case, Machine, same};

pub(crate) fn cases() -> Vec<Case> {
    let all = [
        two::cases(),
        one::cases(),
        constant::cases(),
        mask::cases(),
        moves::cases(),
        compare::cases(),
        flow::cases(),
        control::cases(),
        hwreg::cases(),
    ];
    all.into_iter().flatten().collect()
}

/// Everything but the program counter is as before, except the registers named and SCC.
pub(crate) fn only(before: &Machine, after: &Machine, changed: &[(usize, u32)], scc: bool) -> Result<(), String> {
    let mut want = before.wave.s;
    for &(register, value) in changed {
        want[register] = value;
    }
    for (register, (got, want)) in after.wave.s.iter().zip(want).enumerate() {
        same(&format!("s{register}"), *got, want)?;
    }
    same("scc", after.wave.scc, scc)?;
    same("mode", after.wave.mode(), before.wave.mode())?;
    same("status", after.wave.status, before.wave.status)?;
    same("trapsts", after.wave.trapsts, before.wave.trapsts)?;
    same("stop", after.stop.clone(), None)?;
    if after.wave.v != before.wave.v || after.wave.a != before.wave.a {
        return Err("vector registers changed".into());
    }
    if after.memory != before.memory {
        return Err("memory changed".into());
    }
    Ok(())
}

/// Like [`only`], for instructions after which the next one follows.
pub(crate) fn only_next(before: &Machine, after: &Machine, changed: &[(usize, u32)], scc: bool) -> Result<(), String> {
    same("flow", after.flow, Flow::Next)?;
    only(before, after, changed, scc)
}

/// The registers that a value of `bits` bits at `first` consists of.
pub(crate) fn parts(first: usize, bits: u32, value: u64) -> Vec<(usize, u32)> {
    let mut parts = vec![(first, value as u32)];
    if bits == 64 {
        parts.push((first + 1, (value >> 32) as u32));
    }
    parts
}

/// Writes a value of 32 or 64 bits.
pub(crate) fn set(m: &mut Machine, first: usize, bits: u32, value: u64) {
    for (register, part) in parts(first, bits, value) {
        m.wave.s[register] = part;
    }
}

/// Reads a value of 32 or 64 bits.
pub(crate) fn get(m: &Machine, first: usize, bits: u32) -> u64 {
    let low = u64::from(m.wave.s[first]);
    if bits == 64 { low + (u64::from(m.wave.s[first + 1]) << 32) } else { low }
}

/// A register of 32 or a pair of 64 bits in assembler text.
pub(crate) fn reg(first: usize, bits: u32) -> String {
    if bits == 64 { format!("s[{first}:{}]", first + 1) } else { format!("s{first}") }
}

/// VCC or its low half.
pub(crate) fn vcc(bits: u32) -> &'static str {
    if bits == 64 { "vcc" } else { "vcc_lo" }
}

/// The value modulo two to the `bits`.
pub(crate) fn wrap(value: i128, bits: u32) -> u64 {
    value.rem_euclid(1 << bits) as u64
}

/// The value as a signed number of `bits` bits.
pub(crate) fn signed(value: u64, bits: u32) -> i128 {
    let value = i128::from(value);
    if value >= 1 << (bits - 1) { value - (1 << bits) } else { value }
}

/// Made of its bits, each given by a function of its position.
pub(crate) fn from_bits(bits: u32, bit: impl Fn(u32) -> bool) -> u64 {
    (0..bits).filter(|&n| bit(n)).fold(0, |sum, n| sum + (1 << n))
}

/// One bit of a value.
pub(crate) fn bit(value: u64, n: u32) -> bool {
    (value / (1 << n)) % 2 == 1
}

/// Numbers at the edges of 32 and 64 bits and some in between.
pub(crate) const EDGES: [u64; 16] = [
    0,
    1,
    2,
    0x1F,
    0x20,
    0x8000,
    0xFFFF,
    0x0001_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0x8000_0001,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0xFFFF_FFFF_FFFF_FFFF,
    0x1234_5678_9ABC_DEF0,
];

/// The value without the bits above `bits`.
pub(crate) fn narrow(value: u64, bits: u32) -> u64 {
    if bits == 64 { value } else { value % (1 << bits) }
}
