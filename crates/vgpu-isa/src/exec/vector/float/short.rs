//! Half precision addition, multiplication, fused and unfused multiply-add.
//!
//! Sums and products of two half precision numbers may be rounded to single precision first: 24 bits are enough that
//! the second rounding cannot see the difference.

use super::define::lane;
use super::half::{self, from_single, to_single};
use super::single::literal_handlers;
use super::soft::{HALF, Rule};
use crate::inst::Encoding::{Vop2, Vop3};
use crate::inst::Op;
use crate::lanes::lane;

#[inline(always)]
fn add([a, b, _]: [u32; 3]) -> u32 {
    from_single(to_single(a) + to_single(b))
}

#[inline(always)]
fn sub([a, b, _]: [u32; 3]) -> u32 {
    from_single(to_single(a) - to_single(b))
}

#[inline(always)]
fn subrev([a, b, _]: [u32; 3]) -> u32 {
    sub([b, a, 0])
}

#[inline(always)]
fn mul([a, b, _]: [u32; 3]) -> u32 {
    from_single(to_single(a) * to_single(b))
}

#[inline(always)]
fn fma([a, b, c]: [u32; 3]) -> u32 {
    half::fma(a, b, c)
}

/// The product is rounded before the addition.
#[inline(always)]
fn mad([a, b, c]: [u32; 3]) -> u32 {
    add([mul([a, b, 0]), c, 0])
}

const SIGN: u32 = 0x8000;

#[inline(always)]
fn add_in_mode([a, b, _]: [u32; 3], mode: u32) -> u32 {
    let rule = Rule::half(mode);
    if rule.is_usual() { add([a, b, 0]) } else { HALF.add(a.into(), b.into(), rule) as u32 }
}

#[inline(always)]
fn sub_in_mode([a, b, _]: [u32; 3], mode: u32) -> u32 {
    if Rule::half(mode).is_usual() || to_single(b).is_nan() {
        sub([a, b, 0])
    } else {
        add_in_mode([a, b ^ SIGN, 0], mode)
    }
}

#[inline(always)]
fn subrev_in_mode([a, b, _]: [u32; 3], mode: u32) -> u32 {
    sub_in_mode([b, a, 0], mode)
}

#[inline(always)]
fn mul_in_mode([a, b, _]: [u32; 3], mode: u32) -> u32 {
    let rule = Rule::half(mode);
    if rule.is_usual() { mul([a, b, 0]) } else { HALF.mul(a.into(), b.into(), rule) as u32 }
}

#[inline(always)]
fn fma_in_mode([a, b, c]: [u32; 3], mode: u32) -> u32 {
    let rule = Rule::half(mode);
    if rule.is_usual() { half::fma(a, b, c) } else { HALF.fma(a.into(), b.into(), c.into(), 0, rule) as u32 }
}

#[inline(always)]
fn mad_in_mode([a, b, c]: [u32; 3], mode: u32) -> u32 {
    add_in_mode([mul_in_mode([a, b, 0], mode), c, 0], mode)
}

lane!(AddF16: F16, F16 => F16, add, in_mode add_in_mode);
lane!(SubF16: F16, F16 => F16, sub, in_mode sub_in_mode);
lane!(SubrevF16: F16, F16 => F16, subrev, in_mode subrev_in_mode);
lane!(MulF16: F16, F16 => F16, mul, in_mode mul_in_mode);
lane!(MacF16: F16, F16, F16 => F16, mad, in_mode mad_in_mode; ACCUMULATES);
lane!(MadLegacyF16: F16, F16, F16 => F16, mad, in_mode mad_in_mode);
lane!(FmaLegacyF16: F16, F16, F16 => F16, fma, in_mode fma_in_mode);
lane!(MadF16: F16, F16, F16 => F16, mad, in_mode mad_in_mode; KEEPS_HIGH);
lane!(FmaF16: F16, F16, F16 => F16, fma, in_mode fma_in_mode; KEEPS_HIGH);

static MAD: Op = lane::<MadLegacyF16>(Vop3, 490, "v_mad_legacy_f16");

literal_handlers!(MAD: madmk_portable, madmk_wide, madak_portable, madak_wide);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    lane::<AddF16>(Vop2, 31, "v_add_f16"),
    lane::<SubF16>(Vop2, 32, "v_sub_f16"),
    lane::<SubrevF16>(Vop2, 33, "v_subrev_f16"),
    lane::<MulF16>(Vop2, 34, "v_mul_f16"),
    lane::<MacF16>(Vop2, 35, "v_mac_f16"),
    Op { portable: madmk_portable, wide: madmk_wide, ..Op::new(Vop2, 36, "v_madmk_f16", madmk_portable) },
    Op { portable: madak_portable, wide: madak_wide, ..Op::new(Vop2, 37, "v_madak_f16", madak_portable) },
    lane::<MadLegacyF16>(Vop3, 490, "v_mad_legacy_f16"),
    lane::<FmaLegacyF16>(Vop3, 494, "v_fma_legacy_f16"),
    lane::<MadF16>(Vop3, 515, "v_mad_f16"),
    lane::<FmaF16>(Vop3, 518, "v_fma_f16"),
];
