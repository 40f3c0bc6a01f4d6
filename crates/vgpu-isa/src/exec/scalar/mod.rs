//! Scalar instructions: one value for the whole wave.

use crate::inst::{Flow, Inst, Op};
use crate::operand::Type;
use crate::wave::Wave;

mod arithmetic;
mod bits;
mod compare;
mod control;
mod flow;
mod hwreg;
mod logic;
mod mask;
mod moves;

pub(crate) fn families() -> Vec<&'static [Op]> {
    vec![
        arithmetic::OPS,
        arithmetic::PACK,
        logic::OPS,
        logic::MASKS,
        bits::OPS,
        bits::SILENT,
        bits::SINGLE,
        compare::OPS,
        compare::SIGNED,
        compare::UNSIGNED,
        mask::OPS,
        mask::WRITE,
        moves::OPS,
        moves::CONDITIONAL,
        moves::SELECT,
        moves::CONSTANT,
        moves::INDEX_ON,
        moves::INDEX_MODE,
        flow::OPS,
        flow::CALLS,
        flow::FORK,
        flow::RELATIVE,
        control::OPS,
        control::SKIP,
        hwreg::OPS,
    ]
}

/// A scalar operand: one register or a pair.
trait Word: Copy {
    fn read(wave: &Wave, inst: &Inst, code: u16) -> Self;
    fn write(self, wave: &mut Wave, register: u16);
    fn is_zero(self) -> bool;
}

impl Word for u32 {
    #[inline(always)]
    fn read(wave: &Wave, inst: &Inst, code: u16) -> Self {
        wave.scalar(code, inst, Type::B32)
    }

    #[inline(always)]
    fn write(self, wave: &mut Wave, register: u16) {
        wave.s[usize::from(register & 127)] = self;
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self == 0
    }
}

impl Word for u64 {
    #[inline(always)]
    fn read(wave: &Wave, inst: &Inst, code: u16) -> Self {
        wave.scalar64(code, inst, Type::B64)
    }

    #[inline(always)]
    fn write(self, wave: &mut Wave, register: u16) {
        wave.set_s64(usize::from(register), self);
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self == 0
    }
}

/// One source, SCC stays.
#[inline(always)]
fn unary<A: Word, D: Word>(wave: &mut Wave, inst: &Inst, f: impl Fn(A) -> D) -> Flow {
    let a = A::read(wave, inst, inst.src[0]);
    f(a).write(wave, inst.dst);
    Flow::Next
}

/// One source, SCC tells whether the result is not zero.
#[inline(always)]
fn unary_scc<A: Word, D: Word>(wave: &mut Wave, inst: &Inst, f: impl Fn(A) -> D) -> Flow {
    let result = f(A::read(wave, inst, inst.src[0]));
    result.write(wave, inst.dst);
    wave.scc = !result.is_zero();
    Flow::Next
}

/// Two sources, SCC stays.
#[inline(always)]
fn binary<A: Word, B: Word, D: Word>(wave: &mut Wave, inst: &Inst, f: impl Fn(A, B) -> D) -> Flow {
    let (a, b) = sources(wave, inst);
    f(a, b).write(wave, inst.dst);
    Flow::Next
}

/// Two sources, SCC tells whether the result is not zero.
#[inline(always)]
fn binary_scc<A: Word, B: Word, D: Word>(wave: &mut Wave, inst: &Inst, f: impl Fn(A, B) -> D) -> Flow {
    let (a, b) = sources(wave, inst);
    let result = f(a, b);
    result.write(wave, inst.dst);
    wave.scc = !result.is_zero();
    Flow::Next
}

#[inline(always)]
fn sources<A: Word, B: Word>(wave: &Wave, inst: &Inst) -> (A, B) {
    (A::read(wave, inst, inst.src[0]), B::read(wave, inst, inst.src[1]))
}

/// The signed 16-bit constant of SOPK and SOPP.
#[inline(always)]
fn simm16(inst: &Inst) -> i16 {
    inst.words[0] as u16 as i16
}

/// The constant of SOPK as a signed 32-bit number.
#[inline(always)]
fn signed_k(inst: &Inst) -> u32 {
    i32::from(simm16(inst)) as u32
}

/// A list of operations: encoding, then opcode, mnemonic and handler of each.
macro_rules! ops {
    ($encoding:ident: $($opcode:literal $name:literal $handler:expr;)*) => {
        &[$(crate::inst::Op::new(crate::inst::Encoding::$encoding, $opcode, $name, $handler)),*]
    };
}

/// Operations of one shape: encoding, shape, then opcode, mnemonic and function of each.
macro_rules! shaped {
    ($encoding:ident, $shape:path: $($opcode:literal $name:literal $function:expr;)*) => {
        &[$(crate::inst::Op::new(
            crate::inst::Encoding::$encoding,
            $opcode,
            $name,
            |wave, inst, _| $shape(wave, inst, $function),
        )),*]
    };
}

use {ops, shaped};
