//! Rounding to whole numbers, and the fractional part.

use super::define::{lane, wide};
use super::half::{from_single, to_single};
use super::soft::{DOUBLE, HALF, Rule, SINGLE};
use crate::inst::Encoding::Vop1;
use crate::inst::Op;
use crate::lanes::{lane, wide};

/// The four directions in one format.
macro_rules! directions {
    ($kind:ident $type:ident, $bits:ty, $from:path, $to:expr, $($name:ident $method:ident)+) => {
        $($kind!($name: $type => $type, |[a, _, _]: [$bits; 3]| $to($from(a).$method()));)+
    };
}

directions!(lane F32, u32, f32::from_bits, f32::to_bits,
    TruncF32 trunc CeilF32 ceil RndneF32 round_ties_even FloorF32 floor);
directions!(lane F16, u32, to_single, from_single,
    TruncF16 trunc CeilF16 ceil RndneF16 round_ties_even FloorF16 floor);
directions!(wide F64, u64, f64::from_bits, f64::to_bits,
    TruncF64 trunc CeilF64 ceil RndneF64 round_ties_even FloorF64 floor);

/// Largest numbers below one: where the sum rounds to one, the fractional part stays below it.
const BELOW_ONE_32: u32 = 0x3F7F_FFFF;
const BELOW_ONE_16: u32 = 0x3BFF;
const BELOW_ONE_64: u64 = 0x3FEF_FFFF_FFFF_FFFF;

#[inline(always)]
fn fract_f32([a, _, _]: [u32; 3]) -> u32 {
    let x = f32::from_bits(a);
    let part = x - x.floor();
    if part >= 1.0 { BELOW_ONE_32 } else { part.to_bits() }
}

#[inline(always)]
fn fract_f16([a, _, _]: [u32; 3]) -> u32 {
    let x = to_single(a);
    let part = from_single(x - x.floor());
    // One itself; larger encodings are negative or NaN.
    if part == BELOW_ONE_16 + 1 { BELOW_ONE_16 } else { part }
}

#[inline(always)]
fn fract_f64([a, _, _]: [u64; 3]) -> u64 {
    let x = f64::from_bits(a);
    let part = x - x.floor();
    if part >= 1.0 { BELOW_ONE_64 } else { part.to_bits() }
}

#[inline(always)]
fn fract_f32_in_mode(source: [u32; 3], mode: u32) -> u32 {
    let (rule, x) = (Rule::single(mode), f32::from_bits(source[0]));
    if rule.is_usual() || !x.is_finite() {
        return fract_f32(source);
    }
    let part = SINGLE.add(source[0].into(), (-x.floor()).to_bits().into(), rule) as u32;
    if part == BELOW_ONE_32 + 1 { BELOW_ONE_32 } else { part }
}

#[inline(always)]
fn fract_f16_in_mode(source: [u32; 3], mode: u32) -> u32 {
    let (rule, x) = (Rule::half(mode), to_single(source[0]));
    if rule.is_usual() || !x.is_finite() {
        return fract_f16(source);
    }
    let part = HALF.add(source[0].into(), from_single(-x.floor()).into(), rule) as u32;
    if part == BELOW_ONE_16 + 1 { BELOW_ONE_16 } else { part }
}

#[inline(always)]
fn fract_f64_in_mode(source: [u64; 3], mode: u32) -> u64 {
    let (rule, x) = (Rule::double(mode), f64::from_bits(source[0]));
    if rule.is_usual() || !x.is_finite() {
        return fract_f64(source);
    }
    let part = DOUBLE.add(source[0], (-x.floor()).to_bits(), rule);
    if part == BELOW_ONE_64 + 1 { BELOW_ONE_64 } else { part }
}

lane!(FractF32: F32 => F32, fract_f32, in_mode fract_f32_in_mode);
lane!(FractF16: F16 => F16, fract_f16, in_mode fract_f16_in_mode);
wide!(FractF64: F64 => F64, fract_f64, in_mode fract_f64_in_mode);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    wide::<TruncF64>(Vop1, 23, "v_trunc_f64"),
    wide::<CeilF64>(Vop1, 24, "v_ceil_f64"),
    wide::<RndneF64>(Vop1, 25, "v_rndne_f64"),
    wide::<FloorF64>(Vop1, 26, "v_floor_f64"),
    lane::<FractF32>(Vop1, 27, "v_fract_f32"),
    lane::<TruncF32>(Vop1, 28, "v_trunc_f32"),
    lane::<CeilF32>(Vop1, 29, "v_ceil_f32"),
    lane::<RndneF32>(Vop1, 30, "v_rndne_f32"),
    lane::<FloorF32>(Vop1, 31, "v_floor_f32"),
    wide::<FractF64>(Vop1, 50, "v_fract_f64"),
    lane::<FloorF16>(Vop1, 68, "v_floor_f16"),
    lane::<CeilF16>(Vop1, 69, "v_ceil_f16"),
    lane::<TruncF16>(Vop1, 70, "v_trunc_f16"),
    lane::<RndneF16>(Vop1, 71, "v_rndne_f16"),
    lane::<FractF16>(Vop1, 72, "v_fract_f16"),
];
