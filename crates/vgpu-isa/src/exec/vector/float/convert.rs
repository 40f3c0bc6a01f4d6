//! Conversions between formats and from and to integers.

use super::define::{lane, wide};
use super::half::{from_single, to_single};
use super::soft::{DOUBLE, Finite, Format, HALF, Rule, SINGLE};
use crate::inst::Encoding::Vop1;
use crate::inst::Op;
use crate::lanes::{lane, wide};

/// An integer in a format, rounded by the rule.
#[inline(always)]
fn integer(value: i64, to: Format, rule: Rule) -> u32 {
    to.round(Finite { negative: value < 0, magnitude: value.unsigned_abs().into(), exponent: 0 }, rule) as u32
}

/// A conversion of an integer to single or half precision.
macro_rules! from_integer {
    ($name:ident: $source:ident as $integer:ty => $result:ident, $usual:expr, $format:ident, $rule:path) => {
        lane!($name: $source => $result,
            |[a, _, _]: [u32; 3]| $usual(a as $integer),
            in_mode |[a, _, _]: [u32; 3], mode: u32| {
                let rule = $rule(mode);
                if rule.is_usual() { $usual(a as $integer) } else { integer((a as $integer).into(), $format, rule) }
            });
    };
}

from_integer!(CvtF32I32: B32 as i32 => F32, |a: i32| (a as f32).to_bits(), SINGLE, Rule::single);
from_integer!(CvtF32U32: B32 as u32 => F32, |a: u32| (a as f32).to_bits(), SINGLE, Rule::single);
from_integer!(CvtF16I16: B16 as i16 => F16, |a: i16| from_single(f32::from(a)), HALF, Rule::half);
from_integer!(CvtF16U16: B16 as u16 => F16, |a: u16| from_single(f32::from(a)), HALF, Rule::half);
wide!(CvtF64I32: B32 => F64, |[a, _, _]: [u64; 3]| f64::from(a as i32).to_bits());
wide!(CvtF64U32: B32 => F64, |[a, _, _]: [u64; 3]| f64::from(a as u32).to_bits());

/// One byte of the source.
macro_rules! from_byte {
    ($($name:ident $shift:literal)+) => {
        $(lane!($name: B32 => F32, |[a, _, _]: [u32; 3]| ((a >> $shift & 0xFF) as i32 as f32).to_bits());)+
    };
}

from_byte!(CvtF32Ubyte0 0 CvtF32Ubyte1 8 CvtF32Ubyte2 16 CvtF32Ubyte3 24);

// Numbers to integers: toward zero, saturating, NaN to zero, in every mode. That is what `as` does.
lane!(CvtU32F32: F32 => B32, |[a, _, _]: [u32; 3]| f32::from_bits(a) as u32);
lane!(CvtI32F32: F32 => B32, |[a, _, _]: [u32; 3]| f32::from_bits(a) as i32 as u32);
lane!(CvtRpiI32F32: F32 => B32, |[a, _, _]: [u32; 3]| (f32::from_bits(a) + 0.5).floor() as i32 as u32);
lane!(CvtFlrI32F32: F32 => B32, |[a, _, _]: [u32; 3]| f32::from_bits(a).floor() as i32 as u32);
lane!(CvtU16F16: F16 => B16, |[a, _, _]: [u32; 3]| u32::from(to_single(a) as u16));
lane!(CvtI16F16: F16 => B16, |[a, _, _]: [u32; 3]| u32::from(to_single(a) as i16 as u16));
wide!(CvtI32F64: F64 => B32, |[a, _, _]: [u64; 3]| u64::from(f64::from_bits(a) as i32 as u32));
wide!(CvtU32F64: F64 => B32, |[a, _, _]: [u64; 3]| u64::from(f64::from_bits(a) as u32));

/// Sixteenths, from a signed integer of four bits.
#[inline(always)]
fn offset([a, _, _]: [u32; 3]) -> u32 {
    (((a << 28) as i32 >> 28) as f32 * 0.0625).to_bits()
}

lane!(CvtOffF32I4: B32 => F32, offset);

#[inline(always)]
fn f16_f32_in_mode([a, _, _]: [u32; 3], mode: u32) -> u32 {
    let rule = Rule::half(mode);
    if rule.is_usual() { from_single(f32::from_bits(a)) } else { SINGLE.convert(a.into(), HALF, rule) as u32 }
}

#[inline(always)]
fn f32_f64([a, _, _]: [u64; 3]) -> u64 {
    u64::from((f64::from_bits(a) as f32).to_bits())
}

#[inline(always)]
fn f32_f64_in_mode(source: [u64; 3], mode: u32) -> u64 {
    let rule = Rule::single(mode);
    if rule.is_usual() { f32_f64(source) } else { DOUBLE.convert(source[0], SINGLE, rule) }
}

lane!(CvtF16F32: F32 => F16, |[a, _, _]: [u32; 3]| from_single(f32::from_bits(a)), in_mode f16_f32_in_mode);
lane!(CvtF32F16: F16 => F32, |[a, _, _]: [u32; 3]| to_single(a).to_bits());
wide!(CvtF32F64: F64 => F32, f32_f64, in_mode f32_f64_in_mode);
wide!(CvtF64F32: F32 => F64, |[a, _, _]: [u64; 3]| f64::from(f32::from_bits(a as u32)).to_bits());

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    wide::<CvtI32F64>(Vop1, 3, "v_cvt_i32_f64"),
    wide::<CvtF64I32>(Vop1, 4, "v_cvt_f64_i32"),
    lane::<CvtF32I32>(Vop1, 5, "v_cvt_f32_i32"),
    lane::<CvtF32U32>(Vop1, 6, "v_cvt_f32_u32"),
    lane::<CvtU32F32>(Vop1, 7, "v_cvt_u32_f32"),
    lane::<CvtI32F32>(Vop1, 8, "v_cvt_i32_f32"),
    lane::<CvtF16F32>(Vop1, 10, "v_cvt_f16_f32"),
    lane::<CvtF32F16>(Vop1, 11, "v_cvt_f32_f16"),
    lane::<CvtRpiI32F32>(Vop1, 12, "v_cvt_rpi_i32_f32"),
    lane::<CvtFlrI32F32>(Vop1, 13, "v_cvt_flr_i32_f32"),
    lane::<CvtOffF32I4>(Vop1, 14, "v_cvt_off_f32_i4"),
    wide::<CvtF32F64>(Vop1, 15, "v_cvt_f32_f64"),
    wide::<CvtF64F32>(Vop1, 16, "v_cvt_f64_f32"),
    lane::<CvtF32Ubyte0>(Vop1, 17, "v_cvt_f32_ubyte0"),
    lane::<CvtF32Ubyte1>(Vop1, 18, "v_cvt_f32_ubyte1"),
    lane::<CvtF32Ubyte2>(Vop1, 19, "v_cvt_f32_ubyte2"),
    lane::<CvtF32Ubyte3>(Vop1, 20, "v_cvt_f32_ubyte3"),
    wide::<CvtU32F64>(Vop1, 21, "v_cvt_u32_f64"),
    wide::<CvtF64U32>(Vop1, 22, "v_cvt_f64_u32"),
    lane::<CvtF16U16>(Vop1, 57, "v_cvt_f16_u16"),
    lane::<CvtF16I16>(Vop1, 58, "v_cvt_f16_i16"),
    lane::<CvtU16F16>(Vop1, 59, "v_cvt_u16_f16"),
    lane::<CvtI16F16>(Vop1, 60, "v_cvt_i16_f16"),
];
