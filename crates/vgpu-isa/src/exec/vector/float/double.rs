//! Double precision addition, multiplication and their fusion.

use super::define::wide;
use super::soft::{DOUBLE, Rule};
use crate::inst::Encoding::{Vop2, Vop3};
use crate::inst::Op;
use crate::lanes::wide;

#[inline(always)]
fn add([a, b, _]: [u64; 3]) -> u64 {
    (f64::from_bits(a) + f64::from_bits(b)).to_bits()
}

#[inline(always)]
fn mul([a, b, _]: [u64; 3]) -> u64 {
    (f64::from_bits(a) * f64::from_bits(b)).to_bits()
}

#[inline(always)]
pub(super) fn fma([a, b, c]: [u64; 3]) -> u64 {
    f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits()
}

#[inline(always)]
fn add_in_mode([a, b, _]: [u64; 3], mode: u32) -> u64 {
    let rule = Rule::double(mode);
    if rule.is_usual() { add([a, b, 0]) } else { DOUBLE.add(a, b, rule) }
}

#[inline(always)]
fn mul_in_mode([a, b, _]: [u64; 3], mode: u32) -> u64 {
    let rule = Rule::double(mode);
    if rule.is_usual() { mul([a, b, 0]) } else { DOUBLE.mul(a, b, rule) }
}

#[inline(always)]
pub(super) fn fma_in_mode([a, b, c]: [u64; 3], mode: u32) -> u64 {
    let rule = Rule::double(mode);
    if rule.is_usual() { fma([a, b, c]) } else { DOUBLE.fma(a, b, c, 0, rule) }
}

wide!(AddF64: F64, F64 => F64, add, in_mode add_in_mode);
wide!(MulF64: F64, F64 => F64, mul, in_mode mul_in_mode);
wide!(FmaF64: F64, F64, F64 => F64, fma, in_mode fma_in_mode);
wide!(FmacF64: F64, F64, F64 => F64, fma, in_mode fma_in_mode; ACCUMULATES);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    wide::<FmacF64>(Vop2, 4, "v_fmac_f64"),
    wide::<FmaF64>(Vop3, 460, "v_fma_f64"),
    wide::<AddF64>(Vop3, 640, "v_add_f64"),
    wide::<MulF64>(Vop3, 641, "v_mul_f64"),
];
