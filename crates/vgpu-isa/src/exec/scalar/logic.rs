//! Bitwise operations, shifts and bit fields of two sources.

use super::{binary, binary_scc, shaped};
use crate::inst::Op;

pub(super) static OPS: &[Op] = shaped!(Sop2, binary_scc:
    12 "s_and_b32" |a: u32, b: u32| a & b;
    13 "s_and_b64" |a: u64, b: u64| a & b;
    14 "s_or_b32" |a: u32, b: u32| a | b;
    15 "s_or_b64" |a: u64, b: u64| a | b;
    16 "s_xor_b32" |a: u32, b: u32| a ^ b;
    17 "s_xor_b64" |a: u64, b: u64| a ^ b;
    18 "s_andn2_b32" |a: u32, b: u32| a & !b;
    19 "s_andn2_b64" |a: u64, b: u64| a & !b;
    20 "s_orn2_b32" |a: u32, b: u32| a | !b;
    21 "s_orn2_b64" |a: u64, b: u64| a | !b;
    22 "s_nand_b32" |a: u32, b: u32| !(a & b);
    23 "s_nand_b64" |a: u64, b: u64| !(a & b);
    24 "s_nor_b32" |a: u32, b: u32| !(a | b);
    25 "s_nor_b64" |a: u64, b: u64| !(a | b);
    26 "s_xnor_b32" |a: u32, b: u32| !(a ^ b);
    27 "s_xnor_b64" |a: u64, b: u64| !(a ^ b);
    // Wrapping shifts take the count modulo the width, as the hardware does.
    28 "s_lshl_b32" u32::wrapping_shl;
    29 "s_lshl_b64" u64::wrapping_shl;
    30 "s_lshr_b32" u32::wrapping_shr;
    31 "s_lshr_b64" u64::wrapping_shr;
    32 "s_ashr_i32" |a: u32, b: u32| (a as i32).wrapping_shr(b) as u32;
    33 "s_ashr_i64" |a: u64, b: u32| (a as i64).wrapping_shr(b) as u64;
    37 "s_bfe_u32" |a: u32, field: u32| low_bits(u64::from(a.wrapping_shr(field)), width(field)) as u32;
    38 "s_bfe_i32" |a: u32, field: u32| {
        sign_extended(i64::from((a as i32).wrapping_shr(field)) as u64, width(field)) as u32
    };
    39 "s_bfe_u64" |a: u64, field: u32| low_bits(a.wrapping_shr(field), width(field));
    40 "s_bfe_i64" |a: u64, field: u32| sign_extended((a as i64).wrapping_shr(field) as u64, width(field));
);

pub(super) static MASKS: &[Op] = shaped!(Sop2, binary:
    34 "s_bfm_b32" |size: u32, offset: u32| ((1_u32 << (size & 31)) - 1).wrapping_shl(offset);
    35 "s_bfm_b64" |size: u32, offset: u32| ((1_u64 << (size & 63)) - 1).wrapping_shl(offset);
);

/// Bits of the field that the second source of s_bfe describes.
#[inline(always)]
fn width(field: u32) -> u32 {
    (field >> 16) & 0x7F
}

#[inline(always)]
fn low_bits(value: u64, count: u32) -> u64 {
    if count >= 64 { value } else { value & ((1 << count) - 1) }
}

/// The lowest `count` bits as a signed number.
#[inline(always)]
fn sign_extended(value: u64, count: u32) -> u64 {
    match count {
        0 => 0,
        1..64 => ((value << (64 - count)) as i64 >> (64 - count)) as u64,
        _ => value,
    }
}
