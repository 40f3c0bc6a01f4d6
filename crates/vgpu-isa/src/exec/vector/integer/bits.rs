//! Bitwise operations, shifts, fields and counts of 32 bits.

use crate::inst::{Encoding, Op};
use crate::lanes::{Lane, lane};
use crate::operand::Type;

/// Position of the first bit set, or -1.
#[inline(always)]
fn found(x: u32, position: u32) -> u32 {
    if x == 0 { !0 } else { position }
}

/// The ones of a field of `width` bits (0 to 31).
#[inline(always)]
fn ones(width: u32) -> u32 {
    (1 << (width & 31)) - 1
}

/// A field with the sign of its top bit; nothing of a field without bits.
#[inline(always)]
fn signed_field(x: u32, offset: u32, width: u32) -> u32 {
    let width = width & 31;
    // The offset may leave fewer bits than the field has: those above are copies of bit 31.
    let field = ((x as i32) >> (offset & 31)) as u32;
    // One place first, so that a width of zero does not shift by 32.
    let up = 31 - width;
    let extended = (field << up << 1) as i32 >> up >> 1;
    extended as u32
}

operations! {
    OPS: Lane, u32, lane;
    Vop1 43 "v_not_b32" Not [B32] B32 |a| !a;
    Vop1 44 "v_bfrev_b32" Reverse [B32] B32 |a| a.reverse_bits();
    Vop1 45 "v_ffbh_u32" FirstHigh [B32] B32 |a| found(a, a.leading_zeros());
    Vop1 46 "v_ffbl_b32" FirstLow [B32] B32 |a| found(a, a.trailing_zeros());
    Vop1 47 "v_ffbh_i32" FirstHighSigned [B32] B32 |a| {
        let differing = a ^ ((a as i32) >> 31) as u32;
        found(differing, differing.leading_zeros())
    };
    Vop2 16 "v_lshrrev_b32" Lshrrev [B32 B32] B32 |a, b| b >> (a & 31);
    Vop2 17 "v_ashrrev_i32" Ashrrev [B32 B32] B32 |a, b| (b as i32 >> (a & 31)) as u32;
    Vop2 18 "v_lshlrev_b32" Lshlrev [B32 B32] B32 |a, b| b << (a & 31);
    Vop2 19 "v_and_b32" And [B32 B32] B32 |a, b| a & b;
    Vop2 20 "v_or_b32" Or [B32 B32] B32 |a, b| a | b;
    Vop2 21 "v_xor_b32" Xor [B32 B32] B32 |a, b| a ^ b;
    Vop2 61 "v_xnor_b32" Xnor [B32 B32] B32 |a, b| !(a ^ b);
    Vop3 456 "v_bfe_u32" BfeU32 [B32 B32 B32] B32 |a, b, c| a >> (b & 31) & ones(c);
    Vop3 457 "v_bfe_i32" BfeI32 [B32 B32 B32] B32 |a, b, c| signed_field(a, b, c);
    Vop3 458 "v_bfi_b32" Bfi [B32 B32 B32] B32 |a, b, c| a & b | !a & c;
    Vop3 462 "v_alignbit_b32" AlignBit [B32 B32 B32] B32
        |a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32;
    Vop3 463 "v_alignbyte_b32" AlignByte [B32 B32 B32] B32
        |a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32;
    Vop3 512 "v_lshl_or_b32" LshlOr [B32 B32 B32] B32 |a, b, c| a << (b & 31) | c;
    Vop3 513 "v_and_or_b32" AndOr [B32 B32 B32] B32 |a, b, c| a & b | c;
    Vop3 514 "v_or3_b32" Or3 [B32 B32 B32] B32 |a, b, c| a | b | c;
    Vop3 651 "v_bcnt_u32_b32" BitCount [B32 B32] B32 |a, b| a.count_ones().wrapping_add(b);
    Vop3 659 "v_bfm_b32" FieldMask [B32 B32] B32 |a, b| ones(a) << (b & 31);
}
