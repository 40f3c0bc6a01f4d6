//! Sums, differences, products, minima and maxima.

use super::{Word, binary, binary_scc, shaped, signed_k, sources};
use crate::inst::{Encoding, Flow, Inst, Op};
use crate::wave::Wave;

pub(super) static OPS: &[Op] = &[
    op(0, "s_add_u32", |wave, inst, _| carry(wave, inst, |a, b, _| a.overflowing_add(b))),
    op(1, "s_sub_u32", |wave, inst, _| carry(wave, inst, |a, b, _| a.overflowing_sub(b))),
    op(2, "s_add_i32", |wave, inst, _| carry(wave, inst, |a, b, _| signed(a, b, i32::overflowing_add))),
    op(3, "s_sub_i32", |wave, inst, _| carry(wave, inst, |a, b, _| signed(a, b, i32::overflowing_sub))),
    op(4, "s_addc_u32", |wave, inst, _| carry(wave, inst, add_with_carry)),
    op(5, "s_subb_u32", |wave, inst, _| carry(wave, inst, subtract_with_borrow)),
    // SCC tells whether the first source was taken.
    op(6, "s_min_i32", |wave, inst, _| choose(wave, inst, |a, b| (a as i32) < b as i32)),
    op(7, "s_min_u32", |wave, inst, _| choose(wave, inst, |a, b| a < b)),
    op(8, "s_max_i32", |wave, inst, _| choose(wave, inst, |a, b| a as i32 >= b as i32)),
    op(9, "s_max_u32", |wave, inst, _| choose(wave, inst, |a, b| a >= b)),
    op(36, "s_mul_i32", |wave, inst, _| binary(wave, inst, u32::wrapping_mul)),
    op(42, "s_absdiff_i32", |wave, inst, _| {
        binary_scc(wave, inst, |a: u32, b: u32| (a.wrapping_sub(b) as i32).wrapping_abs() as u32)
    }),
    op(44, "s_mul_hi_u32", |wave, inst, _| {
        binary(wave, inst, |a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32)
    }),
    op(45, "s_mul_hi_i32", |wave, inst, _| {
        binary(wave, inst, |a: u32, b: u32| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32)
    }),
    op(46, "s_lshl1_add_u32", |wave, inst, _| shift_add(wave, inst, 1)),
    op(47, "s_lshl2_add_u32", |wave, inst, _| shift_add(wave, inst, 2)),
    op(48, "s_lshl3_add_u32", |wave, inst, _| shift_add(wave, inst, 3)),
    op(49, "s_lshl4_add_u32", |wave, inst, _| shift_add(wave, inst, 4)),
    Op::new(Encoding::Sopk, 14, "s_addk_i32", |wave, inst, _| {
        let (sum, overflow) = signed(u32::read(wave, inst, inst.dst), signed_k(inst), i32::overflowing_add);
        sum.write(wave, inst.dst);
        wave.scc = overflow;
        Flow::Next
    }),
    Op::new(Encoding::Sopk, 15, "s_mulk_i32", |wave, inst, _| {
        u32::read(wave, inst, inst.dst).wrapping_mul(signed_k(inst)).write(wave, inst.dst);
        Flow::Next
    }),
];

pub(super) static PACK: &[Op] = shaped!(Sop2, binary:
    50 "s_pack_ll_b32_b16" |a: u32, b: u32| a & 0xFFFF | b << 16;
    51 "s_pack_lh_b32_b16" |a: u32, b: u32| a & 0xFFFF | b & 0xFFFF_0000;
    52 "s_pack_hh_b32_b16" |a: u32, b: u32| a >> 16 | b & 0xFFFF_0000;
);

const fn op(opcode: u16, name: &'static str, handler: crate::inst::Handler) -> Op {
    Op::new(Encoding::Sop2, opcode, name, handler)
}

/// Two sources and SCC give a result and a new SCC.
#[inline(always)]
fn carry(wave: &mut Wave, inst: &Inst, f: impl Fn(u32, u32, bool) -> (u32, bool)) -> Flow {
    let (a, b) = sources(wave, inst);
    let (result, scc) = f(a, b, wave.scc);
    result.write(wave, inst.dst);
    wave.scc = scc;
    Flow::Next
}

#[inline(always)]
fn signed(a: u32, b: u32, f: impl Fn(i32, i32) -> (i32, bool)) -> (u32, bool) {
    let (result, overflow) = f(a as i32, b as i32);
    (result as u32, overflow)
}

#[inline(always)]
fn add_with_carry(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

#[inline(always)]
fn subtract_with_borrow(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let taken = u64::from(b) + u64::from(borrow);
    (a.wrapping_sub(taken as u32), taken > u64::from(a))
}

#[inline(always)]
fn choose(wave: &mut Wave, inst: &Inst, first: impl Fn(u32, u32) -> bool) -> Flow {
    carry(wave, inst, |a, b, _| if first(a, b) { (a, true) } else { (b, false) })
}

#[inline(always)]
fn shift_add(wave: &mut Wave, inst: &Inst, shift: u32) -> Flow {
    carry(wave, inst, |a, b, _| {
        let sum = (u64::from(a) << shift) + u64::from(b);
        (sum as u32, sum >> 32 != 0)
    })
}
