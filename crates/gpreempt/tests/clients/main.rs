//! Real programs on the virtual gpu: nothing in them knows about it.
//!
//! What needs more than Rust is ignored by plain `cargo test` and required by `cargo xtask test`, which installs it.

mod dbgapi;
mod hip;
mod service;
mod storm;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn on_vgpu(profile: &str, words: &[&str]) -> Output {
    Command::new(assert_cmd::cargo::cargo_bin!("gpreempt"))
        .args(["vgpu", "run", "--profile", profile, "--"])
        .args(words)
        .output()
        .expect("can be started")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn python(profile: &str, script: &str, arguments: &[&str]) -> String {
    let (python, script) = (gpreempt_trials::storm::python(), file(script));
    let mut words = vec![python.to_str().expect("a path of text"), script.to_str().expect("a path of text")];
    words.extend(arguments);
    let output = on_vgpu(profile, &words);
    assert!(output.status.success(), "{:?}\n{}", output.status, text(&output));
    text(&output)
}

#[test]
fn the_selftest_passes_on_every_profile() {
    for profile in ["mi300x", "mi300x-cpx", "mi308x"] {
        let output = on_vgpu(profile, &["gpreempt", "selftest", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["failed"], 0, "{profile}: {}", text(&output));
        assert!(report["passed"].as_u64().is_some_and(|passed| passed >= 20), "{profile}: {report}");
        assert!(output.status.success());
    }
}

#[test]
fn the_selftest_passes_with_several_workers_and_without_wide_vectors() {
    for (variable, value) in [("GPREEMPT_VGPU_WORKERS", "3"), ("VGPU_PORTABLE", "1")] {
        let output = Command::new(assert_cmd::cargo::cargo_bin!("gpreempt"))
            .args(["vgpu", "run", "--", "gpreempt", "selftest", "--json"])
            .env(variable, value)
            .output()
            .expect("can be started");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["failed"], 0, "{variable}: {}", text(&output));
    }
}

#[test]
#[ignore = "needs tinygrad and libLLVM-19"]
fn tinygrad_trains_a_network_to_the_checked_loss() {
    let printed = python("mi300x", "../../examples/tinygrad_train.py", &[]);
    assert!(printed.contains("device AMD"), "{printed}");
}

#[test]
#[ignore = "needs tinygrad and libLLVM-19"]
fn tinygrad_agrees_with_numpy_through_aql_queues() {
    let printed = python("mi300x", "tests/clients/tinygrad_ops.py", &[]);
    assert_eq!(printed.matches("passed").count(), 12, "{printed}");
}

#[test]
#[ignore = "needs tinygrad and libLLVM-19"]
fn tinygrad_agrees_with_numpy_through_pm4_queues() {
    // One XCC: tinygrad then submits PM4 packets instead of AQL.
    let checks = ["elementwise", "reductions", "matmul", "softmax", "train_mlp"];
    let printed = python("mi300x-cpx", "tests/clients/tinygrad_ops.py", &checks);
    assert_eq!(printed.matches("passed").count(), checks.len(), "{printed}");
}
