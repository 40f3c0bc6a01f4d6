//! What requests of several lengths wait longer than alone, what is left of offline throughput, and what it takes.

use anyhow::Result;
use gpreempt_proto::{Distribution, GpuStats};
use serde::Serialize;

use super::Bed;
use super::goal::Goal;
use crate::environment::block::{Arm, Outcome, Setting};
use crate::environment::gpu_under_test::Counters;
use crate::environment::managed::DaemonActivity;
use crate::environment::measure::Latency;
use crate::environment::tally::{Measured, Offline, latencies, of_arm};
use crate::environment::workload::Workload;
use crate::output::{from_micros, percent};

/// Lengths of requests in milliseconds, and how many of each: fewer of the long ones, which take longer.
const LENGTHS: [(f64, u32); 3] = [(2.0, 300), (10.0, 210), (40.0, 120)];
const ROUNDS: u32 = 3;
const ARMS: [Arm; 3] = [Arm::OfflineAlone, Arm::Alone, Arm::With];
pub(super) const MEASUREMENTS: u64 = (LENGTHS.len() * ARMS.len()) as u64 * ROUNDS as u64;

const ADDED_P50_US: f64 = 1000.0;
const ADDED_P95_US: f64 = 3000.0;
const KEPT: f64 = 0.95;
const CYCLES_PER_STOP: f64 = 2.05;

/// Requests of one length.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Case {
    pub(super) request_ms: f64,
    pub(super) requests: usize,
    pub(super) alone: Latency,
    pub(super) with: Latency,
    /// Differences of the same percentile.
    pub(super) added_p50_us: f64,
    pub(super) added_p95_us: f64,
    pub(super) unanswered: usize,
    pub(super) offline: Offline,
    pub(super) stops: u64,
    /// By the device; absent on hardware.
    pub(super) cycles: Option<u64>,
    pub(super) cycles_per_stop: Option<f64>,
    /// Of the last block.
    pub(super) detection: Distribution,
    pub(super) stop: Distribution,
    pub(super) resume: Distribution,
    pub(super) wakeup: Distribution,
    pub(super) daemon_cpu_share: f64,
    pub(super) bit_identical: bool,
}

pub(super) fn measure(bed: &Bed<'_>) -> Result<Vec<Case>> {
    LENGTHS.iter().map(|&(request_ms, requests)| measure_one(bed, request_ms, requests)).collect()
}

fn measure_one(bed: &Bed<'_>, request_ms: f64, requests: u32) -> Result<Case> {
    let mut workload = bed.workload.clone();
    workload.online.kernel_us = request_ms * 1e3 / f64::from(workload.online.kernels);
    workload.blocks.rounds = ROUNDS;
    workload.blocks.requests = requests;
    workload.blocks.alone_ms = 1000;
    let setting = bed.setting(&workload, String::new());
    bed.bar.set_message(format!("(requests of {request_ms} ms)"));
    let calibration = setting.calibrate()?;
    let mut measured = Vec::new();
    for round in 0..ROUNDS {
        for arm in ARMS {
            measured.push((arm, round, setting.run(arm, round, &calibration, || {})?));
            bed.bar.inc(1);
        }
    }
    Case::of(request_ms, &measured)
}

impl Bed<'_> {
    /// Blocks with this workload, and a daemon with these settings.
    pub(super) fn setting<'a>(&'a self, workload: &'a Workload, settings: String) -> Setting<'a> {
        Setting {
            place: self.place,
            workload,
            interrupt: self.interrupt,
            other_work: self.other_work,
            seed: self.seed,
            settings,
            online_arguments: Vec::new(),
            hip: None,
            training: None,
        }
    }
}

impl Case {
    fn of(request_ms: f64, measured: &Measured) -> Result<Case> {
        let with = latencies(measured, Arm::With);
        let percentiles =
            |values: &[f64]| Latency::of(values).ok_or_else(|| anyhow::anyhow!("no request was answered"));
        let (alone, latency) = (percentiles(&latencies(measured, Arm::Alone))?, percentiles(&with)?);
        let activities: Vec<&DaemonActivity> =
            of_arm(measured, Arm::With).filter_map(|outcome| outcome.daemon.as_ref()).collect();
        let stops: u64 = activities.iter().map(|activity| activity.stops).sum();
        let counters = of_arm(measured, Arm::With).map(|outcome| outcome.counters).collect::<Option<Vec<_>>>();
        let cycles = counters.map(|all| all.into_iter().fold(Counters::default(), Counters::plus).cycles);
        let last = activities.last();
        let of_gpu = |of: fn(&GpuStats) -> &Distribution| {
            last.and_then(|activity| activity.stats.gpus.first()).map(of).cloned().unwrap_or_default()
        };
        let ends = measured.iter().flat_map(|(_, _, outcome)| outcome.online.iter().chain(&outcome.offline));
        Ok(Case {
            request_ms,
            requests: with.len(),
            added_p50_us: latency.p50_us - alone.p50_us,
            added_p95_us: latency.p95_us - alone.p95_us,
            alone,
            with: latency,
            unanswered: of_arm(measured, Arm::With).map(Outcome::unanswered).sum(),
            offline: Offline::of(measured),
            stops,
            cycles,
            cycles_per_stop: cycles.filter(|_| stops > 0).map(|cycles| cycles as f64 / stops as f64),
            detection: of_gpu(|gpu| &gpu.detection),
            stop: of_gpu(|gpu| &gpu.actuation.preempt),
            resume: of_gpu(|gpu| &gpu.actuation.resume),
            wakeup: last.map(|activity| activity.stats.daemon.wakeup.clone()).unwrap_or_default(),
            daemon_cpu_share: activities.iter().map(|activity| activity.cpu_share).sum::<f64>()
                / activities.len().max(1) as f64,
            bit_identical: ends.into_iter().all(|end| end.bit_identical),
        })
    }

    fn why_late(&self) -> String {
        format!(
            "detection p50 {} p95 {}, stop p50 {} p95 {}; the deciding thread woke p95 {} late",
            from_micros(self.detection.p50_us),
            from_micros(self.detection.p95_us),
            from_micros(self.stop.p50_us),
            from_micros(self.stop.p95_us),
            from_micros(self.wakeup.p95_us),
        )
    }

    fn why_less(&self) -> String {
        format!(
            "{} stops; {} of the throughput kept where requests leave {}; resume p50 {} p95 {}",
            self.stops,
            percent(self.offline.with_kept_share),
            percent(self.offline.ideal_share),
            from_micros(self.resume.p50_us),
            from_micros(self.resume.p95_us),
        )
    }
}

pub(super) fn goals(cases: &[Case]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for case in cases {
        let name = format!("requests of {} ms", case.request_ms);
        goals.extend([
            Goal::at_most("added_p50_us", &name, ADDED_P50_US, Some(case.added_p50_us), || case.why_late()),
            Goal::at_most("added_p95_us", &name, ADDED_P95_US, Some(case.added_p95_us), || case.why_late()),
            Goal::new("offline_kept_of_ideal", &name, (Some(KEPT), None), case.offline.with_kept_of_ideal, || {
                case.why_less()
            }),
            Goal::at_most("cycles_per_stop", &name, CYCLES_PER_STOP, case.cycles_per_stop, || {
                format!("{} stops; other cycles are those of queues that come and go", case.stops)
            }),
            Goal::new("bit_identical", &name, (Some(1.0), None), Some(f64::from(u8::from(case.bit_identical))), || {
                "a result differs from the undisturbed computation".to_owned()
            }),
        ]);
    }
    goals
}
