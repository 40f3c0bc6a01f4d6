//! `gpreempt bench`: measures gpreempt against its goals.
//!
//! Every ratio compares things that were measured in the same run, in turns where it matters. What is missed is
//! reported as missed, with the measurements that say why.

mod args;
mod bare;
mod detection;
mod doorbell;
mod goal;
mod print;
mod requests;
mod tenants;
mod thread;

use std::io::Write;

use anyhow::Result;
use indicatif::ProgressBar;
use linux_host::machine::load_average;
use serde::Serialize;

use crate::environment::gpu_under_test::GpuUnderTest;
use crate::environment::interrupt::Interrupt;
use crate::environment::other_work::{OtherWork, OtherWorkMeter};
use crate::environment::workload::Workload;
use crate::output;
pub use args::{BenchArgs, BenchPart};
use goal::Goal;

/// What all parts have in common.
struct Bed<'a> {
    place: &'a GpuUnderTest,
    workload: &'a Workload,
    interrupt: &'a Interrupt,
    other_work: &'a OtherWorkMeter,
    seed: u64,
    bar: &'a ProgressBar,
}

/// The document; `docs/bench-json.md` describes every key.
#[derive(Debug, Serialize)]
struct BenchReport {
    schema: u32,
    /// `"emulated"` or `"hardware"`: of all times and rates below.
    kind: &'static str,
    gpu: String,
    seed: u64,
    cores: usize,
    /// False if the machine was busy with other work, or that is unknown: then no goal is judged.
    valid: bool,
    busy: OtherWork,
    /// Average of runnable processes over the minute before the run and before its end.
    load_before: Option<f64>,
    load_after: Option<f64>,
    goals_met: usize,
    goals_missed: usize,
    goals: Vec<Goal>,
    requests: Option<Vec<requests::Case>>,
    detection: Option<Vec<detection::Case>>,
    doorbell: Option<doorbell::Doorbell>,
    tenants: Option<Vec<tenants::Case>>,
}

/// Measures all parts, or those that were asked for, and prints the report.
///
/// # Errors
/// If a part cannot be measured. A missed goal is no error.
pub fn run(options: &BenchArgs, out: &mut impl Write) -> Result<()> {
    let workload = Workload::load(None)?;
    let place = GpuUnderTest::find(&workload.virtual_gpu, options.yes)?;
    let gpu = place.describe()?;
    if !options.json {
        writeln!(out, "{gpu}")?;
        out.flush()?;
    }
    let interrupt = Interrupt::watch()?;
    let bar = output::progress(options.json, "measurements {msg}");
    let other_work = OtherWorkMeter::start(&place);
    let bed = Bed {
        place: &place,
        workload: &workload,
        interrupt: &interrupt,
        other_work: &other_work,
        seed: options.seed,
        bar: &bar,
    };
    let wanted = |part: BenchPart| options.parts.is_empty() || options.parts.contains(&part);
    let lengths = [
        (BenchPart::Requests, requests::MEASUREMENTS),
        (BenchPart::Detection, detection::MEASUREMENTS),
        (BenchPart::Doorbell, doorbell::MEASUREMENTS),
        (BenchPart::Tenants, tenants::MEASUREMENTS),
    ];
    bar.set_length(lengths.iter().filter(|(part, _)| wanted(*part)).map(|(_, length)| length).sum());
    let load_before = load_average();
    let requests = wanted(BenchPart::Requests).then(|| requests::measure(&bed)).transpose()?;
    let detection = wanted(BenchPart::Detection).then(|| detection::measure(&bed)).transpose()?;
    let doorbell = wanted(BenchPart::Doorbell).then(|| doorbell::measure(&bed)).transpose()?;
    let tenants = wanted(BenchPart::Tenants).then(|| tenants::measure(&bed)).transpose()?;
    bar.finish_and_clear();
    let mut goals = Vec::new();
    goals.extend(requests.iter().flat_map(|cases| requests::goals(cases)));
    goals.extend(detection.iter().flat_map(|cases| detection::goals(cases)));
    goals.extend(doorbell.iter().map(doorbell::Doorbell::goal));
    goals.extend(tenants.iter().flat_map(|cases| tenants::goals(cases)));
    let busy = other_work.report();
    if !busy.permits_judgement() {
        goals.iter_mut().for_each(Goal::withhold);
    }
    let count = |met: bool| goals.iter().filter(|goal| goal.met == Some(met)).count();
    let (goals_met, goals_missed) = (count(true), count(false));
    let report = BenchReport {
        schema: output::SCHEMA,
        kind: if place.is_hardware() { "hardware" } else { "emulated" },
        gpu,
        seed: options.seed,
        cores: busy.cores,
        valid: busy.permits_judgement(),
        busy,
        load_before,
        load_after: load_average(),
        goals_met,
        goals_missed,
        goals,
        requests,
        detection,
        doorbell,
        tenants,
    };
    if options.json { output::json(&report, out) } else { print::print(&report, out) }
}

