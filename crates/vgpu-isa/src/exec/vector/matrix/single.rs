//! Packed single precision and moves: two registers of 32 bits at once.

use super::float::{Rules, clamp_single};
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::handlers;
use crate::modify::relative;
use crate::operand::Type;
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

/// One register of a source pair, in every lane, with negation applied.
#[inline(always)]
fn part(wave: &Wave, inst: &Inst, n: usize, high: bool, negate: bool, kind: Type) -> Lanes {
    let code = inst.src[n];
    let flip = u32::from(negate) << 31;
    if code < 256 {
        // A constant stands in the low register; the high one has its sign extension (zero for floats).
        let value = wave.scalar64(code, inst, kind);
        return [(if high { (value >> 32) as u32 } else { value as u32 }) ^ flip; LANES];
    }
    let register = wave.vector(code & !0xFF | code.wrapping_add(u16::from(high)) & 0xFF);
    let mut out = *register;
    if negate {
        out.iter_mut().for_each(|lane| *lane ^= flip);
    }
    out
}

#[inline(always)]
fn pair_half<O: Pair>(wave: &Wave, inst: &Inst, select: u8, negate: u8) -> Lanes {
    let fetch = |n: usize| part(wave, inst, n, select >> n & 1 != 0, negate >> n & 1 != 0, Type::F32);
    let (a, b) = (fetch(0), fetch(1));
    let c = if O::SOURCES > 2 { fetch(2) } else { a };
    let mut out = [0; LANES];
    if wave.unusual() & unusual::FLOAT != 0 {
        let rules = Rules::single(wave.mode());
        for lane in 0..LANES {
            let source = [a[lane], b[lane], c[lane]].map(|x| f64::from(f32::from_bits(rules.single_source(x))));
            out[lane] = rules.single_result(O::exact(source, rules));
        }
    } else {
        for lane in 0..LANES {
            out[lane] = O::single([a[lane], b[lane], c[lane]].map(f32::from_bits)).to_bits();
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
    let low = pair_half::<O>(wave, inst, inst.op_sel, inst.neg);
    let high = pair_half::<O>(wave, inst, inst.op_sel_hi, inst.neg_hi);
    wave.write64(inst.dst, &low, &high);
    Flow::Next
}

handlers!(pair_portable, pair_wide, pair_body, Pair);

const fn pair<O: Pair>(opcode: u16, name: &'static str) -> Op {
    Op {
        encoding: Encoding::Vop3p,
        opcode,
        name,
        targets: crate::inst::BOTH,
        portable: pair_portable::<O>,
        wide: pair_wide::<O>,
    }
}

/// v_pk_mov_b32: the low result is a register of the first source, the high one of the second; op_sel says which.
fn move_pair(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
    let inst = if wave.unusual() & unusual::INDEXED != 0 { &relative(wave, inst) } else { inst };
    let low = part(wave, inst, 0, inst.op_sel & 1 != 0, false, Type::F32);
    let high = part(wave, inst, 1, inst.op_sel & 2 != 0, false, Type::F32);
    wave.write64(inst.dst, &low, &high);
    Flow::Next
}

pub(super) static OPS: &[Op] = &[
    pair::<Fma>(48, "v_pk_fma_f32"),
    pair::<Mul>(49, "v_pk_mul_f32"),
    pair::<Add>(50, "v_pk_add_f32"),
    Op::new(Encoding::Vop3p, 51, "v_pk_mov_b32", move_pair),
];
