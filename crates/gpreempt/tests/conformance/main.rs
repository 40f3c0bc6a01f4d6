//! `gpreempt conformance`: the virtual driver keeps the rules, and each break of it is noticed.

mod kernels;
mod mutants;
mod transcript;

use std::process::{Command, Output};

use gpreempt_testkit::{play, this_test, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn gpreempt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpreempt")).args(arguments).output().expect("the command starts")
}

/// Runs the suite on a virtual gpu.
fn on_vgpu(gpu: &[&str], arguments: &[&str]) -> Output {
    let executable = env!("CARGO_BIN_EXE_gpreempt");
    let inside: &[&str] = &["--", executable, "conformance"];
    gpreempt(&[&["vgpu", "run"], gpu, inside, arguments].concat())
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn rules_are_listed_with_their_sources_and_without_a_gpu() {
    let output = gpreempt(&["conformance", "--list", "--json"]);
    assert!(output.status.success());
    let listed = document(&output);
    let rules = listed["rules"].as_array().expect("a list");
    let driver = rules.iter().filter(|rule| rule["layer"] == "driver").count();
    assert!(rules.len() >= 80 && driver >= 50, "{} rules, {driver} of the driver", rules.len());
    assert!(rules.iter().all(|rule| rule["source"].as_str().is_some_and(|source| !source.is_empty())));
    let text = String::from_utf8_lossy(&gpreempt(&["conformance", "--list"]).stdout).into_owned();
    assert!(text.contains("suspend-new-queue") && text.contains("kfd_device_queue_manager.c"), "{text}");
}

#[test]
fn without_a_driver_it_says_so_and_an_unknown_rule_is_wrong_usage() {
    let output = gpreempt(&["conformance", "--rule", "magic"]);
    assert_eq!(output.status.code(), Some(2));
    if std::path::Path::new("/dev/kfd").exists() {
        return;
    }
    let output = gpreempt(&["conformance"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/dev/kfd"), "{said}");
}

#[test]
fn a_few_rules_of_each_kind_are_kept_on_a_virtual_gpu() {
    let rules = ["call-unknown-number", "ladder-not-traced", "suspend-new-queue", "queue-doorbell-offset"];
    let arguments: Vec<&str> = rules.iter().flat_map(|rule| ["--rule", rule]).chain(["--json"]).collect();
    let output = on_vgpu(&[], &arguments);
    let seen = document(&output);
    assert_eq!((&seen["kept"], &seen["broken"]), (&4.into(), &0.into()), "{seen:#}");
    assert!(output.status.success());
}

#[test]
fn a_broken_rule_is_named_with_what_was_seen_and_fails_the_run() {
    let output = on_vgpu(&["--mutant", "SnapshotOldestFirst"], &["--rule", "snapshot-newest-first"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("broken: snapshot-newest-first: queues: "), "{text}");
}

#[test]
fn a_gpu_that_others_use_is_left_alone() {
    play(this_test!(), &[], |scene| {
        let mut other = scene.actor();
        other.ask("open");
        other.queue(7);
        let rule = ["conformance", "--rule", "call-version"];
        let refused = gpreempt(&rule);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(&other.pid().to_string()) && said.contains("--beside-others"), "{said}");
        let allowed = gpreempt(&[&rule[..], &["--beside-others"]].concat());
        assert!(allowed.status.success(), "{}", String::from_utf8_lossy(&allowed.stderr));
        other.leave();
    });
}

#[test]
fn an_interrupted_run_leaves_no_process_behind() {
    play(this_test!(), &[], |_| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_gpreempt")).arg("conformance").spawn().expect("it starts");
        let children = format!("/proc/{0}/task/{0}/children", run.id());
        let has_children = || std::fs::read_to_string(&children).is_ok_and(|text| !text.trim().is_empty());
        until("it has started a process", has_children);
        kill(Pid::from_raw(run.id().cast_signed()), Signal::SIGTERM).expect("it runs");
        assert_eq!(run.wait().expect("it ends").code(), Some(1));
        until("no process of it is left", || kfd::process::list().is_ok_and(|left| left.is_empty()));
    });
}

#[test]
fn a_report_becomes_a_profile_of_the_laboratory() {
    let folder = tempfile::tempdir().expect("a directory");
    let (report, profile) = (folder.path().join("report.json"), folder.path().join("mine.toml"));
    let output = on_vgpu(&[], &["--rule", "call-version", "--report", &report.to_string_lossy()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made = gpreempt(&["lab", "profile", "--from", &report.to_string_lossy()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::write(&profile, &made.stdout).expect("written");
    let run = gpreempt(&["lab", "run", "quick", "--profile", &profile.to_string_lossy(), "--seconds", "0.05"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8_lossy(&made.stdout);
    assert!(text.contains("a virtual gpu"), "an emulated time is marked: {text}");
}

#[test]
fn a_file_that_is_no_report_is_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("report.json");
    std::fs::write(&path, "{}").expect("written");
    for from in [path.to_string_lossy().into_owned(), "/no/such/file".to_owned()] {
        let output = gpreempt(&["lab", "profile", "--from", &from]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&from), "{said}");
    }
}
