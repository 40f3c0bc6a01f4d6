//! D = A * B + D where two of four elements of A along k are stored, and an index says which.

use std::marker::PhantomData;

use super::arithmetic::{self, Arithmetic, register, set_register};
use super::format::{Format, REGISTERS};
use super::operands::{Fields, input};
use super::shape::Shape;
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::handlers;
use crate::operand::Type;
use crate::wave::{LANES, Lanes, Wave, mode, unusual};

/// Elements along k that a lane of B has at most.
const DEPTH: usize = 16;

/// A sparse matrix instruction.
pub(super) trait Sparse: 'static {
    type Shape: Shape;
    type A: Format<Value = Self::Value>;
    type B: Format<Value = Self::Value>;
    type Value: Copy + Default;
    type Sum: Arithmetic<Value = Self::Value>;
    /// The same with FP16_OVFL.
    type Saturating: Arithmetic<Value = Self::Value>;
}

#[inline(always)]
fn sparse_body<O: Sparse>(wave: &mut Wave, inst: &Inst) -> Flow {
    if wave.unusual() & unusual::FLOAT != 0 && wave.mode() & mode::FP16_OVFL != 0 {
        product::<O, O::Saturating>(wave, inst)
    } else {
        product::<O, O::Sum>(wave, inst)
    }
}

/// The indices of every lane: two bits for each stored element.
///
/// A lane needs one index for each element of A it stores, and a register has room for several sets of them: one for
/// each of `32 / bits`. The fields that broadcast A elsewhere choose the set.
#[inline(always)]
fn indices<O: Sparse>(wave: &Wave, inst: &Inst, fields: Fields) -> Lanes {
    let code = inst.src[2];
    // The index is in architectural registers, wherever D is.
    let from = if code < 256 { [wave.scalar(code, inst, Type::B32); LANES] } else { *register(wave, false, code) };
    let bits = <O::Shape as Shape>::DEPTH as u32;
    let sets = 32 / bits;
    let set = if fields.broadcast & 3 == 0 { u32::from(fields.block) % sets } else { 0 };
    from.map(|x| x >> (set * bits))
}

#[inline(always)]
fn unpack<F: Format>(registers: &[Lanes; REGISTERS], depth: usize) -> [[F::Value; LANES]; DEPTH] {
    let mut out = [[F::Value::default(); LANES]; DEPTH];
    for (n, to) in out.iter_mut().take(depth).enumerate() {
        *to = F::element(registers, n);
    }
    out
}

#[inline(always)]
fn product<O: Sparse, T: Arithmetic<Value = O::Value>>(wave: &mut Wave, inst: &Inst) -> Flow {
    let fields = Fields::new(inst);
    let (m, depth) = (<O::Shape as Shape>::M, <O::Shape as Shape>::DEPTH);
    let a = unpack::<O::A>(&input::<O::A>(wave, inst, 0, fields.accumulation_a, depth / 2), depth / 2);
    let b = unpack::<O::B>(&input::<O::B>(wave, inst, 1, fields.accumulation_b, depth), depth);
    let indices = indices::<O>(wave, inst, fields);
    let cd = fields.accumulation_cd;
    for tile in 0..<O::Shape as Shape>::TILES {
        let to = inst.dst.wrapping_add(tile as u16);
        let old = register(wave, cd, to);
        let mut sum = T::load(old, old);
        for g in 0..LANES / m {
            for part in 0..<O::Shape as Shape>::PARTS {
                let (_, row) = <O::Shape as Shape>::part(tile, part);
                let lane = (g * m + row) % LANES;
                for n in 0..depth / 2 {
                    // Two stored elements stand for four.
                    let k = n / 2 * 4 + (indices[lane] >> (2 * n) & 3) as usize;
                    let (x, row_of_b) = (a[n][lane], &b[k % DEPTH]);
                    for j in 0..m {
                        let to = &mut sum[part * m + j];
                        *to = T::step(*to, x, row_of_b[(g * m + j) % LANES]);
                    }
                }
            }
        }
        let [out, _] = T::store(&sum);
        set_register(wave, cd, to, &out);
    }
    Flow::Next
}

handlers!(sparse_portable, sparse_wide, sparse_body, Sparse);

/// A sparse matrix instruction whose A and B have formats that become singles.
pub(super) struct Singles<S, A, B>(PhantomData<(S, A, B)>);

impl<S: Shape, A: Format<Value = f32>, B: Format<Value = f32>> Sparse for Singles<S, A, B> {
    type Shape = S;
    type A = A;
    type B = B;
    type Value = f32;
    type Sum = arithmetic::F32;
    type Saturating = arithmetic::F32Saturating;
}

/// A sparse matrix instruction on bytes.
pub(super) struct Bytes<S>(PhantomData<S>);

impl<S: Shape> Sparse for Bytes<S> {
    type Shape = S;
    type A = super::format::I8;
    type B = super::format::I8;
    type Value = i32;
    type Sum = arithmetic::I32;
    type Saturating = arithmetic::I32Saturating;
}

pub(super) const fn sparse<O: Sparse>(opcode: u16, name: &'static str) -> Op {
    Op {
        targets: crate::inst::GFX942,
        wide: sparse_wide::<O>,
        ..Op::new(Encoding::Vop3p, opcode, name, sparse_portable::<O>)
    }
}
