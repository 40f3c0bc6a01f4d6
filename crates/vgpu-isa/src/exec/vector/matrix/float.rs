//! Half precision in terms of single precision, and rounding as MODE asks for it.
//!
//! The functions of the usual mode are free of branches, so that loops over lanes vectorise. What a NaN looks like
//! after an operation is not documented: it is some quiet NaN here.

#[cfg(target_arch = "x86_64")]
use crate::table::is_wide;
use crate::wave::{LANES, Lanes, mode};

const HALF_INFINITY: u32 = 0x7C00;
const HALF_ONE: u32 = 0x3C00;
const HALF_LARGEST: u32 = 0x7BFF;

/// Half to single precision, which is exact.
#[inline(always)]
pub(super) fn from_half(half: u32) -> f32 {
    // The exponent is too small by 127 - 15 after the shift, for denormals as well.
    let scale = f32::from_bits((127 + 127 - 15) << 23);
    let magnitude = (f32::from_bits((half & 0x7FFF) << 13) * scale).to_bits();
    let special = if half & HALF_INFINITY == HALF_INFINITY { 0x7F80_0000 } else { 0 };
    f32::from_bits(magnitude | special | (half & 0x8000) << 16)
}

/// Single to half precision, to nearest even.
#[inline(always)]
pub(super) fn to_half(value: f32) -> u32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7FFF_FFFF;
    // Adding one half leaves the multiple of 2^-24 in the low bits, rounded by the addition.
    let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3F00_0000);
    let rounded = magnitude.wrapping_add(0xFFF + (magnitude >> 13 & 1));
    let normal = rounded.wrapping_sub((127 - 15) << 23) >> 13;
    let quiet = HALF_INFINITY | 0x200 | (magnitude >> 13 & 0x3FF);
    let finite = if magnitude < 113 << 23 { denormal } else { normal };
    let result = if magnitude >= 0x4780_0000 { HALF_INFINITY } else { finite };
    let result = if magnitude > 0x7F80_0000 { quiet } else { result };
    result | bits >> 16 & 0x8000
}

/// Fused multiply and add of three halves in single precision, rounded to odd: rounding that to half precision is
/// rounding once.
#[inline(always)]
pub(super) fn fma_to_odd([a, b, c]: [f32; 3]) -> f32 {
    // The product has 22 bits: exact. A second rounding to 11 bits cannot notice that the sum was rounded to odd.
    let product = a * b;
    let sum = product + c;
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    let bits = sum.to_bits();
    // A NaN compares false: infinities stay as they are.
    let inexact = (error.abs() > 0.0) & (bits & 1 == 0);
    // Away from zero if the error has the sign of the sum, toward zero otherwise.
    let step = 1_u32.wrapping_sub((error.to_bits() ^ bits) >> 31 << 1);
    f32::from_bits(bits.wrapping_add(if inexact { step } else { 0 }))
}

/// Halves of all lanes, in the order of memory.
const HALVES: usize = 2 * LANES;

/// Computes with both halves of all lanes in single precision.
#[inline(always)]
pub(super) fn in_singles(sources: [&Lanes; 3], single: impl Fn([f32; 3]) -> f32) -> Lanes {
    #[cfg(target_arch = "x86_64")]
    if is_wide() {
        // SAFETY: the CPU has AVX2, FMA and F16C.
        return unsafe { f16c::in_singles(sources, single) };
    }
    let half = |lane: usize, shift: u32| single(sources.map(|lanes| from_half(lanes[lane] >> shift & 0xFFFF)));
    std::array::from_fn(|lane| to_half(half(lane, 0)) | to_half(half(lane, 16)) << 16)
}

