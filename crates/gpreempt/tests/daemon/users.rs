//! Several users and several daemons: what each may, and what is said of what it may not.

use std::process::{Command, Output};

use nix::unistd::geteuid;

use super::executable;
use super::program::Program;
use super::scene::{self, Stage, play};
use super::stage::{Rules, Service};

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
