//! Comparisons: the result is SCC.

use super::{Word, shaped, signed_k, sources};
use crate::inst::{Flow, Inst, Op};
use crate::wave::Wave;

pub(super) static OPS: &[Op] = shaped!(Sopc, compare:
    0 "s_cmp_eq_i32" |a: u32, b: u32| a == b;
    1 "s_cmp_lg_i32" |a: u32, b: u32| a != b;
    2 "s_cmp_gt_i32" |a: u32, b: u32| a as i32 > b as i32;
    3 "s_cmp_ge_i32" |a: u32, b: u32| a as i32 >= b as i32;
    4 "s_cmp_lt_i32" |a: u32, b: u32| (a as i32) < b as i32;
    5 "s_cmp_le_i32" |a: u32, b: u32| a as i32 <= b as i32;
    6 "s_cmp_eq_u32" |a: u32, b: u32| a == b;
    7 "s_cmp_lg_u32" |a: u32, b: u32| a != b;
    8 "s_cmp_gt_u32" |a: u32, b: u32| a > b;
    9 "s_cmp_ge_u32" |a: u32, b: u32| a >= b;
    10 "s_cmp_lt_u32" |a: u32, b: u32| a < b;
    11 "s_cmp_le_u32" |a: u32, b: u32| a <= b;
    12 "s_bitcmp0_b32" |a: u32, bit: u32| a.wrapping_shr(bit) & 1 == 0;
    13 "s_bitcmp1_b32" |a: u32, bit: u32| a.wrapping_shr(bit) & 1 == 1;
    14 "s_bitcmp0_b64" |a: u64, bit: u32| a.wrapping_shr(bit) & 1 == 0;
    15 "s_bitcmp1_b64" |a: u64, bit: u32| a.wrapping_shr(bit) & 1 == 1;
    18 "s_cmp_eq_u64" |a: u64, b: u64| a == b;
    19 "s_cmp_lg_u64" |a: u64, b: u64| a != b;
);

pub(super) static SIGNED: &[Op] = shaped!(Sopk, compare_signed:
    2 "s_cmpk_eq_i32" |a, b| a == b;
    3 "s_cmpk_lg_i32" |a, b| a != b;
    4 "s_cmpk_gt_i32" |a, b| a > b;
    5 "s_cmpk_ge_i32" |a, b| a >= b;
    6 "s_cmpk_lt_i32" |a, b| a < b;
    7 "s_cmpk_le_i32" |a, b| a <= b;
);

pub(super) static UNSIGNED: &[Op] = shaped!(Sopk, compare_unsigned:
    8 "s_cmpk_eq_u32" |a, b| a == b;
    9 "s_cmpk_lg_u32" |a, b| a != b;
    10 "s_cmpk_gt_u32" |a, b| a > b;
    11 "s_cmpk_ge_u32" |a, b| a >= b;
    12 "s_cmpk_lt_u32" |a, b| a < b;
    13 "s_cmpk_le_u32" |a, b| a <= b;
);

#[inline(always)]
fn compare<A: Word, B: Word>(wave: &mut Wave, inst: &Inst, f: impl Fn(A, B) -> bool) -> Flow {
    let (a, b) = sources(wave, inst);
    wave.scc = f(a, b);
    Flow::Next
}

#[inline(always)]
fn compare_signed(wave: &mut Wave, inst: &Inst, f: impl Fn(i32, i32) -> bool) -> Flow {
    wave.scc = f(u32::read(wave, inst, inst.dst) as i32, signed_k(inst) as i32);
    Flow::Next
}

/// The constant is zero-extended here.
#[inline(always)]
fn compare_unsigned(wave: &mut Wave, inst: &Inst, f: impl Fn(u32, u32) -> bool) -> Flow {
    wave.scc = f(u32::read(wave, inst, inst.dst), inst.words[0] & 0xFFFF);
    Flow::Next
}
