//! Bits of two over pi, for the range reduction of large angles.

use super::define::wide;
use super::soft::{DOUBLE, Finite, Rule};
use crate::inst::Encoding::Vop3;
use crate::inst::Op;
use crate::lanes::wide;

/// The first bits of the fraction of two over pi.
const TWO_OVER_PI: [u64; 19] = [
    0xA2F9_836E_4E44_1529,
    0xFC27_57D1_F534_DDC0,
    0xDB62_9599_3C43_9041,
    0xFE51_63AB_DEBB_C561,
    0xB724_6E3A_424D_D2E0,
    0x0649_2EEA_09D1_921C,
    0xFE1D_EB1C_B129_A73E,
    0xE882_35F5_2EBB_4484,
    0xE99C_7026_B45F_7E41,
    0x3991_D639_8353_39F4,
    0x9C84_5F8B_BDF9_283B,
    0x1FF8_97FF_DE05_980F,
    0xEF2F_118B_5A0A_6D1F,
    0x6D36_7ECF_27CB_09B7,
    0x4F46_3F66_9E5F_EA2D,
    0x7527_BAC7_EBE5_F17B,
    0x3D07_39F7_8A52_92EA,
    0x6BFB_5FB1_1F8D_5D08,
    0x5603_3046_FC7B_6BAB,
];

/// Bits of the table that the hardware has.
const LENGTH: u32 = 1201;

/// 53 bits from a position on; beyond the table they are zero.
#[inline(always)]
fn bits(position: u32) -> u64 {
    let word = |index: u32| -> u128 {
        let whole = TWO_OVER_PI.get(index as usize).copied().unwrap_or(0);
        let known = LENGTH.saturating_sub(index * 64).min(64);
        // The table has a few bits more than the hardware.
        u128::from(if known == 0 { 0 } else { whole >> (64 - known) << (64 - known) })
    };
    let pair = word(position / 64) << 64 | word(position / 64 + 1);
    ((pair << (position % 64)) >> 75) as u64
}

#[inline(always)]
fn preop([source, segment, _]: [u64; 3], rule: Rule) -> u64 {
    let exponent = (source >> 52 & 0x7FF) as u32;
    let position = (segment & 31) as u32 * 53 + exponent.saturating_sub(1077);
    // Very large sources are scaled down before they are multiplied, so the bits are scaled up.
    let up = if exponent >= 1968 { 128 } else { 0 };
    let value = Finite { negative: false, magnitude: bits(position).into(), exponent: up - 53 - position as i32 };
    DOUBLE.round(value, rule)
}

wide!(TrigPreopF64: F64, B32 => F64,
    |source: [u64; 3]| preop(source, Rule::USUAL),
    in_mode |source: [u64; 3], mode: u32| preop(source, Rule::double(mode)));

/// Operations of this file.
pub(super) static OPS: &[Op] = &[wide::<TrigPreopF64>(Vop3, 658, "v_trig_preop_f64")];
