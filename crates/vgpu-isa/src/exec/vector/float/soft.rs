//! Arithmetic that rounds once, in any rounding mode and to any of the three formats.
//!
//! Only modes that the CPU does not have come here, so it is written for clarity. Finite numbers are an integer times a
//! power of two; sums that do not fit keep a last bit that says whether anything was lost.

use crate::wave::mode;

/// Direction of rounding, in the order of the MODE field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    Nearest,
    Up,
    Down,
    Zero,
}

impl Round {
    fn from_field(field: u32) -> Self {
        match field & 3 {
            0 => Self::Nearest,
            1 => Self::Up,
            2 => Self::Down,
            _ => Self::Zero,
        }
    }
}

/// How results of one precision are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) round: Round,
    /// Overflow gives the largest finite number.
    pub(super) saturate: bool,
}

impl Rule {
    /// Nearest even, overflow to infinity.
    pub(super) const USUAL: Self = Self { round: Round::Nearest, saturate: false };

    /// What MODE says about single precision.
    #[inline(always)]
    pub(super) fn single(register: u32) -> Self {
        Self { round: Round::from_field(register & mode::ROUND_32), saturate: false }
    }

    /// What MODE says about double precision.
    #[inline(always)]
    pub(super) fn double(register: u32) -> Self {
        Self { round: Round::from_field((register & mode::ROUND_64_16) >> 2), saturate: false }
    }

    /// What MODE says about half precision.
    #[inline(always)]
    pub(super) fn half(register: u32) -> Self {
        Self { saturate: register & mode::FP16_OVFL != 0, ..Self::double(register) }
    }

    /// The CPU's own arithmetic does it.
    #[inline(always)]
    pub(super) fn is_usual(self) -> bool {
        self == Self::USUAL
    }
}

/// A binary format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    fraction: u32,
    exponent: u32,
}

/// Half precision.
pub(super) const HALF: Format = Format { fraction: 10, exponent: 5 };
/// Single precision.
pub(super) const SINGLE: Format = Format { fraction: 23, exponent: 8 };
/// Double precision.
pub(super) const DOUBLE: Format = Format { fraction: 52, exponent: 11 };

/// A finite number: `magnitude * 2^exponent`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finite {
    pub(super) negative: bool,
    pub(super) magnitude: u128,
    pub(super) exponent: i32,
}

