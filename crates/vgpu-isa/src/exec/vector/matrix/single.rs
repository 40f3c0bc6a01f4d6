//! Packed single precision and moves: two registers of 32 bits at once.

use super::float::{Rules, clamp_single};
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::handlers;
use crate::modify::relative;
use crate::operand::{Aligned, LaneBuffer, Type};
use crate::wave::{LANES, Lanes, Wave, mode, unusual};

/// An operation on singles, done for both registers of a pair.
trait Pair: 'static {
    const SOURCES: usize;

    /// The result in the usual mode.
    fn single(source: [f32; 3]) -> f32;

    /// The exact result, or rounded to odd in double precision.
    fn exact(source: [f64; 3], rules: Rules) -> f64;
}

struct Fma;
struct Mul;
struct Add;

impl Pair for Fma {
    const SOURCES: usize = 3;

    #[inline(always)]
    fn single([a, b, c]: [f32; 3]) -> f32 {
        a.mul_add(b, c)
    }

    fn exact([a, b, c]: [f64; 3], rules: Rules) -> f64 {
        rules.sum(a * b, c)
    }
}

impl Pair for Mul {
    const SOURCES: usize = 2;

    #[inline(always)]
    fn single([a, b, _]: [f32; 3]) -> f32 {
        a * b
    }

    fn exact([a, b, _]: [f64; 3], _rules: Rules) -> f64 {
        a * b
    }
}

impl Pair for Add {
    const SOURCES: usize = 2;

    #[inline(always)]
    fn single([a, b, _]: [f32; 3]) -> f32 {
        a + b
    }

    fn exact([a, b, _]: [f64; 3], rules: Rules) -> f64 {
        rules.sum(a, b)
    }
}

/// One register of a source pair, in every lane.
#[inline(always)]
fn part<'a>(wave: &'a Wave, inst: &Inst, n: usize, high: bool, buffer: &'a mut LaneBuffer) -> &'a Lanes {
    let code = inst.src[n];
    if code < 256 {
        // A constant stands in the low register; the high one has its sign extension (zero for floats).
        let value = wave.scalar64(code, inst, Type::F32);
        return &buffer.write(Aligned([if high { (value >> 32) as u32 } else { value as u32 }; LANES])).0;
    }
    wave.vector(code & !0xFF | code.wrapping_add(u16::from(high)) & 0xFF)
}

/// The results for one register of the destination pair; `select` and `negate` have a bit for each source.
#[inline(always)]
fn pair_half<'a, O: Pair>(wave: &Wave, inst: &Inst, select: u8, negate: u8, out: &'a mut LaneBuffer) -> &'a Lanes {
    let mut buffers = [const { LaneBuffer::uninit() }; 3];
    let [buffer_a, buffer_b, buffer_c] = &mut buffers;
    let a = part(wave, inst, 0, select & 1 != 0, buffer_a);
    let b = part(wave, inst, 1, select & 2 != 0, buffer_b);
    let c = if O::SOURCES > 2 { part(wave, inst, 2, select & 4 != 0, buffer_c) } else { a };
    let flips = [0, 1, 2].map(|n| u32::from(negate >> n & 1) << 31);
    let out = &mut out.write(Aligned([0; LANES])).0;
    if wave.unusual() & unusual::FLOAT != 0 {
        let rules = Rules::single(wave.mode());
        for lane in 0..LANES {
            let source = [a[lane] ^ flips[0], b[lane] ^ flips[1], c[lane] ^ flips[2]];
            let source = source.map(|x| f64::from(f32::from_bits(rules.single_source(x))));
            out[lane] = rules.single_result(O::exact(source, rules));
        }
    } else {
        for lane in 0..LANES {
            let source = [a[lane] ^ flips[0], b[lane] ^ flips[1], c[lane] ^ flips[2]];
            out[lane] = O::single(source.map(f32::from_bits)).to_bits();
        }
    }
    if inst.clamp {
        let nan_is_zero = wave.mode() & mode::DX10_CLAMP != 0;
        out.iter_mut().for_each(|bits| *bits = clamp_single(*bits, nan_is_zero));
    }
    out
}

#[inline(always)]
fn pair_body<O: Pair>(wave: &mut Wave, inst: &Inst) -> Flow {
    let inst = if wave.unusual() & unusual::INDEXED != 0 { &relative(wave, inst) } else { inst };
    let (mut low, mut high) = (LaneBuffer::uninit(), LaneBuffer::uninit());
    let low = pair_half::<O>(wave, inst, inst.op_sel, inst.neg, &mut low);
    let high = pair_half::<O>(wave, inst, inst.op_sel_hi, inst.neg_hi, &mut high);
    wave.write64(inst.dst, low, high);
    Flow::Next
}

handlers!(pair_portable, pair_wide, pair_body, Pair);

const fn pair<O: Pair>(opcode: u16, name: &'static str) -> Op {
    Op { wide: pair_wide::<O>, ..Op::new(Encoding::Vop3p, opcode, name, pair_portable::<O>) }
}

/// v_pk_mov_b32: the low result is a register of the first source, the high one of the second; op_sel says which.
fn move_pair(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
    let inst = if wave.unusual() & unusual::INDEXED != 0 { &relative(wave, inst) } else { inst };
    let mut buffers = [LaneBuffer::uninit(), LaneBuffer::uninit()];
    let [low, high] = &mut buffers;
    let low = *part(wave, inst, 0, inst.op_sel & 1 != 0, low);
    let high = *part(wave, inst, 1, inst.op_sel & 2 != 0, high);
    wave.write64(inst.dst, &low, &high);
    Flow::Next
}

pub(super) static OPS: &[Op] = &[
    pair::<Fma>(48, "v_pk_fma_f32"),
    pair::<Mul>(49, "v_pk_mul_f32"),
    pair::<Add>(50, "v_pk_add_f32"),
    Op::new(Encoding::Vop3p, 51, "v_pk_mov_b32", move_pair),
];
