//! What integer operations compute, as exact numbers.

/// An operation: the exact result is taken modulo the width, or to the range of `clamp`.
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    /// Has a short form.
    pub(crate) short: bool,
    /// Bits of the sources.
    pub(crate) sources: &'static [u32],
    /// Bits of the result.
    pub(crate) result: u32,
    /// A 16-bit result leaves the upper half.
    pub(crate) keeps: bool,
    /// The range of the result with clamp, if the operation takes one.
    pub(crate) clamp: Option<(i128, i128)>,
    /// The result of sources without sign.
    pub(crate) exact: fn([i128; 3]) -> i128,
}

const U16: Option<(i128, i128)> = Some((0, 0xFFFF));
const I16: Option<(i128, i128)> = Some((-0x8000, 0x7FFF));
const U32: Option<(i128, i128)> = Some((0, 0xFFFF_FFFF));
const I32: Option<(i128, i128)> = Some((-0x8000_0000, 0x7FFF_FFFF));

/// The number with the sign of its top bit.
pub(crate) fn signed(x: i128, bits: u32) -> i128 {
    let x = x.rem_euclid(1 << bits);
    if x >= 1 << (bits - 1) { x - (1 << bits) } else { x }
}

fn s16(x: i128) -> i128 {
    signed(x, 16)
}

fn s24(x: i128) -> i128 {
    signed(x, 24)
}

fn s32(x: i128) -> i128 {
    signed(x, 32)
}

fn u24(x: i128) -> i128 {
    x % (1 << 24)
}

fn two_to(x: i128) -> i128 {
    (0..x).fold(1, |power, _| power * 2)
}

/// The number whose bits are a function of the bits of the sources.
fn bitwise(x: [i128; 3], f: fn([bool; 3]) -> bool) -> i128 {
    (0..32).map(|n| if f(x.map(|x| x / two_to(n) % 2 == 1)) { two_to(n) } else { 0 }).sum()
}

/// Bits of the lowest 32, most significant first.
fn digits(x: i128) -> Vec<bool> {
    (0..32).rev().map(|n| x / two_to(n) % 2 == 1).collect()
}

fn position(found: Option<usize>) -> i128 {
    found.map_or(-1, |n| n as i128)
}

fn sorted(mut x: [i128; 3]) -> [i128; 3] {
    x.sort_unstable();
    x
}

const fn spec(
    name: &'static str,
    short: bool,
    sources: &'static [u32],
    result: u32,
    exact: fn([i128; 3]) -> i128,
) -> Spec {
    Spec { name, short, sources, result, keeps: false, clamp: None, exact }
}

/// One source, both forms.
const fn one(name: &'static str, exact: fn([i128; 3]) -> i128) -> Spec {
    spec(name, true, &[32], 32, exact)
}

/// Two sources, both forms.
const fn two(name: &'static str, exact: fn([i128; 3]) -> i128) -> Spec {
    spec(name, true, &[32, 32], 32, exact)
}

/// Two sources, VOP3 only.
const fn two_long(name: &'static str, exact: fn([i128; 3]) -> i128) -> Spec {
    spec(name, false, &[32, 32], 32, exact)
}

/// Three sources, VOP3 only.
const fn three(name: &'static str, exact: fn([i128; 3]) -> i128) -> Spec {
    spec(name, false, &[32, 32, 32], 32, exact)
}

/// Two 16-bit sources, both forms.
const fn half(name: &'static str, exact: fn([i128; 3]) -> i128) -> Spec {
    spec(name, true, &[16, 16], 16, exact)
}

/// Three 16-bit sources, VOP3 only.
const fn half_three(name: &'static str, exact: fn([i128; 3]) -> i128) -> Spec {
    spec(name, false, &[16, 16, 16], 16, exact)
}

impl Spec {
    const fn clamps(self, range: Option<(i128, i128)>) -> Self {
        Self { clamp: range, ..self }
    }

    const fn keeps(self) -> Self {
        Self { keeps: true, ..self }
    }
}

