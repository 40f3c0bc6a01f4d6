//! Dot products of the parts of two registers, added to a third.
//!
//! The VOP3P forms name the third register, the VOP2 forms accumulate into the destination.

use super::float::{clamp_single, flush_single, from_half};
use crate::inst::{Encoding, Env, Flow, Form, GFX90A, GFX942, Inst, Op};
use crate::lanes::{Lane, handlers};
use crate::modify::{self, relative};
use crate::operand::Type;
use crate::wave::{LANES, Lanes, Wave, mode, unusual};

/// A dot product.
trait Dot: 'static {
    /// How inline constants of the first two sources are understood.
    const CONSTANTS: Type;
    /// Type of the sum.
    const SUM: Type;

    fn dot(source: [u32; 3]) -> u32;

    /// The result with the clamp modifier.
    fn clamped(source: [u32; 3], nan_is_zero: bool) -> u32;
}

/// Two products of halves. They are exact in single precision; the sums are rounded one after the other, low half
/// first. Single precision denormals are flushed whatever MODE says, and on MI200 those of the halves as well (PyTorch,
/// "Numerical accuracy", on MI200).
struct HalfDot<const FLUSHES: bool>;

impl<const FLUSHES: bool> HalfDot<FLUSHES> {
    #[inline(always)]
    fn factor(half: u32) -> f32 {
        let half = half & 0xFFFF;
        from_half(if FLUSHES && half & 0x7C00 == 0 { half & 0x8000 } else { half })
    }
}

impl<const FLUSHES: bool> Dot for HalfDot<FLUSHES> {
    const CONSTANTS: Type = Type::F16;
    const SUM: Type = Type::F32;

    #[inline(always)]
    fn dot([a, b, c]: [u32; 3]) -> u32 {
        let low = Self::factor(a) * Self::factor(b);
        let high = Self::factor(a >> 16) * Self::factor(b >> 16);
        let sum = flush_single((low + f32::from_bits(flush_single(c))).to_bits());
        flush_single((high + f32::from_bits(sum)).to_bits())
    }

    #[inline(always)]
    fn clamped(source: [u32; 3], nan_is_zero: bool) -> u32 {
        clamp_single(Self::dot(source), nan_is_zero)
    }
}

/// Products of `32 / BITS` integers.
struct IntegerDot<const BITS: u32, const SIGNED: bool>;

impl<const BITS: u32, const SIGNED: bool> IntegerDot<BITS, SIGNED> {
    #[inline(always)]
    fn piece(x: u32, n: u32) -> i64 {
        let top = x << (32 - BITS * (n + 1));
        if SIGNED { i64::from(top as i32 >> (32 - BITS)) } else { i64::from(top >> (32 - BITS)) }
    }

    /// The sum before it is cut to 32 bits.
    #[inline(always)]
    fn exact([a, b, c]: [u32; 3]) -> i64 {
        let mut sum = if SIGNED { i64::from(c as i32) } else { i64::from(c) };
        for n in 0..32 / BITS {
            sum += Self::piece(a, n) * Self::piece(b, n);
        }
        sum
    }
}

impl<const BITS: u32, const SIGNED: bool> Dot for IntegerDot<BITS, SIGNED> {
    const CONSTANTS: Type = Type::B32;
    const SUM: Type = Type::B32;

    #[inline(always)]
    fn dot([a, b, c]: [u32; 3]) -> u32 {
        let mut sum = c;
        for n in 0..32 / BITS {
            sum = sum.wrapping_add((Self::piece(a, n) as u32).wrapping_mul(Self::piece(b, n) as u32));
        }
        sum
    }

    #[inline(always)]
    fn clamped(source: [u32; 3], _nan_is_zero: bool) -> u32 {
        let exact = Self::exact(source);
        if SIGNED {
            exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
        } else {
            exact.clamp(0, i64::from(u32::MAX)) as u32
        }
    }
}

