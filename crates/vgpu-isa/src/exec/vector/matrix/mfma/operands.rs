//! Operands of matrix instructions: fields of the encoding, broadcasts, register files.

use super::arithmetic::{Arithmetic, register};
use super::format::{Format, REGISTERS};
use super::shape::Shape;
use crate::inst::Inst;
use crate::operand::Type;
use crate::wave::{LANES, Lanes, Wave};

/// The fields that VOP3P-MAI has where other VOP3P instructions have op_sel, neg and clamp.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    /// Broadcast of A: logarithm of the number of blocks that get the same one.
    pub(super) broadcast: u8,
    /// Broadcast of A: which block.
    pub(super) block: u8,
    /// Permutation of the lanes of B, or signs for double precision.
    pub(super) pattern: u8,
    /// A is in accumulation registers.
    pub(super) accumulation_a: bool,
    /// B is.
    pub(super) accumulation_b: bool,
    /// C and D are.
    pub(super) accumulation_cd: bool,
}

impl Fields {
    #[inline(always)]
    pub(super) fn new(inst: &Inst) -> Self {
        Self {
            broadcast: inst.neg_hi,
            block: (inst.words[0] >> 11 & 0xF) as u8,
            pattern: inst.neg,
            accumulation_a: inst.op_sel_hi & 1 != 0,
            accumulation_b: inst.op_sel_hi & 2 != 0,
            accumulation_cd: inst.clamp,
        }
    }
}

/// The registers of an input.
#[inline(always)]
pub(super) fn input<F: Format>(
    wave: &Wave,
    inst: &Inst,
    n: usize,
    accumulation: bool,
    depth: usize,
) -> [Lanes; REGISTERS] {
    let code = inst.src[n];
    let mut out = [[0; LANES]; REGISTERS];
    for (at, to) in out.iter_mut().take((depth * F::BITS).div_ceil(32)).enumerate() {
        *to = if code < 256 {
            // The manual allows registers only; anything else is a scalar in every lane.
            [wave.scalar(code, inst, Type::F32); LANES]
        } else {
            *register(wave, accumulation, code.wrapping_add(at as u16))
        };
    }
    out
}

/// Puts one block of A in the place of `2^broadcast` neighbouring ones.
///
/// The manual describes this for all blocks at once; AMD's calculator and lab notes agree with it there, and say what
/// happens when a broadcast reaches only some of the blocks.
pub(super) fn broadcast_a<S: Shape>(registers: &mut [Lanes; REGISTERS], fields: Fields) {
    let size = 1_usize << fields.broadcast.min(4);
    for lanes in registers {
        let from = *lanes;
        for (lane, to) in lanes.iter_mut().enumerate() {
            let (group, within) = (lane / S::GROUP, lane % S::GROUP);
            let block = (within / S::M) & !(size - 1) | usize::from(fields.block) & (size - 1);
            *to = from[group * S::GROUP + block % S::BLOCKS * S::M + within % S::M];
        }
    }
}

/// Reroutes the lanes of B.
pub(super) fn permute_b(registers: &mut [Lanes; REGISTERS], pattern: u8) {
    for lanes in registers {
        let from = *lanes;
        for (lane, to) in lanes.iter_mut().enumerate() {
            *to = from[match pattern {
                0 => lane,
                1 | 2 => lane % 32 + 32 * usize::from(pattern - 1),
                3 => (lane + 16) % 64,
                _ => lane % 16 + 16 * usize::from(pattern & 3),
            }];
        }
    }
}

/// Where C comes from.
pub(super) enum Addend<T: Arithmetic> {
    /// The same in every element.
    Constant([T::Sum; LANES]),
    /// Registers from this one on.
    Registers(u16),
    /// Registers that would be overwritten before they are read: a copy, as many as a result can have.
    Copy(Box<[Lanes; 32]>),
}

impl<T: Arithmetic> Addend<T> {
    #[inline(always)]
    pub(super) fn new<S: Shape>(wave: &Wave, inst: &Inst, accumulation: bool) -> Self {
        let code = inst.src[2];
        if code < 256 {
            let bits = if T::WIDTH == 2 {
                wave.scalar64(code, inst, T::CONSTANT)
            } else {
                u64::from(wave.scalar(code, inst, T::CONSTANT))
            };
            return Self::Constant(T::constant(bits));
        }
        let first = code & 0xFF;
        let count = (S::TILES * T::WIDTH) as u16;
        // Results go to registers that are still to be read if D starts within C, above its first register.
        let ahead = inst.dst.wrapping_sub(first) & 0xFF;
        if ahead == 0 || ahead >= count {
            return Self::Registers(first);
        }
        let copy = |at| *register(wave, accumulation, first.wrapping_add(at as u16));
        Self::Copy(Box::new(std::array::from_fn(copy)))
    }

    #[inline(always)]
    pub(super) fn tile(&self, wave: &Wave, accumulation: bool, tile: usize) -> [T::Sum; LANES] {
        let at = tile * T::WIDTH;
        match self {
            Self::Constant(sum) => *sum,
            Self::Registers(first) => {
                let first = first.wrapping_add(at as u16);
                let high = first.wrapping_add(T::WIDTH as u16 - 1);
                T::load(register(wave, accumulation, first), register(wave, accumulation, high))
            }
            Self::Copy(copy) => T::load(&copy[at % 32], &copy[(at + T::WIDTH - 1) % 32]),
        }
    }
}
