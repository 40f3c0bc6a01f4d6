//! Reciprocal, square root, exponential, logarithm, sine and cosine.
//!
//! The hardware approximates these to within one unit in the last place (half precision: half a unit); here they are
//! the nearest numbers. Its single precision reciprocal, reciprocal root, exponential and logarithm know no denormals,
//! whatever MODE says: compilers scale around that, so it is kept.

use super::define::{lane, wide};
use super::half::{from_single, to_single};
use super::series;
use crate::inst::Encoding::Vop1;
use crate::inst::Op;
use crate::lanes::{lane, wide};
use crate::wave::mode;

/// Turns a single precision denormal into zero of its sign.
#[inline(always)]
fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7F80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// Negative sources of roots and logarithms.
const INVALID: f32 = f32::from_bits(0xFFC0_0000);

#[inline(always)]
fn exp(x: f32) -> f32 {
    series::exp2(f64::from(x)) as f32
}

/// Without the sources that have no logarithm.
#[inline(always)]
fn log(x: f32) -> f32 {
    let value = series::log2(f64::from(x)) as f32;
    let special = if x == 0.0 { f32::NEG_INFINITY } else { INVALID };
    let number = if x > 0.0 { value } else { special };
    // Infinity and NaN stay; adding makes NaN quiet.
    if (x.to_bits() & 0x7FFF_FFFF > 0x7F80_0000) | (x == f32::INFINITY) { x + x } else { number }
}

#[inline(always)]
fn rsq(x: f32) -> f32 {
    let value = (1.0 / f64::from(x).sqrt()) as f32;
    // The root of minus zero is minus zero, whose reciprocal is right; other negative numbers have none.
    if x < 0.0 { INVALID } else { value }
}

#[inline(always)]
fn sqrt(x: f32) -> f32 {
    if x < 0.0 { INVALID } else { x.sqrt() }
}

#[inline(always)]
fn sin(x: f32) -> f32 {
    series::sin(f64::from(x)) as f32
}

#[inline(always)]
fn cos(x: f32) -> f32 {
    series::cos(f64::from(x)) as f32
}

/// An operation in single precision, with and without denormals, and in half precision.
macro_rules! operation {
    ($single:ident flushed, $half:ident, $f:expr) => {
        lane!($single: F32 => F32, |[a, _, _]: [u32; 3]| flush($f(flush(f32::from_bits(a)))).to_bits());
        operation!(@ $half, $f);
    };
    ($single:ident, $half:ident, $f:expr) => {
        lane!($single: F32 => F32, |[a, _, _]: [u32; 3]| $f(f32::from_bits(a)).to_bits());
        operation!(@ $half, $f);
    };
    (@ $half:ident, $f:expr) => {
        lane!($half: F16 => F16,
            |[a, _, _]: [u32; 3]| from_single($f(to_single(a))),
            in_mode |[a, _, _]: [u32; 3], register: u32| saturate(a, from_single($f(to_single(a))), register));
    };
}

/// With FP16_OVFL a finite source does not give infinity.
#[inline(always)]
fn saturate(source: u32, result: u32, register: u32) -> u32 {
    let overflow = register & mode::FP16_OVFL != 0 && source & 0x7C00 != 0x7C00 && result & 0x7FFF == 0x7C00;
    result - u32::from(overflow)
}

operation!(ExpF32 flushed, ExpF16, exp);
operation!(LogF32 flushed, LogF16, log);
operation!(RcpF32 flushed, RcpF16, |x: f32| 1.0 / x);
operation!(RsqF32 flushed, RsqF16, rsq);
operation!(SqrtF32, SqrtF16, sqrt);
operation!(SinF32, SinF16, sin);
operation!(CosF32, CosF16, cos);

const INVALID_64: f64 = f64::from_bits(0xFFF8 << 48);

wide!(RcpF64: F64 => F64, |[a, _, _]: [u64; 3]| (1.0 / f64::from_bits(a)).to_bits());
wide!(SqrtF64: F64 => F64, |[a, _, _]: [u64; 3]| {
    let x = f64::from_bits(a);
    (if x < 0.0 { INVALID_64 } else { x.sqrt() }).to_bits()
});
wide!(RsqF64: F64 => F64, |[a, _, _]: [u64; 3]| {
    let x = f64::from_bits(a);
    (if x < 0.0 { INVALID_64 } else { 1.0 / x.sqrt() }).to_bits()
});

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    lane::<ExpF32>(Vop1, 32, "v_exp_f32"),
    lane::<LogF32>(Vop1, 33, "v_log_f32"),
    lane::<RcpF32>(Vop1, 34, "v_rcp_f32"),
    lane::<RcpF32>(Vop1, 35, "v_rcp_iflag_f32"),
    lane::<RsqF32>(Vop1, 36, "v_rsq_f32"),
    wide::<RcpF64>(Vop1, 37, "v_rcp_f64"),
    wide::<RsqF64>(Vop1, 38, "v_rsq_f64"),
    lane::<SqrtF32>(Vop1, 39, "v_sqrt_f32"),
    wide::<SqrtF64>(Vop1, 40, "v_sqrt_f64"),
    lane::<SinF32>(Vop1, 41, "v_sin_f32"),
    lane::<CosF32>(Vop1, 42, "v_cos_f32"),
    lane::<RcpF16>(Vop1, 61, "v_rcp_f16"),
    lane::<SqrtF16>(Vop1, 62, "v_sqrt_f16"),
    lane::<RsqF16>(Vop1, 63, "v_rsq_f16"),
    lane::<LogF16>(Vop1, 64, "v_log_f16"),
    lane::<ExpF16>(Vop1, 65, "v_exp_f16"),
    lane::<SinF16>(Vop1, 73, "v_sin_f16"),
    lane::<CosF16>(Vop1, 74, "v_cos_f16"),
    lane::<ExpF32>(Vop1, 75, "v_exp_legacy_f32"),
    lane::<LogF32>(Vop1, 76, "v_log_legacy_f32"),
];
