//! What is made of measurements.

use gpreempt_proto::{Distribution, GpuStats, Stats};

use super::DemoClient;
use super::print;
use super::report::{About, DemoReport};
use crate::document::assert_documented;
use crate::environment::block::{Arm, Calibration, Outcome, Request};
use crate::environment::gpu_under_test::Counters;
use crate::environment::managed::DaemonActivity;
use crate::environment::measure::Window;
use crate::environment::other_work::OtherWork;
use crate::environment::training::Reference;
use crate::load::End;

const CALIBRATION: Calibration = Calibration {
    online_steps: 400,
    online_kernel_us: 500.0,
    offline_steps: 1500,
    offline_kernel_us: 60_000.0,
    offline_groups: 128,
    reference: Reference { checksums: Vec::new(), step_us: 0.0 },
};
const SECOND: u64 = 1_000_000_000;

fn end() -> End {
    End {
        at_ns: 2 * SECOND,
        kernels: 20,
        lost: 0,
        repeated: 0,
        checksum: "aa".to_owned(),
        expected: "aa".to_owned(),
        bit_identical: true,
    }
}

/// A block of one second, with requests of these latencies in milliseconds; each was worked on for 3 ms.
fn online(latencies: &[u64]) -> Outcome {
    let request = |latency: &u64| Request {
        arrived_ns: SECOND,
        submitted_ns: Some(SECOND),
        answered_ns: Some(SECOND + 3_000_000),
        latency_us: (latency * 1000) as f64,
    };
    Outcome {
        window: Window { from_ns: SECOND, to_ns: 2 * SECOND },
        requests: latencies.iter().map(request).collect(),
        online: Some(end()),
        ..Outcome::default()
    }
}

/// The same with an offline program that ends a kernel every so many milliseconds.
fn beside(every_ms: u64, outcome: Outcome) -> Outcome {
    let offline_ends = (0..).map(|kernel| SECOND / 2 + kernel * every_ms * 1_000_000);
    let offline_ends = offline_ends.take_while(|&end| end < 3 * SECOND).collect();
    Outcome { offline: Some(end()), offline_ends, ..outcome }
}

fn served(outcome: Outcome) -> Outcome {
    let distribution =
        |p50_us| Distribution { count: 100, mean_us: p50_us, p50_us, max_us: 900.0, ..Distribution::default() };
    let gpu = GpuStats { detection: distribution(200.0), ..GpuStats::default() };
    let stats = Stats { gpus: vec![gpu], ..Stats::default() };
    let activity = DaemonActivity { stats, stops: 100, cycles: 200, cpu_share: 0.04, ..DaemonActivity::default() };
    Outcome {
        daemon: Some(activity),
        counters: Some(Counters { cycles: 203, suspends: 100, suspends_with_waves: 99, waves: 50_000 }),
        ..outcome
    }
}

fn report(measured: &[(Arm, u32, Outcome)]) -> DemoReport {
    report_beside(OtherWork { during_cores: Some(0.0), ..OtherWork::default() }, measured)
}

fn report_beside(busy: OtherWork, measured: &[(Arm, u32, Outcome)]) -> DemoReport {
    report_of(DemoClient::Workload, busy, measured)
}

fn report_of(client: DemoClient, busy: OtherWork, measured: &[(Arm, u32, Outcome)]) -> DemoReport {
    let gpu = "On a virtual gpu.".to_owned();
    DemoReport::of(About { hardware: false, gpu, client, seed: 1, calibration: &CALIBRATION, busy }, measured)
}

/// 100 requests of 3 ms in a second leave 70 % of the gpu over.
fn good() -> Vec<(Arm, u32, Outcome)> {
    let alone = [10; 100];
    let mut without = [40; 100];
    without[80..].fill(90);
    vec![
        (Arm::OfflineAlone, 0, beside(50, Outcome { online: None, ..online(&[]) })),
        (Arm::Alone, 0, online(&alone)),
        (Arm::Without, 0, beside(80, online(&without))),
        (Arm::With, 0, served(beside(75, online(&[12; 100])))),
    ]
}

