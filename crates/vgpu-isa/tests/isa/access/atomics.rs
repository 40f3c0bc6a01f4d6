//! Atomics: the new value of a word of memory, computed with wide arithmetic.

use half::{bf16, f16};

use super::{Place, State};
use crate::harness::Machine;

/// New word from old word, first and second operand.
type Oracle = fn(i128, i128, i128) -> i128;

/// An atomic; the name is that of FLAT, GLOBAL and MUBUF after "atomic_".
#[derive(Clone, Copy)]
pub(crate) struct Atomic {
    pub(crate) name: &'static str,
    /// Bytes of the word.
    pub(crate) size: usize,
    /// Operands, of as many bytes each.
    pub(crate) operands: usize,
    pub(crate) oracle: Oracle,
    values: [u64; 8],
}

const INTS_32: [u64; 8] = [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 5, 0x1234_5678, 0xFFFF_FFFE];
const INTS_64: [u64; 8] = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX, 5, 0xFFFF_FFFF, 0x1_0000_0000];
const FLOATS_32: [u64; 8] =
    [0x8000_0000, 0x3F80_0000, 0xBF80_0001, 3, 0x7F80_0000, 0xFF80_0000, 0x7F80_0001, 0x7F7F_FFFF];
const FLOATS_64: [u64; 8] = [
    1 << 63,
    0x3FF0_0000_0000_0000,
    0xBFF0_0000_0000_0001,
    3,
    0x7FF0_0000_0000_0000,
    0xFFF0_0000_0000_0000,
    0x7FF0_0000_0000_0001,
    0x7FEF_FFFF_FFFF_FFFF,
];
const HALVES: [u64; 8] =
    [0x8000_3C00, 0x3C00_BC01, 0x0003_8001, 0x7C00_7BFF, 0xFC00_7BFF, 0x7C01_0001, 0x7BFF_FE00, 0x1400_3555];
const BRAINS: [u64; 8] =
    [0x8000_3F80, 0x3F80_BF81, 0x0003_8001, 0x7F80_7F7F, 0xFF80_7F7F, 0x7F81_0001, 0x7F7F_FFC0, 0x3B80_3F81];

const fn atomic(name: &'static str, size: usize, operands: usize, values: [u64; 8], oracle: Oracle) -> Atomic {
    Atomic { name, size, operands, oracle, values }
}

/// As a signed number of `bits`.
fn sign(value: i128, bits: u32) -> i128 {
    if value >= 1 << (bits - 1) { value - (1 << bits) } else { value }
}

/// Up by one, or to zero.
fn inc(old: i128, a: i128, _b: i128) -> i128 {
    if old < a { old + 1 } else { 0 }
}

/// Down by one, or to the operand.
fn dec(old: i128, a: i128, _b: i128) -> i128 {
    if (1..=a).contains(&old) { old - 1 } else { a }
}

/// Sum of two numbers with a NaN rule: the first NaN is made quiet by `quiet`, an impossible sum gives `default`.
fn sum(a: (f64, i128), b: (f64, i128), quiet: i128, default: i128, round: impl Fn(f64) -> i128) -> i128 {
    match (a.0.is_nan(), b.0.is_nan()) {
        (true, _) => a.1 | quiet,
        (_, true) => b.1 | quiet,
        _ if (a.0 + b.0).is_nan() => default,
        _ => round(a.0 + b.0),
    }
}

fn single(bits: i128) -> (f64, i128) {
    (f64::from(f32::from_bits(bits as u32)), bits)
}

fn double(bits: i128) -> (f64, i128) {
    (f64::from_bits(bits as u64), bits)
}

/// Double precision holds sums of single precision well enough to be rounded again.
pub(crate) fn add_f32(old: i128, a: i128, _b: i128) -> i128 {
    sum(single(old), single(a), 0x40_0000, 0x7FC0_0000, |sum| i128::from((sum as f32).to_bits()))
}

/// There is nothing wider; the sum is what IEEE 754 says.
pub(crate) fn add_f64(old: i128, a: i128, _b: i128) -> i128 {
    sum(double(old), double(a), 1 << 51, 0x7FF8_0000_0000_0000, |sum| i128::from(sum.to_bits()))
}

fn in_halves(old: i128, a: i128, add: fn(i128, i128) -> i128) -> i128 {
    add(old & 0xFFFF, a & 0xFFFF) + (add(old >> 16, a >> 16) << 16)
}

/// Two sums in half precision.
pub(crate) fn pk_add_f16(old: i128, a: i128, _b: i128) -> i128 {
    in_halves(old, a, |x, y| {
        let half = |bits: i128| (f16::from_bits(bits as u16).to_f64(), bits);
        sum(half(x), half(y), 0x200, 0x7E00, |sum| i128::from(f16::from_f64(sum).to_bits()))
    })
}

/// Two sums in brain float.
pub(crate) fn pk_add_bf16(old: i128, a: i128, _b: i128) -> i128 {
    in_halves(old, a, |x, y| {
        let brain = |bits: i128| (bf16::from_bits(bits as u16).to_f64(), bits);
        sum(brain(x), brain(y), 0x40, 0x7FC0, |sum| i128::from(bf16::from_f64(sum).to_bits()))
    })
}

