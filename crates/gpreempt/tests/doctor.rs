//! `gpreempt doctor` where there is no gpu, and where there is one.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn doctor(before: &[&str]) -> (Output, Value) {
    let program = env!("CARGO_BIN_EXE_gpreempt");
    let mut command = Command::new(program);
    command.args(before).args(["doctor", "--json"]).env("GPREEMPT_SOCKET", "/no/such/control.sock");
    let output = command.output().expect("the command starts");
    let document = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output, document)
}

fn check<'a>(document: &'a Value, name: &str) -> &'a Value {
    let checks = document["checks"].as_array().expect("a list");
    checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

#[test]
fn without_a_gpu_it_fails_and_says_what_to_do() {
    if Path::new("/dev/kfd").exists() {
        eprintln!("skipped: this machine has a gpu");
        return;
    }
    let (output, document) = doctor(&[]);
    assert_eq!(output.status.code(), Some(1), "{document}");
    assert_eq!(check(&document, "device")["result"], "fail");
    let remedy = check(&document, "gpus")["remedy"].as_str().expect("a remedy");
    assert!(remedy.contains("modprobe amdgpu"), "{remedy}");
    assert_eq!(check(&document, "daemon")["result"], "warn");
}

#[test]
fn with_a_gpu_nothing_fails() {
    let (output, document) = doctor(&["vgpu", "run", "--", "gpreempt"]);
    assert_eq!(output.status.code(), Some(0), "{document}");
    assert_eq!((&document["schema"], &document["failed"]), (&1.into(), &0.into()));
    for name in ["device", "driver interface", "gpus", "debug firmware", "hardware scheduler", "wave saving"] {
        assert_eq!(check(&document, name)["result"], "ok", "{document}");
    }
    assert_eq!(check(&document, "pid namespace")["result"], "ok", "{document}");
}
