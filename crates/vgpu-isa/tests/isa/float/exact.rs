//! Floating point numbers as exact integers: a number is its multiple of 2^-2300, and rounding looks at all its bits.

use std::cmp::Ordering;

/// Exponent of the unit, small enough for every product of two doubles.
const UNIT: i32 = -2300;

/// An unsigned integer of any length, low word first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Big(Vec<u64>);

impl Big {
    fn shifted(value: u128, shift: usize) -> Self {
        let mut words = vec![0; shift / 64 + 3];
        let bit = shift % 64;
        let low = value << bit;
        words[shift / 64] = low as u64;
        words[shift / 64 + 1] = (low >> 64) as u64;
        words[shift / 64 + 2] = if bit == 0 { 0 } else { (value >> (128 - bit)) as u64 };
        Self(words)
    }

    fn word(&self, n: usize) -> u64 {
        self.0.get(n).copied().unwrap_or(0)
    }

    fn bit(&self, n: usize) -> bool {
        self.word(n / 64) >> (n % 64) & 1 != 0
    }

    /// Position after the highest bit.
    fn length(&self) -> usize {
        let top = self.0.iter().rposition(|&w| w != 0);
        top.map_or(0, |n| n * 64 + 64 - self.0[n].leading_zeros() as usize)
    }

    fn compare(&self, other: &Self) -> Ordering {
        let words = self.0.len().max(other.0.len());
        (0..words).rev().map(|n| self.word(n).cmp(&other.word(n))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn add(&self, other: &Self) -> Self {
        let words = self.0.len().max(other.0.len()) + 1;
        let mut carry = 0;
        let sum = (0..words).map(|n| {
            let s = u128::from(self.word(n)) + u128::from(other.word(n)) + carry;
            carry = s >> 64;
            s as u64
        });
        Self(sum.collect())
    }

    /// Of a number that is not larger.
    fn sub(&self, other: &Self) -> Self {
        let mut borrow = false;
        let difference = (0..self.0.len()).map(|n| {
            let (d, first) = self.word(n).overflowing_sub(other.word(n));
            let (d, second) = d.overflowing_sub(u64::from(borrow));
            borrow = first || second;
            d
        });
        Self(difference.collect())
    }

    fn any_below(&self, n: usize) -> bool {
        (0..n).any(|bit| self.bit(bit))
    }

    fn bits_from(&self, n: usize) -> u64 {
        (0..64).filter(|&bit| self.bit(n + bit)).map(|bit| 1 << bit).sum()
    }
}

/// A format by its total and fraction bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) total: u32,
    pub(crate) fraction: u32,
}

pub(crate) const F16: Format = Format { total: 16, fraction: 10 };
pub(crate) const F32: Format = Format { total: 32, fraction: 23 };
pub(crate) const F64: Format = Format { total: 64, fraction: 52 };

/// Rounding: the MODE field, and whether overflow stays finite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) round: u32,
    pub(crate) saturate: bool,
}

pub(crate) const NEAREST: Rule = Rule { round: 0, saturate: false };

/// A sign and a multiple of the unit.
#[derive(Clone, Debug)]
pub(crate) struct Exact {
    pub(crate) negative: bool,
    size: Big,
}

impl Exact {
    pub(crate) fn new(negative: bool, mantissa: u128, exponent: i32) -> Self {
        Self { negative, size: Big::shifted(mantissa, (exponent - UNIT) as usize) }
    }

    /// The sum; an exact zero of different signs takes the sign that rounding down prefers.
    fn plus(&self, other: &Self, rule: Rule) -> Self {
        if self.negative == other.negative {
            return Self { negative: self.negative, size: self.size.add(&other.size) };
        }
        match self.size.compare(&other.size) {
            Ordering::Equal => Self { negative: rule.round == 2, size: Big(vec![]) },
            Ordering::Greater => Self { negative: self.negative, size: self.size.sub(&other.size) },
            Ordering::Less => other.plus(self, rule),
        }
    }
}

impl Format {
    pub(crate) fn sign(self) -> u64 {
        1 << (self.total - 1)
    }

    pub(crate) fn infinity(self) -> u64 {
        self.sign() - (1 << self.fraction)
    }

    pub(crate) fn quiet(self) -> u64 {
        1 << (self.fraction - 1)
    }

    pub(crate) fn invalid(self) -> u64 {
        self.sign() | self.infinity() | self.quiet()
    }

