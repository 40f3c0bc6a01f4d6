//! Comparisons: every condition on every type, and the float classes.

use std::marker::PhantomData;

use crate::inst::Op;
use crate::lanes::{Compare, compare};
use crate::operand::Type;

/// A type that is compared.
trait Number: 'static {
    /// Type of the operands.
    const KIND: Type;
    /// What has the order.
    type Value: PartialOrd + Copy;

    /// The value of the bits.
    fn value(bits: u64) -> Self::Value;
}

/// A condition on two numbers. NaN is unordered: neither less, equal nor greater.
trait Condition: 'static {
    /// Whether it holds.
    fn holds<V: PartialOrd + Copy>(a: V, b: V) -> bool;
}

macro_rules! numbers {
    ($($name:ident $kind:ident $value:ty |$bits:ident| $body:expr;)+) => {
        $(struct $name;

        impl Number for $name {
            const KIND: Type = Type::$kind;
            type Value = $value;

            #[inline(always)]
            fn value($bits: u64) -> $value {
                $body
            }
        })+
    };
}

/// A number that compares with others as the half precision float does. The magnitude of a float, taken as an integer,
/// has the order of floats; both zeros become the same.
#[inline(always)]
fn half_order(bits: u64) -> f32 {
    let magnitude = bits as i32 & 0x7FFF;
    let signed = if bits & 0x8000 != 0 { -magnitude } else { magnitude };
    if magnitude > 0x7C00 { f32::NAN } else { signed as f32 }
}

numbers! {
    F16 F16 f32 |bits| half_order(bits);
    F32 F32 f32 |bits| f32::from_bits(bits as u32);
    F64 F64 f64 |bits| f64::from_bits(bits);
    I16 B16 i16 |bits| bits as i16;
    U16 B16 u16 |bits| bits as u16;
    I32 B32 i32 |bits| bits as i32;
    U32 B32 u32 |bits| bits as u32;
    I64 I64 i64 |bits| bits as i64;
    U64 B64 u64 |bits| bits;
}

macro_rules! conditions {
    ($($name:ident |$a:ident, $b:ident| $body:expr;)+) => {
        $(struct $name;

        impl Condition for $name {
            #[inline(always)]
            #[allow(
                clippy::neg_cmp_op_on_partial_ord,
                clippy::double_comparisons,
                clippy::eq_op,
                unused_variables,
                reason = "negated comparisons and comparisons with itself define the result for NaN"
            )]
            fn holds<V: PartialOrd + Copy>($a: V, $b: V) -> bool {
                $body
            }
        })+
    };
}

conditions! {
    Never |a, b| false;
    Less |a, b| a < b;
    Equal |a, b| a == b;
    LessEqual |a, b| a <= b;
    Greater |a, b| a > b;
    LessGreater |a, b| a < b || a > b;
    GreaterEqual |a, b| a >= b;
    Ordered |a, b| a == a && b == b;
    Unordered |a, b| a != a || b != b;
    NotGreaterEqual |a, b| !(a >= b);
    NotLessGreater |a, b| !(a < b || a > b);
    NotGreater |a, b| !(a > b);
    NotLessEqual |a, b| !(a <= b);
    NotEqual |a, b| a != b;
    NotLess |a, b| !(a < b);
    Always |a, b| true;
}

struct Test<N, C, const EXEC: bool>(PhantomData<(N, C)>);

impl<N: Number, C: Condition, const EXEC: bool> Compare for Test<N, C, EXEC> {
    const SOURCES: [Type; 2] = [N::KIND; 2];
    const EXEC: bool = EXEC;

    #[inline(always)]
    fn lane(a: u64, b: u64) -> bool {
        C::holds(N::value(a), N::value(b))
    }
}

/// A float format, for the classes.
trait Format: 'static {
    /// Type of the operand.
    const KIND: Type;
    /// Bits of the fraction.
    const FRACTION: u32;
    /// All bits.
    const BITS: u32;
}

macro_rules! formats {
    ($($name:ident $bits:literal $fraction:literal)+) => {
        $(impl Format for $name {
            const KIND: Type = Type::$name;
            const FRACTION: u32 = $fraction;
            const BITS: u32 = $bits;
        })+
    };
}

formats! { F16 16 10 F32 32 23 F64 64 52 }

