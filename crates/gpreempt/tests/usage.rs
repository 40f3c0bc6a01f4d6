//! Help, mistakes and their exit codes.

use std::fs;
use std::io::{self, Read};
use std::process::{Command, Output, Stdio};

fn gpreempt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpreempt")).args(arguments).output().expect("the command starts")
}

/// What a wrong call says, which must end with this code.
fn complaint(arguments: &[&str], code: i32) -> String {
    let output = gpreempt(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.starts_with("error: "), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert!(output.stdout.is_empty(), "a result beside an error");
    said
}

#[test]
fn a_demo_without_its_client_names_the_command_that_installs_it() {
    assert!(complaint(&["demo", "--client", "numpy"], 2).contains("jax"));
    let folder = tempfile::tempdir().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_gpreempt"))
        .args(["demo", "--client", "jax", "--json"])
        .env("GPREEMPT_JAX", folder.path())
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty() && said.contains("`cargo xtask setup --jax`"), "{said}");
}

#[test]
fn every_subcommand_explains_itself() {
    let commands: &[&[&str]] = &[
        &[],
        &["ps"],
        &["run"],
        &["set"],
        &["hold"],
        &["release"],
        &["unmanage"],
        &["manage"],
        &["log"],
        &["stats"],
        &["watch"],
        &["doctor"],
        &["config"],
        &["config", "check"],
        &["reload"],
        &["notify"],
        &["daemon"],
        &["lab"],
        &["lab", "compare"],
        &["lab", "timeline"],
        &["lab", "run"],
        &["lab", "plausibility"],
        &["lab", "list"],
        &["lab", "print"],
        &["vgpu", "storm"],
        &["completions"],
        &["man"],
    ];
    for command in commands {
        let output = gpreempt(&[command, ["--help"].as_slice()].concat());
        assert!(output.status.success(), "{command:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("Usage: gpreempt"), "{command:?}: {text}");
    }
}

#[test]
fn a_storm_needs_a_client_that_exists_and_a_pace() {
    let said = complaint(&["vgpu", "storm", "--client", "cuda"], 2);
    assert!(said.contains("corpus") && said.contains("tinygrad"), "{said}");
    let pace = ["vgpu", "storm", "--client", "workload", "--mean-instructions", "0"];
    assert!(complaint(&pace, 2).contains("--mean-instructions"));
}

#[test]
fn a_missing_workload_is_named_with_a_way_to_find_others() {
    let said = complaint(&["lab", "compare", "--workload", "/no/such/file"], 2);
    assert!(said.contains("no workload `/no/such/file`"), "{said}");
    assert!(said.contains("disb-a"), "{said}");
    assert!(said.contains("gpreempt lab list"), "{said}");
}

#[test]
fn a_missing_profile_is_named_with_the_known_ones() {
    let said = complaint(&["lab", "compare", "--profile", "mi999"], 2);
    assert!(said.contains("no profile `mi999`"), "{said}");
    assert!(said.contains("mi300x-cpx"), "{said}");
}

#[test]
fn a_fault_in_a_file_is_reported_with_its_place() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("mine.toml");
    let name = file.to_str().expect("a UTF-8 path");
    fs::write(&file, "seconds = 1\nseconds = 2\n").expect("a writable file");
    let said = complaint(&["lab", "run", name], 2);
    assert!(said.contains(&format!("{name}:2:1: ")), "{said}");
    fs::write(
        &file,
        "seconds = 1\n[[task]]\nname = \"a\"\nrole = \"online\"\nmodel = \"vgg19\"\nload = { type = \"uniform\", rate = -5 }\n",
    )
    .expect("a writable file");
    let said = complaint(&["lab", "run", name], 2);
    assert!(said.contains(&format!("{name}:6:35: task[0].load.rate: found -5, expected a number from")), "{said}");
}

