//! The table: online requests beside offline work, with each scheduler.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Running, Scheduler, Watch, sightings, start_daemon, statistics};
use crate::device::DeviceCounters;
use crate::processor_time;
use crate::sample::{Percentiles, median, rounded};

/// The program that both loads are copies of.
const LOAD: &str = "/bin/kfd-timed-load";
/// How long an offline packet lasts. Packets fill the gpu.
const OFFLINE_US: u64 = 20_000;
/// Requests before those that count: the scheduler learns of the program, and from its bursts.
const WARM_UP: u32 = 12;

#[derive(Args)]
pub(crate) struct Options {
    /// How often to measure everything; the table has the medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// How many requests to send in each measurement.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,

    /// How long requests last, in microseconds, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2000,10000,40000")]
    request_us: Vec<u64>,

    /// Leave the scheduler in the kernel out.
    #[arg(long)]
    without_kernel: bool,
}

/// What a measurement yields. Times are microseconds of the guest's clock.
#[derive(Clone, Debug)]
struct Sample {
    request_us: u64,
    arm: Arm,
    online: Percentiles,
    detection: Option<Percentiles>,
    decision_us: Option<f64>,
    switch_us: Option<f64>,
    stops: u64,
    cycles: u64,
    cpu_share: f64,
    offline_kept: Option<f64>,
}

