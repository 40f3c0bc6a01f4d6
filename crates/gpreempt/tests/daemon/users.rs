//! Several users and several daemons: what each may, and what is said of what it may not.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use gpreempt_proto::{State, TenantStatus};
use gpreempt_testkit::daemon::{Rules, TestDaemon};
use gpreempt_testkit::program::Program;
use gpreempt_testkit::scene::{is_outside, must_pass, own};
use gpreempt_testkit::{Scene, ThisTest, play, this_test};
use nix::unistd::geteuid;

use super::executable;

/// The user nobody, which has no rights and exists on every system.
const NOBODY: &str = "65534";
const OFFLINE: &[&str] = &["load", "offline", "--groups", "32", "--steps", "2000"];

fn as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]);
    command
}

/// Whether programs of these tests can be started as the user nobody: only root can, and only where that user may read
/// them.
fn is_possible() -> bool {
    let version = as_nobody().arg(executable()).arg("--version").output();
    geteuid().is_root() && version.is_ok_and(|output| output.status.success())
}

/// Plays a test in which every process runs as the user nobody; as the present user where that cannot be.
fn play_as_nobody(test: ThisTest, director: fn(&Scene)) {
    if !is_outside() || !is_possible() {
        return play(test, &[], director);
    }
    let mut command = as_nobody();
    command.arg(executable()).args(["vgpu", "run", "--"]).arg(own());
    test.direct(&mut command);
    let output = command.output().expect("can be started");
    must_pass(Some(output.status), &String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
}

#[test]
fn without_any_rights_programs_started_with_run_are_protected_and_stopped() {
    play_as_nobody(this_test!(), |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let launch = |level: &str, words: &[&str]| {
            let mut command = Command::new(executable());
            command.args(["run", "--level", level, "--"]).arg(executable()).args(words);
            Program::start(command.env("GPREEMPT_SOCKET", service.socket()))
        };
        let offline = launch("2", OFFLINE);
        offline.until("kernel");
        let online =
            ["load", "online", "--requests", "30", "--kernels", "2", "--steps", "100", "--rate", "20", "--wait"];
        let online = launch("12", &online);
        service.must_serve(online, &offline);
        offline.must_end_right();
        service.stop();
    });
}

/// Plays a test with root and the user nobody. Says so where there is only one user.
fn play_with_both(test: ThisTest, director: fn(&Scene)) {
    if is_outside() && !is_possible() {
        return eprintln!("skipped: needs root, setpriv, and a program that the user nobody may read");
    }
    play(test, &[], director);
}

#[test]
fn a_process_that_the_daemon_may_not_trace_is_shown_so_and_nothing_is_stopped() {
    if is_outside() && geteuid().is_root() && !is_possible() {
        return eprintln!("skipped: root may trace every process, and needs setpriv to become another user");
    }
    play_as_nobody(this_test!(), |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        // As if it were another user's: the kernel refuses a tracer without privileges.
        offline.ask("hide");
        let (mut online, _) = service.walker(12);
        service.must_show(offline.pid(), "refused", |tenant| {
            tenant.unstoppable.as_ref().is_some_and(|why| why.contains("not permitted"))
        });
        let begun = service.stats().daemon.scans;
        service.until("many scans", |status| {
            // The other one is: without the driver's files only a session tells where its rings are.
            let attached = |tenant: &TenantStatus| tenant.attached && tenant.pid == offline.pid().0;
            let free = |tenant: &TenantStatus| tenant.state != State::Stopped && !attached(tenant);
            assert!(status.tenants.iter().all(free), "{status:#?}");
            service.stats().daemon.scans >= begun + 40
        });
        assert_eq!(service.count(|gpu| gpu.preempts), 0);
        let (status, said) = service.command(&["ps"]);
        assert!(status.success() && said.contains("not permitted"), "{said}");
        for actor in [&mut online, &mut offline] {
            actor.enough();
            actor.must_end_right(0);
        }
        service.stop();
    });
}

#[test]
fn a_notification_of_work_of_another_user_is_ignored() {
    play_with_both(this_test!(), |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (actor, _) = service.idler(2);
        let socket = service.socket();
        let place = socket.parent().expect("a directory");
        fs::set_permissions(place, Permissions::from_mode(0o755)).expect("it is ours");
        let pid = actor.pid().to_string();
        let theirs =
            as_nobody().arg(executable()).args(["notify", "--pid", &pid]).env("GPREEMPT_SOCKET", &socket).output();
        let theirs = theirs.expect("can be started");
        assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
        // Ours comes after it.
        let (status, said) = service.command(&["notify", "--pid", &pid]);
        assert!(status.success(), "{said}");
        service.until("it is counted", |_| service.stats().daemon.notifications >= 1);
        assert_eq!(service.stats().daemon.notifications, 1);
        actor.leave();
    });
}
