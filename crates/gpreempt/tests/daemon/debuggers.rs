//! Processes under another debugger are left alone, and shown so.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use gpreempt_proto::{State, Status};
use gpreempt_testkit::daemon::{Rules, TestDaemon, send, suspended, tenants, tracer, until_suspended};
use gpreempt_testkit::{Scene, play, this_test, until};
use kfd::Pid;
use nix::sys::signal::Signal;

/// A debugger that stays attached until it is told to go.
struct Debugger {
    child: Child,
    is_strace: bool,
}

impl Debugger {
    fn attach(command: &mut Command, pid: Pid) -> Debugger {
        let own = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let is_strace = command.get_program() == "strace";
        let debugger = Debugger { child: own.expect("it is installed"), is_strace };
        until("it is attached", || tracer(pid) == Some(debugger.child.id()));
        debugger
    }

    fn strace(pid: Pid) -> Debugger {
        Debugger::attach(Command::new("strace").args(["-f", "-o", "/dev/null", "-p", &pid.to_string()]), pid)
    }

    /// Reads commands from its input, so it stays while that is open.
    fn gdb(pid: Pid) -> Debugger {
        let flags = ["-nx", "-q", "-iex", "set auto-load no", "-iex", "set debuginfod enabled off"];
        Debugger::attach(Command::new("gdb").args(flags).args(["-p", &pid.to_string()]), pid)
    }

    /// It detaches and ends.
    fn leave(mut self) {
        // gdb does what its input says; strace reads none, and goes when it is asked to.
        let mut input = self.child.stdin.take().expect("it has not been sent away");
        let _ = input.write_all(b"detach\nquit\n");
        if self.is_strace {
            send(Pid(self.child.id()), Signal::SIGINT);
        }
        until("it is gone", || self.child.try_wait().expect("is a child").is_some());
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        // Only if the test failed is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_left_alone(status: &Status, pid: Pid, debugger: u32) -> bool {
    let left = |why: &String| why.contains(&format!("debugger {debugger}"));
    tenants(status, pid).all(|tenant| tenant.state != State::Stopped && tenant.unstoppable.as_ref().is_some_and(left))
}

/// A debugger attaches before a tenant could be stopped, and goes; later, when the daemon has a session; and while its
/// process is stopped.
fn come_and_go(scene: &Scene, attach: fn(Pid) -> Debugger) {
    let service = TestDaemon::start(scene, Rules::default());
    let (mut offline, _) = service.walker(2);
    let pid = offline.pid();
    let debugger = attach(pid);
    let (mut online, _) = service.walker(12);
    let number = debugger.child.id();
    service.until("it is shown as the debugger's", |status| is_left_alone(status, pid, number));
    // The higher work has been seen for many scans, and nothing was done.
    let begun = service.stats().daemon.scans;
    service.until("scans pass", |status| {
        assert!(is_left_alone(status, pid, number), "{status:#?}");
        service.stats().daemon.scans >= begun + 20
    });
    assert_eq!(suspended(pid), (0, 1));
    let (worked, shown) = service.command(&["ps", "--json"]);
    assert!(worked.success() && shown.contains(&format!("debugger {number} is attached")), "{shown}");
    debugger.leave();
    service.must_be(pid, State::Stopped);
    // One that comes while it is stopped gets it running.
    let debugger = attach(pid);
    let number = debugger.child.id();
    service.until("it is left alone", |status| is_left_alone(status, pid, number));
    until_suspended(pid, (0, 1));
    debugger.leave();
    service.must_be(pid, State::Stopped);
    online.enough();
    online.must_end_right(0);
    service.must_work(pid);
    offline.enough();
    offline.must_end_right(0);
    service.stop();
}

#[test]
#[ignore = "needs strace"]
fn a_process_under_strace_is_left_alone_until_it_is_gone() {
    play(this_test!(), &[], |scene| {
        come_and_go(scene, Debugger::strace);
    });
}

#[test]
#[ignore = "needs gdb"]
fn a_process_under_gdb_is_left_alone_until_it_is_gone() {
    play(this_test!(), &[], |scene| {
        come_and_go(scene, Debugger::gdb);
    });
}
