//! Additions and subtractions with carry, selection by a mask: operations that read or write a bit for each lane.

use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::handlers;
use crate::modify::{self, Operand, Writing, relative};
use crate::operand::{LaneBuffer, Type, pack, source, source64};
use crate::wave::{LANES, Lanes, Wave, unusual};

/// A 32-bit operation with a bit per lane as third source, as second result, or both.
trait Carry: 'static {
    /// Type of the sources: the selection knows sign modifiers, but does not flush.
    const SOURCES: Type = Type::B32;
    /// Reads the mask in the third source.
    const IN: bool;
    /// Writes the mask in the scalar destination.
    const OUT: bool;

    /// Result and bit; `bit` is 0 or 1.
    fn lane(a: u32, b: u32, bit: u32) -> (u32, bool);

    /// The result with clamp.
    #[inline(always)]
    fn clamped(a: u32, b: u32, bit: u32) -> u32 {
        Self::lane(a, b, bit).0
    }
}

#[inline(always)]
fn add(a: u32, b: u32, bit: u32) -> (u32, bool) {
    // In 32 bits: twice as many lanes fit a vector as with 64. Only one of the two steps can wrap.
    let sum = a.wrapping_add(b);
    let result = sum.wrapping_add(bit);
    (result, (sum < a) | (result < sum))
}

#[inline(always)]
fn subtract(a: u32, b: u32, bit: u32) -> (u32, bool) {
    let difference = a.wrapping_sub(b);
    (difference.wrapping_sub(bit), (a < b) | (difference < bit))
}

macro_rules! carries {
    ($($op:ident $input:literal |$a:ident, $b:ident, $bit:ident| $body:expr, $overflow:expr;)+) => {
        $(struct $op;

        impl Carry for $op {
            const IN: bool = $input;
            const OUT: bool = true;

            #[inline(always)]
            fn lane($a: u32, $b: u32, $bit: u32) -> (u32, bool) {
                $body
            }

            #[inline(always)]
            fn clamped(a: u32, b: u32, bit: u32) -> u32 {
                let (result, overflows) = Self::lane(a, b, bit);
                if overflows { $overflow } else { result }
            }
        })+
    };
}

carries! {
    AddCo false |a, b, bit| add(a, b, bit), !0;
    SubCo false |a, b, bit| subtract(a, b, bit), 0;
    SubrevCo false |a, b, bit| subtract(b, a, bit), 0;
    AddcCo true |a, b, bit| add(a, b, bit), !0;
    SubbCo true |a, b, bit| subtract(a, b, bit), 0;
    SubbrevCo true |a, b, bit| subtract(b, a, bit), 0;
}

struct Select;

impl Carry for Select {
    const SOURCES: Type = Type::F32;
    const IN: bool = true;
    const OUT: bool = false;

    #[inline(always)]
    fn lane(a: u32, b: u32, bit: u32) -> (u32, bool) {
        let mask = 0_u32.wrapping_sub(bit);
        (a & !mask | b & mask, false)
    }
}

/// One bit for each lane, as 0 or 1.
#[inline(always)]
fn bits_of(mask: u64) -> Lanes {
    let mut bits = [0; LANES];
    for (half, word) in [mask as u32, (mask >> 32) as u32].into_iter().enumerate() {
        for bit in 0..32 {
            bits[half * 32 + bit] = word >> bit & 1;
        }
    }
    bits
}

#[inline(always)]
fn carry_body<O: Carry>(wave: &mut Wave, inst: &Inst) -> Flow {
    let bits = if O::IN { bits_of(wave.scalar64(inst.src[2], inst, Type::B64)) } else { [0; LANES] };
    let inst = if wave.unusual() & unusual::INDEXED != 0 { &relative(wave, inst) } else { inst };
    let (mut buffer_a, mut buffer_b) = (LaneBuffer::uninit(), LaneBuffer::uninit());
    // The loop twice, as in `lanes`.
    let (carries, written) = if inst.plain {
        let a = source(wave, inst, inst.src[0], O::SOURCES, &mut buffer_a);
        let b = source(wave, inst, inst.src[1], O::SOURCES, &mut buffer_b);
        let (out, carries) = results::<O>(a, b, &bits);
        wave.write(inst.dst, &out);
        (carries, wave.exec())
    } else {
        let a = modify::source(wave, inst, Operand::new(inst, 0, O::SOURCES), &mut buffer_a);
        let b = modify::source(wave, inst, Operand::new(inst, 1, O::SOURCES), &mut buffer_b);
        let (mut out, carries) = results::<O>(a, b, &bits);
        if inst.clamp {
            for lane in 0..LANES {
                out[lane] = O::clamped(a[lane], b[lane], bits[lane]);
            }
        }
        modify::store(wave, inst, Writing::WORD, &out, None);
        (carries, wave.exec() & !modify::skipped(wave, inst))
    };
    if O::OUT {
        // Lanes that are off give zero.
        wave.set_s64(usize::from(inst.sdst), pack(&carries) & written);
    }
    Flow::Next
}