pub(crate) const SPECS: &[Spec] = &[
    one("v_mov_b32", |x| x[0]),
    one("v_not_b32", |x| 0xFFFF_FFFF - x[0]),
    one("v_bfrev_b32", |x| digits(x[0]).iter().rev().fold(0, |sum, &bit| sum * 2 + i128::from(bit))),
    one("v_ffbh_u32", |x| position(digits(x[0]).iter().position(|&bit| bit))),
    one("v_ffbl_b32", |x| position(digits(x[0]).iter().rev().position(|&bit| bit))),
    one("v_ffbh_i32", |x| position(digits(x[0]).iter().position(|&bit| bit != digits(x[0])[0]))),
    spec("v_sat_pk_u8_i16", true, &[32], 16, |x| {
        s16(x[0] % 0x1_0000).clamp(0, 255) + 256 * s16(x[0] / 0x1_0000).clamp(0, 255)
    }),
    spec("v_mov_b64", true, &[64], 64, |x| x[0]),
    two("v_mul_i32_i24", |x| s24(x[0]) * s24(x[1])).clamps(I32),
    two("v_mul_hi_i32_i24", |x| (s24(x[0]) * s24(x[1])).div_euclid(1 << 32)),
    two("v_mul_u32_u24", |x| u24(x[0]) * u24(x[1])).clamps(U32),
    two("v_mul_hi_u32_u24", |x| u24(x[0]) * u24(x[1]) / (1 << 32)),
    two("v_min_i32", |x| if s32(x[0]) < s32(x[1]) { x[0] } else { x[1] }),
    two("v_max_i32", |x| if s32(x[0]) < s32(x[1]) { x[1] } else { x[0] }),
    two("v_min_u32", |x| if x[0] < x[1] { x[0] } else { x[1] }),
    two("v_max_u32", |x| if x[0] < x[1] { x[1] } else { x[0] }),
    two("v_lshrrev_b32", |x| x[1] / two_to(x[0] % 32)),
    two("v_ashrrev_i32", |x| s32(x[1]).div_euclid(two_to(x[0] % 32))),
    two("v_lshlrev_b32", |x| x[1] * two_to(x[0] % 32)),
    two("v_and_b32", |x| bitwise(x, |b| b[0] && b[1])),
    two("v_or_b32", |x| bitwise(x, |b| b[0] || b[1])),
    two("v_xor_b32", |x| bitwise(x, |b| b[0] != b[1])),
    two("v_xnor_b32", |x| bitwise(x, |b| b[0] == b[1])),
    two("v_add_u32", |x| x[0] + x[1]).clamps(U32),
    two("v_sub_u32", |x| x[0] - x[1]).clamps(U32),
    two("v_subrev_u32", |x| x[1] - x[0]).clamps(U32),
    half("v_add_u16", |x| x[0] + x[1]).clamps(U16),
    half("v_sub_u16", |x| x[0] - x[1]).clamps(U16),
    half("v_subrev_u16", |x| x[1] - x[0]).clamps(U16),
    half("v_mul_lo_u16", |x| x[0] * x[1]),
    half("v_lshlrev_b16", |x| x[1] * two_to(x[0] % 16)),
    half("v_lshrrev_b16", |x| x[1] / two_to(x[0] % 16)),
    half("v_ashrrev_i16", |x| s16(x[1]).div_euclid(two_to(x[0] % 16))),
    half("v_max_u16", |x| if x[0] < x[1] { x[1] } else { x[0] }),
    half("v_max_i16", |x| if s16(x[0]) < s16(x[1]) { x[1] } else { x[0] }),
    half("v_min_u16", |x| if x[0] < x[1] { x[0] } else { x[1] }),
    half("v_min_i16", |x| if s16(x[0]) < s16(x[1]) { x[0] } else { x[1] }),
    three("v_mad_i32_i24", |x| s24(x[0]) * s24(x[1]) + s32(x[2])).clamps(I32),
    three("v_mad_u32_u24", |x| u24(x[0]) * u24(x[1]) + x[2]).clamps(U32),
    three("v_bfe_u32", |x| x[0] / two_to(x[1] % 32) % two_to(x[2] % 32)),
    three("v_bfe_i32", |x| {
        let width = x[2] % 32;
        // A field without bits is zero; bits from above the register are copies of its sign.
        if width == 0 { 0 } else { signed(s32(x[0]).div_euclid(two_to(x[1] % 32)), width as u32) }
    }),
    three("v_bfi_b32", |x| bitwise(x, |b| if b[0] { b[1] } else { b[2] })),
    three("v_alignbit_b32", |x| (x[0] * two_to(32) + x[1]) / two_to(x[2] % 32)),
    three("v_alignbyte_b32", |x| (x[0] * two_to(32) + x[1]) / two_to(x[2] % 4 * 8)),
    three("v_min3_i32", |x| sorted(x.map(s32))[0]),
    three("v_min3_u32", |x| sorted(x)[0]),
    three("v_max3_i32", |x| sorted(x.map(s32))[2]),
    three("v_max3_u32", |x| sorted(x)[2]),
    three("v_med3_i32", |x| sorted(x.map(s32))[1]),
    three("v_med3_u32", |x| sorted(x)[1]),
    half_three("v_mad_legacy_u16", |x| x[0] * x[1] + x[2]).clamps(U16),
    half_three("v_mad_legacy_i16", |x| s16(x[0]) * s16(x[1]) + s16(x[2])).clamps(I16),
    spec("v_mad_u32_u16", false, &[16, 16, 32], 32, |x| x[0] * x[1] + x[2]).clamps(U32),
    spec("v_mad_i32_i16", false, &[16, 16, 32], 32, |x| s16(x[0]) * s16(x[1]) + s32(x[2])).clamps(I32),
    three("v_xad_u32", |x| bitwise(x, |b| b[0] != b[1]) + x[2]),
    half_three("v_min3_i16", |x| sorted(x.map(s16))[0]).keeps(),
    half_three("v_min3_u16", |x| sorted(x)[0]).keeps(),
    half_three("v_max3_i16", |x| sorted(x.map(s16))[2]).keeps(),
    half_three("v_max3_u16", |x| sorted(x)[2]).keeps(),
    half_three("v_med3_i16", |x| sorted(x.map(s16))[1]).keeps(),
    half_three("v_med3_u16", |x| sorted(x)[1]).keeps(),
    three("v_lshl_add_u32", |x| x[0] * two_to(x[1] % 32) + x[2]),
    three("v_add_lshl_u32", |x| (x[0] + x[1]) * two_to(x[2] % 32)),
    three("v_add3_u32", |x| x[0] + x[1] + x[2]),
    three("v_lshl_or_b32", |x| bitwise([x[0] * two_to(x[1] % 32), x[2], 0], |b| b[0] || b[1])),
    three("v_and_or_b32", |x| bitwise(x, |b| b[0] && b[1] || b[2])),
    three("v_or3_b32", |x| bitwise(x, |b| b != [false; 3])),
    half_three("v_mad_u16", |x| x[0] * x[1] + x[2]).clamps(U16).keeps(),
    half_three("v_mad_i16", |x| s16(x[0]) * s16(x[1]) + s16(x[2])).clamps(I16).keeps(),
    spec("v_lshl_add_u64", false, &[64, 32, 64], 64, |x| x[0] * two_to(x[1] % 8) + x[2]),
    two_long("v_mul_lo_u32", |x| x[0] * x[1]),
    two_long("v_mul_hi_u32", |x| x[0] * x[1] / two_to(32)),
    two_long("v_mul_hi_i32", |x| (s32(x[0]) * s32(x[1])).div_euclid(two_to(32))),
    two_long("v_bcnt_u32_b32", |x| digits(x[0]).iter().filter(|&&bit| bit).count() as i128 + x[1]),
    spec("v_lshlrev_b64", false, &[32, 64], 64, |x| x[1] * two_to(x[0] % 64)),
    spec("v_lshrrev_b64", false, &[32, 64], 64, |x| x[1] / two_to(x[0] % 64)),
    spec("v_ashrrev_i64", false, &[32, 64], 64, |x| signed(x[1], 64).div_euclid(two_to(x[0] % 64))),
    two_long("v_bfm_b32", |x| (two_to(x[0] % 32) - 1) * two_to(x[1] % 32)),
    two_long("v_cvt_pk_u16_u32", |x| x[0].min(0xFFFF) + x[1].min(0xFFFF) * 0x1_0000),
    two_long("v_cvt_pk_i16_i32", |x| {
        let half = |x: i128| s32(x).clamp(-0x8000, 0x7FFF).rem_euclid(0x1_0000);
        half(x[0]) + half(x[1]) * 0x1_0000
    }),
    two_long("v_add_i32", |x| s32(x[0]) + s32(x[1])).clamps(I32),
    two_long("v_sub_i32", |x| s32(x[0]) - s32(x[1])).clamps(I32),
    spec("v_add_i16", false, &[16, 16], 16, |x| s16(x[0]) + s16(x[1])).clamps(I16).keeps(),
    spec("v_sub_i16", false, &[16, 16], 16, |x| s16(x[0]) - s16(x[1])).clamps(I16).keeps(),
];
