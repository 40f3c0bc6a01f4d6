//! Single precision addition, multiplication and their fusions.

use super::define::lane;
use super::soft::{Rule, SINGLE};
use crate::inst::Encoding::{Vop2, Vop3};
use crate::inst::{GFX942, Inst, Op};
use crate::lanes::lane;

#[inline(always)]
fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

#[inline(always)]
fn add([a, b, _]: [u32; 3]) -> u32 {
    (float(a) + float(b)).to_bits()
}

#[inline(always)]
fn sub([a, b, _]: [u32; 3]) -> u32 {
    (float(a) - float(b)).to_bits()
}

#[inline(always)]
fn subrev([a, b, _]: [u32; 3]) -> u32 {
    (float(b) - float(a)).to_bits()
}

#[inline(always)]
fn mul([a, b, _]: [u32; 3]) -> u32 {
    (float(a) * float(b)).to_bits()
}

#[inline(always)]
pub(super) fn fma([a, b, c]: [u32; 3]) -> u32 {
    float(a).mul_add(float(b), float(c)).to_bits()
}

/// Zero times anything is zero.
#[inline(always)]
fn has_zero(a: u32, b: u32) -> bool {
    (a << 1 == 0) | (b << 1 == 0)
}

#[inline(always)]
fn mul_legacy([a, b, _]: [u32; 3]) -> u32 {
    if has_zero(a, b) { 0 } else { mul([a, b, 0]) }
}

#[inline(always)]
fn add_in_mode([a, b, _]: [u32; 3], mode: u32) -> u32 {
    let rule = Rule::single(mode);
    if rule.is_usual() { add([a, b, 0]) } else { SINGLE.add(a.into(), b.into(), rule) as u32 }
}

const SIGN: u32 = 1 << 31;

/// Subtracting a NaN gives that NaN, so the sign must not be turned.
#[inline(always)]
fn sub_in_mode([a, b, _]: [u32; 3], mode: u32) -> u32 {
    if Rule::single(mode).is_usual() || float(b).is_nan() {
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
    let rule = Rule::single(mode);
    if rule.is_usual() { mul([a, b, 0]) } else { SINGLE.mul(a.into(), b.into(), rule) as u32 }
}

#[inline(always)]
pub(super) fn fma_in_mode([a, b, c]: [u32; 3], mode: u32) -> u32 {
    let rule = Rule::single(mode);
    if rule.is_usual() { fma([a, b, c]) } else { SINGLE.fma(a.into(), b.into(), c.into(), 0, rule) as u32 }
}

#[inline(always)]
fn mul_legacy_in_mode([a, b, _]: [u32; 3], mode: u32) -> u32 {
    if has_zero(a, b) { 0 } else { mul_in_mode([a, b, 0], mode) }
}

lane!(AddF32: F32, F32 => F32, add, in_mode add_in_mode);
lane!(SubF32: F32, F32 => F32, sub, in_mode sub_in_mode);
lane!(SubrevF32: F32, F32 => F32, subrev, in_mode subrev_in_mode);
lane!(MulF32: F32, F32 => F32, mul, in_mode mul_in_mode);
lane!(MulLegacyF32: F32, F32 => F32, mul_legacy, in_mode mul_legacy_in_mode);
lane!(FmaF32: F32, F32, F32 => F32, fma, in_mode fma_in_mode);
lane!(FmacF32: F32, F32, F32 => F32, fma, in_mode fma_in_mode; ACCUMULATES);

const LITERAL: u16 = 255;

/// `fmamk`: the literal is the second factor, the second source the addend.
pub(super) fn with_factor(inst: &Inst) -> Inst {
    Inst { src: [inst.src[0], LITERAL, inst.src[1]], ..*inst }
}

/// `fmaak`: the literal is the addend.
pub(super) fn with_addend(inst: &Inst) -> Inst {
    Inst { src: [inst.src[0], inst.src[1], LITERAL], ..*inst }
}

/// Handlers that put the literal in its place and go on with the operation of three sources.
macro_rules! literal_handlers {
    ($op:ident: $factor_portable:ident, $factor_wide:ident, $addend_portable:ident, $addend_wide:ident) => {
        literal_handlers!(@ $op, portable, $factor_portable, with_factor);
        literal_handlers!(@ $op, wide, $factor_wide, with_factor);
        literal_handlers!(@ $op, portable, $addend_portable, with_addend);
        literal_handlers!(@ $op, wide, $addend_wide, with_addend);
    };
    (@ $op:ident, $which:ident, $name:ident, $place:ident) => {
        /// # Safety
        /// As the handler of the operation it ends in.
        unsafe fn $name(
            wave: &mut crate::wave::Wave,
            inst: &crate::inst::Inst,
            env: &mut crate::inst::Env<'_>,
        ) -> crate::inst::Flow {
            // SAFETY: the table hands out both for the same CPUs.
            unsafe { ($op.$which)(wave, &$crate::exec::vector::float::single::$place(inst), env) }
        }
    };
}
pub(super) use literal_handlers;

static FMA: Op = lane::<FmaF32>(Vop3, 459, "v_fma_f32");

literal_handlers!(FMA: fmamk_portable, fmamk_wide, fmaak_portable, fmaak_wide);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    lane::<AddF32>(Vop2, 1, "v_add_f32"),
    lane::<SubF32>(Vop2, 2, "v_sub_f32"),
    lane::<SubrevF32>(Vop2, 3, "v_subrev_f32"),
    lane::<MulF32>(Vop2, 5, "v_mul_f32"),
    Op { portable: fmamk_portable, wide: fmamk_wide, ..Op::new(Vop2, 23, "v_fmamk_f32", fmamk_portable) }.on(GFX942),
    Op { portable: fmaak_portable, wide: fmaak_wide, ..Op::new(Vop2, 24, "v_fmaak_f32", fmaak_portable) }.on(GFX942),
    lane::<FmacF32>(Vop2, 59, "v_fmac_f32"),
    lane::<FmaF32>(Vop3, 459, "v_fma_f32"),
    lane::<MulLegacyF32>(Vop3, 673, "v_mul_legacy_f32"),
];