fn printed(report: &DemoReport) -> String {
    let mut bytes = Vec::new();
    print::print(report, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn close(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 1e-6)
}

#[test]
fn a_good_run_is_valid_and_says_what_was_won_and_kept() {
    let report = report(&good());
    assert!(report.valid && report.bit_identical, "{:?}", report.faults);
    let (without, with) = (report.without.as_ref().unwrap(), report.with.as_ref().unwrap());
    assert_eq!((without.p50_times_alone, without.p95_times_alone), (Some(4.0), Some(9.0)));
    assert_eq!((with.requests, with.p95_times_alone), (100, Some(1.2)));
    let offline = &report.offline;
    assert!(
        close(offline.alone_kernels_per_s, 20.0) && close(offline.with_kernels_per_s, 1000.0 / 75.0),
        "{offline:?}"
    );
    assert!(close(offline.with_kept_share, 2.0 / 3.0) && close(offline.ideal_share, 0.7), "{offline:?}");
    let gpreempt = report.gpreempt.as_ref().unwrap();
    assert_eq!((gpreempt.stops, gpreempt.stops_inside_kernel_share, gpreempt.cycles), (100, Some(0.99), Some(203)));
    assert!((gpreempt.daemon_cpu_share - 0.04).abs() < 1e-9);
    let text = printed(&report);
    for words in ["emulated", "with gpreempt", "1.20x", "66.7 % kept", "99.0 % of them inside", "bit_identical"] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    assert!(!text.contains("Not valid"), "{text}");
}

#[test]
fn requests_that_did_not_suffer_prove_nothing() {
    let mut measured = good();
    measured[2].2 = beside(80, online(&[29; 100]));
    let report = report(&measured);
    assert!(!report.valid && report.bit_identical);
    assert!(report.faults[0].contains("it proved nothing"), "{:?}", report.faults);
    assert!(printed(&report).contains("Not valid: p95 without gpreempt is only 2.90 times"));
}

#[test]
fn beside_other_work_times_are_not_judged_and_wrong_bits_are() {
    let busy =
        OtherWork { during_cores: Some(1.5), limit_cores: 0.15, cores: 2, exceeded: true, ..OtherWork::default() };
    let mut measured = good();
    measured[2].2 = beside(80, online(&[29; 100]));
    let report = report_beside(busy, &measured);
    assert!(!report.valid && report.faults.is_empty(), "{:?}", report.faults);
    let text = printed(&report);
    assert!(text.contains("busy with other work (unknown of 2 cores before, 1.50 during the run)"), "{text}");
    let document = serde_json::to_value(&report).unwrap();
    assert_eq!((&document["valid"], &document["busy"]["exceeded"]), (&false.into(), &true.into()));
    let unknown = report_beside(OtherWork::default(), &measured);
    assert!(!unknown.valid && unknown.faults.is_empty(), "{:?}", unknown.faults);
    assert!(printed(&unknown).contains("Other work on the machine is unknown"));
    measured[0].2.offline.as_mut().unwrap().bit_identical = false;
    assert_eq!(report_beside(busy, &measured).faults.len(), 1);
}

#[test]
fn one_wrong_bit_anywhere_is_told() {
    for block in 0..4 {
        let mut measured = good();
        let outcome = &mut measured[block].2;
        let end = outcome.offline.as_mut().or(outcome.online.as_mut()).unwrap();
        end.bit_identical = false;
        end.repeated = 2;
        let report = report(&measured);
        assert!(!report.valid && !report.bit_identical && report.repeated == 2);
        assert!(printed(&report).contains("NOT bit_identical"));
    }
}

#[test]
fn a_saturated_arm_shows_lower_bounds() {
    let mut measured = good();
    for request in &mut measured[2].2.requests[90..] {
        request.answered_ns = None;
    }
    let report = report(&measured);
    assert!(report.valid, "{:?}", report.faults);
    assert_eq!(report.without.as_ref().unwrap().unanswered, 10);
    let text = printed(&report);
    let row = text.lines().find(|line| line.starts_with(" without gpreempt")).unwrap();
    // The median is known: all that were given up had waited longer than that.
    assert!(row.contains("  40.0 ms") && row.contains(">= 90.0 ms"), "{row}");
    assert!(text.contains("10 of 100 requests without gpreempt had no answer"), "{text}");
}

#[test]
fn stops_between_kernels_are_no_preemption() {
    let mut measured = good();
    measured[3].2.counters = Some(Counters { suspends: 100, suspends_with_waves: 60, ..Counters::default() });
    let report = report(&measured);
    assert!(report.faults.iter().any(|fault| fault.contains("only 60 %")), "{:?}", report.faults);
}

#[test]
fn a_training_need_not_fill_the_gpu_and_must_be_stopped() {
    let mut measured = good();
    measured[2].2 = beside(80, online(&[29; 100]));
    measured[3].2.counters = Some(Counters { suspends: 100, suspends_with_waves: 60, ..Counters::default() });
    let idle = OtherWork { during_cores: Some(0.0), ..OtherWork::default() };
    let report = report_of(DemoClient::Jax, idle, &measured);
    assert!(report.valid && report.faults.is_empty(), "{:?}", report.faults);
    assert_eq!(serde_json::to_value(&report).unwrap()["client"], "jax");
    measured[3].2.daemon.as_mut().unwrap().stops = 0;
    let report = report_of(DemoClient::Jax, idle, &measured);
    assert!(report.faults.iter().any(|fault| fault.contains("stopped nothing")), "{:?}", report.faults);
}

#[test]
fn an_arm_that_was_left_out_is_left_out_everywhere() {
    let measured = good();
    let report = report(&measured[..3]);
    assert!(report.valid && report.with.is_none() && report.gpreempt.is_none());
    assert!(!printed(&report).contains("with gpreempt:"));
    let document = serde_json::to_value(&report).unwrap();
    assert_eq!((&document["with"], &document["alone"]["requests"]), (&serde_json::Value::Null, &100.into()));
}

#[test]
fn the_document_has_the_keys_that_its_documentation_lists() {
    let manual = include_str!("../../../../docs/demo-json.md");
    let value = serde_json::to_value(report(&good())).unwrap();
    let parts = ["alone", "without", "with", "offline", "gpreempt", "blocks"];
    assert_documented(manual, "", &value, &parts);
    for arm in ["alone", "without", "with"] {
        assert_documented(manual, "`alone`, `without`, `with`", &value[arm], &[]);
    }
    assert_documented(manual, "`offline`", &value["offline"], &[]);
    assert_documented(manual, "`gpreempt`", &value["gpreempt"], &[]);
    for block in value["blocks"].as_array().unwrap() {
        assert_documented(manual, "`blocks`", block, &[]);
    }
}