#[inline(always)]
fn dot_source(wave: &Wave, inst: &Inst, n: usize, kind: Type) -> Lanes {
    let code = inst.src[n];
    let flip =
        if kind == Type::F16 { u32::from(inst.neg >> n & 1) << 15 | u32::from(inst.neg_hi >> n & 1) << 31 } else { 0 };
    let mut out = if code < 256 { [wave.scalar(code, inst, kind); LANES] } else { *wave.vector(code) };
    if flip != 0 {
        out.iter_mut().for_each(|lane| *lane ^= flip);
    }
    out
}

#[inline(always)]
fn dot_body<O: Dot>(wave: &mut Wave, inst: &Inst) -> Flow {
    let inst = if wave.unusual() & unusual::INDEXED != 0 { &relative(wave, inst) } else { inst };
    sum::<O>(wave, inst)
}

#[inline(always)]
fn accumulating_body<O: Dot>(wave: &mut Wave, inst: &Inst) -> Flow {
    if inst.form != Form::Plain {
        return modify::lane::<Accumulating<O>>(wave, inst);
    }
    let mut inst = if wave.unusual() & unusual::INDEXED != 0 { relative(wave, inst) } else { *inst };
    inst.src[2] = 256 + inst.dst;
    sum::<O>(wave, &inst)
}

#[inline(always)]
fn sum<O: Dot>(wave: &mut Wave, inst: &Inst) -> Flow {
    let (a, b) = (dot_source(wave, inst, 0, O::CONSTANTS), dot_source(wave, inst, 1, O::CONSTANTS));
    let c = dot_source(wave, inst, 2, O::SUM);
    let mut out = [0; LANES];
    if inst.clamp {
        let nan_is_zero = wave.mode() & mode::DX10_CLAMP != 0;
        for lane in 0..LANES {
            out[lane] = O::clamped([a[lane], b[lane], c[lane]], nan_is_zero);
        }
    } else {
        for lane in 0..LANES {
            out[lane] = O::dot([a[lane], b[lane], c[lane]]);
        }
    }
    wave.write(inst.dst, &out);
    Flow::Next
}

handlers!(dot_portable, dot_wide, dot_body, Dot);
handlers!(accumulating_portable, accumulating_wide, accumulating_body, Dot);

const fn dot<O: Dot>(opcode: u16, name: &'static str) -> Op {
    Op { wide: dot_wide::<O>, ..Op::new(Encoding::Vop3p, opcode, name, dot_portable::<O>) }
}

/// The VOP2 form with DPP.
struct Accumulating<O>(std::marker::PhantomData<O>);

impl<O: Dot> Lane for Accumulating<O> {
    const SOURCES: &'static [Type] = &[Type::B32; 3];
    const RESULT: Type = Type::B32;
    const ACCUMULATES: bool = true;

    #[inline(always)]
    fn lane(source: [u32; 3]) -> u32 {
        O::dot(source)
    }
}

const fn accumulating<O: Dot>(opcode: u16, name: &'static str) -> Op {
    Op { wide: accumulating_wide::<O>, ..Op::new(Encoding::Vop2, opcode, name, accumulating_portable::<O>) }
}

pub(super) static OPS: &[Op] = &[
    dot::<HalfDot<false>>(35, "v_dot2_f32_f16").on(GFX942),
    dot::<HalfDot<true>>(35, "v_dot2_f32_f16").on(GFX90A),
    dot::<IntegerDot<16, true>>(38, "v_dot2_i32_i16"),
    dot::<IntegerDot<16, false>>(39, "v_dot2_u32_u16"),
    dot::<IntegerDot<8, true>>(40, "v_dot4_i32_i8"),
    dot::<IntegerDot<8, false>>(41, "v_dot4_u32_u8"),
    dot::<IntegerDot<4, true>>(42, "v_dot8_i32_i4"),
    dot::<IntegerDot<4, false>>(43, "v_dot8_u32_u4"),
    accumulating::<HalfDot<false>>(55, "v_dot2c_f32_f16").on(GFX942),
    accumulating::<HalfDot<true>>(55, "v_dot2c_f32_f16").on(GFX90A),
    accumulating::<IntegerDot<16, true>>(56, "v_dot2c_i32_i16"),
    accumulating::<IntegerDot<8, true>>(57, "v_dot4c_i32_i8"),
    accumulating::<IntegerDot<4, true>>(58, "v_dot8c_i32_i4"),
];
