//! Floats as integers times powers of two: sums and products without rounding, then one rounding in integers.

/// A binary format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) exponent_bits: u32,
    pub(super) fraction_bits: u32,
}

pub(super) const HALF: Format = Format { exponent_bits: 5, fraction_bits: 10 };
pub(super) const SINGLE: Format = Format { exponent_bits: 8, fraction_bits: 23 };

/// Rounding as MODE counts: nearest even, up, down, toward zero.
pub(super) const NEAREST: u32 = 0;

/// What an operation must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Bits(u32),
    /// Any quiet NaN.
    Nan,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Nan,
    Infinite {
        negative: bool,
    },
    /// `magnitude * 2^exponent`, with a sign that zero has as well.
    Finite {
        negative: bool,
        magnitude: u128,
        exponent: i32,
    },
}

/// A number, an infinity or a NaN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact(Value);

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    fn sign(self) -> u32 {
        self.exponent_bits + self.fraction_bits
    }

    pub(super) fn infinity(self) -> u32 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    pub(super) fn is_nan(self, bits: u32) -> bool {
        bits & ((1 << self.sign()) - 1) > self.infinity()
    }

    pub(super) fn is_quiet_nan(self, bits: u32) -> bool {
        self.is_nan(bits) && bits >> (self.fraction_bits - 1) & 1 == 1
    }

    /// Denormals become zeros of their sign.
    pub(super) fn flush(self, bits: u32) -> u32 {
        if bits & self.infinity() == 0 { bits & 1 << self.sign() } else { bits }
    }

    /// The clamp modifier in the usual mode.
    pub(super) fn clamp(self, want: Want) -> Want {
        let one = (self.bias() as u32) << self.fraction_bits;
        match want {
            Want::Nan => Want::Bits(0),
            Want::Bits(bits) if bits >> self.sign() != 0 => Want::Bits(0),
            Want::Bits(bits) => Want::Bits(bits.min(one)),
        }
    }

    pub(super) fn matches(self, want: Want, got: u32) -> bool {
        match want {
            Want::Bits(bits) => bits == got,
            Want::Nan => self.is_quiet_nan(got),
        }
    }
}

impl Exact {
    pub(super) fn decode(bits: u32, format: Format) -> Self {
        let negative = bits >> format.sign() & 1 != 0;
        let fraction = u128::from(bits & ((1 << format.fraction_bits) - 1));
        let exponent = (bits >> format.fraction_bits & ((1 << format.exponent_bits) - 1)) as i32;
        let lowest = 1 - format.bias() - format.fraction_bits as i32;
        Self(if exponent == (1 << format.exponent_bits) - 1 {
            if fraction == 0 { Value::Infinite { negative } } else { Value::Nan }
        } else if exponent == 0 {
            Value::Finite { negative, magnitude: fraction, exponent: lowest }
        } else {
            let magnitude = fraction | 1 << format.fraction_bits;
            Value::Finite { negative, magnitude, exponent: lowest + exponent - 1 }
        })
    }

    pub(super) fn times(self, other: Self) -> Self {
        use Value::{Finite, Infinite, Nan};
        Self(match (self.0, other.0) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite { .. }, Finite { magnitude: 0, .. }) | (Finite { magnitude: 0, .. }, Infinite { .. }) => Nan,
            (
                Finite { negative: n, magnitude: m, exponent: e },
                Finite { negative: n2, magnitude: m2, exponent: e2 },
            ) => Finite { negative: n != n2, magnitude: m * m2, exponent: e + e2 },
            _ => Infinite { negative: self.negative() != other.negative() },
        })
    }

    fn negative(self) -> bool {
        match self.0 {
            Value::Nan => false,
            Value::Infinite { negative } | Value::Finite { negative, .. } => negative,
        }
    }

    /// The sum; a term far below the other one becomes a bit far below it, which rounds the same way.
    pub(super) fn plus(self, other: Self, rounding: u32) -> Self {
        use Value::{Finite, Infinite, Nan};
        Self(match (self.0, other.0) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite { negative: n }, Infinite { negative: n2 }) if n != n2 => Nan,
            (Infinite { negative }, _) | (_, Infinite { negative }) => Infinite { negative },
            (
                Finite { negative: n, magnitude: m, exponent: e },
                Finite { negative: n2, magnitude: m2, exponent: e2 },
            ) => {
                if m == 0 && m2 == 0 {
                    let negative = if n == n2 { n } else { rounding == 2 };
                    return Self(Finite { negative, magnitude: 0, exponent: e });
                }
                let lowest = if m == 0 {
                    e2
                } else if m2 == 0 {
                    e
                } else {
                    e.min(e2).max(e.max(e2) - 70)
                };
                let align = |m: u128, e: i32| {
                    if e >= lowest {
                        if m == 0 { 0 } else { m << (e - lowest) }
                    } else {
                        let gone = (lowest - e) as u32;
                        // Lost bits count as the lowest one.
                        let kept = if gone < 128 { m >> gone } else { 0 };
                        kept | u128::from(m != 0 && (gone >= 128 || kept << gone != m))
                    }
                };
                let signed = |n: bool, m: u128| if n { -(m as i128) } else { m as i128 };
                let sum = signed(n, align(m, e)) + signed(n2, align(m2, e2));
                let negative = if sum == 0 { rounding == 2 } else { sum < 0 };
                Finite { negative, magnitude: sum.unsigned_abs(), exponent: lowest }
            }
        })
    }

    /// Rounded to a format.
    pub(super) fn round(self, format: Format, rounding: u32) -> Want {
        let sign = |negative: bool| u32::from(negative) << format.sign();
        let (negative, magnitude, exponent) = match self.0 {
            Value::Nan => return Want::Nan,
            Value::Infinite { negative } => return Want::Bits(format.infinity() | sign(negative)),
            Value::Finite { negative, magnitude, exponent } => (negative, magnitude, exponent),
        };
        if magnitude == 0 {
            return Want::Bits(sign(negative));
        }
        let lowest = 1 - format.bias() - format.fraction_bits as i32;
        let top = exponent + 127 - magnitude.leading_zeros() as i32;
        let unit = (top - format.fraction_bits as i32).max(lowest);
        let shift = unit - exponent;
        let quotient = if shift <= 0 {
            magnitude << -shift
        } else {
            let whole = if shift < 128 { magnitude >> shift } else { 0 };
            let rest = if shift < 128 { magnitude - (whole << shift) } else { magnitude };
            let half = if shift <= 128 { 1_u128 << (shift - 1) } else { u128::MAX };
            let up = match rounding {
                0 => rest > half || rest == half && whole & 1 == 1,
                1 => rest != 0 && !negative,
                2 => rest != 0 && negative,
                _ => false,
            };
            whole + u128::from(up)
        };
        // The hidden bit of a normal number adds one to the exponent field, and so does a carry.
        let field = (unit - lowest) as u128;
        let bits = (field << format.fraction_bits) + quotient;
        if bits < u128::from(format.infinity()) {
            return Want::Bits(bits as u32 | sign(negative));
        }
        let outward = match rounding {
            0 => true,
            1 => !negative,
            2 => negative,
            _ => false,
        };
        Want::Bits((format.infinity() - u32::from(!outward)) | sign(negative))
    }
}
