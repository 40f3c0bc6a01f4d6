//! Timing on a machine that others use too.

use std::time::{Duration, Instant};

/// Rounds are short, so that some of them run undisturbed; the shortest of each side is what counts.
pub(crate) const ROUNDS: u32 = 60;

/// Seconds of the fastest of many rounds.
pub(crate) fn fastest(side: impl FnMut()) -> f64 {
    fastest_of(ROUNDS, side)
}

/// Seconds of the fastest of so many rounds.
pub(crate) fn fastest_of(rounds: u32, mut side: impl FnMut()) -> f64 {
    (0..rounds).map(|_| seconds(&mut side)).fold(f64::INFINITY, f64::min)
}

/// The fastest round of either side; they take turns, so that both see the same machine.
pub(crate) fn by_turns(mut one: impl FnMut(), mut other: impl FnMut()) -> (f64, f64) {
    (0..ROUNDS).fold((f64::INFINITY, f64::INFINITY), |(a, b), _| (a.min(seconds(&mut one)), b.min(seconds(&mut other))))
}

fn seconds(side: &mut impl FnMut()) -> f64 {
    let begin = Instant::now();
    side();
    begin.elapsed().as_secs_f64()
}

/// The value below which `percent` of the samples lie, in microseconds. Sorts them.
pub(crate) fn percentile(samples: &mut [Duration], percent: usize) -> f64 {
    samples.sort_unstable();
    let index = (samples.len() * percent / 100).min(samples.len().saturating_sub(1));
    samples.get(index).map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e6)
}
