//! Packed operations: the same on both 16-bit halves of 32-bit registers.

use std::mem::MaybeUninit;

use super::float::{Rules, clamp_half};
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::handlers;
use crate::modify::relative;
use crate::operand::{Aligned, LaneBuffer, Type};
use crate::wave::{LANES, Lanes, Wave, mode, unusual};

/// An operation on 16-bit values, done for the low and the high half of every lane.
pub(super) trait Packed: 'static {
    /// How many sources it has.
    const SOURCES: usize;
    /// How inline constants are understood: half precision in the low half, or (32-bit) integers and singles.
    const CONSTANTS: Type;
    /// The destination is the third source.
    const ACCUMULATES: bool = false;

    /// The result in the usual mode. The upper halves of the sources are zero; that of the result must be.
    fn half(source: [u32; 3]) -> u32;

    /// The results of both halves of all lanes in the usual mode.
    #[inline(always)]
    fn all([a, b, c]: [&Lanes; 3]) -> Lanes {
        each(a, b, c, Self::half)
    }

    /// The result with the clamp modifier in the usual mode.
    fn clamped(source: [u32; 3]) -> u32;

    /// The result of a float operation in any mode.
    #[inline(always)]
    fn in_mode(source: [u32; 3], _rules: Rules) -> u32 {
        Self::half(source)
    }
}

#[inline(always)]
fn packed_body<O: Packed>(wave: &mut Wave, inst: &Inst) -> Flow {
    let mut inst = if wave.unusual() & unusual::INDEXED != 0 { relative(wave, inst) } else { *inst };
    if O::ACCUMULATES {
        inst.src[2] = 256 + inst.dst;
        inst.op_sel_hi = 0b111;
    }
    let (mut buffer_a, mut buffer_b, mut buffer_c): (LaneBuffer, LaneBuffer, LaneBuffer) =
        (MaybeUninit::uninit(), MaybeUninit::uninit(), MaybeUninit::uninit());
    let a = halves::<O>(wave, &inst, 0, &mut buffer_a);
    let b = halves::<O>(wave, &inst, 1, &mut buffer_b);
    let c = if O::SOURCES > 2 { halves::<O>(wave, &inst, 2, &mut buffer_c) } else { a };
    let float = O::CONSTANTS == Type::F16;
    let out = if float && (wave.unusual() & unusual::FLOAT != 0 || wave.mode() & mode::DX10_CLAMP == 0) {
        let rules = Rules::half(wave.mode());
        each(a, b, c, |source| {
            let result = O::in_mode(source.map(|half| rules.half_source(half)), rules);
            if inst.clamp { clamp_half(result, rules.nan_is_zero) } else { result }
        })
    } else if inst.clamp {
        each(a, b, c, O::clamped)
    } else {
        O::all([a, b, c])
    };
    wave.write(inst.dst, &out);
    Flow::Next
}

#[inline(always)]
fn each(a: &Lanes, b: &Lanes, c: &Lanes, half: impl Fn([u32; 3]) -> u32) -> Lanes {
    let mut out = [0; LANES];
    for lane in 0..LANES {
        let low = half([a[lane] & 0xFFFF, b[lane] & 0xFFFF, c[lane] & 0xFFFF]);
        let high = half([a[lane] >> 16, b[lane] >> 16, c[lane] >> 16]);
        out[lane] = low | high << 16;
    }
    out
}

/// A source with op_sel, op_sel_hi and negation applied.
#[inline(always)]
fn halves<'a, O: Packed>(wave: &'a Wave, inst: &Inst, n: usize, buffer: &'a mut LaneBuffer) -> &'a Lanes {
    let code = inst.src[n];
    let bit = |field: u8| u32::from(field >> n & 1);
    let flip = if O::CONSTANTS == Type::F16 { bit(inst.neg) << 15 | bit(inst.neg_hi) << 31 } else { 0 };
    let (low, high) = (bit(inst.op_sel) * 16, bit(inst.op_sel_hi) * 16);
    let arranged = |x: u32| (x >> low & 0xFFFF | x >> high << 16) ^ flip;
    if code < 256 {
        return &buffer.write(Aligned([arranged(wave.scalar(code, inst, O::CONSTANTS)); LANES])).0;
    }
    let register = wave.vector(code);
    if low == 0 && high == 16 && flip == 0 {
        return register;
    }
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = arranged(register[lane]);
    }
    &buffer.write(Aligned(out)).0
}

handlers!(packed_portable, packed_wide, packed_body, Packed);

/// An operation made of a [`Packed`].
pub(super) const fn packed<O: Packed>(encoding: Encoding, opcode: u16, name: &'static str) -> Op {
    Op { wide: packed_wide::<O>, ..Op::new(encoding, opcode, name, packed_portable::<O>) }
}
