//! AMD's debugger library on the virtual gpu: `dbgapi/debugger.c` says what it does, `cargo xtask clients dbgapi` does
//! the same by hand.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::hip::ROCM72;
use super::{file, text};

fn on_vgpu(words: &[&str]) -> Output {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("gpreempt"))
        .args(["vgpu", "run", "--"])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("can be started");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), b"go\n").expect("is read");
    child.wait_with_output().expect("ends")
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn a_debugger_stops_steps_and_changes_waves_and_the_result_stays_the_same() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dbgapi");
    let build = Command::new(file("tests/clients/dbgapi/build.sh"))
        .arg(ROCM72.path())
        .arg(&directory)
        .output()
        .expect("starts");
    assert!(build.status.success(), "{}", text(&build));
    let (run, program) = (ROCM72.run(), directory.join("debuggee"));
    let (debugger, program) = (directory.join("debugger"), program.to_str().expect("a path of text"));

    let alone = on_vgpu(&[&run, program]);
    let printed = text(&alone);
    assert!(alone.status.success(), "{printed}");
    let result = printed.lines().find_map(|line| line.strip_prefix("result ")).expect("a result");

    let debugged = on_vgpu(&[&run, debugger.to_str().expect("a path of text"), &run, program]);
    let report: serde_json::Value =
        serde_json::from_slice(&debugged.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&debugged)));
    for shown in ["attach", "list", "stop", "registers", "resume", "single_step", "breakpoint", "detach"] {
        assert_eq!(report[shown], true, "{shown}: {}", text(&debugged));
    }
    assert_eq!(report["result"], result, "{}", text(&debugged));
    assert!(debugged.status.success(), "{}", text(&debugged));
}
