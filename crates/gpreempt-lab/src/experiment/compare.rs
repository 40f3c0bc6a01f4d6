//! Compares mechanisms on the same arrivals, with each side running alone as the baseline.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gpreempt_core::Nanos;
use hdrhistogram::Histogram;

use super::run;
use crate::mechanism::{self, MechanismSpec};
use crate::outcome::{RunOutcome, TaskOutcome};
use crate::profile::Profile;
use crate::workload::{Load, Role, Workload};

/// The result of a comparison: one row per mechanism.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the device.
    pub profile: String,
    /// Name of the workload.
    pub workload: String,
    /// Seed of the arrivals.
    pub seed: u64,
    /// Simulated time of each run.
    pub duration: Nanos,
    /// The baseline `alone` first, then the mechanisms in the order they were given.
    pub rows: Vec<Row>,
}

/// The figures of one mechanism.
#[derive(Clone, Debug)]
pub struct Row {
    /// The mechanism's name; `alone` for the baseline.
    pub mechanism: &'static str,
    /// Figures of the online tasks.
    pub online: OnlineFigures,
    /// Figures of the offline tasks.
    pub offline: OfflineFigures,
    /// Number of stops of jobs.
    pub preemptions: u64,
    /// Number of cycles, context switches or resets.
    pub cycles: u64,
    /// Gpu time they took, summed over gpus.
    pub cycle_time: Nanos,
    /// Kernels that ran more than once.
    pub repeated_kernels: u64,
    /// The longest time in which an offline task had work and none of it advanced.
    pub longest_starved: Nanos,
    /// Number of simulated events.
    pub events: u64,
}

/// Requests of all online tasks together. A request unfinished at the end counts as [`TaskOutcome::latency`] says.
#[derive(Clone, Debug)]
pub struct OnlineFigures {
    /// Median latency; zero, like the other percentiles, if no request counts.
    pub p50: Nanos,
    /// 95th percentile.
    pub p95: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// The slowest request.
    pub max: Nanos,
    /// Median over all requests of latency divided by the median latency of the same task alone, so that tasks of
    /// different length count alike. `None` if there is nothing to compare.
    pub times_alone_p50: Option<f64>,
    /// 99th percentile of the same quotient.
    pub times_alone_p99: Option<f64>,
    /// Requests completed.
    pub completed: u64,
    /// Arrivals dropped for a newer one.
    pub skipped: u64,
    /// Arrivals that were neither complete nor dropped at the end.
    pub unfinished: u64,
}

impl OnlineFigures {
    /// Returns the share of arrivals that were served; `None` without arrivals. Latency covers these only.
    #[must_use]
    pub fn served(&self) -> Option<f64> {
        ratio(self.completed as f64, (self.completed + self.skipped + self.unfinished) as f64)
    }

    /// Returns whether there is a latency to show.
    #[must_use]
    pub fn has_latency(&self) -> bool {
        self.max > Nanos::ZERO
    }
}

/// Work of all offline tasks together.
#[derive(Clone, Debug)]
pub struct OfflineFigures {
    /// Requests completed per second.
    pub requests_per_second: f64,
    /// Kernels completed per second, repetitions not counted.
    pub kernels_per_second: f64,
    /// Kernels divided by the kernels of the same task without online tasks, averaged over the tasks, because kernels
    /// of different length do not add up. `None` if no task completed a kernel alone.
    pub share_of_alone: Option<f64>,
}

/// Runs each side alone and every mechanism, spread over the cores. Calls `progress` with the number of finished runs
/// and of all runs, from the thread that finished one. The result does not depend on the number of threads.
#[must_use]
pub fn compare(
    profile: &Profile,
    workload: &Workload,
    mechanisms: &[&MechanismSpec],
    seed: u64,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Comparison {
    let online_alone = only(workload, Role::Online);
    let offline_alone = only(workload, Role::Offline);
    let undisturbed = &mechanism::NONE;
    let mut runs = vec![(&online_alone, undisturbed), (&offline_alone, undisturbed)];
    runs.extend(mechanisms.iter().map(|&entry| (workload, entry)));
    let outcomes = in_parallel(runs.len(), progress, &|i| {
        let (workload, entry) = runs[i];
        run(profile, workload, entry, seed, false)
    });
    let (alone, shared) = outcomes.split_at(2);
    let rows = Rows::new(&alone[0], &alone[1]);
    Comparison {
        profile: profile.name.clone(),
        workload: workload.name.clone(),
        seed,
        duration: workload.duration,
        rows: std::iter::once(rows.alone()).chain(shared.iter().map(|outcome| rows.row(outcome))).collect(),
    }
}

/// Returns the workload with the tasks of one role silent. They keep their indices, so that the others keep their
/// arrivals.
fn only(workload: &Workload, role: Role) -> Workload {
    let mut workload = workload.clone();
    for task in &mut workload.tasks {
        if task.role != role {
            task.load = Load::Trace { at: [].into() };
        }
    }
    workload
}

/// Returns the results of `work(0)` to `work(n - 1)` in that order, independent of the threads.
fn in_parallel<T: Send + Sync>(
    n: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
    work: &(dyn Fn(usize) -> T + Sync),
) -> Vec<T> {
    let results: Vec<OnceLock<T>> = (0..n).map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(n);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(result) = results.get(i) else {
                        return;
                    };
                    result.get_or_init(|| work(i));
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, n);
                }
            });
        }
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Builds rows against the same baseline.
struct Rows<'a> {
    online_alone: &'a RunOutcome,
    offline_alone: &'a RunOutcome,
}

