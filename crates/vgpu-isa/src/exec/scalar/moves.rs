//! Moves, conditional and relative ones, and the index of relative vector registers.

use super::{Word, ops, shaped, signed_k, simm16, sources, unary};
use crate::inst::{Flow, Inst, Op};
use crate::wave::{M0, TTMP0, Wave, mode};

pub(super) static OPS: &[Op] = shaped!(Sop1, unary:
    0 "s_mov_b32" |a: u32| a;
    1 "s_mov_b64" |a: u64| a;
);

pub(super) static CONDITIONAL: &[Op] = ops!(Sop1:
    2 "s_cmov_b32" |wave, inst, _| move_if_scc::<u32>(wave, inst);
    3 "s_cmov_b64" |wave, inst, _| move_if_scc::<u64>(wave, inst);
    42 "s_movrels_b32" |wave, inst, _| from_relative::<u32>(wave, inst, 1);
    43 "s_movrels_b64" |wave, inst, _| from_relative::<u64>(wave, inst, 2);
    44 "s_movreld_b32" |wave, inst, _| to_relative::<u32>(wave, inst, 1);
    45 "s_movreld_b64" |wave, inst, _| to_relative::<u64>(wave, inst, 2);
    50 "s_set_gpr_idx_idx" |wave, inst, _| {
        let index = u32::read(wave, inst, inst.src[0]);
        wave.s[M0] = wave.s[M0] & !0xFF | index & 0xFF;
        Flow::Next
    };
);

pub(super) static SELECT: &[Op] = ops!(Sop2:
    10 "s_cselect_b32" |wave, inst, _| select::<u32>(wave, inst);
    11 "s_cselect_b64" |wave, inst, _| select::<u64>(wave, inst);
);

pub(super) static CONSTANT: &[Op] = ops!(Sopk:
    0 "s_movk_i32" |wave, inst, _| {
        signed_k(inst).write(wave, inst.dst);
        Flow::Next
    };
    1 "s_cmovk_i32" |wave, inst, _| {
        if wave.scc {
            signed_k(inst).write(wave, inst.dst);
        }
        Flow::Next
    };
);

pub(super) static INDEX_ON: &[Op] = ops!(Sopc:
    17 "s_set_gpr_idx_on" |wave, inst, _| {
        let index = u32::read(wave, inst, inst.src[0]);
        // The second source is the field of the instruction itself, not what it would name.
        let operands = u32::from(inst.src[1]) & 0xF;
        wave.s[M0] = wave.s[M0] & !0xF0FF | operands << 12 | index & 0xFF;
        wave.set_mode(wave.mode() | mode::GPR_IDX_EN);
        Flow::Next
    };
);

pub(super) static INDEX_MODE: &[Op] = ops!(Sopp:
    28 "s_set_gpr_idx_off" |wave, _, _| {
        wave.set_mode(wave.mode() & !mode::GPR_IDX_EN);
        Flow::Next
    };
    29 "s_set_gpr_idx_mode" |wave, inst, _| {
        wave.s[M0] = wave.s[M0] & !0xF000 | (simm16(inst) as u32 & 0xF) << 12;
        Flow::Next
    };
);

#[inline(always)]
fn move_if_scc<W: Word>(wave: &mut Wave, inst: &Inst) -> Flow {
    if wave.scc {
        W::read(wave, inst, inst.src[0]).write(wave, inst.dst);
    }
    Flow::Next
}

#[inline(always)]
fn select<W: Word>(wave: &mut Wave, inst: &Inst) -> Flow {
    let (a, b) = sources::<W, W>(wave, inst);
    if wave.scc { a } else { b }.write(wave, inst.dst);
    Flow::Next
}

/// The register M0 places after `code`, if `length` of them exist there.
fn relative(wave: &Wave, code: u16, length: u64) -> Option<u16> {
    let index = u64::from(code) + u64::from(wave.s[M0]);
    (index + length <= TTMP0 as u64).then_some(index as u16)
}

/// Reading beyond the registers reads the first.
fn from_relative<W: Word>(wave: &mut Wave, inst: &Inst, length: u64) -> Flow {
    let from = relative(wave, inst.src[0], length).unwrap_or(0);
    W::read(wave, inst, from).write(wave, inst.dst);
    Flow::Next
}

/// Writing beyond the registers does nothing.
fn to_relative<W: Word>(wave: &mut Wave, inst: &Inst, length: u64) -> Flow {
    if let Some(to) = relative(wave, inst.dst, length) {
        W::read(wave, inst, inst.src[0]).write(wave, to);
    }
    Flow::Next
}
