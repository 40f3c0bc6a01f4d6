//! Minimum, maximum and median.
//!
//! A quiet NaN loses against a number; with the IEEE bit a signalling NaN wins and becomes quiet. Minus zero is less
//! than zero.

use super::define::{lane, wide};
use crate::inst::Encoding::{Vop2, Vop3};
use crate::inst::Op;
use crate::lanes::{lane, wide};
use crate::wave::mode;

/// The functions of one format: bits, what they stand for, quiet bit, sign bit, infinity.
macro_rules! extremes {
    ($module:ident, $bits:ty, $value:path, $quiet:expr, $sign:expr, $infinity:expr) => {
        mod $module {
            #[inline(always)]
            pub(super) fn is_nan(bits: $bits) -> bool {
                bits & ($sign - 1) > $infinity
            }

            #[inline(always)]
            fn is_signalling(bits: $bits) -> bool {
                is_nan(bits) & (bits & $quiet == 0)
            }

            /// The choice between two sources, once it is known whether the first one is ahead.
            #[inline(always)]
            fn choose(a: $bits, b: $bits, ahead: bool, ieee: bool) -> $bits {
                let number = if !is_nan(a) & (ahead | is_nan(b)) { a } else { b };
                let number = if ieee & is_signalling(b) { b | $quiet } else { number };
                if ieee & is_signalling(a) { a | $quiet } else { number }
            }

            #[inline(always)]
            pub(super) fn min(a: $bits, b: $bits, ieee: bool) -> $bits {
                let (x, y) = ($value(a), $value(b));
                choose(a, b, (x < y) | ((x == y) & (a & $sign != 0)), ieee)
            }

            #[inline(always)]
            pub(super) fn max(a: $bits, b: $bits, ieee: bool) -> $bits {
                let (x, y) = ($value(a), $value(b));
                choose(a, b, (x > y) | ((x == y) & (a & $sign == 0)), ieee)
            }
        }
    };
}

extremes!(single, u32, f32::from_bits, 0x0040_0000, 0x8000_0000, 0x7F80_0000);
extremes!(short, u32, crate::exec::vector::float::half::to_single, 0x0200, 0x8000, 0x7C00);
extremes!(double, u64, f64::from_bits, 1 << 51, 1 << 63, 0x7FF << 52);

/// The functions of three sources.
macro_rules! triples {
    ($module:ident, $two:ident, $value:path) => {
        mod $module {
            use super::$two::{is_nan, max, min};

            #[inline(always)]
            pub(super) fn min3([a, b, c]: [u32; 3], ieee: bool) -> u32 {
                min(min(a, b, ieee), c, ieee)
            }

            #[inline(always)]
            pub(super) fn max3([a, b, c]: [u32; 3], ieee: bool) -> u32 {
                max(max(a, b, ieee), c, ieee)
            }

            #[inline(always)]
            pub(super) fn med3([a, b, c]: [u32; 3], ieee: bool) -> u32 {
                let largest = $value(max3([a, b, c], ieee));
                let without_c = if largest == $value(b) { max(a, c, ieee) } else { max(a, b, ieee) };
                let median = if largest == $value(a) { max(b, c, ieee) } else { without_c };
                if is_nan(a) | is_nan(b) | is_nan(c) { min3([a, b, c], ieee) } else { median }
            }
        }
    };
}

triples!(single3, single, f32::from_bits);
triples!(short3, short, crate::exec::vector::float::half::to_single);

/// An operation of two sources.
macro_rules! of_two {
    ($kind:ident $name:ident: $type:ident, $bits:ty, $f:path) => {
        $kind!($name: $type, $type => $type,
            |[a, b, _]: [$bits; 3]| $f(a, b, true),
            in_mode |[a, b, _]: [$bits; 3], register: u32| $f(a, b, register & mode::IEEE != 0));
    };
}

/// An operation of three sources.
macro_rules! of_three {
    ($name:ident: $type:ident, $f:path $(, $flag:ident)?) => {
        lane!($name: $type, $type, $type => $type,
            |source: [u32; 3]| $f(source, true),
            in_mode |source: [u32; 3], register: u32| $f(source, register & mode::IEEE != 0) $(; $flag)?);
    };
}

of_two!(lane MinF32: F32, u32, single::min);
of_two!(lane MaxF32: F32, u32, single::max);
of_two!(lane MinF16: F16, u32, short::min);
of_two!(lane MaxF16: F16, u32, short::max);
of_two!(wide MinF64: F64, u64, double::min);
of_two!(wide MaxF64: F64, u64, double::max);
of_three!(Min3F32: F32, single3::min3);
of_three!(Max3F32: F32, single3::max3);
of_three!(Med3F32: F32, single3::med3);
of_three!(Min3F16: F16, short3::min3, KEEPS_HIGH);
of_three!(Max3F16: F16, short3::max3, KEEPS_HIGH);
of_three!(Med3F16: F16, short3::med3, KEEPS_HIGH);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    lane::<MinF32>(Vop2, 10, "v_min_f32"),
    lane::<MaxF32>(Vop2, 11, "v_max_f32"),
    lane::<MaxF16>(Vop2, 45, "v_max_f16"),
    lane::<MinF16>(Vop2, 46, "v_min_f16"),
    lane::<Min3F32>(Vop3, 464, "v_min3_f32"),
    lane::<Max3F32>(Vop3, 467, "v_max3_f32"),
    lane::<Med3F32>(Vop3, 470, "v_med3_f32"),
    lane::<Min3F16>(Vop3, 500, "v_min3_f16"),
    lane::<Max3F16>(Vop3, 503, "v_max3_f16"),
    lane::<Med3F16>(Vop3, 506, "v_med3_f16"),
    wide::<MinF64>(Vop3, 642, "v_min_f64"),
    wide::<MaxF64>(Vop3, 643, "v_max_f64"),
];
