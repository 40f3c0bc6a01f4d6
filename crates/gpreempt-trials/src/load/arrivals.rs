//! When requests arrive.

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg64;

/// Instants of `count` arrivals of a Poisson process with `rate` arrivals in a second, the same for the same seed.
pub(crate) fn arrivals(count: u32, rate: f64, seed: u64) -> Vec<Duration> {
    let mut random = Pcg64::new(seed.into(), 0x0A11);
    let mut at = 0.0;
    let next = |_| {
        // From 0 up to, not including, 1; so the logarithm is of something positive.
        let unit = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        at -= (1.0 - unit).ln() / rate;
        Duration::try_from_secs_f64(at).unwrap_or(Duration::MAX)
    };
    (0..count).map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_arrivals_in_order() {
        let one = arrivals(1000, 30.0, 7);
        assert_eq!(one, arrivals(1000, 30.0, 7));
        assert_ne!(one, arrivals(1000, 30.0, 8));
        assert!(one.is_sorted());
    }

    /// Mean and spread of a Poisson process are the same, and both are what was asked for.
    #[test]
    fn gaps_have_the_mean_and_the_spread_of_their_rate() {
        let arrivals = arrivals(100_000, 50.0, 3);
        let gaps: Vec<f64> = arrivals.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 50.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() * 50.0 - 1.0).abs() < 0.02, "{variance}");
    }
}
