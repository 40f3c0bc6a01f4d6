//! Taking exponents out of numbers and putting them in: frexp and ldexp.

use super::define::{lane, wide};
use super::half::{from_single, to_single};
use super::soft::{DOUBLE, HALF, Rule, SINGLE};
use crate::inst::Encoding::{Vop1, Vop2, Vop3};
use crate::inst::Op;
use crate::lanes::{lane, wide};

/// Splits a number into significand (one half to one) and exponent. Zero, infinity and NaN have exponent zero.
macro_rules! split {
    ($name:ident, $bits:ty, $float:ty, $fraction:expr, $exponents:expr) => {
        #[inline(always)]
        fn $name(bits: $bits) -> ($bits, i32) {
            const BIAS: $bits = $exponents >> 1;
            const SIGNS: $bits = !($exponents << $fraction);
            // Denormals are brought up by more than their length.
            const UP: $bits = $fraction + 2;
            let scaled = (<$float>::from_bits(bits) * <$float>::from_bits((BIAS + UP) << $fraction)).to_bits();
            let field = bits >> $fraction & $exponents;
            let (from, field, offset) = if field == 0 {
                (scaled, scaled >> $fraction & $exponents, BIAS - 1 + UP)
            } else {
                (bits, field, BIAS - 1)
            };
            let magnitude = bits << 1;
            let number = (magnitude != 0) & (bits >> $fraction & $exponents != $exponents);
            let significand = from & SIGNS | (BIAS - 1) << $fraction;
            // Adding nothing makes NaN quiet and keeps the rest.
            let other = (<$float>::from_bits(bits) + <$float>::from_bits(bits)).to_bits();
            let exponent = (field as i32).wrapping_sub(offset as i32);
            (if number { significand } else { other }, if number { exponent } else { 0 })
        }
    };
}

split!(split_32, u32, f32, 23, 0xFF);
split!(split_64, u64, f64, 52, 0x7FF);

/// Half precision numbers are normal in single precision, so there is nothing to bring up.
#[inline(always)]
fn split_16(bits: u32) -> (u32, i32) {
    let (significand, exponent) = split_32(to_single(bits).to_bits());
    (from_single(f32::from_bits(significand)), exponent)
}

lane!(FrexpMantF32: F32 => F32, |[a, _, _]: [u32; 3]| split_32(a).0);
lane!(FrexpExpF32: F32 => B32, |[a, _, _]: [u32; 3]| split_32(a).1 as u32);
lane!(FrexpMantF16: F16 => F16, |[a, _, _]: [u32; 3]| split_16(a).0);
lane!(FrexpExpF16: F16 => B16, |[a, _, _]: [u32; 3]| split_16(a).1 as u32 & 0xFFFF);
wide!(FrexpMantF64: F64 => F64, |[a, _, _]: [u64; 3]| split_64(a).0);
wide!(FrexpExpF64: F64 => B32, |[a, _, _]: [u64; 3]| u64::from(split_64(a).1 as u32));

/// Beyond these exponents every number has become zero or infinity.
const FAR_32: i32 = 400;
const FAR_16: i32 = 60;
const FAR_64: i32 = 4000;

#[inline(always)]
fn ldexp_f32([a, b, _]: [u32; 3]) -> u32 {
    // Exact in double precision, so the conversion is the only rounding.
    let power = (b as i32).clamp(-FAR_32, FAR_32);
    let factor = f64::from_bits(((1023 + power) as u64) << 52);
    ((f64::from(f32::from_bits(a)) * factor) as f32).to_bits()
}

#[inline(always)]
fn ldexp_f16([a, b, _]: [u32; 3]) -> u32 {
    let power = i32::from(b as i16).clamp(-FAR_16, FAR_16);
    from_single(to_single(a) * f32::from_bits(((127 + power) as u32) << 23))
}

#[inline(always)]
fn ldexp_f64([a, b, _]: [u64; 3]) -> u64 {
    DOUBLE.scale(a, (b as i32).clamp(-FAR_64, FAR_64), Rule::USUAL)
}

#[inline(always)]
fn ldexp_f32_in_mode(source: [u32; 3], mode: u32) -> u32 {
    let rule = Rule::single(mode);
    if rule.is_usual() {
        return ldexp_f32(source);
    }
    SINGLE.scale(source[0].into(), (source[1] as i32).clamp(-FAR_32, FAR_32), rule) as u32
}

#[inline(always)]
fn ldexp_f16_in_mode(source: [u32; 3], mode: u32) -> u32 {
    let power = i32::from(source[1] as i16).clamp(-FAR_16, FAR_16);
    HALF.scale(source[0].into(), power, Rule::half(mode)) as u32
}

#[inline(always)]
fn ldexp_f64_in_mode([a, b, _]: [u64; 3], mode: u32) -> u64 {
    DOUBLE.scale(a, (b as i32).clamp(-FAR_64, FAR_64), Rule::double(mode))
}

lane!(LdexpF32: F32, B32 => F32, ldexp_f32, in_mode ldexp_f32_in_mode);
lane!(LdexpF16: F16, B16 => F16, ldexp_f16, in_mode ldexp_f16_in_mode);
wide!(LdexpF64: F64, B32 => F64, ldexp_f64, in_mode ldexp_f64_in_mode);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    wide::<FrexpExpF64>(Vop1, 48, "v_frexp_exp_i32_f64"),
    wide::<FrexpMantF64>(Vop1, 49, "v_frexp_mant_f64"),
    lane::<FrexpExpF32>(Vop1, 51, "v_frexp_exp_i32_f32"),
    lane::<FrexpMantF32>(Vop1, 52, "v_frexp_mant_f32"),
    lane::<FrexpMantF16>(Vop1, 66, "v_frexp_mant_f16"),
    lane::<FrexpExpF16>(Vop1, 67, "v_frexp_exp_i16_f16"),
    lane::<LdexpF16>(Vop2, 51, "v_ldexp_f16"),
    wide::<LdexpF64>(Vop3, 644, "v_ldexp_f64"),
    lane::<LdexpF32>(Vop3, 648, "v_ldexp_f32"),
];
