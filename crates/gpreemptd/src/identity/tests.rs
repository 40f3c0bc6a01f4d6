use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use proptest::prelude::*;

use super::procfs::{variables, words};
use super::*;

/// A shell that has begun, and waits for its input to end.
fn shell(configure: impl FnOnce(&mut Command)) -> Child {
    let mut command = Command::new("sh");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).args(["-c", "echo ready; read line", "a word", "\x1b[2J"]);
    configure(&mut command);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn end(mut child: Child) {
    writeln!(child.stdin.take().unwrap()).unwrap();
    child.wait().unwrap();
}

#[test]
fn this_process_is_who_it_is() {
    let identity = Identity::read(Pid(std::process::id()), &["PATH".to_owned()]).unwrap();
    assert_eq!((identity.uid, identity.gid), (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw()));
    assert_eq!(identity.executable, std::env::current_exe().unwrap().to_str().unwrap());
    assert_eq!(identity.command, std::env::args().collect::<Vec<_>>());
    assert_eq!(identity.environment.get("PATH").map(String::as_str), std::env::var("PATH").ok().as_deref());
    assert!(identity.cgroup.starts_with('/') && identity.started > 0);
    assert_eq!(identity.pid(), Pid(std::process::id()));
}

#[test]
fn only_variables_that_are_asked_for_are_kept() {
    let child = shell(|command| {
        let long = "x".repeat(10_000);
        command.env_clear().envs([("GPREEMPT_LEVEL", "12"), ("SECRET", "s"), ("ASKED", "a"), ("GPREEMPT_LONG", &long)]);
    });
    let identity = Identity::read(Pid(child.id()), &["ASKED".to_owned(), "ABSENT".to_owned()]).unwrap();
    let names: Vec<&str> = identity.environment.keys().map(String::as_str).collect();
    assert_eq!(names, ["ASKED", "GPREEMPT_LEVEL", "GPREEMPT_LONG"]);
    assert_eq!(identity.environment["GPREEMPT_LEVEL"], "12");
    assert_eq!(identity.environment["GPREEMPT_LONG"].len(), MAX_KEPT);
    assert_eq!(printable(&identity.command.join(" ")), "sh -c echo ready; read line a word \\u{1b}[2J");
    end(child);
}

#[test]
fn a_process_that_ended_is_an_error_that_names_it() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let error = Identity::read(Pid(pid), &[]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains(&format!("/proc/{pid}/stat")), "{error}");
}

/// Only the superuser can start processes of another user.
#[test]
fn a_process_is_known_by_its_own_user_and_group() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: needs the superuser");
        return;
    }
    let child = shell(|command| {
        command.uid(65534).gid(65533);
    });
    let identity = Identity::read(Pid(child.id()), &[]).unwrap();
    assert_eq!((identity.uid, identity.gid), (65534, 65533));
    end(child);
}

#[test]
fn what_would_mislead_a_reader_is_escaped() {
    assert_eq!(printable("a\u{1b}[31m\nb\u{202e}c\u{7f}ü"), "a\\u{1b}[31m\\nb\\u{202e}c\\u{7f}ü");
}

proptest! {
    #[test]
    fn whatever_a_process_says_is_bounded_and_printable(bytes in prop::collection::vec(any::<u8>(), 0..10_000)) {
        let said = words(&bytes);
        // A byte that is no text becomes a mark of three.
        prop_assert!(said.iter().map(String::len).sum::<usize>() <= 3 * MAX_KEPT);
        prop_assert!(!printable(&said.join(" ")).chars().any(char::is_control));
        let kept = variables(&bytes, |_| true);
        prop_assert!(kept.len() <= MAX_VARIABLES && kept.values().all(|value| value.len() <= MAX_KEPT));
    }
}

#[test]
fn what_the_kernel_vouches_for_is_followed_and_what_a_process_says_is_kept() {
    let pid = Pid(std::process::id());
    let mut own = Identity::read(pid, &[]).unwrap();
    own.environment.insert("GPREEMPT_LEVEL".to_owned(), "7".to_owned());
    let before = own.clone();
    let status = status(pid).unwrap();
    assert!(!own.update(&status));
    own.cgroup = "/somewhere/else".to_owned();
    assert!(own.update(&status));
    assert_eq!(own, before);
    assert!(own.update(&ProcStatus { uid: before.uid + 1, ..status }));
    assert_eq!((own.uid, &own.environment), (before.uid + 1, &before.environment));
}
