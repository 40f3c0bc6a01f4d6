//! Packed 16-bit integers.

use super::packed::{Packed, packed};
use crate::inst::{Encoding, Op};
use crate::operand::Type;

/// A half as a signed integer.
#[inline(always)]
const fn s(half: u32) -> i32 {
    half as i16 as i32
}

#[inline(always)]
fn wrap_signed(value: i32) -> u32 {
    value as u32 & 0xFFFF
}

#[inline(always)]
fn wrap(value: u32) -> u32 {
    value & 0xFFFF
}

#[inline(always)]
fn clamp_signed(value: i32) -> u32 {
    wrap_signed(value.clamp(-0x8000, 0x7FFF))
}

#[inline(always)]
fn clamp_difference(value: i32) -> u32 {
    wrap_signed(value.clamp(0, 0xFFFF))
}

#[inline(always)]
fn clamp_unsigned(value: u32) -> u32 {
    value.min(0xFFFF)
}

/// Operations by their exact result, how it becomes 16 bits, and how it does with the clamp modifier.
macro_rules! arithmetic {
    ($($name:ident, $sources:literal, $wrap:ident, $clamp:ident, |$x:ident| $exact:expr;)*) => {
        $(struct $name;

        impl Packed for $name {
            const SOURCES: usize = $sources;
            const CONSTANTS: Type = Type::B32;

            #[inline(always)]
            fn half($x: [u32; 3]) -> u32 {
                $wrap($exact)
            }

            #[inline(always)]
            fn clamped($x: [u32; 3]) -> u32 {
                $clamp($exact)
            }
        })*
    };
}

arithmetic! {
    MadI16, 3, wrap_signed, clamp_signed, |x| s(x[0]) * s(x[1]) + s(x[2]);
    MadU16, 3, wrap, clamp_unsigned, |x| x[0] * x[1] + x[2];
    AddI16, 2, wrap_signed, clamp_signed, |x| s(x[0]) + s(x[1]);
    SubI16, 2, wrap_signed, clamp_signed, |x| s(x[0]) - s(x[1]);
    AddU16, 2, wrap, clamp_unsigned, |x| x[0] + x[1];
    SubU16, 2, wrap_signed, clamp_difference, |x| x[0] as i32 - x[1] as i32;
    // The low half of a product, shifts and comparisons do not overflow: clamp changes nothing.
    MulLoU16, 2, wrap, wrap, |x| x[0] * x[1];
    LshlrevB16, 2, wrap, wrap, |x| x[1] << (x[0] & 15);
    LshrrevB16, 2, wrap, wrap, |x| x[1] >> (x[0] & 15);
    AshrrevI16, 2, wrap_signed, wrap_signed, |x| s(x[1]) >> (x[0] & 15);
    MaxI16, 2, wrap_signed, wrap_signed, |x| s(x[0]).max(s(x[1]));
    MinI16, 2, wrap_signed, wrap_signed, |x| s(x[0]).min(s(x[1]));
    MaxU16, 2, wrap, wrap, |x| x[0].max(x[1]);
    MinU16, 2, wrap, wrap, |x| x[0].min(x[1]);
}

const fn op<O: Packed>(opcode: u16, name: &'static str) -> Op {
    packed::<O>(Encoding::Vop3p, opcode, name)
}

pub(super) static OPS: &[Op] = &[
    op::<MadI16>(0, "v_pk_mad_i16"),
    op::<MulLoU16>(1, "v_pk_mul_lo_u16"),
    op::<AddI16>(2, "v_pk_add_i16"),
    op::<SubI16>(3, "v_pk_sub_i16"),
    op::<LshlrevB16>(4, "v_pk_lshlrev_b16"),
    op::<LshrrevB16>(5, "v_pk_lshrrev_b16"),
    op::<AshrrevI16>(6, "v_pk_ashrrev_i16"),
    op::<MaxI16>(7, "v_pk_max_i16"),
    op::<MinI16>(8, "v_pk_min_i16"),
    op::<MadU16>(9, "v_pk_mad_u16"),
    op::<AddU16>(10, "v_pk_add_u16"),
    op::<SubU16>(11, "v_pk_sub_u16"),
    op::<MaxU16>(12, "v_pk_max_u16"),
    op::<MinU16>(13, "v_pk_min_u16"),
];