/// Results and bits of all lanes.
#[inline(always)]
fn results<O: Carry>(a: &Lanes, b: &Lanes, bits: &Lanes) -> (Lanes, [u8; LANES]) {
    let mut out = [0; LANES];
    let mut carries = [0_u8; LANES];
    for lane in 0..LANES {
        let (result, carry) = O::lane(a[lane], b[lane], bits[lane]);
        out[lane] = result;
        carries[lane] = u8::from(carry);
    }
    (out, carries)
}

/// A multiplication of 32 bits added to 64, with the bit above the result.
trait WideCarry: 'static {
    /// Type of the third source.
    const SUM: Type;

    /// The low 64 bits of the exact result, and the bit above them.
    fn lane(a: u32, b: u32, c: u64) -> (u64, bool);

    /// The result with clamp.
    fn clamped(a: u32, b: u32, c: u64) -> u64;
}

struct MadU64;

impl WideCarry for MadU64 {
    const SUM: Type = Type::B64;

    #[inline(always)]
    fn lane(a: u32, b: u32, c: u64) -> (u64, bool) {
        (u64::from(a) * u64::from(b)).overflowing_add(c)
    }

    #[inline(always)]
    fn clamped(a: u32, b: u32, c: u64) -> u64 {
        (u64::from(a) * u64::from(b)).saturating_add(c)
    }
}

struct MadI64;

impl WideCarry for MadI64 {
    const SUM: Type = Type::I64;

    #[inline(always)]
    fn lane(a: u32, b: u32, c: u64) -> (u64, bool) {
        let product = (i64::from(a as i32) * i64::from(b as i32)) as u64;
        let sum = product.wrapping_add(c);
        // The sign of the exact sum: wrong in 64 bits if it differs from both signs that were added.
        let sign = sum ^ (sum ^ product) & (sum ^ c);
        (sum, sign >> 63 != 0)
    }

    #[inline(always)]
    fn clamped(a: u32, b: u32, c: u64) -> u64 {
        (i64::from(a as i32) * i64::from(b as i32)).saturating_add(c as i64) as u64
    }
}

#[inline(always)]
fn wide_carry_body<O: WideCarry>(wave: &mut Wave, inst: &Inst) -> Flow {
    let inst = if wave.unusual() & unusual::INDEXED != 0 { &relative(wave, inst) } else { inst };
    let (mut buffer_a, mut buffer_b) = (LaneBuffer::uninit(), LaneBuffer::uninit());
    let mut buffer_c = [LaneBuffer::uninit(), LaneBuffer::uninit()];
    let a = source(wave, inst, inst.src[0], Type::B32, &mut buffer_a);
    let b = source(wave, inst, inst.src[1], Type::B32, &mut buffer_b);
    let (c_low, c_high) = source64(wave, inst, inst.src[2], O::SUM, &mut buffer_c);
    let (mut low, mut high) = ([0; LANES], [0; LANES]);
    let mut carries = [0_u8; LANES];
    for lane in 0..LANES {
        let c = u64::from(c_low[lane]) | u64::from(c_high[lane]) << 32;
        let (result, carry) = O::lane(a[lane], b[lane], c);
        let result = if inst.clamp { O::clamped(a[lane], b[lane], c) } else { result };
        (low[lane], high[lane]) = (result as u32, (result >> 32) as u32);
        carries[lane] = u8::from(carry);
    }
    wave.write64(inst.dst, &low, &high);
    wave.set_s64(usize::from(inst.sdst), pack(&carries) & wave.exec());
    Flow::Next
}

handlers!(carry_portable, carry_wide, carry_body, Carry);
handlers!(wide_carry_portable, wide_carry_wide, wide_carry_body, WideCarry);

const fn op<O: Carry>(opcode: u16, name: &'static str) -> Op {
    Op { wide: carry_wide::<O>, ..Op::new(Encoding::Vop2, opcode, name, carry_portable::<O>) }
}

const fn wide_op<O: WideCarry>(opcode: u16, name: &'static str) -> Op {
    Op { wide: wide_carry_wide::<O>, ..Op::new(Encoding::Vop3, opcode, name, wide_carry_portable::<O>) }
}

pub(super) static OPS: &[Op] = &[
    op::<Select>(0, "v_cndmask_b32"),
    op::<AddCo>(25, "v_add_co_u32"),
    op::<SubCo>(26, "v_sub_co_u32"),
    op::<SubrevCo>(27, "v_subrev_co_u32"),
    op::<AddcCo>(28, "v_addc_co_u32"),
    op::<SubbCo>(29, "v_subb_co_u32"),
    op::<SubbrevCo>(30, "v_subbrev_co_u32"),
    wide_op::<MadU64>(488, "v_mad_u64_u32"),
    wide_op::<MadI64>(489, "v_mad_i64_i32"),
];
