//! The programs that the demo runs, by themselves on the virtual gpu.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::{executable, on_vgpu};

/// A program that prints JSON lines.
struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(command: &mut Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("can be started");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Program { child, lines }
    }

    /// The next line of this kind, and how many others came before it.
    fn next(&mut self, kind: &str) -> (Value, usize) {
        for others in 0.. {
            let line = self.lines.next().expect("another line").expect("text");
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if line["line"] == kind {
                return (line, others);
            }
        }
        unreachable!("the lines end before the numbers do");
    }

    fn wait(mut self) {
        assert!(self.child.wait().expect("ends").success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Only if the test failed is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn assert_right(end: &Value) {
    assert_eq!((&end["bit_identical"], &end["checksum"]), (&true.into(), &end["expected"]), "{end}");
    assert_eq!((&end["lost"], &end["repeated"]), (&0.into(), &0.into()), "{end}");
}

#[test]
fn requests_are_all_answered_after_they_arrived() {
    let words = ["gpreempt", "load", "online", "--requests", "6", "--kernels", "3", "--steps", "200", "--rate", "400"];
    let mut program = Program::start(&mut on_vgpu(&words));
    let begin = program.next("begin").0["at_ns"].as_u64().expect("a number");
    let mut last = begin;
    for request in 0..6 {
        let line = program.next("request").0;
        let at = |key: &str| line[key].as_u64().expect("a number");
        assert_eq!(line["request"], request);
        assert!(at("arrived_ns") >= begin && at("submitted_ns") >= at("arrived_ns").max(last), "{line}");
        let latency = (at("answered_ns") - at("arrived_ns")) as f64 / 1e3;
        assert!((line["latency_us"].as_f64().expect("a number") - latency).abs() < 1.0, "{line}");
        last = at("answered_ns");
    }
    let end = program.next("end").0;
    assert_right(&end);
    // One request to warm up came before the six.
    assert_eq!(end["kernels"], 21);
    program.wait();
}

#[test]
fn requests_without_an_answer_at_the_limit_are_given_up() {
    let words =
        ["gpreempt", "load", "online", "--requests", "3", "--steps", "10", "--rate", "99", "--patience-ms", "0"];
    let mut program = Program::start(&mut on_vgpu(&words));
    let last = [0; 3].map(|_| program.next("request").0)[2].clone();
    // No request is answered in no time.
    assert_eq!((&last["answered_ns"], &last["latency_us"]), (&Value::Null, &0.0.into()), "{last}");
    assert_right(&program.next("end").0);
    program.wait();
}

#[test]
fn an_offline_program_ends_with_its_input_or_by_a_signal_and_completes_what_it_began() {
    for by_signal in [false, true] {
        let mut program = Program::start(&mut on_vgpu(&["gpreempt", "load", "offline", "--steps", "20"]));
        program.next("kernel");
        if by_signal {
            let pid = i32::try_from(program.child.id()).expect("a pid");
            // SAFETY: a plain call; the process is a child that has not been waited for.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        } else {
            drop(program.child.stdin.take());
        }
        let (end, others) = program.next("end");
        assert_right(&end);
        assert_eq!(end["kernels"], others + 1, "every kernel was reported");
        program.wait();
    }
}

#[test]
fn two_at_once_compute_what_each_computes_alone() {
    let name = format!("load-{}", std::process::id());
    let on_shared = |words: &[&str]| {
        let mut command = Command::new(executable());
        command.args(["vgpu", "run", "--name", &name, "--", "gpreempt", "load"]).args(words);
        Program::start(&mut command)
    };
    let mut offline = on_shared(&["offline", "--steps", "100"]);
    offline.next("kernel");
    let mut online = on_shared(&["online", "--requests", "10", "--kernels", "4", "--steps", "300", "--rate", "200"]);
    assert_right(&online.next("end").0);
    online.wait();
    drop(offline.child.stdin.take());
    assert_right(&offline.next("end").0);
    offline.wait();
}

#[test]
fn a_kernel_of_a_given_length_is_found() {
    let words = ["gpreempt", "load", "calibrate", "--groups", "2", "--target-us", "2000"];
    let mut program = Program::start(&mut on_vgpu(&words));
    let found = program.next("calibrated").0;
    assert_eq!(found["groups"], 2);
    assert!(found["steps"].as_u64().is_some_and(|steps| steps > 1), "{found}");
    program.wait();
}

/// Nothing may be measured by accident: without a gpu the program says what is missing.
#[test]
fn without_a_gpu_a_program_says_so() {
    if std::path::Path::new("/dev/kfd").exists() {
        return;
    }
    let words = ["load", "online", "--requests", "1", "--steps", "1", "--rate", "1"];
    let output = Command::new(executable()).args(words).output().expect("can be started");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/kfd"));
}
