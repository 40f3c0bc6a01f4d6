//! Matrix instructions.

mod arithmetic;
mod dense;
mod format;
mod operands;
mod shape;
mod sparse;

use dense::{Bytes, Doubles, Halves, Singles, dense};
use format::{Bf8, Bf16, Bf16Normal, F16, F16Normal, F32, Fp8, Xf32};
use shape::{Double, Single};
use sparse::sparse;

use crate::inst::{GFX90A, GFX942, Op};

/// Modifiers of an instruction: none, permutations of B, or those and broadcasts of A.
const NONE: u8 = 0;
const PATTERN: u8 = 1;
const ALL: u8 = 2;

pub(super) static DENSE: &[Op] = &[
    dense::<Singles<Single<16, 8, 1>, Xf32, Xf32, NONE>>(62, "v_mfma_f32_16x16x8_xf32").on(GFX942),
    dense::<Singles<Single<32, 4, 1>, Xf32, Xf32, NONE>>(63, "v_mfma_f32_32x32x4_xf32").on(GFX942),
    dense::<Singles<Single<32, 1, 2>, F32, F32, ALL>>(64, "v_mfma_f32_32x32x1_2b_f32").on(GFX942),
    dense::<Singles<Single<16, 1, 4>, F32, F32, ALL>>(65, "v_mfma_f32_16x16x1_4b_f32").on(GFX942),
    dense::<Singles<Single<4, 1, 16>, F32, F32, ALL>>(66, "v_mfma_f32_4x4x1_16b_f32").on(GFX942),
    dense::<Singles<Single<32, 2, 1>, F32, F32, PATTERN>>(68, "v_mfma_f32_32x32x2_f32").on(GFX942),
    dense::<Singles<Single<16, 4, 1>, F32, F32, PATTERN>>(69, "v_mfma_f32_16x16x4_f32").on(GFX942),
    dense::<Singles<Single<32, 4, 2>, F16, F16, ALL>>(72, "v_mfma_f32_32x32x4_2b_f16").on(GFX942),
    dense::<Singles<Single<16, 4, 4>, F16, F16, ALL>>(73, "v_mfma_f32_16x16x4_4b_f16").on(GFX942),
    dense::<Singles<Single<4, 4, 16>, F16, F16, ALL>>(74, "v_mfma_f32_4x4x4_16b_f16").on(GFX942),
    dense::<Singles<Single<32, 8, 1>, F16, F16, NONE>>(76, "v_mfma_f32_32x32x8_f16").on(GFX942),
    dense::<Singles<Single<16, 16, 1>, F16, F16, NONE>>(77, "v_mfma_f32_16x16x16_f16").on(GFX942),
    dense::<Bytes<Single<32, 4, 2>, ALL>>(80, "v_mfma_i32_32x32x4_2b_i8").on(GFX942),
    dense::<Bytes<Single<16, 4, 4>, ALL>>(81, "v_mfma_i32_16x16x4_4b_i8").on(GFX942),
    dense::<Bytes<Single<4, 4, 16>, ALL>>(82, "v_mfma_i32_4x4x4_16b_i8").on(GFX942),
    dense::<Bytes<Single<32, 16, 1>, NONE>>(86, "v_mfma_i32_32x32x16_i8").on(GFX942),
    dense::<Bytes<Single<16, 32, 1>, NONE>>(87, "v_mfma_i32_16x16x32_i8").on(GFX942),
    dense::<Singles<Single<32, 4, 2>, Bf16, Bf16, ALL>>(93, "v_mfma_f32_32x32x4_2b_bf16").on(GFX942),
    dense::<Singles<Single<16, 4, 4>, Bf16, Bf16, ALL>>(94, "v_mfma_f32_16x16x4_4b_bf16").on(GFX942),
    dense::<Singles<Single<4, 4, 16>, Bf16, Bf16, ALL>>(95, "v_mfma_f32_4x4x4_16b_bf16").on(GFX942),
    dense::<Singles<Single<32, 8, 1>, Bf16, Bf16, NONE>>(96, "v_mfma_f32_32x32x8_bf16").on(GFX942),
    dense::<Singles<Single<16, 16, 1>, Bf16, Bf16, NONE>>(97, "v_mfma_f32_16x16x16_bf16").on(GFX942),
    dense::<Doubles<Double<16, 4, 1>, true>>(110, "v_mfma_f64_16x16x4_f64").on(GFX942),
    dense::<Doubles<Double<4, 4, 4>, true>>(111, "v_mfma_f64_4x4x4_4b_f64").on(GFX942),
    dense::<Singles<Single<16, 32, 1>, Bf8, Bf8, NONE>>(112, "v_mfma_f32_16x16x32_bf8_bf8").on(GFX942),
    dense::<Singles<Single<16, 32, 1>, Bf8, Fp8, NONE>>(113, "v_mfma_f32_16x16x32_bf8_fp8").on(GFX942),
    dense::<Singles<Single<16, 32, 1>, Fp8, Bf8, NONE>>(114, "v_mfma_f32_16x16x32_fp8_bf8").on(GFX942),
    dense::<Singles<Single<16, 32, 1>, Fp8, Fp8, NONE>>(115, "v_mfma_f32_16x16x32_fp8_fp8").on(GFX942),
    dense::<Singles<Single<32, 16, 1>, Bf8, Bf8, NONE>>(116, "v_mfma_f32_32x32x16_bf8_bf8").on(GFX942),
    dense::<Singles<Single<32, 16, 1>, Bf8, Fp8, NONE>>(117, "v_mfma_f32_32x32x16_bf8_fp8").on(GFX942),
    dense::<Singles<Single<32, 16, 1>, Fp8, Bf8, NONE>>(118, "v_mfma_f32_32x32x16_fp8_bf8").on(GFX942),
    dense::<Singles<Single<32, 16, 1>, Fp8, Fp8, NONE>>(119, "v_mfma_f32_32x32x16_fp8_fp8").on(GFX942),
];

