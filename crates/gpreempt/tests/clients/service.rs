//! The daemon between real programs, through the commands that people use: the demo and the soak, small.
//!
//! Times say nothing on a machine that is busy with other tests; results and counts do.

use std::process::Command;

use serde_json::Value;

use super::text;

/// What a command prints as JSON. Its exit code may tell that it measured too little, which is no matter here.
fn document(words: &[&str]) -> Value {
    let output = Command::new(assert_cmd::cargo::cargo_bin!("gpreempt"))
        .args(words)
        .arg("--json")
        .output()
        .expect("can be started");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}\n{}", text(&output)))
}

fn count(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

/// Requests beside a program that fills the gpu: it is stopped in the middle of kernels, and every bit is right.
fn small_demo(client: &str) {
    let report = document(&["demo", "--client", client, "--requests", "30"]);
    assert_eq!(report["client"], client, "{report:#}");
    assert_eq!(report["bit_identical"], true, "{report:#}");
    assert_eq!((count(&report, "/lost"), count(&report, "/repeated")), (0, 0), "{report:#}");
    for arm in ["alone", "without", "with"] {
        assert_eq!(count(&report, &format!("/{arm}/requests")), 30, "{report:#}");
    }
    assert!(count(&report, "/gpreempt/stops") > 0, "{report:#}");
    // Beside other tests the machine is busy; then nothing is judged, and the document says so.
    assert!(report["valid"].is_boolean() && report["busy"]["during_cores"].is_number(), "{report:#}");
    assert!(report["valid"] == false || report["busy"]["exceeded"] == false, "{report:#}");
    assert!(count(&report, "/gpreempt/waves_saved") > 0, "{report:#}");
}

#[test]
#[ignore = "takes half a minute"]
fn requests_are_answered_beside_work_that_is_stopped_and_loses_nothing() {
    small_demo("workload");
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn hip_programs_stop_for_hip_programs_and_lose_nothing() {
    small_demo("hip");
}

#[test]
#[ignore = "takes half a minute"]
fn nothing_is_lost_while_everybody_is_killed_and_stopped_at_random() {
    let report = document(&["soak", "--minutes", "0.4"]);
    for key in ["lost", "repeated", "stuck", "left_over", "failed"] {
        assert_eq!(count(&report, &format!("/{key}")), 0, "{key}: {report:#}");
    }
    assert_eq!(report["bit_identical"], true, "{report:#}");
    for key in ["stops", "kills", "freezes", "programs_checked"] {
        assert!(count(&report, &format!("/{key}")) > 0, "{key}: {report:#}");
    }
}
