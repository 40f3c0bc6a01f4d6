//! D = A * B + C.

use std::hint::black_box;
use std::marker::PhantomData;

use super::arithmetic::{self, Arithmetic, set_register};
use super::format::{Format, REGISTERS};
use super::operands::{Addend, Fields, broadcast_a, input, permute_b};
use super::shape::Shape;
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::handlers;
use crate::wave::{LANES, Lanes, Wave, mode, unusual};

/// Elements along k that a lane has at most.
const DEPTH: usize = 8;

/// Which modifiers an instruction has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Modifiers {
    /// None: the fields are ignored.
    None,
    /// Permutations of B.
    Pattern,
    /// Broadcasts of A and permutations of B.
    All,
    /// The field of the permutations has the signs of A, B and C.
    Signs,
}

/// A matrix instruction.
pub(super) trait Dense: 'static {
    type Shape: Shape;
    type A: Format<Value = Self::Value>;
    type B: Format<Value = Self::Value>;
    type Value: Copy + Default;
    type Sum: Arithmetic<Value = Self::Value>;
    /// The same with FP16_OVFL.
    type Saturating: Arithmetic<Value = Self::Value>;
    const MODIFIERS: Modifiers;
}

/// Elements of an input: `[k within the group][lane]`.
type Elements<V> = [[V; LANES]; DEPTH];

#[inline(always)]
fn elements<F: Format>(registers: &[Lanes; REGISTERS], depth: usize) -> Elements<F::Value> {
    let mut out = [[F::Value::default(); LANES]; DEPTH];
    for (n, to) in out.iter_mut().take(depth).enumerate() {
        *to = F::element(registers, n);
    }
    out
}

#[inline(always)]
fn dense_body<O: Dense>(wave: &mut Wave, inst: &Inst) -> Flow {
    if wave.unusual() & unusual::FLOAT != 0 && wave.mode() & mode::FP16_OVFL != 0 {
        product::<O, O::Saturating>(wave, inst)
    } else {
        product::<O, O::Sum>(wave, inst)
    }
}

#[inline(always)]
fn product<O: Dense, T: Arithmetic<Value = O::Value>>(wave: &mut Wave, inst: &Inst) -> Flow {
    let fields = Fields::new(inst);
    let depth = <O::Shape as Shape>::DEPTH;
    let mut a = input::<O::A>(wave, inst, 0, fields.accumulation_a, depth);
    let mut b = input::<O::B>(wave, inst, 1, fields.accumulation_b, depth);
    let mut signs = 0;
    match O::MODIFIERS {
        Modifiers::None => {}
        Modifiers::Signs => signs = fields.pattern,
        Modifiers::Pattern | Modifiers::All => {
            if O::MODIFIERS == Modifiers::All && fields.broadcast != 0 {
                broadcast_a::<O::Shape>(&mut a, fields);
            }
            if fields.pattern != 0 {
                permute_b(&mut b, fields.pattern);
            }
        }
    }
    if signs & 1 != 0 {
        a[1] = a[1].map(negate);
    }
    if signs & 2 != 0 {
        b[1] = b[1].map(negate);
    }
    let flushes = wave.unusual() & unusual::FLOAT != 0 && wave.mode() & mode::DENORM_32_SOURCES == 0;
    O::A::prepare(&mut a, flushes);
    O::B::prepare(&mut b, flushes);
    let (a, b) = (elements::<O::A>(&a, depth), elements::<O::B>(&b, depth));
    let cd = fields.accumulation_cd;
    let addend = Addend::<T>::new::<O::Shape>(wave, inst, cd);
    for tile in 0..<O::Shape as Shape>::TILES {
        let mut sum = addend.tile(wave, cd, tile);
        if signs & 4 != 0 {
            let [low, high] = T::store(&sum);
            sum = T::load(&low, &high.map(negate));
        }
        if T::CONSTANT.is_float() {
            // Out of a black box comes a plain array: the compiler takes others apart into elements, and puts them
            // together again as vectors that do not begin where rows do. With integers it does not.
            sum = *black_box(&sum);
        }
        multiply::<O, T>(&mut sum, &a, &b, tile);
        let out = T::store(&sum);
        for (at, value) in out.iter().take(T::WIDTH).enumerate() {
            set_register(wave, cd, inst.dst.wrapping_add((tile * T::WIDTH + at) as u16), value);
        }
    }
    Flow::Next
}

/// Flips the sign in the high half of a double.
#[inline(always)]
fn negate(high: u32) -> u32 {
    high ^ 1 << 31
}

