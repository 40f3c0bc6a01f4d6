//! Percentiles and rates.

use serde::Serialize;

/// Latencies of one arm, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50_us: f64,
    pub(crate) p95_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

impl Latency {
    /// Of these latencies; `None` if there are none.
    pub(crate) fn of(latencies: &[f64]) -> Option<Latency> {
        let mut sorted = latencies.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Latency {
            p50_us: percentile(&sorted, 0.50)?,
            p95_us: percentile(&sorted, 0.95)?,
            p99_us: percentile(&sorted, 0.99)?,
            max_us: sorted.last().copied()?,
        })
    }
}

/// The smallest of the sorted values that this share of them does not exceed.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The value in the middle; not a number if there is none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    percentile(&sorted, 0.50).unwrap_or(f64::NAN)
}

/// Kernels that had ended at an instant, the one under way in proportion. `ends` are the instants at which kernels
/// ended, in order; before the first and after the last nothing is known.
fn progress(ends: &[u64], at: u64) -> Option<f64> {
    let next = ends.partition_point(|&end| end <= at);
    let (&before, &after) = (ends.get(next.checked_sub(1)?)?, ends.get(next)?);
    Some(next as f64 + (at - before) as f64 / (after - before) as f64)
}

/// A span of the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Window {
    pub(crate) fn seconds(self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }

    /// Kernels that ended within it, parts counted.
    pub(crate) fn kernels(self, ends: &[u64]) -> Option<f64> {
        Some(progress(ends, self.to_ns)? - progress(ends, self.from_ns)?)
    }

    /// The longest window that begins and ends with a kernel.
    pub(crate) fn of_kernels(ends: &[u64]) -> Option<Window> {
        // Up to the last but one, so that the end lies before a kernel that is known.
        let to = ends.len().checked_sub(2)?;
        Some(Window { from_ns: *ends.first()?, to_ns: *ends.get(to)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let latency = Latency::of(&values).unwrap();
        assert_eq!(latency, Latency { p50_us: 50.0, p95_us: 95.0, p99_us: 99.0, max_us: 100.0 });
        let one = Latency::of(&[7.0]).unwrap();
        assert_eq!((one.p50_us, one.p99_us, one.max_us), (7.0, 7.0, 7.0));
        assert_eq!(Latency::of(&[]), None);
    }

    #[test]
    fn the_99th_percentile_of_three_hundred_leaves_three_above() {
        let values: Vec<f64> = (0..300).map(f64::from).collect();
        assert_eq!(Latency::of(&values).unwrap().p99_us, 296.0);
    }

    #[test]
    fn parts_of_kernels_count_at_both_ends_of_a_window() {
        let ends = [100, 200, 300, 500];
        let kernels = |from_ns, to_ns| Window { from_ns, to_ns }.kernels(&ends);
        assert_eq!(kernels(150, 250), Some(1.0));
        assert_eq!(kernels(100, 400), Some(2.5));
        assert_eq!(kernels(50, 250), None, "it is not known when the first began");
        assert_eq!(kernels(150, 600), None);
        assert_eq!(Window::of_kernels(&ends), Some(Window { from_ns: 100, to_ns: 300 }));
        assert_eq!(Window::of_kernels(&ends).unwrap().kernels(&ends), Some(2.0));
    }
}
