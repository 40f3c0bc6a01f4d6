//! The laboratory from the command line: results, determinism, files.

use std::fs;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::Value;

fn gpreempt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpreempt")).args(arguments).output().expect("the command starts")
}

/// What a successful call prints.
fn printed(arguments: &[&str]) -> String {
    let output = gpreempt(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("UTF-8 output")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).expect("valid JSON")
}

#[test]
fn compare_has_a_row_for_alone_and_for_every_mechanism() {
    let result = json(&["lab", "compare", "--seconds", "0.2", "--json"]);
    assert_eq!(result["schema"], 1);
    assert_eq!(result["kind"], "simulated");
    assert_eq!(result["profile"], "mi300x-spx");
    assert_eq!(result["workload"], "quick");
    assert_eq!(result["seed"], 1);
    assert_eq!(result["seconds"], 0.2);
    let rows = result["rows"].as_array().expect("rows");
    assert!(rows.len() >= 14, "{} rows", rows.len());
    assert_eq!(rows[0]["mechanism"], "alone");
    for row in rows {
        assert!(row["mechanism"].is_string());
        assert!(row["online_p99_us"].is_number(), "{row}");
        assert!(row["offline_share_of_alone"].is_number(), "{row}");
        assert!(row["longest_starved_us"].is_number(), "{row}");
        assert!(row["assumes"].is_array(), "{row}");
        let count = |key: &str| row[key].as_f64().expect(key);
        let arrivals = count("online_completed") + count("online_skipped") + count("online_unfinished");
        let served = 100.0 * count("online_completed") / arrivals;
        assert!((count("online_served_percent") - served).abs() < 1e-9, "{row}");
    }
    let listed = json(&["lab", "list", "--json"]);
    let listed = listed["mechanisms"].as_array().expect("mechanisms");
    assert_eq!(rows.len(), listed.len() + 1);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_other_ones() {
    let with_seed = |seed: &str| printed(&["lab", "compare", "--seconds", "0.2", "--seed", seed, "--json"]);
    let first = with_seed("7");
    assert_eq!(first, with_seed("7"));
    assert_ne!(first.replace("\"seed\": 7", ""), with_seed("8").replace("\"seed\": 8", ""));
}

#[test]
fn compare_runs_only_the_mechanisms_asked_for_in_that_order() {
    let result = json(&["lab", "compare", "--seconds", "0.1", "--mechanism", "reef", "--mechanism", "none", "--json"]);
    let rows = result["rows"].as_array().expect("rows");
    let names: Vec<_> = rows.iter().map(|row| row["mechanism"].as_str()).collect();
    assert_eq!(names, [Some("alone"), Some("reef"), Some("none")]);
}

#[test]
fn the_table_says_first_that_it_is_simulated_and_what_was_estimated() {
    let text = printed(&["lab", "compare", "--seconds", "0.1", "--profile", "mi308x", "--seed", "3"]);
    let first = text.lines().next().expect("a first line");
    assert_eq!(first, "Simulated: workload quick on profile mi308x, seed 3, 0.1 s of virtual time.");
    assert!(text.contains("Estimates in profile mi308x: "), "{text}");
    assert!(text.contains("cycle.firmware_us"), "{text}");
    assert!(text.contains("Assumptions of the mechanisms: gpreempt lab list"), "{text}");
    assert!(!text.contains('\u{1b}'), "escape codes outside a terminal");
}

#[test]
fn timelines_tell_repeated_kernels_from_saved_waves() {
    let reef = json(&["lab", "timeline", "--mechanism", "reef", "--json"]);
    assert!(reef["repeated_kernels"].as_u64() > Some(0), "{reef}");
    let saved = json(&["lab", "timeline", "--mechanism", "cwsr-watch", "--json"]);
    assert_eq!(saved["repeated_kernels"], 0);
    assert!(saved["cycles"].as_u64() > Some(0), "{saved}");
    assert!(saved["inference_latency_us"].as_f64() < Some(76_000.0));
}

#[test]
fn a_timeline_draws_its_rows_and_lists_what_happened() {
    let text = printed(&["lab", "timeline", "--mechanism", "reef"]);
    for expected in ["machine |", "training |", "inference |", "inference request arrives", "training completes"] {
        assert!(text.contains(expected), "no `{expected}` in\n{text}");
    }
    assert!(text.contains('▒'), "no repeated kernel in\n{text}");
}

#[test]
fn a_timeline_writes_a_trace_of_all_its_kernels() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("trace.json");
    let file_name = file.to_str().expect("a UTF-8 path");
    let text = printed(&["lab", "timeline", "--mechanism", "none", "--trace", file_name]);
    assert!(text.contains(file_name));
    let trace: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("valid JSON");
    assert_eq!(trace["otherData"]["kind"], "simulated");
    let events = trace["traceEvents"].as_array().expect("events");
    let kernels = events.iter().filter(|event| event["cat"] == "kernel");
    assert_eq!(kernels.count(), 120);
}

/// Complete events of one thread must nest or follow each other; viewers garble anything else.
#[test]
fn complete_events_of_one_row_never_overlap() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("trace.json");
    let file_name = file.to_str().expect("a UTF-8 path");
    for mechanism in ["round-robin", "reef", "xsched-lv1", "cwsr-watch"] {
        printed(&["lab", "run", "quick", "--seconds", "0.3", "--mechanism", mechanism, "--trace", file_name]);
        let trace: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("valid JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let mut ends = std::collections::BTreeMap::new();
        for event in events.iter().filter(|event| event["ph"] == "X") {
            let row = (event["pid"].to_string(), event["tid"].to_string());
            let begin = event["ts"].as_f64().expect("a start");
            let end = begin + event["dur"].as_f64().expect("a length");
            // Sums of microseconds are exact only to a fraction of a nanosecond.
            let before = ends.insert(row, end).unwrap_or(0.0);
            assert!(begin > before - 1e-4, "{mechanism}: {event} begins before {before}");
        }
    }
}