/// Position of the class of a float in the masks of the class operations.
#[inline(always)]
fn class<F: Format>(bits: u64) -> u32 {
    let fraction = bits & ((1 << F::FRACTION) - 1);
    let all_ones = (1 << (F::BITS - 1 - F::FRACTION)) - 1;
    let exponent = bits >> F::FRACTION & all_ones;
    let negative = bits >> (F::BITS - 1) & 1 != 0;
    let quiet = fraction >> (F::FRACTION - 1) != 0;
    // Of the positive: zero 6, denormal 7, normal 8, infinite 9. The negative mirror them: 5, 4, 3, 2.
    let size = match (exponent == 0, exponent == all_ones, fraction == 0) {
        (true, _, true) => 6,
        (true, _, false) => 7,
        (_, false, _) => 8,
        (_, true, true) => 9,
        (_, true, false) => return u32::from(quiet),
    };
    if negative { 11 - size } else { size }
}

struct Class<F, const EXEC: bool>(PhantomData<F>);

impl<F: Format, const EXEC: bool> Compare for Class<F, EXEC> {
    const SOURCES: [Type; 2] = [F::KIND, Type::B32];
    const EXEC: bool = EXEC;
    const FLUSHES: bool = false;

    #[inline(always)]
    fn lane(a: u64, b: u64) -> bool {
        b >> class::<F>(a) & 1 != 0
    }
}

/// Both forms of each condition: the one that writes EXEC too is 16 numbers later.
macro_rules! tests {
    ($number:ident $suffix:literal $base:literal: $($n:literal $condition:ident $name:literal,)+) => {
        &[$(
            compare::<Test<$number, $condition, false>>($base + $n, concat!("v_cmp_", $name, "_", $suffix)),
            compare::<Test<$number, $condition, true>>($base + 16 + $n, concat!("v_cmpx_", $name, "_", $suffix)),
        )+]
    };
}

macro_rules! float_tests {
    ($number:ident $suffix:literal $base:literal) => {
        tests!($number $suffix $base:
            0 Never "f", 1 Less "lt", 2 Equal "eq", 3 LessEqual "le", 4 Greater "gt", 5 LessGreater "lg",
            6 GreaterEqual "ge", 7 Ordered "o", 8 Unordered "u", 9 NotGreaterEqual "nge", 10 NotLessGreater "nlg",
            11 NotGreater "ngt", 12 NotLessEqual "nle", 13 NotEqual "neq", 14 NotLess "nlt", 15 Always "tru",)
    };
}

macro_rules! integer_tests {
    ($number:ident $suffix:literal $base:literal) => {
        tests!($number $suffix $base:
            0 Never "f", 1 Less "lt", 2 Equal "eq", 3 LessEqual "le", 4 Greater "gt", 5 NotEqual "ne",
            6 GreaterEqual "ge", 7 Always "t",)
    };
}

static CLASSES: &[Op] = &[
    compare::<Class<F32, false>>(16, "v_cmp_class_f32"),
    compare::<Class<F32, true>>(17, "v_cmpx_class_f32"),
    compare::<Class<F64, false>>(18, "v_cmp_class_f64"),
    compare::<Class<F64, true>>(19, "v_cmpx_class_f64"),
    compare::<Class<F16, false>>(20, "v_cmp_class_f16"),
    compare::<Class<F16, true>>(21, "v_cmpx_class_f16"),
];
static F16_TESTS: &[Op] = float_tests!(F16 "f16" 32);
static F32_TESTS: &[Op] = float_tests!(F32 "f32" 64);
static F64_TESTS: &[Op] = float_tests!(F64 "f64" 96);
static I16_TESTS: &[Op] = integer_tests!(I16 "i16" 160);
static U16_TESTS: &[Op] = integer_tests!(U16 "u16" 168);
static I32_TESTS: &[Op] = integer_tests!(I32 "i32" 192);
static U32_TESTS: &[Op] = integer_tests!(U32 "u32" 200);
static I64_TESTS: &[Op] = integer_tests!(I64 "i64" 224);
static U64_TESTS: &[Op] = integer_tests!(U64 "u64" 232);

pub(super) fn families() -> Vec<&'static [Op]> {
    vec![CLASSES, F16_TESTS, F32_TESTS, F64_TESTS, I16_TESTS, U16_TESTS, I32_TESTS, U32_TESTS, I64_TESTS, U64_TESTS]
}
