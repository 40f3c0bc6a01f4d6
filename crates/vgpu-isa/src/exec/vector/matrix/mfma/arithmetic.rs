//! What is done with the elements.
//!
//! The order in which the hardware adds products is not documented. Here the sum starts with C and takes the products
//! with k ascending, each by a fused multiply and add to nearest even; integers do not depend on the order. MI200 adds
//! the products of 16-bit floats in pairs, which was measured ([`Pairs`]).

use super::super::float::flush_single;
use crate::operand::Type;
use crate::wave::{LANES, Lanes, Wave};

/// Multiply and accumulate.
pub(super) trait Arithmetic: 'static {
    /// An element of A or B.
    type Value: Copy + Default;
    /// An element of the sum while it grows.
    type Sum: Copy;
    /// How a constant C is understood.
    const CONSTANT: Type;
    /// Registers of a tile.
    const WIDTH: usize;
    /// The products of a lane are summed in pairs before they join the sum.
    const PAIRS: bool = false;

    /// The sum with one more product.
    fn step(sum: Self::Sum, a: Self::Value, b: Self::Value) -> Self::Sum;

    /// The sum with all products of a lane, for those with [`PAIRS`](Self::PAIRS).
    #[inline(always)]
    fn join(sum: Self::Sum, _a: [Self::Value; 4], _b: [Self::Value; 4]) -> Self::Sum {
        sum
    }

    /// A tile made of its registers (the second is the same as the first for narrow ones).
    fn load(low: &Lanes, high: &Lanes) -> [Self::Sum; LANES];

    /// A tile of a constant.
    fn constant(bits: u64) -> [Self::Sum; LANES];

    /// The registers of a tile.
    fn store(sum: &[Self::Sum; LANES]) -> [Lanes; 2];
}

