//! Several users on one gpu.

use std::process::{Command, Output};

use serde_json::Value;

use super::executable;
use super::life::until;
use super::names::{Client, name};

/// The user nobody, which has no rights and exists on every system.
const NOBODY: &[&str] = &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];

/// `gpreempt WORDS` as root or as the user nobody.
fn gpreempt(user: &[&str], words: &[&str]) -> Command {
    let executable = executable();
    let line = [user, &[executable.to_str().expect("a path of text")], words].concat();
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).env("LC_ALL", "C");
    command
}

fn output(user: &[&str], words: &[&str]) -> (Output, String) {
    let output = gpreempt(user, words).output().expect("can be started");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text)
}

/// Whether there are two users: only root can become another, and only where that user may read the program.
fn is_possible() -> bool {
    let starts = || gpreempt(NOBODY, &["--version"]).output().is_ok_and(|output| output.status.success());
    let possible = nix::unistd::geteuid().is_root() && starts();
    if !possible {
        eprintln!("skipped: needs root, setpriv, and a program that the user nobody may read");
    }
    possible
}

/// A program of a user on the gpu that these flags name.
fn client(user: &[&str], flags: &[&str]) -> Client {
    Client::of(gpreempt(user, &["vgpu", "run"]).args(flags))
}

#[test]
fn users_meet_on_a_gpu_that_root_shares() {
    if !is_possible() {
        return;
    }
    let name = name("shared");
    let shared = ["--shared", "--name", &name];
    let absent = output(NOBODY, &[["vgpu", "run"].as_slice(), &shared[..], &["--", "true"]].concat());
    assert!(absent.0.status.code() == Some(2) && absent.1.contains("root shares no virtual gpu"), "{}", absent.1);
    let root = client(&[], &[&shared[..], &["--profile", "mi308x"]].concat());
    let other = client(NOBODY, &shared);
    let selftest = ["--", "gpreempt", "selftest", "--kernel", "vadd", "--json"];
    let computed = output(NOBODY, &[["vgpu", "run"].as_slice(), &shared[..], &selftest].concat());
    assert!(computed.0.status.success() && computed.1.contains("\"failed\": 0"), "{}", computed.1);
    for user in [NOBODY, &[]] {
        let (output, text) = output(user, &["vgpu", "status", "--shared", "--name", &name, "--json"]);
        assert!(output.status.success(), "{text}");
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let processes = status["processes"].as_array().expect("a list").iter();
        let mut pids: Vec<u64> = processes.filter_map(|process| process["pid"].as_u64()).collect();
        pids.sort_unstable();
        let mut expected = [&root, &other].map(|client| u64::from(client.pid()));
        expected.sort_unstable();
        assert_eq!((pids, &status["profile"]), (expected.to_vec(), &Value::from("mi308x")));
    }
    // The gpu knows the state of root's process and does not show it to others.
    let script = format!("cat /sys/kernel/debug/kfd/mqds; cat /proc/{}/syscall; gpreempt vgpu status", root.pid());
    let (output, text) =
        output(NOBODY, &[["vgpu", "run"].as_slice(), &shared[..], &["--", "sh", "-c", &script]].concat());
    assert!(output.status.success() && text.matches("Permission denied").count() == 2, "{text}");
}

#[test]
fn a_gpu_that_root_does_not_share_is_roots_alone() {
    if !is_possible() {
        return;
    }
    let name = name("private");
    let _root = client(&[], &["--name", &name]);
    for words in [
        &["vgpu", "run", "--shared", "--name", &name, "--", "true"][..],
        &["vgpu", "status", "--shared", "--name", &name],
    ] {
        let (output, text) = output(NOBODY, words);
        assert!(!output.status.success() && text.contains("does not share it"), "{text}");
    }
    let (output, text) = output(&[], &["vgpu", "run", "--shared", "--name", &name, "--", "true"]);
    assert!(!output.status.success() && text.contains("is not shared with other users"), "{text}");
    // The same name is another gpu for another user.
    let other = client(NOBODY, &["--name", &name, "--profile", "mi308x"]);
    let status = gpreempt(NOBODY, &["vgpu", "status", "--name", &name]).output().expect("can be started");
    assert!(String::from_utf8_lossy(&status.stdout).contains("mi308x"));
    drop(other);
    until("it is gone", || !gpreempt(NOBODY, &["vgpu", "status", "--name", &name]).output().unwrap().status.success());
}
