//! Latencies of requests.

use std::time::Duration;

use serde::Serialize;

/// Percentiles of latencies, in microseconds. Each is a latency that occurred (nearest rank).
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Latencies {
    pub(super) p50_us: f64,
    pub(super) p95_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
    pub(super) mean_us: f64,
}

impl Latencies {
    /// Sums up latencies; `None` if there are none.
    pub(super) fn of(mut latencies: Vec<Duration>) -> Option<Latencies> {
        latencies.sort();
        let last = latencies.last()?;
        let rank = |percent: usize| {
            let index = (latencies.len() * percent).div_ceil(100).saturating_sub(1);
            latencies.get(index).map_or(0.0, |latency| microseconds(*latency))
        };
        let total: Duration = latencies.iter().sum();
        Some(Latencies {
            p50_us: rank(50),
            p95_us: rank(95),
            p99_us: rank(99),
            max_us: microseconds(*last),
            mean_us: microseconds(total) / latencies.len() as f64,
        })
    }
}

/// Returns a duration in microseconds.
pub(super) fn microseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_latencies_that_occurred() {
        let latencies = (1..=100).rev().map(Duration::from_micros).collect();
        let expected = Latencies { p50_us: 50.0, p95_us: 95.0, p99_us: 99.0, max_us: 100.0, mean_us: 50.5 };
        assert_eq!(Latencies::of(latencies), Some(expected));
        let one = Latencies::of(vec![Duration::from_nanos(1500)]).expect("one");
        assert_eq!((one.p50_us, one.max_us), (1.5, 1.5));
        assert_eq!(Latencies::of(Vec::new()), None);
    }
}
