//! Instructions whose cost is measured. Encodings by llvm-mc-19.

/// Addresses of the lanes of a memory instruction.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AccessPattern {
    /// Neighbouring lanes are so many bytes apart.
    Stride(u32),
    /// The addresses are a permutation without neighbours.
    Scattered,
}

/// An instruction, the addresses of its lanes, and the lanes that are on.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) words: &'static [u32],
    pub(crate) pattern: AccessPattern,
    pub(crate) exec: u64,
}

const fn case(name: &'static str, words: &'static [u32]) -> Case {
    Case { name, words, pattern: AccessPattern::Stride(4), exec: !0 }
}

const fn strided(name: &'static str, stride: u32, words: &'static [u32]) -> Case {
    Case { name, words, pattern: AccessPattern::Stride(stride), exec: !0 }
}

const fn scattered(name: &'static str, words: &'static [u32]) -> Case {
    Case { name, words, pattern: AccessPattern::Scattered, exec: !0 }
}

/// The instruction that is compared with a loop of the host.
pub(crate) const FMA: &Case = &case("v_fma_f32", FMA_WORDS);
const FMA_WORDS: &[u32] = &[0xD1CB_0004, 0x040E_0501];

/// Address: v0 (LDS, or global with s[2:3]), v[10:11]; data: v1 to v3 and s[4:5].
pub(crate) static CASES: &[Case] = &[
    case("v_fma_f32", FMA_WORDS),
    Case {
        name: "v_fma_f32, half of the lanes",
        words: FMA_WORDS,
        pattern: AccessPattern::Stride(4),
        exec: 0xFFFF_FFFF,
    },
    case("v_fma_f32 with a negated source", &[0xD1CB_0004, 0x240E_0501]),
    case("v_fmac_f32", &[0x7608_0501]),
    case("v_pk_mul_f32", &[0xD3B1_4004, 0x1802_0502]),
    case("v_add_u32", &[0x6808_0501]),
    case("v_mul_f32 with a literal", &[0x0A0C_0CFF, 0x3FB8_AA3B]),
    case("v_mul_f32 with clamp", &[0xD105_8004, 0x0002_0501]),
    case("v_fma_f64", &[0xD1CC_0004, 0x040A_0500]),
    case("v_fma_f64 with a negated source", &[0xD1CC_0004, 0x240A_0500]),
    case("v_lshl_add_u64", &[0xD208_0004, 0x0409_0004]),
    case("v_lshlrev_b64", &[0xD28F_0004, 0x0002_0482]),
    case("v_mad_u64_u32", &[0xD1E8_0804, 0x040A_0501]),
    case("v_add_co_u32", &[0x3208_0501]),
    case("v_mul_hi_u32", &[0xD286_0004, 0x0002_0501]),
    case("v_cmp_gt_u32", &[0xD0CC_0008, 0x0002_0501]),
    case("v_cndmask_b32", &[0xD100_0004, 0x0022_0501]),
    case("v_exp_f32", &[0x7E08_4101]),
    case("v_rcp_f32", &[0x7E08_4501]),
    case("v_div_scale_f32", &[0xD1E0_0804, 0x040A_0301]),
    case("v_div_fmas_f32", &[0xD1E2_0004, 0x040E_0501]),
    case("v_div_fixup_f32", &[0xD1DE_0004, 0x040E_0501]),
    case("v_mov_b32 dpp row_shr:1", &[0x7E08_02FA, 0xFF01_1101]),
    case("v_add_f32 dpp row_shr:1", &[0x0208_04FA, 0xFF01_1101]),
    case("v_add_f32 dpp quad_perm", &[0x0208_04FA, 0xFF00_B101]),
    case("v_add_f32 dpp row_bcast:15", &[0x0208_04FA, 0xAF01_4201]),
    Case {
        name: "v_add_f32 dpp row_shr:1, half of the lanes",
        words: &[0x0208_04FA, 0xFF01_1101],
        pattern: AccessPattern::Stride(4),
        exec: 0xFFFF_FFFF,
    },
    case("v_add_u32 sdwa byte_1", &[0x6808_04F9, 0x0601_0601]),
    case("v_and_b32 sdwa word_1 to word_1", &[0x2608_04F9, 0x0605_1501]),
    case("v_cmp_eq_u32 sdwa byte_0", &[0x7D94_04F9, 0x0600_0001]),
    case("v_pk_fma_f16", &[0xD38E_4004, 0x1C0E_0501]),
    case("v_pk_add_f16", &[0xD38F_4004, 0x1802_0501]),
    case("v_cvt_f32_f16", &[0x7E08_1701]),
    case("v_cvt_f16_f32", &[0x7E08_1501]),
    case("v_mfma_f32_16x16x4_f32", &[0xD3C5_0014, 0x0452_0500]),
    case("v_mfma_f32_16x16x16_f16", &[0xD3CD_0014, 0x0452_0500]),
    case("v_mfma_f32_32x32x8_f16", &[0xD3CC_0014, 0x0452_0500]),
    case("v_mfma_i32_16x16x32_i8", &[0xD3D7_0014, 0x0452_0500]),
    case("v_mfma_i32_32x32x16_i8", &[0xD3D6_0014, 0x0452_0500]),
    case("ds_read_b32", &[0xD86C_0000, 0x0400_0000]),
    case("ds_read2_b32", &[0xD86E_2000, 0x0400_0000]),
    scattered("ds_read_b32, scattered", &[0xD86C_0000, 0x0400_0000]),
    strided("ds_read_u16_d16", 2, &[0xD8B4_0000, 0x0400_0000]),
    case("ds_write_b32", &[0xD81A_0000, 0x0000_0400]),
    case("ds_add_u32", &[0xD800_0000, 0x0000_0400]),
    strided("ds_add_u32, one address", 0, &[0xD800_0000, 0x0000_0400]),
    case("global_load_dword", &[0xDC50_8000, 0x047F_000A]),
    case("global_load_dword with a scalar base", &[0xDC50_8000, 0x0402_0000]),
    scattered("global_load_dword, scattered", &[0xDC50_8000, 0x047F_000A]),
    strided("global_load_ushort", 2, &[0xDC48_8000, 0x047F_000A]),
    strided("global_load_short_d16", 2, &[0xDC90_8000, 0x047F_000A]),
    strided("global_load_short_d16_hi", 2, &[0xDC94_8000, 0x047F_000A]),
    case("global_store_dword", &[0xDC70_8000, 0x007F_040A]),
    strided("global_store_short", 2, &[0xDC68_8000, 0x007F_040A]),
    strided("global_store_short_d16_hi", 2, &[0xDC6C_8000, 0x007F_040A]),
    case("global_atomic_add", &[0xDD08_8000, 0x007F_040A]),
    scattered("global_atomic_add, scattered", &[0xDD08_8000, 0x007F_040A]),
    strided("global_atomic_add, one address", 0, &[0xDD08_8000, 0x007F_040A]),
    strided("global_atomic_add_f32, one address", 0, &[0xDD34_8000, 0x007F_040A]),
    case("s_load_dwordx4", &[0xC00A_0201, 0x0000_0000]),
    case("s_add_u32", &[0x8008_0A09]),
    case("s_waitcnt", &[0xBF8C_C07F]),
    case("s_branch", &[0xBF82_0000]),
];