/// A line of the table: medians over the runs.
#[derive(Debug, Serialize)]
struct Row {
    request_us: u64,
    #[serde(flatten)]
    arm: Arm,
    p50_us: f64,
    p95_us: f64,
    p99_us: f64,
    p50_over_alone: f64,
    p95_over_alone: f64,
    p99_over_alone: f64,
    /// From the arrival of a request to the instant at which the scheduler had seen it.
    detection_p50_us: Option<f64>,
    detection_p99_us: Option<f64>,
    decision_mean_us: Option<f64>,
    /// From the command to the driver's answer, stops.
    switch_p50_us: Option<f64>,
    stops: f64,
    /// Runlist cycles of the device for each stop, its resume included; those that processes cause by themselves are
    /// taken off.
    cycles_per_stop: Option<f64>,
    /// Processor time of daemon, guardian, actuator and the module's threads, as a share of one processor.
    cpu_percent: f64,
    /// Offline work done, of the gpu time that requests left over.
    offline_kept_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Table {
    runs: u32,
    requests: u32,
    offline_packet_us: u64,
    table: Vec<Row>,
}

/// What the online load prints.
#[derive(Deserialize)]
struct Online {
    p50_us: f64,
    p95_us: f64,
    p99_us: f64,
    max_us: f64,
    arrivals_ns: Vec<u64>,
}

pub(crate) fn measure(options: &Options) -> Result<Table> {
    let directory = tempfile::tempdir().context("cannot make a directory")?;
    for name in ["online", "offline"] {
        fs::copy(LOAD, directory.path().join(name)).with_context(|| format!("cannot copy {LOAD}"))?;
    }
    let arms: Vec<Arm> =
        Arm::ALL.into_iter().filter(|arm| !(options.without_kernel && arm.scheduler == Scheduler::Kernel)).collect();
    let mut samples = Vec::new();
    for _ in 0..options.runs {
        for &request_us in &options.request_us {
            for arm in &arms {
                let sample = measure_once(arm, request_us, options.requests, directory.path());
                samples.push(sample.with_context(|| format!("{arm:?} with requests of {request_us} us"))?);
            }
        }
    }
    let mut table = Vec::new();
    for &request_us in &options.request_us {
        for arm in &arms {
            table.push(row(&samples, request_us, arm).context("an arm has no samples")?);
        }
    }
    let Options { runs, requests, .. } = *options;
    Ok(Table { runs, requests, offline_packet_us: OFFLINE_US, table })
}

/// Stages one arm and measures it.
fn measure_once(arm: &Arm, request_us: u64, requests: u32, directory: &Path) -> Result<Sample> {
    let offline = if arm.scheduler == Scheduler::Alone { None } else { Some(start_offline(directory)?) };
    let daemon = if arm.has_daemon() { Some(start_daemon(arm, directory)?) } else { None };
    let (counted, used, begin) =
        (DeviceCounters::read()?, processor_time::of_scheduler(daemon.as_ref().map(Running::pid)), Instant::now());
    let online = run_online(arm, request_us, requests, directory)?;
    let (after, elapsed) = (DeviceCounters::read()?, begin.elapsed());
    let cpu = processor_time::of_scheduler(daemon.as_ref().map(Running::pid)).saturating_sub(used);
    let stats = daemon.as_ref().map(|_| statistics()).transpose()?;
    let seen = if daemon.is_some() { sightings()? } else { Vec::new() };
    let served = u64::from(requests + WARM_UP);
    let offline_kept = offline.as_ref().map(|_| {
        let done = Duration::from_micros((after.retired - counted.retired).saturating_sub(served) * OFFLINE_US);
        let left = elapsed.saturating_sub(Duration::from_micros(served * request_us));
        done.as_secs_f64() / left.as_secs_f64()
    });
    let gpu = stats.as_ref().and_then(|stats| stats.gpus.first());
    let sample = Sample {
        request_us,
        arm: *arm,
        detection: Percentiles::of(detections(&online.arrivals_ns, &seen)),
        decision_us: gpu
            .and_then(|gpu| gpu.kernel.as_ref())
            .map(|kernel| kernel.decision.mean_us)
            .or_else(|| stats.as_ref().map(|stats| stats.daemon.decision.mean_us)),
        switch_us: gpu.map(|gpu| gpu.actuation.preempt.p50_us),
        stops: gpu.map_or(0, |gpu| gpu.preempts),
        cycles: after.unmaps - counted.unmaps,
        cpu_share: cpu.as_secs_f64() / elapsed.as_secs_f64(),
        offline_kept,
        online: Percentiles {
            count: requests as usize,
            p50_us: online.p50_us,
            p95_us: online.p95_us,
            p99_us: online.p99_us,
            max_us: online.max_us,
        },
    };
    if let Some(daemon) = daemon {
        ensure!(sample.stops > 0, "nothing was stopped");
        daemon.end().context("the daemon")?;
    }
    if let Some(offline) = offline {
        offline.end().context("the offline load")?;
    }
    Ok(sample)
}

fn start_offline(directory: &Path) -> Result<Running> {
    let before = DeviceCounters::read()?.retired;
    let mut offline = Command::new(directory.join("offline"));
    offline.args(["offline", "--depth", "4", "--duration-us", &OFFLINE_US.to_string()]);
    let offline = Running(offline.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("cannot start a load")?);
    let begin = Instant::now();
    while DeviceCounters::read()?.retired == before {
        ensure!(begin.elapsed() < Duration::from_secs(60), "the offline load does not run");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(offline)
}

/// Pauses are between two and four times as long as requests.
fn run_online(arm: &Arm, request_us: u64, requests: u32, directory: &Path) -> Result<Online> {
    let mut online = Command::new(directory.join("online"));
    let pause = (2 * request_us).to_string();
    online.args(["online", "--json", "--arrivals", "--requests", &requests.to_string()]);
    online.args(["--warm-up", &WARM_UP.to_string(), "--duration-us", &request_us.to_string()]);
    online.args(["--gap-us", &pause, "--jitter-us", &pause]);
    if arm.watch == Watch::Notify {
        online.arg("--notify");
    }
    let output = online.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot start a load")?;
    if !output.status.success() {
        bail!("the online load ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("the online load prints no report")
}

/// Returns how long after the arrival of its request each sighting was, in microseconds. Sightings before the first
/// arrival belong to requests that do not count.
fn detections(arrivals: &[u64], seen: &[u64]) -> Vec<f64> {
    let mut found = Vec::new();
    for (index, &arrival) in arrivals.iter().enumerate() {
        let next = arrivals.get(index + 1).copied().unwrap_or(u64::MAX);
        let first = seen.iter().filter(|&&at| at >= arrival && at < next).min();
        found.extend(first.map(|at| (at - arrival) as f64 / 1e3));
    }
    found
}

/// Joins the samples of an arm.
fn row(samples: &[Sample], request_us: u64, arm: &Arm) -> Option<Row> {
    let of = |arm: &Arm| -> Vec<&Sample> {
        samples.iter().filter(|sample| sample.request_us == request_us && sample.arm == *arm).collect()
    };
    let (mine, alone) = (of(arm), of(&Arm::ALL[0]));
    let both = |value: fn(&Sample) -> f64| -> Option<(f64, f64)> {
        Some((median(mine.iter().map(|sample| value(sample)))?, median(alone.iter().map(|sample| value(sample)))?))
    };
    let (p50, p50_alone) = both(|sample| sample.online.p50_us)?;
    let (p95, p95_alone) = both(|sample| sample.online.p95_us)?;
    let (p99, p99_alone) = both(|sample| sample.online.p99_us)?;
    // Processes that come and go cost cycles whether there is a scheduler or not.
    let unscheduled = median(of(&Arm::ALL[1]).iter().map(|sample| sample.cycles as f64)).unwrap_or(0.0);
    let per_stop = |sample: &&Sample| {
        (sample.stops > 0).then(|| (sample.cycles as f64 - unscheduled).max(0.0) / sample.stops as f64)
    };
    let optional = |value: fn(&Sample) -> Option<f64>, digits: i32| {
        median(mine.iter().filter_map(|sample| value(sample))).map(|found| rounded(found, digits))
    };
    Some(Row {
        request_us,
        arm: *arm,
        p50_us: rounded(p50, 0),
        p95_us: rounded(p95, 0),
        p99_us: rounded(p99, 0),
        p50_over_alone: rounded(p50 / p50_alone, 3),
        p95_over_alone: rounded(p95 / p95_alone, 3),
        p99_over_alone: rounded(p99 / p99_alone, 3),
        detection_p50_us: optional(|sample| sample.detection.as_ref().map(|found| found.p50_us), 1),
        detection_p99_us: optional(|sample| sample.detection.as_ref().map(|found| found.p99_us), 1),
        decision_mean_us: optional(|sample| sample.decision_us, 1),
        switch_p50_us: optional(|sample| sample.switch_us, 1),
        stops: median(mine.iter().map(|sample| sample.stops as f64))?,
        cycles_per_stop: median(mine.iter().filter_map(per_stop)).map(|found| rounded(found, 2)),
        cpu_percent: rounded(median(mine.iter().map(|sample| sample.cpu_share))? * 100.0, 2),
        offline_kept_percent: optional(|sample| sample.offline_kept.map(|kept| kept * 100.0), 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(arm: Arm, p50_us: f64, cycles: u64, stops: u64) -> Sample {
        let online = Percentiles { count: 1, p50_us, p95_us: p50_us, p99_us: p50_us, max_us: p50_us };
        Sample {
            request_us: 2000,
            arm,
            online,
            detection: None,
            decision_us: None,
            switch_us: None,
            stops,
            cycles,
            cpu_share: 0.01,
            offline_kept: Some(0.9),
        }
    }

    #[test]
    fn a_row_has_medians_over_alone_and_the_cycles_of_stops() {
        let [alone, none, trap, ..] = Arm::ALL;
        let samples = [
            sample(alone, 2000.0, 4, 0),
            sample(none, 9000.0, 4, 0),
            sample(trap, 3000.0, 104, 50),
            sample(trap, 5000.0, 104, 50),
            sample(trap, 2500.0, 104, 50),
        ];
        let row = row(&samples, 2000, &trap).unwrap();
        assert_eq!((row.p50_us, row.p50_over_alone), (3000.0, 1.5));
        assert_eq!((row.cycles_per_stop, row.cpu_percent), (Some(2.0), 1.0));
        assert_eq!(row.offline_kept_percent, Some(90.0));
    }

    #[test]
    fn a_sighting_belongs_to_the_request_before_it() {
        assert_eq!(detections(&[10_000, 50_000], &[5_000, 12_000, 13_000, 50_500]), [2.0, 0.5]);
        assert_eq!(detections(&[10_000], &[]), [] as [f64; 0]);
    }
}
