//! The report as one document.

use gpreempt_proto::Distribution;
use serde::Serialize;

use super::DemoClient;
use crate::environment::block::{Arm, Calibration, Outcome};
use crate::environment::gpu_under_test::Counters;
use crate::environment::measure::Latency;
use crate::environment::other_work::OtherWork;
use crate::environment::tally::{Measured, Offline, latencies, of_arm};
use crate::load::End;
use crate::output;

/// If requests do not take so many times longer without gpreempt, there was nothing to show.
const SHOWS: f64 = 3.0;
/// The client whose offline program is a training in JAX.
const JAX: &str = "jax";
/// Least share of stops that must have hit a running kernel.
const INSIDE: f64 = 0.9;

/// The document; `docs/demo-json.md` describes every key.
#[derive(Debug, Serialize)]
pub(super) struct DemoReport {
    schema: u32,
    /// `"emulated"` or `"hardware"`: of all times and rates below.
    pub(super) kind: &'static str,
    pub(super) gpu: String,
    client: &'static str,
    seed: u64,
    /// Whether times and counts can be judged, and none of them is a fault.
    pub(super) valid: bool,
    /// What is wrong, in words.
    pub(super) faults: Vec<String>,
    /// Other work on the machine.
    pub(super) busy: OtherWork,
    pub(super) bit_identical: bool,
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) workload: Workload,
    pub(super) alone: Option<Online>,
    pub(super) without: Option<Online>,
    pub(super) with: Option<Online>,
    pub(super) offline: Offline,
    pub(super) gpreempt: Option<Gpreempt>,
    pub(super) blocks: Vec<Block>,
}

/// What ran.
#[derive(Debug, Serialize)]
pub(super) struct Workload {
    online_kernel_us: f64,
    online_steps: u32,
    offline_kernel_us: f64,
    offline_steps: u32,
    offline_groups: u32,
}

/// The online program in one arm.
#[derive(Debug, Serialize)]
pub(super) struct Online {
    pub(super) requests: usize,
    /// Given up; their latencies are lower bounds.
    pub(super) unanswered: usize,
    /// The shortest latency among those: percentiles from there on are lower bounds.
    pub(super) least_unanswered_us: Option<f64>,
    #[serde(flatten)]
    pub(super) latency: Latency,
    /// Against the same percentile alone.
    pub(super) p50_times_alone: Option<f64>,
    pub(super) p95_times_alone: Option<f64>,
    pub(super) p99_times_alone: Option<f64>,
    pub(super) max_times_alone: Option<f64>,
}

/// What gpreempt did in all blocks of its arm.
#[derive(Debug, Serialize)]
pub(super) struct Gpreempt {
    pub(super) stops: u64,
    /// Stops that took waves off the device; absent on hardware, which does not count them.
    pub(super) stops_inside_kernel_share: Option<f64>,
    pub(super) waves_saved: Option<u64>,
    /// Counted by the device; absent on hardware.
    pub(super) cycles: Option<u64>,
    /// Counted by the daemon.
    pub(super) cycles_by_daemon: u64,
    pub(super) detection: Option<Distribution>,
    pub(super) stop: Option<Distribution>,
    pub(super) resume: Option<Distribution>,
    /// Of one processor, actuator included.
    pub(super) daemon_cpu_share: f64,
}

/// One block.
#[derive(Debug, Serialize)]
pub(super) struct Block {
    pub(super) arm: Arm,
    round: u32,
    seconds: f64,
    p50_us: Option<f64>,
    p95_us: Option<f64>,
    unanswered: usize,
    offline_kernels_per_s: Option<f64>,
    pub(super) online: Option<End>,
    pub(super) offline: Option<End>,
}

/// What the report is about.
pub(super) struct About<'a> {
    pub(super) hardware: bool,
    pub(super) gpu: String,
    pub(super) client: DemoClient,
    pub(super) seed: u64,
    pub(super) calibration: &'a Calibration,
    pub(super) busy: OtherWork,
}

impl DemoReport {
    pub(super) fn of(about: About<'_>, measured: &Measured) -> DemoReport {
        let alone = online(measured, Arm::Alone, None);
        let yardstick = alone.as_ref().map(|alone| alone.latency.clone());
        let ends = || measured.iter().flat_map(|(_, _, outcome)| outcome.online.iter().chain(&outcome.offline));
        let calibration = about.calibration;
        let mut report = DemoReport {
            schema: output::SCHEMA,
            kind: if about.hardware { "hardware" } else { "emulated" },
            gpu: about.gpu,
            client: match about.client {
                DemoClient::Workload => "workload",
                DemoClient::Hip => "hip",
                DemoClient::Jax => JAX,
            },
            seed: about.seed,
            valid: false,
            faults: Vec::new(),
            busy: about.busy,
            bit_identical: ends().all(|end| end.bit_identical) && ends().next().is_some(),
            lost: ends().map(|end| end.lost).sum(),
            repeated: ends().map(|end| end.repeated).sum(),
            workload: Workload {
                online_kernel_us: calibration.online_kernel_us,
                online_steps: calibration.online_steps,
                offline_kernel_us: calibration.offline_kernel_us,
                offline_steps: calibration.offline_steps,
                offline_groups: calibration.offline_groups,
            },
            without: online(measured, Arm::Without, yardstick.as_ref()),
            with: online(measured, Arm::With, yardstick.as_ref()),
            alone: online(measured, Arm::Alone, yardstick.as_ref()),
            offline: Offline::of(measured),
            gpreempt: Gpreempt::of(measured),
            blocks: measured.iter().map(|(arm, round, outcome)| Block::of(*arm, *round, outcome)).collect(),
        };
        report.faults = report.find_faults();
        report.valid = report.faults.is_empty() && report.busy.permits_judgement();
        report
    }

