//! The host side of a task: the arrival of its requests and their results.

use std::sync::Arc;

use gpreempt_core::Nanos;
use hdrhistogram::Histogram;
use rand_core::Rng;
use rand_pcg::Pcg64;

use super::account::Starvation;
use crate::workload::{Load, Role, Task};

/// The request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) arrival: Nanos,
    /// Queues that have not finished it.
    pub(super) unfinished: usize,
}

/// One task's host side and its figures.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) level: u8,
    /// Its gpus, and its queue on each. Empty for a task that never submits.
    pub(super) gpus: Arc<[usize]>,
    pub(super) queues: Vec<usize>,
    /// Where its kernels begin in the table of shapes.
    pub(super) shapes: usize,
    pub(super) kernels_per_request: u32,
    pub(super) arrivals: Arrivals,
    pub(super) current: Option<Request>,
    /// The newest arrival during a request in flight.
    pub(super) missed: Option<Nanos>,
    /// Whether a shim decides when its kernels enter the rings.
    pub(super) intercepted: bool,
    /// Kernels of the request that are complete on every gpu.
    pub(super) counted: u32,
    /// Number of queues that the mechanism keeps from running.
    pub(super) kept: usize,
    /// Whether the current stop was counted as a preemption.
    pub(super) preempted: bool,
    /// Number of its batches that advance, on all gpus.
    advancing: usize,
    pub(super) starvation: Starvation,
    pub(super) started: u64,
    pub(super) completed: u64,
    pub(super) skipped: u64,
    /// Arrivals neither complete nor dropped; known when the run is over.
    pub(super) unfinished: u64,
    pub(super) kernels: u64,
    pub(super) latency: Histogram<u64>,
    pub(super) busy: Nanos,
}

impl Client {
    pub(super) fn new(task: &Task, index: usize, seed: u64) -> Client {
        Client {
            name: task.name.clone(),
            role: task.role,
            level: task.level,
            gpus: Arc::new([]),
            queues: Vec::new(),
            shapes: 0,
            // A request with 2^32 kernels does not fit into memory.
            kernels_per_request: u32::try_from(task.kernels.len()).unwrap_or(u32::MAX),
            arrivals: Arrivals::new(&task.load, index, seed),
            current: None,
            missed: None,
            intercepted: false,
            counted: 0,
            kept: 0,
            preempted: false,
            advancing: 0,
            starvation: Starvation::default(),
            started: 0,
            completed: 0,
            skipped: 0,
            unfinished: 0,
            kernels: 0,
            latency: Histogram::new(3).expect("three digits are allowed"),
            busy: Nanos::ZERO,
        }
    }

    /// Counts an arrival during a request in flight: only the newest one is served.
    pub(super) fn miss(&mut self, arrival: Nanos) {
        if self.missed.replace(arrival).is_some() {
            self.skipped += 1;
        }
    }

    /// Notes that one more of its batches advances, or one less.
    pub(super) fn account_batch(&mut self, now: Nanos, advances: bool) {
        if advances {
            self.advancing += 1;
        } else {
            self.advancing -= 1;
        }
        self.account_starved(now);
    }

    /// Notes the begin or the end of a time in which it has work and none of it advances.
    pub(super) fn account_starved(&mut self, now: Nanos) {
        self.starvation.set(now, self.current.is_some() && self.advancing == 0);
    }

    /// Completes its accounts at the end of the run.
    pub(super) fn close(&mut self, now: Nanos) {
        self.starvation.set(now, false);
        let median = (!self.latency.is_empty()).then(|| self.latency.value_at_quantile(0.5));
        for arrival in [self.current.map(|request| request.arrival), self.missed].into_iter().flatten() {
            self.unfinished += 1;
            let age = now.since(arrival).0;
            // A younger one proves nothing: it might have been the fastest of all.
            if self.role == Role::Online && median.is_none_or(|median| age > median) {
                self.latency.record(age).expect("the histogram grows");
            }
        }
    }
}

