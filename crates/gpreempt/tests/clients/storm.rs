//! Programs that are preempted at random compute what they compute undisturbed.

use std::process::Command;

use serde_json::Value;

use super::hip::releases;
use super::{on_vgpu, text};

/// The report of a small storm, which must end well.
fn storm(client: &[&str], preemptions: u64, suspends: u64) -> Value {
    let output = Command::new(assert_cmd::cargo::cargo_bin!("gpreempt"))
        .args(["vgpu", "storm", "--json", "--client"])
        .args(client)
        .args(["--preemptions", &preemptions.to_string(), "--suspends", &suspends.to_string()])
        .output()
        .expect("can be started");
    assert!(output.status.success(), "{client:?}: {}", text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["bit_identical"], true, "{report}");
    assert!(report["executor_preemptions"].as_u64().is_some_and(|count| count >= preemptions), "{report}");
    report
}

/// The same of a client whose queues can be suspended and which counts its workgroups.
fn suspending_storm(client: &[&str], preemptions: u64, suspends: u64) {
    let report = storm(client, preemptions, suspends);
    assert_eq!(report["exactly_once"], true, "{report}");
    assert!(report["suspends"].as_u64().is_some_and(|count| count >= suspends), "{report}");
    // A client may end, its queues stopped, at most once a run.
    let count = |key: &str| report[key].as_u64().expect(key);
    assert_eq!(count("resumes") + count("outlived"), count("suspends"), "{report}");
    assert!(count("outlived") <= count("runs"), "{report}");
}

#[test]
fn a_program_with_several_threads_computes_the_same_every_time() {
    let lines = || {
        let output = on_vgpu("mi300x", &["gpreempt", "vgpu", "client", "workload", "--rounds", "1"]);
        assert!(output.status.success(), "{}", text(&output));
        let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let first = lines();
    assert!(first.len() >= 20, "{first:?}");
    for _ in 0..3 {
        assert_eq!(lines(), first);
    }
}

#[test]
fn a_tracer_suspends_queues_and_the_program_does_not_notice() {
    suspending_storm(&["workload"], 0, 40);
}

#[test]
#[ignore = "takes minutes"]
fn the_self_test_does_not_notice_a_storm() {
    suspending_storm(&["workload"], 500, 100);
}

#[test]
#[ignore = "needs clang-19"]
fn the_corpus_does_not_notice_a_storm() {
    suspending_storm(&["corpus"], 500, 100);
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn hip_programs_do_not_notice_a_storm() {
    for rocm in releases() {
        suspending_storm(&["hip", "--rocm", rocm.version], 500, 100);
    }
}

#[test]
#[ignore = "needs tinygrad and libLLVM-19"]
fn training_does_not_notice_a_storm() {
    let report = storm(&["tinygrad"], 500, 100);
    // Its runtime does not offer itself to debuggers, so no debugger can suspend its queues.
    assert_eq!(report["suspends"], 0, "{report}");
}