    /// Wrong results are faults on any machine. Times and counts are judged only where other work did not decide them.
    fn find_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.bit_identical {
            faults.push("a result differs from the undisturbed computation".to_owned());
        }
        if self.lost + self.repeated > 0 {
            faults.push(format!("{} runs of workgroups were lost, {} repeated", self.lost, self.repeated));
        }
        if !self.busy.permits_judgement() {
            return faults;
        }
        // A training's kernels are what its compiler makes: they may leave places on the gpu and gaps in time.
        let fills = self.client != JAX;
        let times = self.without.as_ref().and_then(|arm| arm.p95_times_alone);
        if let Some(times) = times.filter(|&times| fills && times < SHOWS) {
            faults.push(format!("p95 without gpreempt is only {times:.2} times that alone: it proved nothing"));
        }
        if let Some(with) = self.with.as_ref().filter(|with| with.unanswered > 0) {
            faults.push(format!("with gpreempt {} requests were not answered in time", with.unanswered));
        }
        if let Some(gpreempt) = &self.gpreempt {
            if gpreempt.stops == 0 {
                faults.push("gpreempt stopped nothing".to_owned());
            }
            if let Some(share) = gpreempt.stops_inside_kernel_share.filter(|&share| fills && share < INSIDE) {
                faults.push(format!("only {:.0} % of the stops were inside a kernel", share * 100.0));
            }
        }
        faults
    }
}

fn online(measured: &Measured, arm: Arm, alone: Option<&Latency>) -> Option<Online> {
    let requests = latencies(measured, arm);
    let latency = Latency::of(&requests)?;
    let times = |of: fn(&Latency) -> f64| Some(of(&latency) / of(alone?)).filter(|times| times.is_finite());
    Some(Online {
        requests: requests.len(),
        unanswered: of_arm(measured, arm).map(Outcome::unanswered).sum(),
        least_unanswered_us: of_arm(measured, arm).flat_map(Outcome::given_up_us).min_by(f64::total_cmp),
        p50_times_alone: times(|latency| latency.p50_us),
        p95_times_alone: times(|latency| latency.p95_us),
        p99_times_alone: times(|latency| latency.p99_us),
        max_times_alone: times(|latency| latency.max_us),
        latency,
    })
}

impl Gpreempt {
    fn of(measured: &Measured) -> Option<Gpreempt> {
        let activities = || of_arm(measured, Arm::With).filter_map(|outcome| outcome.daemon.as_ref());
        activities().next()?;
        let stops: u64 = activities().map(|activity| activity.stops).sum();
        let counters = of_arm(measured, Arm::With).map(|outcome| outcome.counters).collect::<Option<Vec<_>>>();
        let counters = counters.map(|all| all.into_iter().fold(Counters::default(), Counters::plus));
        let gpus = || activities().flat_map(|activity| &activity.stats.gpus);
        let seconds: f64 = of_arm(measured, Arm::With).map(|outcome| outcome.window.seconds()).sum();
        let cpu: f64 = of_arm(measured, Arm::With)
            .filter_map(|outcome| Some(outcome.daemon.as_ref()?.cpu_share * outcome.window.seconds()))
            .sum();
        Some(Gpreempt {
            stops,
            stops_inside_kernel_share: counters
                .filter(|counters| counters.suspends > 0)
                .map(|counters| counters.suspends_with_waves as f64 / counters.suspends as f64),
            waves_saved: counters.map(|counters| counters.waves),
            cycles: counters.map(|counters| counters.cycles),
            cycles_by_daemon: activities().map(|activity| activity.cycles).sum(),
            detection: together(gpus().map(|gpu| &gpu.detection)),
            stop: together(gpus().map(|gpu| &gpu.actuation.preempt)),
            resume: together(gpus().map(|gpu| &gpu.actuation.resume)),
            daemon_cpu_share: cpu / seconds.max(1e-9),
        })
    }
}

/// Distributions of several blocks as one. Only their summaries are known: mean and median are weighted means, the
/// others the largest of any block, which the true ones do not exceed.
fn together<'a>(parts: impl Iterator<Item = &'a Distribution>) -> Option<Distribution> {
    let mut sum = Distribution::default();
    for part in parts {
        let weight = part.count as f64;
        sum.count += part.count;
        sum.mean_us += part.mean_us * weight;
        sum.p50_us += part.p50_us * weight;
        sum.p95_us = sum.p95_us.max(part.p95_us);
        sum.p99_us = sum.p99_us.max(part.p99_us);
        sum.max_us = sum.max_us.max(part.max_us);
    }
    if sum.count == 0 {
        return None;
    }
    sum.mean_us /= sum.count as f64;
    sum.p50_us /= sum.count as f64;
    Some(sum)
}

impl Block {
    fn of(arm: Arm, round: u32, outcome: &Outcome) -> Block {
        let latencies: Vec<f64> = outcome.requests.iter().map(|request| request.latency_us).collect();
        let latency = Latency::of(&latencies);
        let kernels = outcome.window.kernels(&outcome.offline_ends);
        Block {
            arm,
            round,
            seconds: outcome.window.seconds(),
            p50_us: latency.as_ref().map(|latency| latency.p50_us),
            p95_us: latency.as_ref().map(|latency| latency.p95_us),
            unanswered: outcome.unanswered(),
            offline_kernels_per_s: kernels.map(|kernels| kernels / outcome.window.seconds().max(1e-9)),
            online: outcome.online.clone(),
            offline: outcome.offline.clone(),
        }
    }
}