/// What MI200 has: fewer types, smaller shapes, other names. Which modifiers apply is what AMD's matrix instruction
/// calculator says for CDNA2.
pub(super) static DENSE_90A: &[Op] = &[
    dense::<Singles<Single<32, 1, 2>, F32, F32, ALL>>(64, "v_mfma_f32_32x32x1f32").on(GFX90A),
    dense::<Singles<Single<16, 1, 4>, F32, F32, ALL>>(65, "v_mfma_f32_16x16x1f32").on(GFX90A),
    dense::<Singles<Single<4, 1, 16>, F32, F32, ALL>>(66, "v_mfma_f32_4x4x1f32").on(GFX90A),
    dense::<Singles<Single<32, 2, 1>, F32, F32, PATTERN>>(68, "v_mfma_f32_32x32x2f32").on(GFX90A),
    dense::<Singles<Single<16, 4, 1>, F32, F32, PATTERN>>(69, "v_mfma_f32_16x16x4f32").on(GFX90A),
    dense::<Halves<Single<32, 4, 2>, F16Normal, 4, ALL>>(72, "v_mfma_f32_32x32x4f16").on(GFX90A),
    dense::<Halves<Single<16, 4, 4>, F16Normal, 4, ALL>>(73, "v_mfma_f32_16x16x4f16").on(GFX90A),
    dense::<Halves<Single<4, 4, 16>, F16Normal, 4, ALL>>(74, "v_mfma_f32_4x4x4f16").on(GFX90A),
    dense::<Halves<Single<32, 8, 1>, F16Normal, 4, PATTERN>>(76, "v_mfma_f32_32x32x8f16").on(GFX90A),
    dense::<Halves<Single<16, 16, 1>, F16Normal, 4, PATTERN>>(77, "v_mfma_f32_16x16x16f16").on(GFX90A),
    dense::<Bytes<Single<32, 4, 2>, ALL>>(80, "v_mfma_i32_32x32x4i8").on(GFX90A),
    dense::<Bytes<Single<16, 4, 4>, ALL>>(81, "v_mfma_i32_16x16x4i8").on(GFX90A),
    dense::<Bytes<Single<4, 4, 16>, ALL>>(82, "v_mfma_i32_4x4x4i8").on(GFX90A),
    dense::<Bytes<Single<32, 8, 1>, PATTERN>>(84, "v_mfma_i32_32x32x8i8").on(GFX90A),
    dense::<Bytes<Single<16, 16, 1>, PATTERN>>(85, "v_mfma_i32_16x16x16i8").on(GFX90A),
    dense::<Halves<Single<32, 4, 2>, Bf16Normal, 4, ALL>>(99, "v_mfma_f32_32x32x4bf16_1k").on(GFX90A),
    dense::<Halves<Single<16, 4, 4>, Bf16Normal, 4, ALL>>(100, "v_mfma_f32_16x16x4bf16_1k").on(GFX90A),
    dense::<Halves<Single<4, 4, 16>, Bf16Normal, 4, ALL>>(101, "v_mfma_f32_4x4x4bf16_1k").on(GFX90A),
    dense::<Halves<Single<32, 8, 1>, Bf16Normal, 4, PATTERN>>(102, "v_mfma_f32_32x32x8bf16_1k").on(GFX90A),
    dense::<Halves<Single<16, 16, 1>, Bf16Normal, 4, PATTERN>>(103, "v_mfma_f32_16x16x16bf16_1k").on(GFX90A),
    dense::<Halves<Single<32, 2, 2>, Bf16Normal, 2, ALL>>(104, "v_mfma_f32_32x32x2bf16").on(GFX90A),
    dense::<Halves<Single<16, 2, 4>, Bf16Normal, 2, ALL>>(105, "v_mfma_f32_16x16x2bf16").on(GFX90A),
    dense::<Halves<Single<4, 2, 16>, Bf16Normal, 2, ALL>>(107, "v_mfma_f32_4x4x2bf16").on(GFX90A),
    dense::<Halves<Single<32, 4, 1>, Bf16Normal, 2, PATTERN>>(108, "v_mfma_f32_32x32x4bf16").on(GFX90A),
    dense::<Halves<Single<16, 8, 1>, Bf16Normal, 2, PATTERN>>(109, "v_mfma_f32_16x16x8bf16").on(GFX90A),
    dense::<Doubles<Double<16, 4, 1>, false>>(110, "v_mfma_f64_16x16x4f64").on(GFX90A),
    dense::<Doubles<Double<4, 4, 4>, false>>(111, "v_mfma_f64_4x4x4f64").on(GFX90A),
];