/// One tile: rows of B times elements of A, for ascending k.
#[inline(always)]
fn multiply<O: Dense, T: Arithmetic<Value = O::Value>>(
    sum: &mut [T::Sum; LANES],
    a: &Elements<O::Value>,
    b: &Elements<O::Value>,
    tile: usize,
) {
    let (m, group) = (<O::Shape as Shape>::M, <O::Shape as Shape>::GROUP);
    let depth = <O::Shape as Shape>::DEPTH;
    if T::PAIRS {
        return join::<O, T>(sum, a, b, tile);
    }
    for g in 0..LANES / group {
        for n in 0..depth {
            for part in 0..<O::Shape as Shape>::PARTS {
                let (block, row) = <O::Shape as Shape>::part(tile, part);
                let first = g * group + block * m;
                let x = a[n][(first + row) % LANES];
                for j in 0..m {
                    let to = &mut sum[part * m + j];
                    *to = T::step(*to, x, b[n][(first + j) % LANES]);
                }
            }
        }
    }
}

/// The same for products that are summed before they join the sum.
#[inline(always)]
fn join<O: Dense, T: Arithmetic<Value = O::Value>>(
    sum: &mut [T::Sum; LANES],
    a: &Elements<O::Value>,
    b: &Elements<O::Value>,
    tile: usize,
) {
    let (m, group) = (<O::Shape as Shape>::M, <O::Shape as Shape>::GROUP);
    for g in 0..LANES / group {
        for part in 0..<O::Shape as Shape>::PARTS {
            let (block, row) = <O::Shape as Shape>::part(tile, part);
            let first = g * group + block * m;
            let x = std::array::from_fn(|n| a[n][(first + row) % LANES]);
            for j in 0..m {
                let to = &mut sum[part * m + j];
                *to = T::join(*to, x, std::array::from_fn(|n| b[n][(first + j) % LANES]));
            }
        }
    }
}

handlers!(dense_portable, dense_wide, dense_body, Dense);

/// A matrix instruction whose A and B have formats that become singles.
pub(super) struct Singles<S, A, B, const MODIFIERS: u8>(PhantomData<(S, A, B)>);

impl<S: Shape, A: Format<Value = f32>, B: Format<Value = f32>, const MODIFIERS: u8> Dense
    for Singles<S, A, B, MODIFIERS>
{
    type Shape = S;
    type A = A;
    type B = B;
    type Value = f32;
    type Sum = arithmetic::F32;
    type Saturating = arithmetic::F32Saturating;
    const MODIFIERS: Modifiers = modifiers(MODIFIERS);
}

/// A matrix instruction on bytes.
pub(super) struct Bytes<S, const MODIFIERS: u8>(PhantomData<S>);

impl<S: Shape, const MODIFIERS: u8> Dense for Bytes<S, MODIFIERS> {
    type Shape = S;
    type A = super::format::I8;
    type B = super::format::I8;
    type Value = i32;
    type Sum = arithmetic::I32;
    type Saturating = arithmetic::I32Saturating;
    const MODIFIERS: Modifiers = modifiers(MODIFIERS);
}

/// A matrix instruction of MI200 on 16-bit floats, `N` in each lane.
pub(super) struct Halves<S, F, const N: usize, const MODIFIERS: u8>(PhantomData<(S, F)>);

impl<S: Shape, F: Format<Value = f32>, const N: usize, const MODIFIERS: u8> Dense for Halves<S, F, N, MODIFIERS> {
    type Shape = S;
    type A = F;
    type B = F;
    type Value = f32;
    type Sum = arithmetic::Pairs<N, false>;
    type Saturating = arithmetic::Pairs<N, true>;
    const MODIFIERS: Modifiers = modifiers(MODIFIERS);
}

/// A matrix instruction in double precision; MI200 has no signs.
pub(super) struct Doubles<S, const SIGNS: bool>(PhantomData<S>);

impl<S: Shape, const SIGNS: bool> Dense for Doubles<S, SIGNS> {
    type Shape = S;
    type A = super::format::F64;
    type B = super::format::F64;
    type Value = f64;
    type Sum = arithmetic::F64;
    type Saturating = arithmetic::F64;
    const MODIFIERS: Modifiers = if SIGNS { Modifiers::Signs } else { Modifiers::None };
}

const fn modifiers(code: u8) -> Modifiers {
    match code {
        0 => Modifiers::None,
        1 => Modifiers::Pattern,
        _ => Modifiers::All,
    }
}

pub(super) const fn dense<O: Dense>(opcode: u16, name: &'static str) -> Op {
    Op { wide: dense_wide::<O>, ..Op::new(Encoding::Vop3p, opcode, name, dense_portable::<O>) }
}
