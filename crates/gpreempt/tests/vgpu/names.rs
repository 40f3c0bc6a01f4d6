//! Several programs on one gpu, found by its name; several gpus; what they say about themselves.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::executable;
use super::life::until;

/// A name that no other test of this or another run has.
pub(super) fn name(test: &str) -> String {
    format!("test-{}-{test}", std::process::id())
}

fn vgpu(words: &[&str]) -> Command {
    let mut command = Command::new(executable());
    command.arg("vgpu").args(words);
    command
}

fn output(words: &[&str]) -> Output {
    vgpu(words).output().expect("can be started")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A document that a command printed.
fn json(words: &[&str]) -> Value {
    let output = output(words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A program on the gpu that has opened it and waits for the end of its input.
pub(super) struct Client(Child);

impl Client {
    fn start(flags: &[&str]) -> Client {
        Client::of(vgpu(&["run"]).args(flags))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Starts it with a command that becomes the program whose words follow.
    pub(super) fn of(run: &mut Command) -> Client {
        let mut child = run
            .args(["--", "sh", "-c", "exec 3<>/dev/kfd; echo ready; read line; exit 0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("can be started");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Client(child)
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("ends").success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_listed(name: &str) -> bool {
    let list = json(&["list", "--json"]);
    list["gpus"].as_array().expect("a list").iter().any(|gpu| gpu["name"] == name)
}

#[test]
fn programs_of_one_name_share_a_gpu_that_ends_with_the_last_of_them() {
    let name = name("share");
    let first = Client::start(&["--name", &name, "--profile", "mi308x"]);
    let second = Client::start(&["--name", &name]);
    let status = json(&["status", "--name", &name, "--json"]);
    assert_eq!(status["profile"], "mi308x");
    assert_eq!(status["name"], name.as_str());
    let mut pids: Vec<u64> =
        status["processes"].as_array().expect("a list").iter().filter_map(|process| process["pid"].as_u64()).collect();
    let mut expected = [first.0.id(), second.0.id()].map(u64::from).to_vec();
    pids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(pids, expected);
    assert_eq!(status["holders"], 2);
    assert!(is_listed(&name));
    first.end();
    until("one process is left", || json(&["status", "--name", &name, "--json"])["holders"] == 1);
    second.end();
    until("the gpu is gone", || !is_listed(&name));
    let output = output(&["status", "--name", &name]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains(&name) && said(&output).contains("gpreempt vgpu list"), "{}", said(&output));
}

#[test]
fn who_joins_a_different_gpu_than_wanted_is_told_both() {
    let name = name("other");
    let first = Client::start(&["--name", &name, "--profile", "mi300x", "--cus", "8"]);
    for (flags, words) in [
        (&["--profile", "mi210"], ["mi300x", "mi210"]),
        (&["--cus", "16"], ["--cus 8", "16"]),
        (&["--gpus", "2"], ["--gpus 1", "2"]),
        (&["--storm", "1:100"], ["fault injection", "--name"]),
    ] {
        let output = output(&[["run", "--name", &name].as_slice(), flags, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        assert!(words.iter().all(|word| said(&output).contains(word)), "{flags:?}: {}", said(&output));
    }
    let same = output(&["run", "--name", &name, "--profile", "mi300x", "--cus", "8", "--", "true"]);
    assert!(same.status.success(), "{}", said(&same));
    first.end();
}

#[test]
fn launchers_that_start_at_once_meet_on_one_gpu() {
    let name = name("race");
    for round in 0..5 {
        let name = format!("{name}-{round}");
        // Each says that it runs, and stays until all have.
        let start = |_| {
            vgpu(&["run", "--name", &name, "--", "sh", "-c", "echo ready; read line"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("can be started")
        };
        let mut children: Vec<Child> = (0..8).map(start).collect();
        for child in &mut children {
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
            assert!(!line.is_empty(), "a launcher failed");
        }
        assert_eq!(json(&["status", "--name", &name, "--json"])["holders"], 8);
        for mut child in children {
            drop(child.stdin.take());
            child.wait().expect("ends");
        }
        until("the gpu is gone", || !is_listed(&name));
    }
}

#[test]
fn a_name_can_be_used_again_and_again_while_its_gpu_comes_and_goes() {
    let name = name("churn");
    let work = || {
        for _ in 0..15 {
            let output = output(&["run", "--name", &name, "--", "true"]);
            assert!(output.status.success(), "{}", said(&output));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("all runs succeed"));
    });
}

#[test]
fn several_gpus_have_nodes_of_their_own() {
    let nodes =
        "dir=/sys/class/kfd/kfd/topology/nodes; for n in $(ls $dir); do cat $dir/$n/gpu_id; done | sort -u | wc -l";
    for (flags, gpus) in [(&["--gpus", "3"][..], "4"), (&["--profile", "mi300x-cpx", "--gpus", "8"], "9")] {
        let output = output(&[["run"].as_slice(), flags, &["--", "sh", "-c", nodes]].concat());
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), gpus, "{flags:?}: {}", said(&output));
    }
    let output = output(&["run", "--gpus", "9", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("gpus: found 9") && said(&output).contains('8'), "{}", said(&output));
}

#[test]
fn a_shell_knows_its_gpu_and_the_status_inside_is_that_of_the_own_one() {
    let name = name("shell");
    let script = "exec 3<>/dev/kfd; echo \"$GPREEMPT_VGPU_PROMPT\"; gpreempt vgpu status --json; kill -0 $$";
    let output =
        vgpu(&["shell", "--name", &name, "--", "-c", script]).env("SHELL", "/bin/sh").output().expect("starts");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    let (prompt, status) = text.split_once('\n').expect("two parts");
    assert_eq!(prompt, format!("(vgpu {name}) "));
    let status: Value = serde_json::from_str(status).expect("JSON");
    assert_eq!(status["name"], name.as_str());
    assert_eq!(status["gpus"][0]["vram_used_bytes"], 0);
}

#[test]
fn mistakes_are_wrong_usage_and_say_what_would_be_right() {
    for (words, expected) in [
        (&["run", "--name", "a b", "--", "true"][..], "A-Z"),
        (&["run", "--storm", "7", "--", "true"], "SEED:MEAN"),
        (&["run", "--hang-at-cycle", "0", "--", "true"], "hang-at-cycle"),
        (&["run", "--kernel", "6.12", "--", "true"], "6.12.115"),
        (&["run", "--sampling-after-stop-ms", "5", "--", "true"], "--kernel dkms"),
        (&["status"], "--name"),
    ] {
        let output = output(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(said(&output).contains(expected), "{words:?}: {}", said(&output));
    }
}
