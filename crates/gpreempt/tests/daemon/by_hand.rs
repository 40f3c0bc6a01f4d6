//! What operators do to jobs and to the configuration.

use std::fs;

use gpreempt_proto::{Event, EventKind, Reason, RefusalKind, Request, State, Target};
use gpreempt_testkit::daemon::{Rules, TestDaemon, stops, tenants, until_suspended, until_untraced};
use gpreempt_testkit::scene::{process, status};
use gpreempt_testkit::{play, this_test, until};
use nix::sys::signal::Signal;

#[test]
fn a_held_job_stops_although_no_other_job_wants_and_goes_on_when_it_is_released() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules { daemon: "hold_max_s = 1000", ..Rules::default() });
        let (mut actor, _) = service.walker(2);
        let pid = actor.pid();
        let target = || Target::Pid(pid.0);
        for seconds in [0, 1001] {
            assert_eq!(service.refusal(Request::Hold { target: target(), seconds }).kind, RefusalKind::Range);
        }
        let missing = Request::Hold { target: Target::Job("missing".into()), seconds: 1 };
        assert_eq!(service.refusal(missing).kind, RefusalKind::Unknown);

        service.ask(Request::Hold { target: target(), seconds: 900 });
        service.must_show(pid, "held", |tenant| tenant.why.as_ref().is_some_and(|why| why.reason == Reason::Held));
        let jobs = service.status().jobs;
        assert!(jobs[0].held_s.is_some_and(|left| left > 0.0 && left <= 900.0), "{jobs:?}");
        service.ask(Request::Release { target: target() });
        service.must_work(pid);
        until_suspended(pid, (0, 1));

        // A lease that runs out. It may be over before a status shows it, so the log tells.
        let before = stops(&service.events_of(pid));
        service.ask(Request::Hold { target: target(), seconds: 3 });
        service.until("it is stopped again", |_| stops(&service.events_of(pid)) > before);
        let released = |event: &Event| matches!(event.kind, EventKind::Released);
        service.until("it is released", |_| service.events(None).iter().filter(|event| released(event)).count() == 2);
        service.until("it is not held", |status| status.jobs.iter().all(|job| job.held_s.is_none()));
        service.must_work(pid);
        until_suspended(pid, (0, 1));
        actor.enough();
        actor.must_end_right(0);
    });
}

#[test]
fn an_unmanaged_process_is_detached_and_never_stopped_until_it_is_managed_again() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let (mut other, _) = service.walker(3);
        let (mut online, _) = service.walker(12);
        let pid = offline.pid();
        service.must_be(pid, State::Stopped);
        service.must_be(other.pid(), State::Stopped);
        let (status, said) = service.command(&["unmanage", &pid.to_string()]);
        assert!(status.success() && said.contains("is unmanaged"), "{said}");
        service.must_work(pid);
        until_suspended(pid, (0, 1));
        until_untraced(pid);
        service.must_show(pid, "let go", |tenant| !tenant.attached && tenant.job.is_none());
        let scans = service.stats().daemon.scans;
        service.until("many scans", |status| {
            let mut found = tenants(status, pid);
            assert!(found.all(|tenant| tenant.state != State::Stopped && !tenant.attached && tenant.job.is_none()));
            service.stats().daemon.scans > scans + 30
        });
        until("the driver knows no debugger", || {
            process(&self::status(), pid.0).expect("uses the gpu")["debugger"].is_null()
        });
        assert_eq!(service.tenant(pid).unstoppable.as_deref(), Some("unmanaged by the operator"));
        service.must_be(other.pid(), State::Stopped);
        let (status, said) = service.command(&["manage", &pid.to_string()]);
        assert!(status.success() && said.contains("managed again"), "{said}");
        service.must_be(pid, State::Stopped);
        online.enough();
        online.must_end_right(0);
        // The lower one runs when the other has ended.
        for actor in [&mut other, &mut offline] {
            actor.enough();
            actor.must_end_right(0);
        }
    });
}

#[test]
fn new_rules_hold_for_what_is_stopped_and_faulty_ones_are_refused() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let (mut online, _) = service.walker(12);
        let pid = offline.pid();
        service.must_be(pid, State::Stopped);
        let good = fs::read_to_string(service.config()).expect("written before");
        let reloads = |said: &str| {
            let told = |event: &&Event| {
                let EventKind::Reloaded { message } = &event.kind else { return false };
                message.contains(said)
            };
            service.events(None).iter().filter(told).count()
        };

        // Faulty: the place is named and nothing changes, whichever way it comes.
        fs::write(service.config(), good.replace("level = 0\n", "level = 77\n")).expect("can be written");
        let line = good.lines().position(|line| line == "level = 0").expect("a rule") + 1;
        let name = service.config().file_name().expect("a file").to_string_lossy().into_owned();
        let place = format!("{name}:{line}:9");
        let (status, said) = service.command(&["reload"]);
        assert!(!status.success() && said.contains(&place), "{said}");
        service.send(Signal::SIGHUP);
        service.until("the signal was obeyed", |_| reloads(&place) == 2);
        service.must_show(pid, "stopped as before", |tenant| (tenant.state, tenant.level) == (State::Stopped, Some(2)));

        // All jobs have the same level: none is in the way of another.
        fs::write(service.config(), good.replace("max_level = 15", "max_level = 0")).expect("can be written");
        let (status, said) = service.command(&["reload"]);
        assert!(status.success(), "{said}");
        service.must_work(pid);
        service.must_show(online.pid(), "at level 0", |tenant| tenant.level == Some(0));

        fs::write(service.config(), good.replace("name = \"scene\"", "name = \"again\"")).expect("can be written");
        service.send(Signal::SIGHUP);
        service.must_be(pid, State::Stopped);
        service.until("the new rule is named", |status| status.jobs.iter().all(|job| job.rule == "again"));

        // Rules that no process matches.
        fs::write(service.config(), "mode = \"enforce\"\n").expect("can be written");
        service.send(Signal::SIGHUP);
        service.must_work(pid);
        service.until("no process has a job", |status| status.jobs.is_empty());
        service.must_show(pid, "without a level", |tenant| tenant.level.is_none());
        for actor in [&mut offline, &mut online] {
            actor.enough();
            actor.must_end_right(0);
        }
        service.stop();
    });
}

#[test]
fn a_daemon_that_changes_to_observing_lets_everything_go() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let (mut online, _) = service.walker(12);
        let pid = offline.pid();
        service.must_be(pid, State::Stopped);
        let good = fs::read_to_string(service.config()).expect("written before");
        fs::write(service.config(), good.replace("enforce", "observe")).expect("can be written");
        let (status, said) = service.command(&["reload"]);
        assert!(status.success(), "{said}");
        service.must_work(pid);
        service.until("the actuator is gone", |status| status.actuator_pid.is_none());
        until_suspended(pid, (0, 1));
        until_untraced(pid);
        // And back.
        fs::write(service.config(), good).expect("can be written");
        service.send(Signal::SIGHUP);
        service.must_be(pid, State::Stopped);
        for actor in [&mut online, &mut offline] {
            actor.enough();
            actor.must_end_right(0);
        }
    });
}
