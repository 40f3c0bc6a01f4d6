//! Instants and durations: nanoseconds on a monotonic clock of the host's choice.
//!
//! All arithmetic saturates. A clock that jumps or a setting out of range makes a decision early or late; it never
//! causes a panic or a wrap-around.

use core::fmt;
use core::time::Duration;

/// A duration, or an instant counted from the origin of the host's monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The origin of the clock, and the empty duration.
    pub const ZERO: Nanos = Nanos(0);
    /// An instant that is never reached, and the duration without end.
    pub const NEVER: Nanos = Nanos(u64::MAX);

    /// Returns `n` microseconds.
    #[must_use]
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000))
    }

    /// Returns `n` milliseconds.
    #[must_use]
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000))
    }

    /// Returns `n` seconds.
    #[must_use]
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000_000))
    }

    /// Returns `self + other`, at most [`Nanos::NEVER`].
    #[must_use]
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// Returns the time from `other` to `self`; zero if `other` is later.
    #[must_use]
    pub const fn since(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// Returns `self * n`, at most [`Nanos::NEVER`].
    #[must_use]
    pub const fn times(self, n: u64) -> Nanos {
        Nanos(self.0.saturating_mul(n))
    }

    /// Returns `n` thousandths of this duration.
    #[must_use]
    pub const fn permille(self, n: u64) -> Nanos {
        // Divides first where the product would overflow. That happens from hours on, where an error below 1 us is
        // nothing.
        match self.0.checked_mul(n) {
            Some(product) => Nanos(product / 1_000),
            None => Nanos((self.0 / 1_000).saturating_mul(n)),
        }
    }
}

impl From<Duration> for Nanos {
    /// Converts; durations beyond 584 years become [`Nanos::NEVER`].
    fn from(duration: Duration) -> Nanos {
        Nanos::from_secs(duration.as_secs()).plus(Nanos(u64::from(duration.subsec_nanos())))
    }
}

impl From<Nanos> for Duration {
    /// Converts; [`Nanos::NEVER`] becomes a duration of 584 years.
    fn from(nanos: Nanos) -> Duration {
        Duration::from_nanos(nanos.0)
    }
}

/// Units of [`Nanos`] for people, the largest first.
const UNITS: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];

impl fmt::Display for Nanos {
    /// Writes three significant digits and a unit: `1.50 ms`, `23.4 us`, `120 s`; `0` for zero and `never` for
    /// [`Nanos::NEVER`]. The value is rounded to the nearest, ties to even; one that is rounded up to a power of ten
    /// keeps its decimals (`10.00 us`). Width and precision of the formatter are ignored.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Nanos::ZERO => return f.write_str("0"),
            Nanos::NEVER => return f.write_str("never"),
            _ => {}
        }
        let unit = UNITS.into_iter().find(|&(size, _)| self.0 >= size);
        let Some((size, unit)) = unit else { return Ok(()) };
        let whole = self.0.checked_div(size).unwrap_or(0);
        let (scale, decimals) = match whole {
            0..10 => (100, 2),
            10..100 => (10, 1),
            _ => (1, 0),
        };
        // At most 64 bits: a value with decimals is below 100 s, which is 10^11 ns.
        let value = round(self.0.saturating_mul(scale), size);
        if decimals == 0 {
            return write!(f, "{value} {unit}");
        }
        write!(f, "{}.{:0decimals$} {unit}", value / scale, value % scale)
    }
}

/// Returns `value / size` rounded to the nearest, ties to even.
fn round(value: u64, size: u64) -> u64 {
    let quotient = value.checked_div(size).unwrap_or(0);
    let rest = value.checked_rem(size).unwrap_or(0);
    let up = match rest.cmp(&(size - rest)) {
        core::cmp::Ordering::Less => false,
        core::cmp::Ordering::Equal => quotient % 2 == 1,
        core::cmp::Ordering::Greater => true,
    };
    quotient + u64::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::string::String;

    /// Formats with floating point and three digits: a second way to the same text.
    #[expect(clippy::float_arithmetic, reason = "an oracle that shares no arithmetic with the code under test")]
    fn with_floats(nanos: u64) -> String {
        let (size, unit) = UNITS.into_iter().find(|&(size, _)| nanos >= size).expect("not zero");
        let value = nanos as f64 / size as f64;
        let decimals = if value >= 100.0 {
            0
        } else if value >= 10.0 {
            1
        } else {
            2
        };
        format!("{value:.decimals$} {unit}")
    }

    #[test]
    fn times_are_shown_with_three_digits_and_a_unit() {
        let shown = [
            (0, "0"),
            (1, "1.00 ns"),
            (99, "99.0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (1_125, "1.12 us"),
            (1_135, "1.14 us"),
            (9_996, "10.00 us"),
            (12_345, "12.3 us"),
            (99_960, "100.0 us"),
            (999_600, "1000 us"),
            (1_500_000, "1.50 ms"),
            (5_000_000_000, "5.00 s"),
            (75_000_000_000, "75.0 s"),
            (123_456_000_000, "123 s"),
            (u64::MAX - 1, "18446744074 s"),
            (u64::MAX, "never"),
        ];
        for (nanos, text) in shown {
            assert_eq!(format!("{}", Nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn integers_show_what_floating_point_shows(exponent in 0u32..63, fraction in any::<u64>()) {
            let nanos = (1 << exponent) | (fraction & ((1 << exponent) - 1));
            // Floats decide an exact tie by their representation error, integers by the rule.
            let tie = UNITS.into_iter().any(|(size, _)| {
                [1, 10, 100].into_iter().any(|scale| nanos.saturating_mul(scale) % size * 2 == size)
            });
            prop_assume!(!tie);
            prop_assert_eq!(format!("{}", Nanos(nanos)), with_floats(nanos));
        }

        #[test]
        fn durations_convert_both_ways_and_saturate(nanos in any::<u64>(), seconds in any::<u64>()) {
            prop_assert_eq!(Nanos::from(Duration::from(Nanos(nanos))), Nanos(nanos));
            let expected = u128::from(seconds) * 1_000_000_000 + 999_999_999;
            let expected = u64::try_from(expected).unwrap_or(u64::MAX);
            prop_assert_eq!(Nanos::from(Duration::new(seconds, 999_999_999)), Nanos(expected));
        }
    }
}
