//! Instants and durations: nanoseconds on a clock the host chooses.
//!
//! All arithmetic saturates. A host whose clock jumps or whose input is nonsense gets a late or an early decision, never a
//! panic or a wrap-around.

/// A duration, or an instant counted from wherever the host's monotonic clock starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of time, and the empty duration.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than anything that will happen.
    pub const NEVER: Nanos = Nanos(u64::MAX);

    /// `n` microseconds.
    #[must_use]
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000))
    }

    /// `n` milliseconds.
    #[must_use]
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000))
    }

    /// `n` seconds.
    #[must_use]
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000_000))
    }

    /// `self + other`; [`Nanos::NEVER`] when that is too late to count.
    #[must_use]
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// `self - other`, or zero: how long after `other` this instant lies.
    #[must_use]
    pub const fn since(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// `self * n`, saturating.
    #[must_use]
    pub const fn times(self, n: u64) -> Nanos {
        Nanos(self.0.saturating_mul(n))
    }

    /// `n` thousandths of this duration.
    #[must_use]
    pub const fn permille(self, n: u64) -> Nanos {
        // Divided first where the product would not fit; the error is below a microsecond in the hours where that happens.
        match self.0.checked_mul(n) {
            Some(product) => Nanos(product / 1_000),
            None => Nanos((self.0 / 1_000).saturating_mul(n)),
        }
    }
}
