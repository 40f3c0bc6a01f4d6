//! How many steps a kernel of a given length has on the gpu at hand.

use std::io::Write;

use anyhow::{Result, bail, ensure};
use kfd_runtime::{Device, Runtime, Signal};
use kfd_suite::chain::{self, Chain, Work};
use linux_host::clock::monotonic_ns;

use super::LoadCalibrate;
use super::{LOST, Line, say};

/// Batches in a measurement; the median counts.
const BATCHES: u32 = 7;
/// Steps of the first measurement.
const FIRST: u32 = 64;
/// How near a measurement has to be, and how often that is tried.
const NEAR: f64 = 0.05;
const ATTEMPTS: usize = 16;
/// How much longer the next kernel may be than the last.
const GROWTH: f64 = 4.0;
/// Measurements of one kernel before the mean has to do.
const REPEATS: u32 = 5;
const MOST: f64 = (1 << 30) as f64;

pub(super) fn run(options: &LoadCalibrate, out: &mut impl Write) -> Result<()> {
    let target = options.target_us;
    ensure!(target.is_finite() && target > 0.0, "--target-us has to be a positive number, not {target}");
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    let groups = options.groups.unwrap_or_else(|| chain::groups_to_fill(device).saturating_mul(options.fill));
    let (steps, kernel_us) = search(target, |steps| kernel_us(device, Work { groups, steps }, options.batch))?;
    say(&Line::Calibrated { groups, steps, kernel_us }, out)
}

/// Steps whose time comes near the target, and that time.
fn search(target: f64, mut time: impl FnMut(u32) -> Result<f64>) -> Result<(u32, f64)> {
    // What a kernel costs without any steps matters for short ones, so two measurements give a line.
    let base = time(1)?;
    let mut best = (1, base);
    let mut steps = FIRST;
    for _ in 0..ATTEMPTS {
        let measured = time(steps)?;
        if (measured - target).abs() < (best.1 - target).abs() {
            best = (steps, measured);
        }
        if (measured / target - 1.0).abs() < NEAR {
            break;
        }
        let slope = (measured - base) / f64::from(steps);
        let wanted = if slope > 0.0 { f64::from(steps) + (target - measured) / slope } else { f64::INFINITY };
        // On a busy machine a measurement may be far off: one step of the search must not lead to kernels that take
        // hours.
        let next = wanted.clamp(f64::from(steps) / GROWTH, f64::from(steps) * GROWTH).clamp(2.0, MOST) as u32;
        if next == steps {
            break;
        }
        steps = next;
    }
    if best.1 < target / 2.0 {
        bail!("a kernel of {} steps takes only {} us: this gpu does not measure time", best.0, best.1);
    }
    Ok(best)
}

/// Measures one kernel. A measurement during which this thread was not scheduled is repeated.
fn kernel_us(device: &Device, work: Work, batch: u32) -> Result<f64> {
    let mut mean = 0.0;
    for _ in 0..REPEATS {
        let (begin, ends) = batches(device, work, batch)?;
        mean = mean_us(begin, &ends) / f64::from(batch);
        if let Some(median) = median_us(begin, &ends) {
            return Ok(median / f64::from(batch));
        }
    }
    Ok(mean)
}

/// Runs batches that follow each other without a pause, of which only the last kernel signals its end. Returns when
/// they were submitted and when this thread saw each batch end, in nanoseconds.
fn batches(device: &Device, work: Work, batch: u32) -> Result<(u64, Vec<u64>)> {
    let mut chain = Chain::new(device, work, batch * (BATCHES + 1))?;
    let signals: Vec<Signal> = (0..=BATCHES).map(|_| Signal::new(device, 1)).collect::<Result<_, _>>()?;
    let begin = monotonic_ns();
    for signal in &signals {
        for left in (0..batch).rev() {
            chain.submit((left == 0).then_some(signal))?;
        }
    }
    let mut ends = Vec::new();
    for signal in &signals {
        chain.wait(signal, LOST)?;
        ends.push(monotonic_ns());
    }
    Ok((begin, ends))
}

/// Returns the median time between two ends. `None` if it lies far below the mean: on a busy machine the thread that
/// waits is late, and sees several ends at once.
fn median_us(begin: u64, ends: &[u64]) -> Option<f64> {
    let mut times: Vec<u64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    times.sort_unstable();
    let median = *times.get(times.len() / 2)? as f64 / 1e3;
    (median >= mean_us(begin, ends) / 2.0).then_some(median)
}

/// Returns the mean time of a batch, from submission to the last end.
fn mean_us(begin: u64, ends: &[u64]) -> f64 {
    ends.last().map_or(0.0, |end| (end - begin) as f64 / 1e3 / ends.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_with_overhead_is_met_within_five_per_cent() {
        for (overhead, step, target) in [(30.0, 0.4, 500.0), (200.0, 35.0, 60_000.0), (5.0, 0.001, 500.0)] {
            let (steps, time) = search(target, |steps| Ok(overhead + step * f64::from(steps))).unwrap();
            assert!((time / target - 1.0).abs() < 0.05, "{steps} steps take {time} us, wanted {target}");
        }
    }

    #[test]
    fn ends_that_are_seen_late_and_together_are_no_measurement() {
        let punctual: Vec<u64> = (1..=5).map(|end| end * 2_000_000).collect();
        assert_eq!(median_us(0, &punctual), Some(2000.0));
        // Four of five batches ended while the thread was not scheduled.
        let late = [8_000_000, 8_010_000, 8_020_000, 8_030_000, 10_000_000];
        assert_eq!(median_us(0, &late), None);
        assert_eq!(mean_us(0, &late), 2000.0);
    }

    #[test]
    fn a_gpu_whose_kernels_take_no_time_is_refused() {
        assert!(search(500.0, |_| Ok(1.0)).is_err());
    }

    /// Measurements of a busy machine: one in three takes ten times longer.
    #[test]
    fn noise_does_not_lead_to_endless_kernels() {
        let mut calls = 0;
        let (steps, time) = search(2000.0, |steps| {
            calls += 1;
            assert!(steps < 100_000, "{steps} steps after {calls} measurements");
            Ok((600.0 + f64::from(steps)) * if calls % 3 == 1 { 10.0 } else { 1.0 })
        })
        .unwrap();
        assert!((1000.0..4000.0).contains(&time), "{steps} steps take {time} us");
    }

    #[test]
    fn a_target_below_the_overhead_gives_the_shortest_kernel() {
        let (steps, _) = search(10.0, |steps| Ok(50.0 + f64::from(steps))).unwrap();
        assert!(steps <= FIRST);
    }
}
