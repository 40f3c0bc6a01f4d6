//! Conversions that put more than one result into a register, and normalised integers.

use super::define::lane;
use super::half::to_single;
use super::soft::{Round, Rule};
use crate::inst::Encoding::{Vop1, Vop3};
use crate::inst::Op;
use crate::lanes::lane;
use crate::wave::mode;

/// -1 to 1 as -32767 to 32767, nearest even; NaN is zero.
#[inline(always)]
fn signed_norm(x: f32) -> u32 {
    normalise(x, -1.0, 32767.0)
}

/// 0 to 1 as 0 to 65535, nearest even; NaN is zero.
#[inline(always)]
fn unsigned_norm(x: f32) -> u32 {
    normalise(x, 0.0, 65535.0)
}

#[inline(always)]
fn normalise(x: f32, lowest: f64, scale: f64) -> u32 {
    /// The low bits of the sum are the nearest integer.
    const WHOLE: f64 = 6_755_399_441_055_744.0;
    // The product of 24 and 16 bits is exact. `max` and `min` prefer the number to NaN.
    let clamped = f64::from(x).max(lowest).min(1.0);
    let number = (clamped * scale + WHOLE).to_bits() as u32 & 0xFFFF;
    if x.is_nan() { 0 } else { number }
}

lane!(CvtNormI16F16: F16 => B16, |[a, _, _]: [u32; 3]| signed_norm(to_single(a)));
lane!(CvtNormU16F16: F16 => B16, |[a, _, _]: [u32; 3]| unsigned_norm(to_single(a)));

/// Two results of the same function.
macro_rules! pair {
    ($name:ident: $type:ident, $value:path, $f:ident) => {
        lane!($name: $type, $type => B32, |[a, b, _]: [u32; 3]| $f($value(a)) | $f($value(b)) << 16);
    };
}

pair!(CvtPknormI16F32: F32, f32::from_bits, signed_norm);
pair!(CvtPknormU16F32: F32, f32::from_bits, unsigned_norm);
pair!(CvtPknormI16F16: F16, to_single, signed_norm);
pair!(CvtPknormU16F16: F16, to_single, unsigned_norm);

/// Half precision toward zero: finite numbers stay finite.
#[inline(always)]
fn toward_zero(bits: u32) -> u32 {
    let body = bits & 0x7FFF_FFFF;
    let normal = (body.wrapping_sub(0x3800_0000) >> 13).min(0x7BFF);
    let small = (f32::from_bits(body.min(0x3880_0000)) * 16_777_216.0) as i32 as u32;
    let nan = 0x7E00 | body >> 13 & 0x3FF;
    let finite = if body < 0x3880_0000 { small } else { normal };
    let number = if body == 0x7F80_0000 { 0x7C00 } else { finite };
    (if body > 0x7F80_0000 { nan } else { number }) | bits >> 16 & 0x8000
}

#[inline(always)]
fn pkrtz([a, b, _]: [u32; 3]) -> u32 {
    toward_zero(a) | toward_zero(b) << 16
}

/// The halves are flushed here, because the register as a whole is no number.
#[inline(always)]
fn pkrtz_in_mode(source: [u32; 3], register: u32) -> u32 {
    let result = pkrtz(source);
    const KEEPS_RESULTS: u32 = 0x80;
    if register & mode::DENORM_64_16 & KEEPS_RESULTS != 0 {
        return result;
    }
    let flush = |half: u32| if half & 0x7C00 == 0 { half & 0x8000 } else { half };
    flush(result & 0xFFFF) | flush(result >> 16) << 16
}

lane!(CvtPkrtzF16F32: F32, F32 => B32, pkrtz, in_mode pkrtz_in_mode);
lane!(PackB32F16: F16, F16 => B32, |[a, b, _]: [u32; 3]| a & 0xFFFF | b << 16);

/// 0 to 255, rounded as the rule says; NaN is zero.
#[inline(always)]
fn byte(bits: u32, rule: Rule) -> u32 {
    // `max` and `min` prefer the number to NaN.
    let x = f32::from_bits(bits).max(0.0).min(255.0);
    let whole = match rule.round {
        // The low bits of the sum are the nearest integer.
        Round::Nearest => return (x + 8_388_608.0).to_bits() & 0xFF,
        Round::Up => x.ceil(),
        Round::Down | Round::Zero => x,
    };
    whole as u32
}

/// Puts a byte into one of the four places.
#[inline(always)]
fn insert(value: u32, place: u32, into: u32) -> u32 {
    let shift = (place & 3) * 8;
    into & !(0xFF << shift) | value << shift
}

lane!(CvtPkU8F32: F32, B32, B32 => B32,
    |[a, b, c]: [u32; 3]| insert(byte(a, Rule::USUAL), b, c),
    in_mode |[a, b, c]: [u32; 3], register: u32| insert(byte(a, Rule::single(register)), b, c));
lane!(CvtPkaccumU8F32: F32, B32, B32 => B32,
    |[a, b, c]: [u32; 3]| insert(byte(a, Rule::USUAL), b, c),
    in_mode |[a, b, c]: [u32; 3], register: u32| insert(byte(a, Rule::single(register)), b, c);
    ACCUMULATES);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    lane::<CvtNormI16F16>(Vop1, 77, "v_cvt_norm_i16_f16"),
    lane::<CvtNormU16F16>(Vop1, 78, "v_cvt_norm_u16_f16"),
    lane::<CvtPkU8F32>(Vop3, 477, "v_cvt_pk_u8_f32"),
    lane::<CvtPkaccumU8F32>(Vop3, 496, "v_cvt_pkaccum_u8_f32"),
    lane::<CvtPknormI16F32>(Vop3, 660, "v_cvt_pknorm_i16_f32"),
    lane::<CvtPknormU16F32>(Vop3, 661, "v_cvt_pknorm_u16_f32"),
    lane::<CvtPkrtzF16F32>(Vop3, 662, "v_cvt_pkrtz_f16_f32"),
    lane::<CvtPknormI16F16>(Vop3, 665, "v_cvt_pknorm_i16_f16"),
    lane::<CvtPknormU16F16>(Vop3, 666, "v_cvt_pknorm_u16_f16"),
    lane::<PackB32F16>(Vop3, 672, "v_pack_b32_f16"),
];