#[cfg(test)]
mod tests {
    use gpreempt_proto::Distribution;

    use super::*;
    use crate::document::assert_documented;
    use crate::environment::measure::Latency;
    use crate::environment::tally::Offline;

    const LATENCY: Latency = Latency { p50_us: 1.0, p95_us: 2.0, p99_us: 3.0, max_us: 4.0 };

    fn requests_case() -> requests::Case {
        requests::Case {
            request_ms: 2.0,
            requests: 300,
            alone: LATENCY,
            with: LATENCY,
            added_p50_us: 0.0,
            added_p95_us: 0.0,
            unanswered: 0,
            offline: Offline::default(),
            stops: 0,
            cycles: None,
            cycles_per_stop: None,
            detection: Distribution::default(),
            stop: Distribution::default(),
            resume: Distribution::default(),
            wakeup: Distribution::default(),
            daemon_cpu_share: 0.0,
            bit_identical: true,
        }
    }

    fn detection_case() -> detection::Case {
        detection::Case {
            period_us: None,
            doorbells: 1,
            unseen: 0,
            detection: Some(LATENCY),
            daemon_cpu_share: 0.0,
            watch_cpu_share: 0.0,
            sleeps_per_s: 0.0,
            reads_per_s: 0.0,
            bare_cpu_share: 0.0,
            watch_times_bare: None,
            wakeup_p99_us: 0.0,
        }
    }

    fn report() -> BenchReport {
        let doorbell =
            doorbell::Doorbell { without_ns: 1.0, with_ns: 1.0, ratio: 1.0, ratio_quartiles: [1.0; 2], blocks: 1 };
        BenchReport {
            schema: output::SCHEMA,
            kind: "emulated",
            gpu: String::new(),
            seed: 1,
            cores: 2,
            valid: true,
            busy: OtherWork::default(),
            load_before: None,
            load_after: None,
            goals_met: 1,
            goals_missed: 0,
            goals: vec![doorbell.goal()],
            requests: Some(vec![requests_case()]),
            detection: Some(vec![detection_case()]),
            doorbell: Some(doorbell),
            tenants: Some(vec![tenants::Case {
                tenants: 1,
                queues: 4,
                poll_us: 0.0,
                decision_us: 0.0,
                daemon_cpu_share: 0.0,
            }]),
        }
    }

    #[test]
    fn the_document_has_the_keys_that_its_documentation_lists() {
        let manual = include_str!("../../../../docs/bench-json.md");
        let value = serde_json::to_value(report()).unwrap();
        assert_documented(manual, "", &value, &["goals", "requests", "detection", "doorbell", "tenants"]);
        for list in ["goals", "requests", "detection", "tenants"] {
            // The keys of `offline` are those of the demo's document.
            assert_documented(manual, &format!("`{list}[]`"), &value[list][0], &["offline"]);
        }
        assert_documented(manual, "`doorbell`", &value["doorbell"], &[]);
    }
}
