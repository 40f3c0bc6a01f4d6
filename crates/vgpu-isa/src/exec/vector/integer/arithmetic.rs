//! 32-bit and 24-bit arithmetic.

use crate::inst::{Encoding, Op};
use crate::lanes::{Lane, lane};
use crate::operand::Type;

/// The low 24 bits, signed.
#[inline(always)]
fn i24(x: u32) -> i32 {
    (x << 8) as i32 >> 8
}

/// The low 24 bits.
#[inline(always)]
fn u24(x: u32) -> u32 {
    x & 0xFF_FFFF
}

/// The product of two 24-bit numbers, all of it.
#[inline(always)]
fn product_i24(a: u32, b: u32) -> i64 {
    i64::from(i24(a)) * i64::from(i24(b))
}

/// The product of two 24-bit numbers, all of it.
#[inline(always)]
fn product_u24(a: u32, b: u32) -> u64 {
    u64::from(u24(a)) * u64::from(u24(b))
}

#[inline(always)]
pub(super) fn saturate_i32(x: i64) -> u32 {
    x.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
}

#[inline(always)]
pub(super) fn saturate_u32(x: u64) -> u32 {
    x.min(u64::from(u32::MAX)) as u32
}

/// The middle one of three.
#[inline(always)]
pub(super) fn median<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    let (low, high) = (a.min(b), a.max(b));
    low.max(high.min(c))
}

operations! {
    OPS: Lane, u32, lane;
    Vop2 6 "v_mul_i32_i24" MulI24 [B32 B32] B32 |a, b| i24(a).wrapping_mul(i24(b)) as u32
        => clamp |a, b| saturate_i32(product_i24(a, b));
    Vop2 7 "v_mul_hi_i32_i24" MulHiI24 [B32 B32] B32 |a, b| (product_i24(a, b) >> 32) as u32;
    Vop2 8 "v_mul_u32_u24" MulU24 [B32 B32] B32 |a, b| u24(a).wrapping_mul(u24(b))
        => clamp |a, b| saturate_u32(product_u24(a, b));
    Vop2 9 "v_mul_hi_u32_u24" MulHiU24 [B32 B32] B32 |a, b| (product_u24(a, b) >> 32) as u32;
    Vop2 12 "v_min_i32" MinI32 [B32 B32] B32 |a, b| (a as i32).min(b as i32) as u32;
    Vop2 13 "v_max_i32" MaxI32 [B32 B32] B32 |a, b| (a as i32).max(b as i32) as u32;
    Vop2 14 "v_min_u32" MinU32 [B32 B32] B32 |a, b| a.min(b);
    Vop2 15 "v_max_u32" MaxU32 [B32 B32] B32 |a, b| a.max(b);
    Vop2 52 "v_add_u32" AddU32 [B32 B32] B32 |a, b| a.wrapping_add(b) => clamp |a, b| a.saturating_add(b);
    Vop2 53 "v_sub_u32" SubU32 [B32 B32] B32 |a, b| a.wrapping_sub(b) => clamp |a, b| a.saturating_sub(b);
    Vop2 54 "v_subrev_u32" SubrevU32 [B32 B32] B32 |a, b| b.wrapping_sub(a) => clamp |a, b| b.saturating_sub(a);
    Vop3 450 "v_mad_i32_i24" MadI24 [B32 B32 B32] B32
        |a, b, c| i24(a).wrapping_mul(i24(b)).wrapping_add(c as i32) as u32
        => clamp |a, b, c| saturate_i32(product_i24(a, b) + i64::from(c as i32));
    Vop3 451 "v_mad_u32_u24" MadU24 [B32 B32 B32] B32 |a, b, c| u24(a).wrapping_mul(u24(b)).wrapping_add(c)
        => clamp |a, b, c| saturate_u32(product_u24(a, b) + u64::from(c));
    Vop3 465 "v_min3_i32" Min3I32 [B32 B32 B32] B32 |a, b, c| (a as i32).min(b as i32).min(c as i32) as u32;
    Vop3 466 "v_min3_u32" Min3U32 [B32 B32 B32] B32 |a, b, c| a.min(b).min(c);
    Vop3 468 "v_max3_i32" Max3I32 [B32 B32 B32] B32 |a, b, c| (a as i32).max(b as i32).max(c as i32) as u32;
    Vop3 469 "v_max3_u32" Max3U32 [B32 B32 B32] B32 |a, b, c| a.max(b).max(c);
    Vop3 471 "v_med3_i32" Med3I32 [B32 B32 B32] B32 |a, b, c| median(a as i32, b as i32, c as i32) as u32;
    Vop3 472 "v_med3_u32" Med3U32 [B32 B32 B32] B32 |a, b, c| median(a, b, c);
    Vop3 499 "v_xad_u32" XadU32 [B32 B32 B32] B32 |a, b, c| (a ^ b).wrapping_add(c);
    Vop3 509 "v_lshl_add_u32" LshlAddU32 [B32 B32 B32] B32 |a, b, c| (a << (b & 31)).wrapping_add(c);
    Vop3 510 "v_add_lshl_u32" AddLshlU32 [B32 B32 B32] B32 |a, b, c| a.wrapping_add(b) << (c & 31);
    Vop3 511 "v_add3_u32" Add3U32 [B32 B32 B32] B32 |a, b, c| a.wrapping_add(b).wrapping_add(c);
    Vop3 645 "v_mul_lo_u32" MulLoU32 [B32 B32] B32 |a, b| a.wrapping_mul(b);
    Vop3 646 "v_mul_hi_u32" MulHiU32 [B32 B32] B32 |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32;
    Vop3 647 "v_mul_hi_i32" MulHiI32 [B32 B32] B32 |a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32;
    Vop3 668 "v_add_i32" AddI32 [B32 B32] B32 |a, b| a.wrapping_add(b)
        => clamp |a, b| (a as i32).saturating_add(b as i32) as u32;
    Vop3 669 "v_sub_i32" SubI32 [B32 B32] B32 |a, b| a.wrapping_sub(b)
        => clamp |a, b| (a as i32).saturating_sub(b as i32) as u32;
}
