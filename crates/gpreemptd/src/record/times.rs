//! A distribution of times.

use std::time::Duration;

use gpreempt_core::Nanos;
use gpreempt_proto::Distribution;
use hdrhistogram::Histogram;

/// Longest time that is told from longer ones. A tenant can be stopped for hours; an hour is enough for a quantile.
const LONGEST: Duration = Duration::from_secs(3600);

/// Significant decimal digits: an error of at most 1 %, about 30 KiB when all magnitudes occur.
const DIGITS: u8 = 2;

/// A distribution of times since the daemon started. Takes no memory worth mentioning before the first time is noted.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Grows with the largest value; absent while nothing was noted.
    histogram: Option<Histogram<u64>>,
    /// Exact, where the histogram rounds.
    longest: Nanos,
    /// Exact as well; saturates after centuries.
    total: Nanos,
}

impl Times {
    /// Adds a time.
    pub fn note(&mut self, time: Nanos) {
        if self.histogram.is_none() {
            // Fails only for more than five digits.
            self.histogram = Histogram::new(DIGITS).ok();
        }
        let Some(histogram) = &mut self.histogram else { return };
        let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
        // A histogram that grows by itself takes every value for which there is memory.
        if histogram.record(time.0.min(longest)).is_ok() {
            self.longest = self.longest.max(time);
            self.total = self.total.plus(time);
        }
    }

    /// How many were noted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// All of them together.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.total
    }

    /// For the users: all zero if nothing was noted.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let Some(histogram) = self.histogram.as_ref().filter(|histogram| !histogram.is_empty()) else {
            return Distribution::default();
        };
        // A bucket's upper end may lie above the longest time that was really noted.
        let quantile = |q| micros(Nanos(histogram.value_at_quantile(q)).min(self.longest));
        Distribution {
            count: histogram.len(),
            mean_us: micros(self.total) / histogram.len() as f64,
            p50_us: quantile(0.50),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            max_us: micros(self.longest),
        }
    }
}

fn micros(time: Nanos) -> f64 {
    time.0 as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_noted_is_all_zero() {
        assert_eq!(Times::default().distribution(), Distribution::default());
    }

    #[test]
    fn times_beyond_the_longest_count_and_keep_their_maximum() {
        let mut times = Times::default();
        times.note(Nanos::from_secs(7_200));
        times.note(Nanos::ZERO);
        times.note(Nanos::NEVER);
        let told = times.distribution();
        assert_eq!(told.count, 3);
        assert_eq!(told.max_us, micros(Nanos::NEVER));
        assert!(told.p50_us >= 3_600e6 * 0.99, "{told:?}");
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_times_within_one_percent(
            mut noted in prop::collection::vec(0u64..10_000_000_000, 1..200),
        ) {
            let mut times = Times::default();
            noted.iter().for_each(|&time| times.note(Nanos(time)));
            noted.sort_unstable();
            let told = times.distribution();
            prop_assert_eq!(told.count, noted.len() as u64);
            for (q, value) in [(0.50, told.p50_us), (0.95, told.p95_us), (0.99, told.p99_us)] {
                let rank = ((noted.len() as f64 * q).ceil() as usize).max(1);
                let exact = noted[rank - 1] as f64 / 1_000.0;
                prop_assert!((value - exact).abs() <= exact * 0.01 + 0.001, "{q}: {value} for {exact}");
            }
            let mean = noted.iter().map(|&time| time as f64 / 1_000.0).sum::<f64>() / noted.len() as f64;
            prop_assert!((told.mean_us - mean).abs() <= mean * 1e-9 + 1e-9);
            prop_assert_eq!(told.max_us, *noted.last().unwrap() as f64 / 1_000.0);
            prop_assert!(told.p50_us <= told.p95_us && told.p95_us <= told.p99_us && told.p99_us <= told.max_us);
        }
    }
}