#[test]
fn run_reports_every_task() {
    let result = json(&["lab", "run", "quick", "--seconds", "0.3", "--json"]);
    let runs = result["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 1);
    let tasks = runs[0]["tasks"].as_array().expect("tasks");
    let names: Vec<_> = tasks.iter().map(|task| task["name"].as_str()).collect();
    assert_eq!(names, [Some("vgg19"), Some("distilbert"), Some("training")]);
    let text = printed(&["lab", "run", "quick", "--seconds", "0.3", "--mechanism", "none", "--mechanism", "reef"]);
    assert!(text.contains("\nnone: ") && text.contains("\nreef: "), "{text}");
}

#[test]
fn a_file_of_disb_runs_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("A.json");
    let text = r#"{ "time": 60, "tasks": [
        { "id": "vgg19_rt", "load": { "type": "periodic", "priority": 0, "frequency": 100 },
          "client": { "model_name": "vgg19-imagenet" } },
        { "id": "resnet152_be", "load": { "type": "continuous" },
          "client": { "model_name": "resnet152-imagenet" } } ] }"#;
    fs::write(&file, text).expect("a writable file");
    let file = file.to_str().expect("a UTF-8 path");
    let theirs = json(&["lab", "compare", "--workload", file, "--seconds", "0.1", "--json"]);
    let ours = json(&["lab", "compare", "--workload", "disb-a", "--seconds", "0.1", "--json"]);
    assert_eq!(theirs["workload"], "A");
    assert_eq!(theirs["rows"], ours["rows"]);
}

#[test]
fn a_printed_profile_can_be_edited_and_used() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("mine.toml");
    let text = printed(&["lab", "print", "mi300x-spx"]);
    let edited = text.replacen("name = \"mi300x-spx\"", "name = \"mine\"", 1);
    assert_ne!(text, edited);
    fs::write(&file, edited).expect("a writable file");
    let file = file.to_str().expect("a UTF-8 path");
    let result = json(&["lab", "run", "quick", "--seconds", "0.05", "--profile", file, "--json"]);
    assert_eq!(result["profile"], "mine");
}

#[test]
fn plausibility_marks_what_calibrates_and_predicts_the_rest() {
    let result = json(&["lab", "plausibility", "--json"]);
    let rows = result["rows"].as_array().expect("rows");
    let calibrating = rows.iter().filter(|row| row["calibration"] == true).count();
    assert!(calibrating <= 2, "{calibrating} rows calibrate");
    assert!(rows.len() > 10 * calibrating);
    let text = printed(&["lab", "plausibility"]);
    assert!(text.contains("deviation"), "{text}");
}

#[test]
fn what_mechanisms_assume_is_listed_and_stands_beside_their_results() {
    let listed = printed(&["lab", "list"]);
    assert!(listed.contains("progress record yet when the reset comes, and run again: estimate"), "{listed}");
    // The only stop of a timeline is the cheap one: the output must say so.
    let first_stop = "the first stop of a task saves to VRAM";
    let timeline = ["lab", "timeline", "--mechanism", "cwsr-watch"];
    assert!(printed(&timeline).contains(first_stop));
    let run = ["lab", "run", "quick", "--seconds", "0.05", "--mechanism", "cwsr-watch", "--json"];
    for told in [&json(&[&timeline[..], &["--json"]].concat()), &json(&run)["runs"][0]] {
        let assumes = told["assumes"][0].as_str().expect("an assumption");
        assert!(assumes.contains(first_stop), "{assumes}");
    }
}

#[test]
fn a_device_that_cannot_be_calibrated_is_a_failure_with_a_reason() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("slow.toml");
    let text = printed(&["lab", "print", "gv100"]);
    let slow = text.replace("wakeup_us = { value = 5,", "wakeup_us = { value = 100000,");
    assert_ne!(text, slow);
    fs::write(&file, slow).expect("a writable file");
    let output = gpreempt(&["lab", "plausibility", "--profile", file.to_str().expect("a UTF-8 path")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be compared") && said.contains("host.wakeup_us"), "{said}");
    assert!(output.stdout.is_empty(), "a result beside an error");
}

/// A mistyped path of a trace must not be reported only after an hour.
#[test]
fn a_trace_is_opened_before_the_run() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("trace.json");
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_gpreempt"))
        .args(["lab", "run", "disb-d", "--seconds", "3600", "--trace"])
        .arg(&file)
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    let deadline = Instant::now() + Duration::from_secs(5);
    while !file.exists() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    let opened = file.exists();
    let still_runs = run.try_wait().expect("a child").is_none();
    run.kill().expect("it can be ended");
    run.wait().expect("it ends");
    assert!(opened && still_runs, "opened: {opened}, still runs: {still_runs}");
}

#[test]
fn the_table_in_the_documentation_is_what_the_command_prints() {
    let page = include_str!("../../../docs/lab.md");
    let shown = page
        .split_once("<!-- lab compare: begin -->\n")
        .and_then(|(_, rest)| rest.split_once("<!-- lab compare: end -->"));
    let (shown, _) = shown.expect("docs/lab.md marks where the table begins and ends");
    let text = printed(&["lab", "compare"]);
    let lines: Vec<String> = text.trim_end().lines().map(|line| format!("    {line}").trim_end().to_string()).collect();
    assert_eq!(shown.trim_matches('\n'), lines.join("\n"), "run: cargo xtask record lab");
}