/// The conversions of the CPU. They differ from [`from_half`] in that signalling NaNs become quiet, which the operation
/// in between would do.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm256_loadu_ps, _mm256_storeu_ps,
    };

    use super::HALVES;
    use crate::wave::Lanes;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn in_singles(sources: [&Lanes; 3], single: impl Fn([f32; 3]) -> f32) -> Lanes {
        let [a, b, c] = [singles(sources[0]), singles(sources[1]), singles(sources[2])];
        let mut out = [0.0; HALVES];
        for n in 0..HALVES {
            out[n] = single([a[n], b[n], c[n]]);
        }
        halves(&out)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn singles(lanes: &Lanes) -> [f32; HALVES] {
        let mut out = [0.0; HALVES];
        for first in (0..HALVES).step_by(8) {
            // SAFETY: eight halves follow `first` in `lanes`, eight singles in `out`.
            unsafe {
                let eight = _mm_loadu_si128(lanes.as_ptr().cast::<u16>().add(first).cast());
                _mm256_storeu_ps(out.as_mut_ptr().add(first), _mm256_cvtph_ps(eight));
            }
        }
        out
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn halves(singles: &[f32; HALVES]) -> Lanes {
        let mut out = [0; HALVES / 2];
        for first in (0..HALVES).step_by(8) {
            // SAFETY: eight singles follow `first` in `singles`, eight halves in `out`.
            unsafe {
                let eight = _mm256_loadu_ps(singles.as_ptr().add(first));
                let eight = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(eight);
                _mm_storeu_si128(out.as_mut_ptr().cast::<u16>().add(first).cast(), eight);
            }
        }
        out
    }
}

/// A half clamped to the range 0 to 1; `nan_is_zero` is DX10_CLAMP.
#[inline(always)]
pub(super) fn clamp_half(half: u32, nan_is_zero: bool) -> u32 {
    let nan = half & 0x7FFF > HALF_INFINITY;
    let positive = if half & 0x8000 != 0 { 0 } else { half };
    let clamped = if positive > HALF_ONE { HALF_ONE } else { positive };
    if nan { if nan_is_zero { 0 } else { half } } else { clamped }
}

/// A single clamped to the range 0 to 1.
#[inline(always)]
pub(super) fn clamp_single(bits: u32, nan_is_zero: bool) -> u32 {
    const ONE: u32 = 0x3F80_0000;
    let nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
    let positive = if bits >> 31 != 0 { 0 } else { bits };
    let clamped = if positive > ONE { ONE } else { positive };
    if nan { if nan_is_zero { 0 } else { bits } } else { clamped }
}

/// A single whose denormals are zeros of the same sign.
#[inline(always)]
pub(super) fn flush_single(bits: u32) -> u32 {
    if bits & 0x7F80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// The parts of MODE that arithmetic in one precision obeys.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    rounding: u32,
    keep_sources: bool,
    keep_results: bool,
    /// Overflow gives the largest number (FP16_OVFL; half precision only).
    saturates: bool,
    /// NaN clamps to zero.
    pub(super) nan_is_zero: bool,
    /// Signalling NaNs come out of minimum and maximum, quieted.
    pub(super) ieee: bool,
}

impl Rules {
    /// Rules of half precision.
    pub(super) fn half(register: u32) -> Self {
        Self {
            rounding: (register & mode::ROUND_64_16) >> 2,
            keep_sources: register & 0x40 != 0,
            keep_results: register & 0x80 != 0,
            saturates: register & mode::FP16_OVFL != 0,
            nan_is_zero: register & mode::DX10_CLAMP != 0,
            ieee: register & mode::IEEE != 0,
        }
    }

    /// Rules of single precision.
    pub(super) fn single(register: u32) -> Self {
        Self {
            rounding: register & mode::ROUND_32,
            keep_sources: register & mode::DENORM_32_SOURCES != 0,
            keep_results: register & mode::DENORM_32_RESULTS != 0,
            saturates: false,
            nan_is_zero: register & mode::DX10_CLAMP != 0,
            ieee: register & mode::IEEE != 0,
        }
    }

    /// A half as an operation sees it.
    pub(super) fn half_source(self, half: u32) -> u32 {
        if !self.keep_sources && half & HALF_INFINITY == 0 { half & 0x8000 } else { half & 0xFFFF }
    }

    /// A single as an operation sees it.
    pub(super) fn single_source(self, bits: u32) -> u32 {
        if self.keep_sources { bits } else { flush_single(bits) }
    }

    /// An exact (or rounded to odd) result in half precision.
    pub(super) fn half_result(self, exact: f64) -> u32 {
        let rounded = self.narrow(exact, 10, -14, 15);
        let bits = to_half(rounded as f32);
        let overflowed = exact.is_finite() && bits & 0x7FFF == HALF_INFINITY;
        let bits = if overflowed && self.saturates { bits & 0x8000 | HALF_LARGEST } else { bits };
        self.half_kept(bits)
    }

    /// A half that was rounded already, or picked from the sources.
    pub(super) fn half_kept(self, half: u32) -> u32 {
        if !self.keep_results && half & HALF_INFINITY == 0 { half & 0x8000 } else { half }
    }

    /// An exact (or rounded to odd) result in single precision.
    pub(super) fn single_result(self, exact: f64) -> u32 {
        let bits = (self.narrow(exact, 23, -126, 127) as f32).to_bits();
        if self.keep_results { bits } else { flush_single(bits) }
    }

    /// The sum of two numbers as exactly as rounding needs it: rounded to odd in double precision.
    pub(super) fn sum(self, a: f64, b: f64) -> f64 {
        let sum = a + b;
        let back = sum - a;
        let error = (a - (sum - back)) + (b - back);
        if sum == 0.0 && a != 0.0 {
            // Numbers that cancel give minus zero only when rounding down.
            return if self.rounding == 2 { -0.0 } else { 0.0 };
        }
        if sum == 0.0 && a.is_sign_negative() != b.is_sign_negative() {
            return if self.rounding == 2 { -0.0 } else { 0.0 };
        }
        let bits = sum.to_bits();
        if error.abs() > 0.0 && bits & 1 == 0 {
            return f64::from_bits(if (error < 0.0) == (sum < 0.0) { bits + 1 } else { bits - 1 });
        }
        sum
    }

    /// Rounds to a format with `fraction` bits and these exponents.
    fn narrow(self, x: f64, fraction: i32, smallest: i32, largest: i32) -> f64 {
        if x == 0.0 || !x.is_finite() {
            return x;
        }
        let exponent = ((x.to_bits() >> 52 & 0x7FF) as i32 - 1023).max(smallest);
        let quantum = power(exponent - fraction);
        let scaled = x / quantum;
        let integer = match self.rounding {
            0 => scaled.round_ties_even(),
            1 => scaled.ceil(),
            2 => scaled.floor(),
            _ => scaled.trunc(),
        };
        let rounded = integer * quantum;
        if rounded.abs() < power(largest + 1) {
            return rounded;
        }
        let outward = match self.rounding {
            0 => true,
            1 => x > 0.0,
            2 => x < 0.0,
            _ => false,
        };
        let limit = if outward { f64::INFINITY } else { power(largest + 1) - power(largest - fraction) };
        limit.copysign(x)
    }
}

/// Two to the power of a small exponent.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
