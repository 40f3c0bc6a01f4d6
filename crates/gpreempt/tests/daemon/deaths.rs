//! Processes that are killed or stopped while a tenant is stopped: everything runs again, and nothing is lost by it.

use std::collections::BTreeMap;

use gpreempt_proto::{EventKind, Request, State, Target};
use gpreempt_testkit::daemon::{Rules, TestDaemon, cycles, send, suspended, tracer, until_suspended};
use gpreempt_testkit::{Actor, Scene, play, this_test, until};
use kfd::Pid;
use linux_host::process::{self, ProcStat};
use nix::sys::signal::{Signal, kill};

fn lives(pid: Pid) -> bool {
    process::is_alive(pid.0)
}

/// Whether a signal or a tracer has halted a process.
fn is_halted(pid: Pid) -> bool {
    ProcStat::read(pid.0).is_some_and(|stat| stat.is_halted())
}

/// The actuator, and its guardian.
fn helpers(service: &TestDaemon<'_>) -> (Pid, Pid) {
    let actuator = service.until("there is an actuator", |status| status.actuator_pid.is_some()).actuator_pid;
    let actuator = Pid(actuator.expect("it is there"));
    let guardian = ProcStat::read(actuator.0).expect("it runs").parent;
    (actuator, Pid(guardian))
}

/// A process that is stopped, and the one on whose account.
fn stopped(service: &TestDaemon<'_>) -> (Actor, Actor) {
    let (offline, _) = service.walker(2);
    let (online, _) = service.walker(12);
    service.must_be(offline.pid(), State::Stopped);
    (offline, online)
}

fn must_end_right(actors: [Actor; 2]) {
    for mut actor in actors {
        actor.enough();
        actor.must_end_right(0);
        actor.leave();
    }
}

fn must_be_free(offline: &Actor) {
    until("nothing is stopped or traced", || suspended(offline.pid()) == (0, 1) && tracer(offline.pid()).is_none());
}

#[test]
fn a_killed_daemon_leaves_no_tenant_stopped_and_no_process() {
    play(this_test!(), &[], |scene| {
        let mut service = TestDaemon::start(scene, Rules::default());
        let (offline, online) = stopped(&service);
        let (actuator, guardian) = helpers(&service);
        service.kill();
        must_be_free(&offline);
        until("its processes are gone", || !lives(actuator) && !lives(guardian));
        must_end_right([offline, online]);
    });
}

#[test]
fn a_killed_daemon_whose_guardian_is_stopped_leaves_no_tenant_stopped() {
    play(this_test!(), &[], |scene| {
        let mut service = TestDaemon::start(scene, Rules::default());
        let (offline, online) = stopped(&service);
        let (actuator, guardian) = helpers(&service);
        send(guardian, Signal::SIGSTOP);
        until("it is stopped", || is_halted(guardian));
        service.kill();
        must_be_free(&offline);
        until("the actuator is gone", || !lives(actuator));
        // The kernel may have continued it already, because its process group lost the parent that it had outside.
        let _ = kill(nix::unistd::Pid::from_raw(guardian.0.cast_signed()), Signal::SIGCONT);
        until("the guardian is gone", || !lives(guardian));
        must_end_right([offline, online]);
    });
}

#[test]
fn a_stopped_daemon_loses_its_actuator_and_manages_again_when_it_goes_on() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (offline, online) = stopped(&service);
        let (actuator, _) = helpers(&service);
        service.send(Signal::SIGSTOP);
        must_be_free(&offline);
        until("the actuator is gone", || !lives(actuator));
        service.send(Signal::SIGCONT);
        service
            .until("there is another actuator", |status| status.actuator_pid.is_some_and(|found| found != actuator.0));
        service.must_be(offline.pid(), State::Stopped);
        service.until("it is counted", |_| service.stats().daemon.actuator_kills >= 1);
        must_end_right([online, offline]);
        service.stop();
    });
}

#[test]
fn a_guardian_or_actuator_that_is_killed_or_stopped_is_replaced() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (offline, online) = stopped(&service);
        for (of_guardian, signal) in [(true, Signal::SIGKILL), (false, Signal::SIGKILL), (false, Signal::SIGSTOP)] {
            let (actuator, guardian) = helpers(&service);
            send(if of_guardian { guardian } else { actuator }, signal);
            until("the actuator is gone", || !lives(actuator));
            service.until("there is another actuator", |status| {
                status.actuator_pid.is_some_and(|found| found != actuator.0)
            });
            service.must_be(offline.pid(), State::Stopped);
            until_suspended(offline.pid(), (1, 1));
            let lost = |kind: &EventKind| matches!(kind, EventKind::Actuator { message } if message.contains("lost"));
            assert!(service.events(None).iter().any(|event| lost(&event.kind)));
            until("the guardian is gone", || !lives(guardian));
        }
        must_end_right([online, offline]);
        service.stop();
    });
}

