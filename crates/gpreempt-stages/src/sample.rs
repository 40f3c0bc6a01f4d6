//! Percentiles, medians and ratios of measured values.

use serde::{Deserialize, Serialize};

/// Percentiles of values, in microseconds. Each is a value that occurred (nearest rank).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) count: usize,
    pub(crate) p50_us: f64,
    pub(crate) p95_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

impl Percentiles {
    /// Sums up values; `None` if there are none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Percentiles> {
        values.sort_by(f64::total_cmp);
        let max_us = *values.last()?;
        let rank = |percent: usize| {
            let index = (values.len() * percent).div_ceil(100).saturating_sub(1);
            values.get(index).copied().unwrap_or(max_us)
        };
        Some(Percentiles { count: values.len(), p50_us: rank(50), p95_us: rank(95), p99_us: rank(99), max_us })
    }
}

/// Returns the median; `None` of nothing. Of an even number of values it is the lower one of the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// Rounds to so many digits behind the point, so that tables can be read.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let unit = 10f64.powi(digits);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let all = Percentiles::of((1..=100).rev().map(f64::from).collect()).unwrap();
        assert_eq!((all.p50_us, all.p95_us, all.p99_us, all.max_us), (50.0, 95.0, 99.0, 100.0));
        assert_eq!(Percentiles::of(Vec::new()), None);
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(median([]), None);
        assert_eq!(rounded(1.2345, 2), 1.23);
    }
}