/// The operand only if it is certainly smaller.
fn min_f(old: f64, a: f64) -> bool {
    a.partial_cmp(&old) == Some(std::cmp::Ordering::Less)
}

/// The smaller, in double precision.
pub(crate) fn min_f64(old: i128, a: i128, _b: i128) -> i128 {
    if min_f(double(old).0, double(a).0) { a } else { old }
}

/// The larger, in double precision.
pub(crate) fn max_f64(old: i128, a: i128, _b: i128) -> i128 {
    if min_f(-double(old).0, -double(a).0) { a } else { old }
}

/// The smaller, in single precision.
pub(crate) fn min_f32(old: i128, a: i128, _b: i128) -> i128 {
    if min_f(single(old).0, single(a).0) { a } else { old }
}

/// The larger, in single precision.
pub(crate) fn max_f32(old: i128, a: i128, _b: i128) -> i128 {
    if min_f(-single(old).0, -single(a).0) { a } else { old }
}

/// Exchange if equal as numbers, single precision.
pub(crate) fn cmpst_f32(old: i128, a: i128, b: i128) -> i128 {
    if single(old).0 == single(a).0 { b } else { old }
}

/// Exchange if equal as numbers, double precision.
pub(crate) fn cmpst_f64(old: i128, a: i128, b: i128) -> i128 {
    if double(old).0 == double(a).0 { b } else { old }
}

/// Integer atomics with the names and operands of FLAT, in the given width.
fn integers(size: usize) -> Vec<Atomic> {
    let values = if size == 4 { INTS_32 } else { INTS_64 };
    let one = |name, oracle| atomic(name, size, 1, values, oracle);
    let (smin, smax): (Oracle, Oracle) = if size == 4 {
        (
            |o, a, _| if sign(a, 32) < sign(o, 32) { a } else { o },
            |o, a, _| if sign(a, 32) > sign(o, 32) { a } else { o },
        )
    } else {
        (
            |o, a, _| if sign(a, 64) < sign(o, 64) { a } else { o },
            |o, a, _| if sign(a, 64) > sign(o, 64) { a } else { o },
        )
    };
    vec![
        one("swap", |_, a, _| a),
        atomic("cmpswap", size, 2, values, |o, a, b| if o - b == 0 { a } else { o }),
        one("add", |o, a, _| o + a),
        one("sub", |o, a, _| o - a),
        one("smin", smin),
        one("umin", |o, a, _| o.min(a)),
        one("smax", smax),
        one("umax", |o, a, _| o.max(a)),
        one("and", |o, a, _| o & a),
        one("or", |o, a, _| o | a),
        one("xor", |o, a, _| (o | a) - (o & a)),
        one("inc", inc),
        one("dec", dec),
    ]
}

/// The atomics of FLAT and GLOBAL, by full name after "atomic_".
pub(crate) fn vector() -> Vec<(String, Atomic)> {
    let narrow = integers(4).into_iter().map(|atomic| (atomic.name.to_owned(), atomic));
    let wide = integers(8).into_iter().map(|atomic| (format!("{}_x2", atomic.name), atomic));
    let floats = [
        atomic("add_f32", 4, 1, FLOATS_32, add_f32),
        atomic("pk_add_f16", 4, 1, HALVES, pk_add_f16),
        atomic("pk_add_bf16", 4, 1, BRAINS, pk_add_bf16),
        atomic("add_f64", 8, 1, FLOATS_64, add_f64),
        atomic("min_f64", 8, 1, FLOATS_64, min_f64),
        atomic("max_f64", 8, 1, FLOATS_64, max_f64),
    ];
    narrow.chain(wide).chain(floats.map(|atomic| (atomic.name.to_owned(), atomic))).collect()
}

