//! Processes that are stopped and killed leave nothing behind.

use std::process::Command;

use serde_json::Value;

use super::executable;

#[test]
#[ignore = "takes half a minute; `gpreempt vgpu stress` alone is the full run"]
fn a_small_crowd_that_is_killed_everywhere_leaves_nothing_behind() {
    let flags = ["--seconds", "25", "--processes", "8", "--queues", "4", "--tracers", "2", "--hits", "1", "--json"];
    let output = Command::new(executable()).args(["vgpu", "stress"]).args(flags).output().expect("can be started");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success(), "{report:#}");
    for key in ["leaked", "stuck", "wrong"] {
        assert_eq!(report[key], 0, "{report:#}");
    }
    // The run itself fails if too few died anywhere; it must also have done its work.
    assert!(report["jobs"].as_u64() > Some(0) && report["suspends"].as_u64() > Some(0), "{report:#}");
}

#[test]
fn a_crowd_of_none_or_too_many_is_wrong_usage() {
    for flags in [["--processes", "0"], ["--processes", "1000"], ["--queues", "0"], ["--seconds", "0"]] {
        let output = Command::new(executable()).args(["vgpu", "stress"]).args(flags).output().expect("can be started");
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
}
