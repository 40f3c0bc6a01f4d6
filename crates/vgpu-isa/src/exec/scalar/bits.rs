//! Bit operations of one source: inversion, counting, searching, single bits, quads.

use super::{Word, shaped, unary, unary_scc};
use crate::inst::{Flow, Inst, Op};
use crate::wave::Wave;

pub(super) static OPS: &[Op] = shaped!(Sop1, unary_scc:
    4 "s_not_b32" |a: u32| !a;
    5 "s_not_b64" |a: u64| !a;
    6 "s_wqm_b32" |a: u32| whole_quads(u64::from(a)) as u32;
    7 "s_wqm_b64" whole_quads;
    10 "s_bcnt0_i32_b32" u32::count_zeros;
    11 "s_bcnt0_i32_b64" u64::count_zeros;
    12 "s_bcnt1_i32_b32" u32::count_ones;
    13 "s_bcnt1_i32_b64" u64::count_ones;
    40 "s_quadmask_b32" |a: u32| quads(u64::from(a)) as u32;
    41 "s_quadmask_b64" quads;
    48 "s_abs_i32" |a: u32| (a as i32).wrapping_abs() as u32;
);

pub(super) static SILENT: &[Op] = shaped!(Sop1, unary:
    8 "s_brev_b32" u32::reverse_bits;
    9 "s_brev_b64" u64::reverse_bits;
    14 "s_ff0_i32_b32" |a: u32| found(a.trailing_ones(), 32);
    15 "s_ff0_i32_b64" |a: u64| found(a.trailing_ones(), 64);
    16 "s_ff1_i32_b32" |a: u32| found(a.trailing_zeros(), 32);
    17 "s_ff1_i32_b64" |a: u64| found(a.trailing_zeros(), 64);
    18 "s_flbit_i32_b32" |a: u32| found(a.leading_zeros(), 32);
    19 "s_flbit_i32_b64" |a: u64| found(a.leading_zeros(), 64);
    20 "s_flbit_i32" |a: u32| found((a ^ (a as i32 >> 31) as u32).leading_zeros(), 32);
    21 "s_flbit_i32_i64" |a: u64| found((a ^ (a as i64 >> 63) as u64).leading_zeros(), 64);
    22 "s_sext_i32_i8" |a: u32| i32::from(a as i8) as u32;
    23 "s_sext_i32_i16" |a: u32| i32::from(a as i16) as u32;
    55 "s_bitreplicate_b64_b32" |a: u32| doubled(a);
);

pub(super) static SINGLE: &[Op] = shaped!(Sop1, change:
    24 "s_bitset0_b32" |d: u32, bit| d & !1_u32.wrapping_shl(bit);
    25 "s_bitset0_b64" |d: u64, bit| d & !1_u64.wrapping_shl(bit);
    26 "s_bitset1_b32" |d: u32, bit| d | 1_u32.wrapping_shl(bit);
    27 "s_bitset1_b64" |d: u64, bit| d | 1_u64.wrapping_shl(bit);
);

/// Changes the destination by a 32-bit source.
#[inline(always)]
fn change<D: Word>(wave: &mut Wave, inst: &Inst, f: impl Fn(D, u32) -> D) -> Flow {
    let source = u32::read(wave, inst, inst.src[0]);
    f(D::read(wave, inst, inst.dst), source).write(wave, inst.dst);
    Flow::Next
}

/// The position of a bit, or minus one if the search ran off the end.
#[inline(always)]
fn found(position: u32, end: u32) -> u32 {
    if position == end { !0 } else { position }
}

const QUAD_LOW: u64 = 0x1111_1111_1111_1111;

/// Bit 0 of every group of four lanes of which any is set.
#[inline(always)]
fn any_of_quad(mask: u64) -> u64 {
    (mask | mask >> 1 | mask >> 2 | mask >> 3) & QUAD_LOW
}

#[inline(always)]
fn whole_quads(mask: u64) -> u64 {
    any_of_quad(mask) * 0xF
}

/// One bit for each group of four.
#[inline(always)]
fn quads(mask: u64) -> u64 {
    let mut bits = any_of_quad(mask);
    bits = (bits | bits >> 3) & 0x0303_0303_0303_0303;
    bits = (bits | bits >> 6) & 0x000F_000F_000F_000F;
    bits = (bits | bits >> 12) & 0x0000_00FF_0000_00FF;
    (bits | bits >> 24) & 0xFFFF
}

/// Every bit twice.
#[inline(always)]
fn doubled(bits: u32) -> u64 {
    let mut spread = u64::from(bits);
    spread = (spread | spread << 16) & 0x0000_FFFF_0000_FFFF;
    spread = (spread | spread << 8) & 0x00FF_00FF_00FF_00FF;
    spread = (spread | spread << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    spread = (spread | spread << 2) & 0x3333_3333_3333_3333;
    spread = (spread | spread << 1) & 0x5555_5555_5555_5555;
    spread | spread << 1
}