/// The arrivals of one task. They do not depend on the mechanism, because every task draws from its own random stream.
#[derive(Debug)]
pub(super) struct Arrivals {
    load: Load,
    rng: Pcg64,
    count: u64,
}

impl Arrivals {
    fn new(load: &Load, index: usize, seed: u64) -> Arrivals {
        Arrivals { load: load.clone(), rng: stream(seed, index as u64), count: 0 }
    }

    /// Returns whether there is any arrival.
    pub(super) fn any(load: &Load) -> bool {
        match load {
            Load::Trace { at } => !at.is_empty(),
            Load::Uniform { .. } | Load::Poisson { .. } | Load::Closed { .. } => true,
        }
    }

    /// Returns the next arrival that does not depend on a completion; `last` is the one before it.
    pub(super) fn next(&mut self, last: Nanos) -> Option<Nanos> {
        let count = self.count;
        self.count += 1;
        match &self.load {
            Load::Uniform { interval, offset } => Some(offset.plus(interval.max(&Nanos(1)).times(count))),
            Load::Poisson { mean } => {
                let mean = *mean;
                Some(last.plus(exponential(&mut self.rng, mean)))
            }
            Load::Closed { .. } => (count == 0).then_some(Nanos::ZERO),
            Load::Trace { at } => from_trace(at, count),
        }
    }

    /// Returns the host time between a completion and the next request, for a closed loop.
    pub(super) fn think(&self) -> Option<Nanos> {
        match self.load {
            Load::Closed { think } => Some(think),
            _ => None,
        }
    }
}

/// Returns the random number generator of one task. State and stream are scrambled first: streams of neighbouring
/// numbers are related.
fn stream(seed: u64, index: u64) -> Pcg64 {
    let state = scramble(seed);
    let stream = scramble(state ^ scramble(index));
    Pcg64::new(u128::from(state) << 64 | u128::from(stream), u128::from(stream))
}

/// One step of SplitMix64.
fn scramble(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn from_trace(at: &Arc<[Nanos]>, count: u64) -> Option<Nanos> {
    at.get(usize::try_from(count).ok()?).copied()
}

/// Returns an exponential gap of at least one nanosecond.
fn exponential(rng: &mut Pcg64, mean: Nanos) -> Nanos {
    // 53 random bits in (0, 1]: zero, whose logarithm is infinite, cannot occur.
    let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    Nanos((-uniform.ln() * mean.0 as f64).round() as u64).max(Nanos(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(load: Load, index: usize, seed: u64) -> Vec<u64> {
        let mut arrivals = Arrivals::new(&load, index, seed);
        let mut last = Nanos::ZERO;
        std::iter::from_fn(|| {
            last = arrivals.next(last)?;
            Some(last.0)
        })
        .take(10_000)
        .collect()
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let at = arrivals(Load::Poisson { mean: Nanos(1_000_000) }, 0, 7);
        let gaps: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.03, "mean {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "deviation {}", variance.sqrt());
    }

    #[test]
    fn every_task_and_every_seed_has_its_own_stream() {
        let load = Load::Poisson { mean: Nanos(1_000) };
        assert_eq!(arrivals(load.clone(), 1, 7), arrivals(load.clone(), 1, 7));
        assert_ne!(arrivals(load.clone(), 1, 7), arrivals(load.clone(), 2, 7));
        assert_ne!(arrivals(load.clone(), 1, 7), arrivals(load, 1, 8));
    }

    #[test]
    fn uniform_and_trace_arrive_as_written_and_a_closed_loop_once() {
        let load = Load::Uniform { interval: Nanos(10), offset: Nanos(3) };
        assert_eq!(arrivals(load, 0, 0)[..3], [3, 13, 23]);
        let at = [Nanos(4), Nanos(9)].into();
        assert_eq!(arrivals(Load::Trace { at }, 0, 0), [4, 9]);
        assert_eq!(arrivals(Load::Closed { think: Nanos(5) }, 0, 0), [0]);
    }
}