#[test]
fn everybody_goes_on_when_the_one_on_whose_account_they_are_stopped_is_killed() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, online) = stopped(&service);
        let gone = online.pid();
        online.kill();
        service.must_be_gone(gone);
        service.must_work(offline.pid());
        offline.enough();
        offline.must_end_right(0);
        offline.leave();
        service.stop();
    });
}

#[test]
fn levels_and_holds_set_by_hand_survive_every_end_of_the_daemon() {
    play(this_test!(), &[], |scene| {
        let mut service = TestDaemon::start(scene, Rules::default());
        let (mut held, _) = service.walker(12);
        let (mut raised, _) = service.walker(1);
        let target = |actor: &Actor| Target::Pid(actor.pid().0);
        service.ask(Request::Set { target: target(&raised), level: 9 });
        service.ask(Request::Hold { target: target(&held), seconds: 600 });
        for signal in [Signal::SIGKILL, Signal::SIGTERM] {
            service.must_be(held.pid(), State::Stopped);
            service.send(signal);
            until_suspended(held.pid(), (0, 1));
            service.kill();
            service = service.start_again();
            service.must_be(held.pid(), State::Stopped);
            service.must_work(raised.pid());
            service.until("all that was set is known", |status| {
                let job = |actor: &Actor| status.jobs.iter().find(|job| job.pids == [actor.pid().0]);
                job(&raised).is_some_and(|job| (job.level, job.level_set) == (9, true))
                    && job(&held).and_then(|job| job.held_s).is_some_and(|left| left > 0.0 && left < 600.0)
            });
        }
        service.ask(Request::Release { target: target(&held) });
        service.must_work(held.pid());
        for actor in [&mut held, &mut raised] {
            actor.enough();
            actor.must_end_right(0);
        }
        service.stop();
    });
}

#[test]
fn a_restart_costs_five_cycles_beside_the_end_of_the_old_stop_and_the_new_one() {
    play(this_test!(), &[], |scene| {
        let mut service = TestDaemon::start(scene, Rules::default());
        let (offline, online) = stopped(&service);
        until_suspended(offline.pid(), (1, 1));
        let before = cycles();
        service.kill();
        must_be_free(&offline);
        let between = cycles();
        service = service.start_again();
        service.must_be(offline.pid(), State::Stopped);
        until_suspended(offline.pid(), (1, 1));
        let after = cycles();
        let all = || format!("{before:?} before, {between:?} when it was dead, {after:?} after");
        let more = |cause: &str| after.get(cause).unwrap_or(&0) - before.get(cause).unwrap_or(&0);
        assert_eq!((more("resume"), more("suspend")), (1, 1), "{}", all());
        let count = |cycles: &BTreeMap<String, u64>| cycles.values().sum::<u64>();
        assert!(count(&after) - count(&before) <= 5 + 2, "{}", all());
        must_end_right([online, offline]);
        service.stop();
    });
}

/// Ctrl-Z and `fg`, while a tenant is stopped and while it runs.
fn live_through_job_control(scene: &Scene) {
    let service = TestDaemon::start(scene, Rules::default());
    let (mut offline, mut online) = stopped(&service);
    for signal in [Signal::SIGTSTP, Signal::SIGSTOP] {
        send(offline.pid(), signal);
        until("it is halted", || is_halted(offline.pid()));
        service.must_be(offline.pid(), State::Stopped);
        send(offline.pid(), Signal::SIGCONT);
        until("it goes on", || !is_halted(offline.pid()));
        service.must_be(offline.pid(), State::Stopped);
    }
    // The gpu works for a process that is halted.
    send(online.pid(), Signal::SIGSTOP);
    until("it is halted", || is_halted(online.pid()));
    service.must_be(offline.pid(), State::Stopped);
    send(online.pid(), Signal::SIGCONT);
    online.enough();
    online.must_end_right(0);
    service.must_work(offline.pid());
    // A halted process can be stopped and resumed, and stays halted.
    send(offline.pid(), Signal::SIGSTOP);
    until("it is halted", || is_halted(offline.pid()));
    let (mut again, _) = service.walker(12);
    service.must_be(offline.pid(), State::Stopped);
    again.enough();
    again.must_end_right(0);
    service.must_work(offline.pid());
    until_suspended(offline.pid(), (0, 1));
    until("it is still halted", || is_halted(offline.pid()));
    send(offline.pid(), Signal::SIGCONT);
    offline.enough();
    offline.must_end_right(0);
    service.stop();
}

#[test]
fn job_control_of_tenants_works_where_the_daemon_need_not_trace() {
    play(this_test!(), &[], live_through_job_control);
}

#[test]
fn job_control_of_tenants_works_where_the_daemon_has_to_trace() {
    play(this_test!(), &["--kernel", "dkms"], live_through_job_control);
}
