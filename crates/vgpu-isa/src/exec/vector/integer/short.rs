//! 16-bit integers, and packing into 16 bits.

use super::arithmetic::{median, saturate_i32, saturate_u32};
use crate::inst::{Encoding, Op};
use crate::lanes::{Lane, lane};
use crate::operand::Type;

/// A 16-bit number with sign.
#[inline(always)]
fn i(x: u32) -> i32 {
    i32::from(x as i16)
}

#[inline(always)]
fn saturate_i16(x: i64) -> u32 {
    x.clamp(-0x8000, 0x7FFF) as u32
}

#[inline(always)]
fn saturate_u16(x: u64) -> u32 {
    x.min(0xFFFF) as u32
}

/// The product of two 16-bit numbers and a sum, all of it.
#[inline(always)]
fn mad_u(a: u32, b: u32, c: u32) -> u64 {
    u64::from(a) * u64::from(b) + u64::from(c)
}

/// The product of two signed 16-bit numbers, all of it.
#[inline(always)]
fn mul_i(a: u32, b: u32) -> i64 {
    i64::from(i(a)) * i64::from(i(b))
}

/// A signed 16-bit number in the range of a byte without sign.
#[inline(always)]
fn saturate_u8(x: u32) -> u32 {
    i(x).clamp(0, 255) as u32
}

operations! {
    OPS: Lane, u32, lane;
    Vop1 79 "v_sat_pk_u8_i16" SatPk [B32] B16 |a| saturate_u8(a) | saturate_u8(a >> 16) << 8;
    Vop2 38 "v_add_u16" AddU16 [B16 B16] B16 |a, b| a + b => clamp |a, b| (a + b).min(0xFFFF);
    Vop2 39 "v_sub_u16" SubU16 [B16 B16] B16 |a, b| a.wrapping_sub(b) => clamp |a, b| a.saturating_sub(b);
    Vop2 40 "v_subrev_u16" SubrevU16 [B16 B16] B16 |a, b| b.wrapping_sub(a) => clamp |a, b| b.saturating_sub(a);
    Vop2 41 "v_mul_lo_u16" MulLoU16 [B16 B16] B16 |a, b| a.wrapping_mul(b);
    Vop2 42 "v_lshlrev_b16" LshlrevB16 [B16 B16] B16 |a, b| b << (a & 15);
    Vop2 43 "v_lshrrev_b16" LshrrevB16 [B16 B16] B16 |a, b| b >> (a & 15);
    Vop2 44 "v_ashrrev_i16" AshrrevI16 [B16 B16] B16 |a, b| (i(b) >> (a & 15)) as u32;
    Vop2 47 "v_max_u16" MaxU16 [B16 B16] B16 |a, b| a.max(b);
    Vop2 48 "v_max_i16" MaxI16 [B16 B16] B16 |a, b| i(a).max(i(b)) as u32;
    Vop2 49 "v_min_u16" MinU16 [B16 B16] B16 |a, b| a.min(b);
    Vop2 50 "v_min_i16" MinI16 [B16 B16] B16 |a, b| i(a).min(i(b)) as u32;
    Vop3 491 "v_mad_legacy_u16" MadLegacyU16 [B16 B16 B16] B16 |a, b, c| a.wrapping_mul(b).wrapping_add(c)
        => clamp |a, b, c| saturate_u16(mad_u(a, b, c));
    Vop3 492 "v_mad_legacy_i16" MadLegacyI16 [B16 B16 B16] B16 |a, b, c| a.wrapping_mul(b).wrapping_add(c)
        => clamp |a, b, c| saturate_i16(mul_i(a, b) + i64::from(i(c)));
    Vop3 497 "v_mad_u32_u16" MadU32U16 [B16 B16 B32] B32 |a, b, c| a.wrapping_mul(b).wrapping_add(c)
        => clamp |a, b, c| saturate_u32(mad_u(a, b, c));
    Vop3 498 "v_mad_i32_i16" MadI32I16 [B16 B16 B32] B32 |a, b, c| i(a).wrapping_mul(i(b)).wrapping_add(c as i32) as u32
        => clamp |a, b, c| saturate_i32(mul_i(a, b) + i64::from(c as i32));
    Vop3 501 "v_min3_i16" Min3I16 [B16 B16 B16] B16 KEEPS_HIGH |a, b, c| i(a).min(i(b)).min(i(c)) as u32;
    Vop3 502 "v_min3_u16" Min3U16 [B16 B16 B16] B16 KEEPS_HIGH |a, b, c| a.min(b).min(c);
    Vop3 504 "v_max3_i16" Max3I16 [B16 B16 B16] B16 KEEPS_HIGH |a, b, c| i(a).max(i(b)).max(i(c)) as u32;
    Vop3 505 "v_max3_u16" Max3U16 [B16 B16 B16] B16 KEEPS_HIGH |a, b, c| a.max(b).max(c);
    Vop3 507 "v_med3_i16" Med3I16 [B16 B16 B16] B16 KEEPS_HIGH |a, b, c| median(i(a), i(b), i(c)) as u32;
    Vop3 508 "v_med3_u16" Med3U16 [B16 B16 B16] B16 KEEPS_HIGH |a, b, c| median(a, b, c);
    Vop3 516 "v_mad_u16" MadU16 [B16 B16 B16] B16 KEEPS_HIGH |a, b, c| a.wrapping_mul(b).wrapping_add(c)
        => clamp |a, b, c| saturate_u16(mad_u(a, b, c));
    Vop3 517 "v_mad_i16" MadI16 [B16 B16 B16] B16 KEEPS_HIGH |a, b, c| a.wrapping_mul(b).wrapping_add(c)
        => clamp |a, b, c| saturate_i16(mul_i(a, b) + i64::from(i(c)));
    Vop3 663 "v_cvt_pk_u16_u32" PackU16 [B32 B32] B32 |a, b| a.min(0xFFFF) | b.min(0xFFFF) << 16;
    Vop3 664 "v_cvt_pk_i16_i32" PackI16 [B32 B32] B32 |a, b| {
        let half = |x: u32| (x as i32).clamp(-0x8000, 0x7FFF) as u32 & 0xFFFF;
        half(a) | half(b) << 16
    };
    Vop3 670 "v_add_i16" AddI16 [B16 B16] B16 KEEPS_HIGH |a, b| a + b
        => clamp |a, b| saturate_i16(i64::from(i(a) + i(b)));
    Vop3 671 "v_sub_i16" SubI16 [B16 B16] B16 KEEPS_HIGH |a, b| a.wrapping_sub(b)
        => clamp |a, b| saturate_i16(i64::from(i(a) - i(b)));
}