impl<'a> Rows<'a> {
    fn new(online_alone: &'a RunOutcome, offline_alone: &'a RunOutcome) -> Rows<'a> {
        Rows { online_alone, offline_alone }
    }

    fn alone(&self) -> Row {
        let offline = self.offline_alone;
        let mut row = self.row(self.online_alone);
        row.mechanism = "alone";
        row.offline = self.offline(offline);
        row.preemptions += offline.preemptions;
        row.cycles += offline.cycles;
        row.cycle_time = row.cycle_time.plus(offline.cycle_time);
        row.repeated_kernels += offline.repeated_kernels;
        row.longest_starved = row.longest_starved.max(offline.longest_starved);
        row.events += offline.events;
        row
    }

    fn row(&self, outcome: &RunOutcome) -> Row {
        Row {
            mechanism: outcome.mechanism,
            online: self.online(outcome),
            offline: self.offline(outcome),
            preemptions: outcome.preemptions,
            cycles: outcome.cycles,
            cycle_time: outcome.cycle_time,
            repeated_kernels: outcome.repeated_kernels,
            longest_starved: outcome.longest_starved,
            events: outcome.events,
        }
    }

    fn online(&self, outcome: &RunOutcome) -> OnlineFigures {
        let latency = merged(outcome);
        let slowdown = slowdowns(outcome, self.online_alone);
        let quantile = |q| Nanos(latency.value_at_quantile(q));
        let times_alone = |q| (!slowdown.is_empty()).then(|| slowdown.value_at_quantile(q) as f64 / THOUSANDTHS);
        OnlineFigures {
            p50: quantile(0.50),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: Nanos(latency.max()),
            times_alone_p50: times_alone(0.50),
            times_alone_p99: times_alone(0.99),
            completed: sum(outcome, Role::Online, |task| task.completed),
            skipped: sum(outcome, Role::Online, |task| task.skipped),
            unfinished: sum(outcome, Role::Online, |task| task.unfinished),
        }
    }

    fn offline(&self, outcome: &RunOutcome) -> OfflineFigures {
        let seconds = outcome.duration.0 as f64 / 1e9;
        let per_second = |n: u64| ratio(n as f64, seconds).unwrap_or(0.0);
        let with_alone = of_role(outcome, Role::Offline).zip(of_role(self.offline_alone, Role::Offline));
        let shares: Vec<f64> =
            with_alone.filter_map(|(task, alone)| ratio(task.kernels as f64, alone.kernels as f64)).collect();
        OfflineFigures {
            requests_per_second: per_second(sum(outcome, Role::Offline, |task| task.completed)),
            kernels_per_second: per_second(sum(outcome, Role::Offline, |task| task.kernels)),
            share_of_alone: ratio(shares.iter().sum(), shares.len() as f64),
        }
    }
}

fn of_role(outcome: &RunOutcome, role: Role) -> impl Iterator<Item = &TaskOutcome> {
    outcome.tasks.iter().filter(move |task| task.role == role)
}

fn sum(outcome: &RunOutcome, role: Role, figure: fn(&TaskOutcome) -> u64) -> u64 {
    of_role(outcome, role).map(figure).sum()
}

/// Returns the merged latencies of all online tasks.
fn merged(outcome: &RunOutcome) -> Histogram<u64> {
    let mut merged = Histogram::new(3).expect("three digits are allowed");
    for task in of_role(outcome, Role::Online) {
        // A histogram that resizes itself takes any other of the same precision.
        merged.add(&task.latency).expect("the histogram grows");
    }
    merged
}

/// Scale of quotients: histograms hold integers.
const THOUSANDTHS: f64 = 1_000.0;

/// Returns the latency of each online request divided by the median of its task alone, in [`THOUSANDTHS`]. Tasks that
/// completed nothing alone have no baseline and are left out.
fn slowdowns(outcome: &RunOutcome, alone: &RunOutcome) -> Histogram<u64> {
    let mut slowdowns = Histogram::new(3).expect("three digits are allowed");
    for (task, alone) in of_role(outcome, Role::Online).zip(of_role(alone, Role::Online)) {
        let median = alone.latency.value_at_quantile(0.5) as f64;
        if alone.completed == 0 || median == 0.0 {
            continue;
        }
        for step in task.latency.iter_recorded() {
            let times = (step.value_iterated_to() as f64 / median * THOUSANDTHS).round() as u64;
            slowdowns.record_n(times, step.count_at_value()).expect("the histogram grows");
        }
    }
    slowdowns
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then_some(a / b)
}