/// Sums of 32 bits, by type of the sum and conversions.
macro_rules! narrow {
    ($($(#[$doc:meta])* $name:ident, $value:ty, $sum:ty, $constant:ident,
        |$s:ident, $a:ident, $b:ident| $step:expr, |$x:ident| $load:expr, |$y:ident| $store:expr;)*) => {
        $($(#[$doc])*
        pub(super) struct $name;

        impl Arithmetic for $name {
            type Value = $value;
            type Sum = $sum;
            const CONSTANT: Type = Type::$constant;
            const WIDTH: usize = 1;

            #[inline(always)]
            fn step($s: $sum, $a: $value, $b: $value) -> $sum {
                $step
            }

            #[inline(always)]
            fn load(low: &Lanes, _high: &Lanes) -> [$sum; LANES] {
                low.map(|$x| $load)
            }

            #[inline(always)]
            fn constant(bits: u64) -> [$sum; LANES] {
                let $x = bits as u32;
                [$load; LANES]
            }

            #[inline(always)]
            fn store(sum: &[$sum; LANES]) -> [Lanes; 2] {
                let out = sum.map(|$y| $store);
                [out, out]
            }
        })*
    };
}

narrow! {
    /// Single precision.
    F32, f32, f32, F32, |s, a, b| a.mul_add(b, s), |x| f32::from_bits(x), |y| y.to_bits();
    /// Single precision with FP16_OVFL: overflow gives the largest number, infinities stay.
    F32Saturating, f32, f32, F32, |s, a, b| {
        let sum = a.mul_add(b, s);
        if sum.is_infinite() && s.is_finite() && a.is_finite() && b.is_finite() {
            f32::MAX.copysign(sum)
        } else {
            sum
        }
    }, |x| f32::from_bits(x), |y| y.to_bits();
    /// Integers modulo 2^32.
    I32, i32, i32, B32, |s, a, b| s.wrapping_add(a.wrapping_mul(b)), |x| x as i32, |y| y as u32;
    /// Integers with FP16_OVFL: the sum is clamped.
    I32Saturating, i32, i64, B32, |s, a, b| s + i64::from(a) * i64::from(b), |x| i64::from(x as i32),
        |y| y.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32;
}

/// Products of 16-bit floats on MI200, `N` in each lane: rounded and summed in pairs, then added to the sum. Denormals
/// of C are zero, and so are denormal products and sums, whatever MODE says.
///
/// Sources: that denormals are flushed is in AMD's documentation of MIOpen ("MI200 MFMA behavior specifics"); the order
/// and the places are those of MMA-Sim (arXiv 2511.10909), which agrees with an MI250X bit by bit.
pub(super) struct Pairs<const N: usize, const SATURATES: bool>;

impl<const N: usize, const SATURATES: bool> Pairs<N, SATURATES> {
    /// A rounded result of two numbers.
    #[inline(always)]
    fn settled(result: f32, [x, y]: [f32; 2]) -> f32 {
        let overflows = SATURATES && result.is_infinite() && x.is_finite() && y.is_finite();
        let result = if overflows { f32::MAX.copysign(result) } else { result };
        f32::from_bits(flush_single(result.to_bits()))
    }

    #[inline(always)]
    fn add(x: f32, y: f32) -> f32 {
        Self::settled(x + y, [x, y])
    }

    #[inline(always)]
    fn product(a: f32, b: f32) -> f32 {
        // A product that is zero is a positive one.
        Self::settled(a.mul_add(b, 0.0), [a, b])
    }

    /// C without denormals and without the sign of zero.
    #[inline(always)]
    fn addend(bits: u32) -> f32 {
        f32::from_bits(if bits & 0x7F80_0000 == 0 { 0 } else { bits })
    }
}

impl<const N: usize, const SATURATES: bool> Arithmetic for Pairs<N, SATURATES> {
    type Value = f32;
    type Sum = f32;
    const CONSTANT: Type = Type::F32;
    const WIDTH: usize = 1;
    const PAIRS: bool = true;

    #[inline(always)]
    fn step(sum: f32, a: f32, b: f32) -> f32 {
        Self::add(sum, Self::product(a, b))
    }

    #[inline(always)]
    fn join(sum: f32, a: [f32; 4], b: [f32; 4]) -> f32 {
        let product = |n: usize| Self::product(a[n], b[n]);
        let low = Self::add(product(0), product(1));
        Self::add(sum, if N == 2 { low } else { Self::add(low, Self::add(product(2), product(3))) })
    }

    #[inline(always)]
    fn load(low: &Lanes, _high: &Lanes) -> [f32; LANES] {
        low.map(Self::addend)
    }

    #[inline(always)]
    fn constant(bits: u64) -> [f32; LANES] {
        [Self::addend(bits as u32); LANES]
    }

    #[inline(always)]
    fn store(sum: &[f32; LANES]) -> [Lanes; 2] {
        let out = sum.map(f32::to_bits);
        [out, out]
    }
}

/// Double precision.
pub(super) struct F64;

impl Arithmetic for F64 {
    type Value = f64;
    type Sum = f64;
    const CONSTANT: Type = Type::F64;
    const WIDTH: usize = 2;

    #[inline(always)]
    fn step(sum: f64, a: f64, b: f64) -> f64 {
        a.mul_add(b, sum)
    }

    #[inline(always)]
    fn load(low: &Lanes, high: &Lanes) -> [f64; LANES] {
        let mut out = [0.0; LANES];
        for lane in 0..LANES {
            out[lane] = f64::from_bits(u64::from(low[lane]) | u64::from(high[lane]) << 32);
        }
        out
    }

    #[inline(always)]
    fn constant(bits: u64) -> [f64; LANES] {
        [f64::from_bits(bits); LANES]
    }

    #[inline(always)]
    fn store(sum: &[f64; LANES]) -> [Lanes; 2] {
        [sum.map(|x| x.to_bits() as u32), sum.map(|x| (x.to_bits() >> 32) as u32)]
    }
}

/// A register of either file.
#[inline(always)]
pub(super) fn register(wave: &Wave, accumulation: bool, index: u16) -> &Lanes {
    let index = usize::from(index & 0xFF);
    if accumulation { &wave.a[index] } else { &wave.v[index] }
}

/// Writes a register of either file, all lanes whatever EXEC says.
#[inline(always)]
pub(super) fn set_register(wave: &mut Wave, accumulation: bool, index: u16, value: &Lanes) {
    let index = usize::from(index & 0xFF);
    if accumulation {
        wave.a[index] = *value;
    } else {
        wave.v[index] = *value;
    }
}