/// The atomics of DS: name before and after "rtn", and what it does.
pub(crate) fn ds() -> Vec<(&'static str, &'static str, Atomic)> {
    let mut all = Vec::new();
    for (size, u, i, b) in [(4, "u32", "i32", "b32"), (8, "u64", "i64", "b64")] {
        let values = if size == 4 { INTS_32 } else { INTS_64 };
        let signed = integers(size);
        let find = |name: &str| *signed.iter().find(|atomic| atomic.name == name).expect("listed");
        let one = |name, oracle| atomic(name, size, 1, values, oracle);
        let two = |name, oracle| atomic(name, size, 2, values, oracle);
        all.extend([
            ("ds_add", u, find("add")),
            ("ds_sub", u, find("sub")),
            ("ds_rsub", u, one("rsub", |o, a, _| a - o)),
            ("ds_inc", u, find("inc")),
            ("ds_dec", u, find("dec")),
            ("ds_min", i, find("smin")),
            ("ds_max", i, find("smax")),
            ("ds_min", u, find("umin")),
            ("ds_max", u, find("umax")),
            ("ds_and", b, find("and")),
            ("ds_or", b, find("or")),
            ("ds_xor", b, find("xor")),
            ("ds_mskor", b, two("mskor", |o, a, b| ((o | a) - a) | b)),
            ("ds_cmpst", b, two("cmpst", |o, a, b| if o == a { b } else { o })),
            ("ds_wrxchg", b, find("swap")),
        ]);
    }
    all.extend([
        ("ds_cmpst", "f32", atomic("cmpst_f32", 4, 2, FLOATS_32, cmpst_f32)),
        ("ds_min", "f32", atomic("min_f32", 4, 1, FLOATS_32, min_f32)),
        ("ds_max", "f32", atomic("max_f32", 4, 1, FLOATS_32, max_f32)),
        ("ds_add", "f32", atomic("add_f32", 4, 1, FLOATS_32, add_f32)),
        ("ds_pk_add", "f16", atomic("pk_add_f16", 4, 1, HALVES, pk_add_f16)),
        ("ds_pk_add", "bf16", atomic("pk_add_bf16", 4, 1, BRAINS, pk_add_bf16)),
        ("ds_cmpst", "f64", atomic("cmpst_f64", 8, 2, FLOATS_64, cmpst_f64)),
        ("ds_min", "f64", atomic("min_f64", 8, 1, FLOATS_64, min_f64)),
        ("ds_max", "f64", atomic("max_f64", 8, 1, FLOATS_64, max_f64)),
        ("ds_add", "f64", atomic("add_f64", 8, 1, FLOATS_64, add_f64)),
        ("ds_wrap", "b32", atomic("wrap", 4, 2, INTS_32, |o, a, b| if o < a { o + b } else { o - a })),
        ("ds_condxchg32", "b64", atomic("condxchg", 8, 1, INTS_64, condxchg)),
    ]);
    all
}

/// Each half is replaced if its operand is negative, by the operand without its sign.
fn condxchg(old: i128, a: i128, _b: i128) -> i128 {
    let half = |old: i128, a: i128| if a >= 1 << 31 { a - (1 << 31) } else { old };
    let split = |value: i128| (value % (1 << 32), value >> 32);
    let ((low, high), (a_low, a_high)) = (split(old), split(a));
    half(low, a_low) + (half(high, a_high) << 32)
}

impl Atomic {
    fn bytes(&self, value: u64) -> Vec<u8> {
        value.to_le_bytes()[..self.size].to_vec()
    }

    /// Word of memory and operands of a lane: all pairs of the values, and now and then a second operand that hits.
    fn lane(&self, lane: usize) -> (u64, u64, u64) {
        let (old, a) = (self.values[lane % 8], self.values[lane / 8]);
        (old, a, if lane.is_multiple_of(3) { old } else { self.values[lane * 5 % 8] })
    }

    /// Puts the operands into registers and words into memory or LDS.
    pub(crate) fn prepare(
        &self,
        machine: &mut Machine,
        accumulation: bool,
        data: [usize; 2],
        place: &dyn Fn(usize) -> Place,
    ) {
        for lane in 0..64 {
            let (old, a, b) = self.lane(lane);
            match place(lane) {
                Place::Global(at) => machine.poke(at, &self.bytes(old)),
                Place::Lds(at) => machine.lds[at..at + self.size].copy_from_slice(&self.bytes(old)),
                Place::Private(at) => {
                    for (n, byte) in self.bytes(old).into_iter().enumerate() {
                        machine.wave.scratch.memory[(at + n) / 4 * 256 + lane * 4 + (at + n) % 4] = byte;
                    }
                }
            }
            let file = if accumulation { &mut machine.wave.a } else { &mut machine.wave.v };
            for (register, value) in data.into_iter().zip([a, b]).take(self.operands) {
                for n in 0..self.size / 4 {
                    file[register + n][lane] = (value >> (32 * n)) as u32;
                }
            }
        }
    }

    /// The state after all lanes did it one after the other; `dst` takes what memory held.
    pub(crate) fn apply(
        &self,
        state: &mut State,
        accumulation: bool,
        data: [usize; 2],
        dst: Option<usize>,
        place: &dyn Fn(usize) -> Place,
    ) {
        let before: Vec<[i128; 2]> =
            (0..64).map(|lane| data.map(|register| self.register(state, accumulation, register, lane))).collect();
        for lane in state.active() {
            let bytes = state.read(lane, place(lane), self.size);
            let old = bytes.iter().rev().fold(0, |sum, byte| sum * 256 + i128::from(*byte));
            let new = (self.oracle)(old, before[lane][0], before[lane][1]).rem_euclid(1 << (8 * self.size));
            state.write(lane, place(lane), &self.bytes(new as u64));
            for n in 0..if dst.is_some() { self.size / 4 } else { 0 } {
                state.file(accumulation)[dst.unwrap_or(0) + n][lane] = (old >> (32 * n)) as u32;
            }
        }
    }

    fn register(&self, state: &mut State, accumulation: bool, register: usize, lane: usize) -> i128 {
        (0..self.size / 4).map(|n| i128::from(state.file(accumulation)[register + n][lane]) << (32 * n)).sum()
    }
}