pub(super) static SPARSE: &[Op] = &[
    sparse::<sparse::Singles<Single<16, 32, 1>, F16, F16>>(98, "v_smfmac_f32_16x16x32_f16"),
    sparse::<sparse::Singles<Single<32, 16, 1>, F16, F16>>(100, "v_smfmac_f32_32x32x16_f16"),
    sparse::<sparse::Singles<Single<16, 32, 1>, Bf16, Bf16>>(102, "v_smfmac_f32_16x16x32_bf16"),
    sparse::<sparse::Singles<Single<32, 16, 1>, Bf16, Bf16>>(104, "v_smfmac_f32_32x32x16_bf16"),
    sparse::<sparse::Bytes<Single<16, 64, 1>>>(106, "v_smfmac_i32_16x16x64_i8"),
    sparse::<sparse::Bytes<Single<32, 32, 1>>>(108, "v_smfmac_i32_32x32x32_i8"),
    sparse::<sparse::Singles<Single<16, 64, 1>, Bf8, Bf8>>(120, "v_smfmac_f32_16x16x64_bf8_bf8"),
    sparse::<sparse::Singles<Single<16, 64, 1>, Bf8, Fp8>>(121, "v_smfmac_f32_16x16x64_bf8_fp8"),
    sparse::<sparse::Singles<Single<16, 64, 1>, Fp8, Bf8>>(122, "v_smfmac_f32_16x16x64_fp8_bf8"),
    sparse::<sparse::Singles<Single<16, 64, 1>, Fp8, Fp8>>(123, "v_smfmac_f32_16x16x64_fp8_fp8"),
    sparse::<sparse::Singles<Single<32, 32, 1>, Bf8, Bf8>>(124, "v_smfmac_f32_32x32x32_bf8_bf8"),
    sparse::<sparse::Singles<Single<32, 32, 1>, Bf8, Fp8>>(125, "v_smfmac_f32_32x32x32_bf8_fp8"),
    sparse::<sparse::Singles<Single<32, 32, 1>, Fp8, Bf8>>(126, "v_smfmac_f32_32x32x32_fp8_bf8"),
    sparse::<sparse::Singles<Single<32, 32, 1>, Fp8, Fp8>>(127, "v_smfmac_f32_32x32x32_fp8_fp8"),
];
