//! Matrix instructions of MI200.

use super::layout::{Element, Instruction};
use super::mfma::{Run, runs};
use crate::harness::Case;

/// What MI200 has: all but doubles permute B, and all with several blocks broadcast A.
const ALL: &[&str] = &[
    "v_mfma_f32_32x32x1f32",
    "v_mfma_f32_16x16x1f32",
    "v_mfma_f32_4x4x1f32",
    "v_mfma_f32_32x32x2f32",
    "v_mfma_f32_16x16x4f32",
    "v_mfma_f32_32x32x4f16",
    "v_mfma_f32_16x16x4f16",
    "v_mfma_f32_4x4x4f16",
    "v_mfma_f32_32x32x8f16",
    "v_mfma_f32_16x16x16f16",
    "v_mfma_i32_32x32x4i8",
    "v_mfma_i32_16x16x4i8",
    "v_mfma_i32_4x4x4i8",
    "v_mfma_i32_32x32x8i8",
    "v_mfma_i32_16x16x16i8",
    "v_mfma_f32_32x32x4bf16_1k",
    "v_mfma_f32_16x16x4bf16_1k",
    "v_mfma_f32_4x4x4bf16_1k",
    "v_mfma_f32_32x32x8bf16_1k",
    "v_mfma_f32_16x16x16bf16_1k",
    "v_mfma_f32_32x32x2bf16",
    "v_mfma_f32_16x16x2bf16",
    "v_mfma_f32_4x4x2bf16",
    "v_mfma_f32_32x32x4bf16",
    "v_mfma_f32_16x16x8bf16",
    "v_mfma_f64_16x16x4f64",
    "v_mfma_f64_4x4x4f64",
];

/// What MI200 makes of products of halves, `group` of which are in a lane: each result is rounded to single precision
/// and flushed, products are added in pairs, pairs in pairs, and what comes of that to the sum.
///
/// Sums of two singles are rounded twice here, which is the same as once: doubles have more than twice the bits.
pub(super) fn paired(addend: f64, products: &[f64], group: usize, saturates: bool) -> f64 {
    let round = |exact: f64| {
        let single = exact as f32;
        let overflows = saturates && single.is_infinite() && exact.is_finite();
        let single = if overflows { f32::MAX.copysign(single) } else { single };
        if single.is_subnormal() { 0.0 } else { f64::from(single) }
    };
    products.chunks(group).fold(round(addend), |sum, chunk| {
        let mut level: Vec<f64> = chunk.iter().map(|&product| round(product)).collect();
        while level.len() > 1 {
            level = level.chunks(2).map(|pair| round(pair.iter().sum())).collect();
        }
        round(sum + level[0])
    })
}

pub(super) fn cases() -> Vec<Case> {
    let runs = ALL.iter().flat_map(|&name| {
        let instruction = Instruction::parse(name);
        let double = instruction.a == Element::F64;
        runs(name, instruction.blocks > 1 && !double, !double)
    });
    runs.map(Run::case).collect()
}
