//! Packed half precision.

use super::float::{Rules, clamp_half, fma_to_odd, from_half, in_singles, to_half};
use super::packed::{Packed, packed};
use crate::inst::{Encoding, Op};
use crate::operand::Type;
use crate::wave::Lanes;

/// Arithmetic: in single precision for the usual mode, in double precision for others. Singles have more than twice the
/// bits of halves: rounding twice is rounding once.
macro_rules! arithmetic {
    ($($name:ident, $sources:literal, $accumulates:literal, |$x:ident| $usual:expr, |$r:ident, $y:ident| $exact:expr;)*) => {
        $(struct $name;

        impl Packed for $name {
            const SOURCES: usize = $sources;
            const CONSTANTS: Type = Type::F16;
            const ACCUMULATES: bool = $accumulates;

            #[inline(always)]
            fn half(source: [u32; 3]) -> u32 {
                let $x = source.map(from_half);
                to_half($usual)
            }

            #[inline(always)]
            fn all(sources: [&Lanes; 3]) -> Lanes {
                in_singles(sources, |$x| $usual)
            }

            #[inline(always)]
            fn clamped(source: [u32; 3]) -> u32 {
                clamp_half(Self::half(source), true)
            }

            #[inline(always)]
            fn in_mode(source: [u32; 3], $r: Rules) -> u32 {
                let $y = source.map(|half| f64::from(from_half(half)));
                $r.half_result($exact)
            }
        })*
    };
}

arithmetic! {
    FmaF16, 3, false, |x| fma_to_odd(x), |r, y| r.sum(y[0] * y[1], y[2]);
    FmacF16, 3, true, |x| fma_to_odd(x), |r, y| r.sum(y[0] * y[1], y[2]);
    AddF16, 2, false, |x| x[0] + x[1], |r, y| r.sum(y[0], y[1]);
    MulF16, 2, false, |x| x[0] * x[1], |_r, y| y[0] * y[1];
}

#[inline(always)]
const fn is_nan(half: u32) -> bool {
    half & 0x7FFF > 0x7C00
}

#[inline(always)]
const fn is_signalling(half: u32) -> bool {
    is_nan(half) && half & 0x200 == 0
}

/// Halves as integers of the same order; NaNs must have been sorted out.
#[inline(always)]
const fn order(half: u32) -> i32 {
    let value = half as i32;
    if half & 0x8000 != 0 { 0x7FFF - value } else { value }
}

/// Minimum or maximum; minus zero is less than plus zero.
#[inline(always)]
fn extreme<const MAX: bool>(a: u32, b: u32, ieee: bool) -> u32 {
    let first = (order(a) > order(b)) == MAX;
    let picked = if first { a } else { b };
    let picked = if is_nan(b) { a } else { picked };
    let picked = if is_nan(a) { b } else { picked };
    let picked = if ieee && is_signalling(b) { b | 0x200 } else { picked };
    if ieee && is_signalling(a) { a | 0x200 } else { picked }
}

struct Extreme<const MAX: bool>;

impl<const MAX: bool> Packed for Extreme<MAX> {
    const SOURCES: usize = 2;
    const CONSTANTS: Type = Type::F16;

    #[inline(always)]
    fn half(source: [u32; 3]) -> u32 {
        extreme::<MAX>(source[0], source[1], true)
    }

    #[inline(always)]
    fn clamped(source: [u32; 3]) -> u32 {
        clamp_half(Self::half(source), true)
    }

    #[inline(always)]
    fn in_mode(source: [u32; 3], rules: Rules) -> u32 {
        rules.half_kept(extreme::<MAX>(source[0], source[1], rules.ieee))
    }
}

pub(super) static OPS: &[Op] = &[
    packed::<FmaF16>(Encoding::Vop3p, 14, "v_pk_fma_f16"),
    packed::<AddF16>(Encoding::Vop3p, 15, "v_pk_add_f16"),
    packed::<MulF16>(Encoding::Vop3p, 16, "v_pk_mul_f16"),
    packed::<Extreme<false>>(Encoding::Vop3p, 17, "v_pk_min_f16"),
    packed::<Extreme<true>>(Encoding::Vop3p, 18, "v_pk_max_f16"),
    packed::<FmacF16>(Encoding::Vop2, 60, "v_pk_fmac_f16"),
];