#[test]
fn an_unknown_mechanism_lists_the_known_ones() {
    for command in ["compare", "timeline"] {
        let said = complaint(&["lab", command, "--mechanism", "magic"], 2);
        assert!(said.contains("magic"), "{said}");
        assert!(said.contains("reef") && said.contains("xsched-lv1"), "{said}");
    }
}

#[test]
fn a_trace_of_several_runs_is_refused() {
    let said = complaint(
        &["lab", "run", "quick", "--mechanism", "none", "--mechanism", "reef", "--trace", "/no/such/trace"],
        2,
    );
    assert!(said.contains("--mechanism"), "{said}");
}

#[test]
fn a_trace_that_cannot_be_written_is_a_failure() {
    let said = complaint(&["lab", "timeline", "--mechanism", "none", "--trace", "/no/such/trace"], 1);
    assert!(said.contains("cannot write the trace `/no/such/trace`"), "{said}");
}

#[test]
fn numbers_out_of_range_are_refused() {
    for (option, value) in [("--seconds", "0"), ("--seconds", "nan"), ("--seed", "-1"), ("--seed", "x")] {
        complaint(&["lab", "compare", option, value], 2);
    }
}

#[test]
fn a_kernel_too_large_for_the_profile_is_named() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("mine.toml");
    let text = "seconds = 1\n[[task]]\nname = \"big\"\nrole = \"online\"\nload = { type = \"closed\" }\nkernels = [ { workgroups = 1, \
                duration_us = 1, waves = 16, vgprs = 512 } ]\n";
    fs::write(&file, text).expect("a writable file");
    let said = complaint(&["lab", "run", file.to_str().expect("a UTF-8 path")], 2);
    assert!(said.contains("task big, kernel 0") && said.contains("mi300x-spx"), "{said}");
}

#[test]
fn a_reader_that_leaves_early_is_not_a_failure() {
    for arguments in [
        ["lab", "list", "--json"].as_slice(),
        &["lab", "compare", "--seconds", "0.05"],
        &["lab", "timeline", "--mechanism", "none", "--json"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpreempt"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        // Without a reader, whatever is written after this fails with a broken pipe.
        drop(child.stdout.take());
        let mut said = String::new();
        let mut stderr = child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut said).expect("UTF-8 output");
        let status = child.wait().expect("the command ends");
        assert!(status.success(), "{arguments:?} ended with {status}: {said}");
        assert!(said.is_empty(), "{arguments:?} said {said}");
    }
}

/// Only the reader of the result may leave: a trace that breaks off is a trace that is missing.
#[test]
fn a_trace_whose_reader_leaves_early_is_a_failure() {
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let child = Command::new(env!("CARGO_BIN_EXE_gpreempt"))
        .args(["lab", "run", "quick", "--seconds", "2", "--trace", "/dev/stdin"])
        .stdin(writer)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut beginning = [0; 10];
    reader.read_exact(&mut beginning).expect("a trace begins");
    // The trace is larger than what the pipe holds, so some of it is still to come.
    drop(reader);
    let output = child.wait_with_output().expect("the command ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: cannot write the trace `/dev/stdin`: "), "{said}");
    assert!(output.stdout.is_empty(), "a result beside an error");
}

#[test]
fn completions_exist_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let output = gpreempt(&["completions", shell]);
        assert!(output.status.success());
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(script.contains("gpreempt") && script.contains("xsched-lv1"), "{shell}");
    }
}

#[test]
fn manual_pages_cover_every_subcommand() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let output = gpreempt(&["man", folder.path().to_str().expect("a UTF-8 path")]);
    assert!(output.status.success());
    for page in ["gpreempt.1", "gpreempt-ps.1", "gpreempt-config-check.1", "gpreempt-lab.1", "gpreempt-lab-compare.1"] {
        let text = fs::read_to_string(folder.path().join(page)).expect("a page");
        assert!(text.contains(".TH"), "{page}");
    }
    let said = complaint(&["man", "/no/such/directory"], 1);
    assert!(said.contains("/no/such/directory"), "{said}");
}
