//! Several users and several daemons: what each may, and what is said of what it may not.

use std::process::{Command, Output};

use gpreempt_proto::{EventKind, State, TenantStatus};
use kfd::Pid;
use nix::unistd::geteuid;

use super::executable;
use super::program::Program;
use super::scene::{self, Stage, play};
use super::stage::{Rules, Service, tracer};

/// Somebody without any rights; every system has it.
const NOBODY: &str = "65534";
const OFFLINE: &[&str] = &["load", "offline", "--groups", "32", "--steps", "2000"];

fn as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]);
    command
}

/// Whether programs of these tests can be started as nobody: only root can, and only where nobody may read them.
fn is_possible() -> bool {
    let version = as_nobody().arg(executable()).arg("--version").output();
    geteuid().is_root() && version.is_ok_and(|output| output.status.success())
}

/// Whether this is the test itself, not one of the processes that it starts.
fn is_outside() -> bool {
    std::env::var_os(scene::PART).is_none()
}

fn must_pass(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// This program again, as the director of a test.
fn direct(command: &mut Command, test: &str) {
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(scene::PART, "director");
}

fn own() -> std::path::PathBuf {
    std::env::current_exe().expect("this test is a program")
}

/// Plays a test in which everybody is nobody; as the present user where that cannot be.
fn play_as_nobody(test: &'static str, director: fn(&Stage)) {
    if !is_outside() || !is_possible() {
        return play(test, &[], director);
    }
    let mut command = as_nobody();
    command.arg(executable()).args(["vgpu", "run", "--"]).arg(own());
    direct(&mut command, test);
    must_pass(&command.output().expect("can be started"));
}

/// Plays a test as root on a gpu of nobody, which both can use.
fn play_on_gpu_of_nobody(test: &'static str, director: fn(&Stage)) {
    if !is_outside() {
        return play(test, &[], director);
    }
    if !is_possible() {
        eprintln!("left out: needs root, and a directory that others may read");
        return;
    }
    let hold = std::process::id().to_string();
    let output = as_nobody().arg(executable()).args(["vgpu", "env", "--hold", &hold]).output().expect("can be started");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut command = Command::new(own());
    for line in text.lines() {
        let (name, value) = line.strip_prefix("export ").and_then(|line| line.split_once('=')).expect("an export");
        command.env(name, value.trim_matches('\''));
    }
    direct(&mut command, test);
    must_pass(&command.output().expect("can be started"));
}

#[test]
fn without_any_rights_programs_started_with_run_are_protected_and_stopped() {
    play_as_nobody("users::without_any_rights_programs_started_with_run_are_protected_and_stopped", |stage| {
        let service = Service::start(stage, Rules::default());
        let launch = |level: &str, words: &[&str]| {
            let mut command = Command::new(executable());
            command.args(["run", "--level", level, "--"]).arg(executable()).args(words);
            Program::start(command.env("GPREEMPT_SOCKET", service.socket()))
        };
        let offline = launch("2", OFFLINE);
        offline.until("kernel");
        let online =
            ["load", "online", "--requests", "30", "--kernels", "2", "--steps", "100", "--rate", "20", "--wait"];
        let mut online = launch("12", &online);
        online.until("ready");
        service.until("both are known", |status| status.tenants.len() == 2 && status.actuator_pid.is_some());
        online.begin();
        online.must_end_right();
        assert!(service.count(|gpu| gpu.preempts) >= 1);
        service.must_work(offline.pid());
        offline.must_end_right();
        service.stop();
    });
}

#[test]
fn a_daemon_that_may_not_trace_a_process_says_so_and_manages_the_others() {
    let test = "users::a_daemon_that_may_not_trace_a_process_says_so_and_manages_the_others";
    play_on_gpu_of_nobody(test, |stage| {
        // Root without this right may do to the processes of others what any user may: nothing.
        let restrained = || {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", "--"]).arg(executable());
            command
        };
        let service = Service::start_with(stage, Rules::default(), restrained());
        let offline = |mut command: Command| {
            let program = Program::start(command.args(OFFLINE).env("GPREEMPT_LEVEL", "2"));
            program.until("kernel");
            program
        };
        let mut foreign = as_nobody();
        foreign.arg(executable());
        let (foreign, own) = (offline(foreign), offline(restrained()));
        let (mut online, _) = service.walker(12);
        service.must_be(own.pid(), State::Stopped);
        let status = service.until("it is refused", |status| {
            let refused = |tenant: &TenantStatus| tenant.pid == foreign.pid().0 && tenant.unstoppable.is_some();
            status.tenants.iter().any(refused)
        });
        let tenant = status.tenants.iter().find(|tenant| tenant.pid == foreign.pid().0).expect("it is known");
        let why = tenant.unstoppable.as_deref().expect("a reason");
        assert!(why.contains("belongs to another user"), "{why}");
        assert!(!tenant.attached && tenant.state != State::Stopped);
        assert_eq!(tracer(foreign.pid()), None);
        // What was printed before is passed over: it goes on while the other is stopped.
        foreign.printed();
        foreign.until("kernel");
        online.enough();
        online.must_end_right(0);
        own.must_end_right();
        foreign.must_end_right();
        service.stop();
    });
}

#[test]
fn a_second_daemon_on_the_same_gpus_stops_nothing_until_the_first_is_gone() {
    play("users::a_second_daemon_on_the_same_gpus_stops_nothing_until_the_first_is_gone", &[], |stage| {
        let first = Service::start(stage, Rules::default());
        let offline = first.load(2, &OFFLINE[1..]);
        offline.until("kernel");
        let (mut online, _) = first.walker(12);
        first.must_be(offline.pid(), State::Stopped);
        let actuator = first.status().actuator_pid.expect("there is one");
        let second = Service::start(stage, Rules::default());
        let status = second.until("it says why it does nothing", |status| {
            let said = |why: &String| why.contains("another daemon");
            status.tenants.iter().any(|tenant| tenant.unstoppable.as_ref().is_some_and(said))
        });
        assert_eq!(status.actuator_pid, None);
        let names = |kind: &EventKind| matches!(kind, EventKind::Actuator { message } if message.contains(&actuator.to_string()));
        assert!(second.events(None).iter().any(|event| names(&event.kind)));
        let scans = second.stats().daemon.scans;
        second.until("scans pass", |_| second.stats().daemon.scans >= scans + 20);
        assert_eq!(second.count(|gpu| gpu.preempts), 0);
        assert_eq!(first.tenant(offline.pid()).state, State::Stopped);
        first.stop();
        second.must_be(offline.pid(), State::Stopped);
        assert!(second.status().actuator_pid.is_some_and(|found| Pid(found) != Pid(actuator)));
        online.enough();
        online.must_end_right(0);
        offline.must_end_right();
        second.stop();
    });
}