    pub(crate) fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }

    pub(crate) fn is_infinite(self, bits: u64) -> bool {
        bits & (self.sign() - 1) == self.infinity()
    }

    fn bias(self) -> i32 {
        (1 << (self.total - self.fraction - 2)) - 1
    }

    /// Mantissa and exponent of its last bit.
    pub(crate) fn parts(self, bits: u64) -> (u64, i32) {
        let field = (bits & self.infinity()) >> self.fraction;
        let fraction = bits & ((1 << self.fraction) - 1);
        let exponent = field.max(1) as i32 - self.bias() - self.fraction as i32;
        (if field == 0 { fraction } else { fraction + (1 << self.fraction) }, exponent)
    }

    pub(crate) fn exact(self, bits: u64) -> Exact {
        let (mantissa, exponent) = self.parts(bits);
        Exact::new(bits & self.sign() != 0, mantissa.into(), exponent)
    }

    /// The encoding that the rule chooses.
    pub(crate) fn round(self, value: &Exact, rule: Rule) -> u64 {
        let sign = if value.negative { self.sign() } else { 0 };
        let size = &value.size;
        let lowest = 1 - self.bias() - self.fraction as i32 - UNIT;
        let last = (size.length() as i32 - 1 - self.fraction as i32).max(lowest) as usize;
        let kept = size.bits_from(last);
        let (half, rest) = (size.bit(last - 1), size.any_below(last - 1));
        let up = match rule.round {
            0 => half && (rest || kept & 1 != 0),
            1 => (half || rest) && !value.negative,
            2 => (half || rest) && value.negative,
            _ => false,
        };
        // A carry out of the fraction raises the exponent by itself.
        let field = (last as i32 - lowest) as u128;
        let body = (field << self.fraction) + u128::from(kept) + u128::from(up);
        if body < u128::from(self.infinity()) {
            return sign | body as u64;
        }
        let to_infinity = !rule.saturate
            && match rule.round {
                0 => true,
                1 => !value.negative,
                2 => value.negative,
                _ => false,
            };
        sign | if to_infinity { self.infinity() } else { self.infinity() - 1 }
    }

    /// `2^scale * (a * b + c)`. NaN sources are the caller's business.
    pub(crate) fn fma(self, a: u64, b: u64, c: u64, scale: i32, rule: Rule) -> u64 {
        let sign = (a ^ b) & self.sign();
        let zero = |x: u64| x & (self.sign() - 1) == 0;
        if self.is_infinite(a) || self.is_infinite(b) {
            let wrong = zero(a) || zero(b) || self.is_infinite(c) && c & self.sign() != sign;
            return if wrong { self.invalid() } else { sign | self.infinity() };
        }
        if self.is_infinite(c) {
            return c;
        }
        let ((ma, ea), (mb, eb), (mc, ec)) = (self.parts(a), self.parts(b), self.parts(c));
        let product = Exact::new(sign != 0, u128::from(ma) * u128::from(mb), ea + eb + scale);
        let addend = Exact::new(c & self.sign() != 0, mc.into(), ec + scale);
        self.round(&product.plus(&addend, rule), rule)
    }

    pub(crate) fn add(self, a: u64, b: u64, rule: Rule) -> u64 {
        let one = (self.bias() as u64) << self.fraction;
        self.fma(a, one, b, 0, rule)
    }

    pub(crate) fn mul(self, a: u64, b: u64, rule: Rule) -> u64 {
        self.fma(a, b, (a ^ b) & self.sign(), 0, rule)
    }

    /// A number of this format in another one.
    pub(crate) fn convert(self, bits: u64, to: Self, rule: Rule) -> u64 {
        let sign = if bits & self.sign() != 0 { to.sign() } else { 0 };
        if self.is_nan(bits) {
            let fraction = bits & ((1 << self.fraction) - 1);
            let fraction = (u128::from(fraction) << to.fraction >> self.fraction) as u64;
            return sign | to.infinity() | to.quiet() | fraction;
        }
        if self.is_infinite(bits) {
            return sign | to.infinity();
        }
        to.round(&self.exact(bits), rule)
    }

    /// The value as a host double; exact for the narrower formats.
    pub(crate) fn value(self, bits: u64) -> f64 {
        f64::from_bits(self.convert(bits, F64, NEAREST))
    }
}

/// Whether bit `n` of the fraction of two over pi is set, for the first `count` bits.
pub(crate) fn two_over_pi(count: usize) -> Vec<bool> {
    const PLACES: usize = 1500;
    let divided = |big: &Big, by: u64| {
        let mut rest = 0_u128;
        let mut words = big.0.clone();
        for word in words.iter_mut().rev() {
            let whole = rest << 64 | u128::from(*word);
            *word = (whole / u128::from(by)) as u64;
            rest = whole % u128::from(by);
        }
        Big(words)
    };
    // Machin: pi is 16 arctan(1/5) - 4 arctan(1/239).
    let arctangent = |x: u64, times: u128| {
        let mut power = divided(&Big::shifted(times, PLACES), x);
        let (mut sum, mut taken) = (power.clone(), Big(vec![]));
        for n in 1..PLACES as u64 {
            power = divided(&power, x * x);
            let term = divided(&power, 2 * n + 1);
            if n % 2 == 0 { sum = sum.add(&term) } else { taken = taken.add(&term) }
        }
        sum.sub(&taken)
    };
    let pi = arctangent(5, 16).sub(&arctangent(239, 4));
    let mut rest = Big::shifted(2, PLACES);
    let digit = |_| {
        rest = rest.add(&rest);
        let larger = rest.compare(&pi).is_ge();
        if larger {
            rest = rest.sub(&pi);
        }
        rest.0.truncate(PLACES / 64 + 3);
        larger
    };
    (0..count).map(digit).collect()
}
