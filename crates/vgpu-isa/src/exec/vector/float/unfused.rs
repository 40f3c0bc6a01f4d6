//! Single precision multiply-add with two roundings: what MI200 has where MI300 has the fused one.
//!
//! These operations know no denormals: they flush them whatever the mode says (LLVM relies on it: it emits them only
//! where flushing is allowed).

use super::define::lane;
use super::single::literal_handlers;
use super::soft::{Rule, SINGLE};
use crate::inst::Encoding::{Vop2, Vop3};
use crate::inst::{GFX90A, Op};
use crate::lanes::lane;

const SIGN: u32 = 1 << 31;
const EXPONENT: u32 = 0x7F80_0000;

#[inline(always)]
fn flush(bits: u32) -> u32 {
    if bits & EXPONENT == 0 { bits & SIGN } else { bits }
}

#[inline(always)]
fn mad([a, b, c]: [u32; 3]) -> u32 {
    let product = flush((f32::from_bits(flush(a)) * f32::from_bits(flush(b))).to_bits());
    flush((f32::from_bits(product) + f32::from_bits(flush(c))).to_bits())
}

#[inline(always)]
fn mad_in_mode(sources: [u32; 3], mode: u32) -> u32 {
    let rule = Rule::single(mode);
    if rule.is_usual() {
        return mad(sources);
    }
    let [a, b, c] = sources.map(|bits| u64::from(flush(bits)));
    let product = flush(SINGLE.mul(a, b, rule) as u32);
    flush(SINGLE.add(product.into(), c, rule) as u32)
}

/// Zero times anything is zero.
#[inline(always)]
fn has_zero([a, b, _]: [u32; 3]) -> bool {
    (flush(a) << 1 == 0) | (flush(b) << 1 == 0)
}

#[inline(always)]
fn mad_legacy(sources: [u32; 3]) -> u32 {
    let [_, _, c] = sources;
    if has_zero(sources) { mad([0, 0, c]) } else { mad(sources) }
}

#[inline(always)]
fn mad_legacy_in_mode(sources: [u32; 3], mode: u32) -> u32 {
    let [_, _, c] = sources;
    if has_zero(sources) { mad_in_mode([0, 0, c], mode) } else { mad_in_mode(sources, mode) }
}

lane!(MacF32: F32, F32, F32 => F32, mad, in_mode mad_in_mode; ACCUMULATES);
lane!(MadF32: F32, F32, F32 => F32, mad, in_mode mad_in_mode);
lane!(MadLegacyF32: F32, F32, F32 => F32, mad_legacy, in_mode mad_legacy_in_mode);

static MAD: Op = lane::<MadF32>(Vop3, 449, "v_mad_f32");

literal_handlers!(MAD: madmk_portable, madmk_wide, madak_portable, madak_wide);

/// Operations of this file.
pub(super) static OPS: &[Op] = &[
    lane::<MacF32>(Vop2, 22, "v_mac_f32").on(GFX90A),
    Op { portable: madmk_portable, wide: madmk_wide, ..Op::new(Vop2, 23, "v_madmk_f32", madmk_portable) }.on(GFX90A),
    Op { portable: madak_portable, wide: madak_wide, ..Op::new(Vop2, 24, "v_madak_f32", madak_portable) }.on(GFX90A),
    lane::<MadLegacyF32>(Vop3, 448, "v_mad_legacy_f32").on(GFX90A),
    lane::<MadF32>(Vop3, 449, "v_mad_f32").on(GFX90A),
];