/// What an encoding stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Nan,
    Infinite { negative: bool },
    Finite(Finite),
}

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    const fn sign(self) -> u64 {
        1 << (self.fraction + self.exponent)
    }

    const fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    const fn quiet(self) -> u64 {
        1 << (self.fraction - 1)
    }

    /// The NaN that invalid operations give.
    pub(super) const fn nan(self) -> u64 {
        self.sign() | self.infinity() | self.quiet()
    }

    fn signed(self, negative: bool, body: u64) -> u64 {
        if negative { self.sign() | body } else { body }
    }

    /// Takes an encoding apart.
    pub(super) fn unpack(self, bits: u64) -> Number {
        let negative = bits & self.sign() != 0;
        let fraction = bits & ((1 << self.fraction) - 1);
        let exponent = ((bits & self.infinity()) >> self.fraction) as i32;
        let lowest = 1 - self.bias() - self.fraction as i32;
        if bits & self.infinity() == self.infinity() {
            return if fraction == 0 { Number::Infinite { negative } } else { Number::Nan };
        }
        let (magnitude, exponent) = match exponent {
            0 => (fraction, lowest),
            _ => (fraction | 1 << self.fraction, exponent - 1 + lowest),
        };
        Number::Finite(Finite { negative, magnitude: u128::from(magnitude), exponent })
    }

    /// The nearest number in the direction of the rule.
    pub(super) fn round(self, value: Finite, rule: Rule) -> u64 {
        let Finite { negative, magnitude, exponent } = value;
        if magnitude == 0 {
            return self.signed(negative, 0);
        }
        let length = 128 - magnitude.leading_zeros() as i32;
        let lowest = 1 - self.bias() - self.fraction as i32;
        let mut last = (exponent + length - 1 - self.fraction as i32).max(lowest);
        let drop = last - exponent;
        let (mut kept, above_half, half, inexact) = match drop {
            ..=0 => ((magnitude << -drop) as u64, false, false, false),
            1..=127 => {
                let rest = magnitude & ((1 << drop) - 1);
                let middle = 1_u128 << (drop - 1);
                ((magnitude >> drop) as u64, rest > middle, rest == middle, rest != 0)
            }
            _ => (0, false, false, true),
        };
        let away = match rule.round {
            Round::Nearest => above_half || half && kept & 1 != 0,
            Round::Up => inexact && !negative,
            Round::Down => inexact && negative,
            Round::Zero => false,
        };
        kept += u64::from(away);
        if kept >> (self.fraction + 1) != 0 {
            kept >>= 1;
            last += 1;
        }
        if kept >> self.fraction == 0 {
            return self.signed(negative, kept);
        }
        let biased = last - lowest + 1;
        if biased >= (1 << self.exponent) - 1 {
            return self.overflow(negative, rule);
        }
        self.signed(negative, ((biased as u64) << self.fraction) + kept - (1 << self.fraction))
    }

    fn overflow(self, negative: bool, rule: Rule) -> u64 {
        let finite = rule.saturate
            || match rule.round {
                Round::Nearest => false,
                Round::Up => negative,
                Round::Down => !negative,
                Round::Zero => true,
            };
        self.signed(negative, self.infinity() - u64::from(finite))
    }

    /// The first NaN among the sources, quiet.
    fn first_nan(self, sources: &[u64]) -> Option<u64> {
        let is_nan = |&&bits: &&u64| bits & !self.sign() & (self.sign() | (self.sign() - 1)) > self.infinity();
        sources.iter().find(is_nan).map(|bits| bits | self.quiet())
    }

    /// `2^scale * (a * b + c)`, rounded once.
    pub(super) fn fma(self, a: u64, b: u64, c: u64, scale: i32, rule: Rule) -> u64 {
        if let Some(nan) = self.first_nan(&[a, b, c]) {
            return nan;
        }
        let product_negative = (a ^ b) & self.sign() != 0;
        let product = match (self.unpack(a), self.unpack(b)) {
            (Number::Finite(x), Number::Finite(y)) => Finite {
                negative: product_negative,
                magnitude: x.magnitude * y.magnitude,
                exponent: x.exponent + y.exponent,
            },
            (Number::Infinite { .. }, Number::Finite(z)) | (Number::Finite(z), Number::Infinite { .. })
                if z.magnitude == 0 =>
            {
                return self.nan();
            }
            _ => {
                return match self.unpack(c) {
                    Number::Infinite { negative } if negative != product_negative => self.nan(),
                    _ => self.signed(product_negative, self.infinity()),
                };
            }
        };
        match self.unpack(c) {
            Number::Finite(c) => {
                let mut sum = add(product, c, rule.round);
                sum.exponent += scale;
                self.round(sum, rule)
            }
            _ => c,
        }
    }

    /// `a + b`.
    pub(super) fn add(self, a: u64, b: u64, rule: Rule) -> u64 {
        let one = (self.bias() as u64) << self.fraction;
        self.fma(a, one, b, 0, rule)
    }

    /// `a * b`.
    pub(super) fn mul(self, a: u64, b: u64, rule: Rule) -> u64 {
        // A zero of the product's sign leaves it as it is.
        self.fma(a, b, (a ^ b) & self.sign(), 0, rule)
    }

    /// `2^scale * a`.
    pub(super) fn scale(self, a: u64, scale: i32, rule: Rule) -> u64 {
        match self.unpack(a) {
            Number::Nan => a | self.quiet(),
            Number::Infinite { .. } => a,
            Number::Finite(x) => self.round(Finite { exponent: x.exponent + scale, ..x }, rule),
        }
    }

    /// A number of this format in another one.
    pub(super) fn convert(self, bits: u64, to: Self, rule: Rule) -> u64 {
        let negative = bits & self.sign() != 0;
        match self.unpack(bits) {
            Number::Nan => {
                let fraction = bits & ((1 << self.fraction) - 1);
                let fraction = if to.fraction > self.fraction {
                    fraction << (to.fraction - self.fraction)
                } else {
                    fraction >> (self.fraction - to.fraction)
                };
                to.signed(negative, to.infinity() | to.quiet() | fraction)
            }
            Number::Infinite { .. } => to.signed(negative, to.infinity()),
            Number::Finite(x) => to.round(x, rule),
        }
    }
}

/// The sum of two finite numbers; if it needs more than 126 bits its last bit stands for all that follow.
fn add(a: Finite, b: Finite, round: Round) -> Finite {
    const TOP: i32 = 125;
    let aligned = |x: Finite| {
        let shift = TOP - (128 - x.magnitude.leading_zeros() as i32);
        Finite { magnitude: x.magnitude << shift, exponent: x.exponent - shift, ..x }
    };
    match (a.magnitude, b.magnitude) {
        (0, 0) => {
            let negative = if a.negative == b.negative { a.negative } else { round == Round::Down };
            return Finite { negative, ..a };
        }
        (0, _) => return b,
        (_, 0) => return a,
        _ => {}
    }
    let (a, b) = (aligned(a), aligned(b));
    let (high, low) = if (a.exponent, a.magnitude) >= (b.exponent, b.magnitude) { (a, b) } else { (b, a) };
    let distance = (high.exponent - low.exponent) as u32;
    let shifted = match distance {
        0 => low.magnitude,
        1..=127 => low.magnitude >> distance | u128::from(low.magnitude & ((1 << distance) - 1) != 0),
        _ => 1,
    };
    if high.negative == low.negative {
        return Finite { magnitude: high.magnitude + shifted, ..high };
    }
    let magnitude = high.magnitude - shifted;
    let negative = if magnitude == 0 { round == Round::Down } else { high.negative };
    Finite { negative, magnitude, ..high }
}
