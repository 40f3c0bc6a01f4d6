//! Policies other than strict levels, and what bounds those.

use gpreempt_proto::{EventKind, PolicyKind, Reason, State};
use gpreempt_testkit::daemon::{Rules, TestDaemon, stops};
use gpreempt_testkit::{Actor, play, this_test};

/// Both of two are stopped so often.
fn take_turns(service: &TestDaemon<'_>, actors: [&Actor; 2], turns: u64) {
    service.until("both had their turns", |status| {
        actors
            .iter()
            .all(|actor| status.tenants.iter().any(|tenant| tenant.pid == actor.pid().0 && tenant.preempted >= turns))
    });
}

fn must_end_right(actors: [&mut Actor; 2]) {
    for actor in actors {
        actor.enough();
        actor.must_end_right(0);
    }
}

/// Rules whose settings depend on the level asked for.
fn by_level(gpu: &'static str, before: &'static str) -> Rules {
    Rules { gpu, before, ..Rules::default() }
}

#[test]
fn equals_take_turns_where_the_gpu_has_slices() {
    play(this_test!(), &[], |scene| {
        let gpu = "small = 0.0\nweigh = false\nslice_ms = 20";
        let service = TestDaemon::start(scene, Rules { gpu, ..Rules::default() });
        let (mut first, _) = service.walker(4);
        let (mut second, _) = service.walker(4);
        take_turns(&service, [&first, &second], 5);
        for actor in [&first, &second] {
            let events = service.events_of(actor.pid());
            let slice = |kind: &&EventKind| matches!(kind, EventKind::Preempted { reason: Reason::SliceOver, .. });
            assert!(events.iter().filter(slice).count() >= 5, "{events:?}");
        }
        must_end_right([&mut first, &mut second]);
    });
}

#[test]
fn shares_follow_weights_where_the_gpu_is_fair() {
    play(this_test!(), &[], |scene| {
        let heavy = "[[rule]]\nname = \"heavy\"\nuser = \"*\"\nenvironment = { GPREEMPT_LEVEL = \"3\" }\n\
                     level = 3\nweight = 400\nmax_stop_ms = 600000\n";
        let gpu = "small = 0.0\nweigh = false\npolicy = \"fair\"\nslice_ms = 100";
        let service = TestDaemon::start(scene, by_level(gpu, heavy));
        let (mut light, _) = service.walker(2);
        let (mut heavy, _) = service.walker(3);
        take_turns(&service, [&light, &heavy], 6);
        let status = service.status();
        assert_eq!(status.gpus[0].policy, PolicyKind::Fair);
        let stopped = |actor: &Actor| {
            let tenant = status.tenants.iter().find(|tenant| tenant.pid == actor.pid().0).expect("listed");
            tenant.stopped_s
        };
        // One is stopped while the other runs: four times as long, were the turns exact. They are much longer than a
        // cycle.
        assert!(stopped(&light) > 1.5 * stopped(&heavy), "{} and {} s", stopped(&light), stopped(&heavy));
        must_end_right([&mut light, &mut heavy]);
    });
}

#[test]
fn a_deadline_goes_before_a_level() {
    play(this_test!(), &[], |scene| {
        let urgent = "[[rule]]\nname = \"urgent\"\nuser = \"*\"\nenvironment = { GPREEMPT_LEVEL = \"3\" }\n\
                      level = 3\nperiod_ms = 1000\ndeadline_ms = 500\nmax_stop_ms = 600000\n";
        let service = TestDaemon::start(scene, by_level("small = 0.0\nweigh = false\npolicy = \"deadline\"", urgent));
        let (mut effort, _) = service.walker(12);
        let (mut below, _) = service.walker(2);
        service.must_be(below.pid(), State::Stopped);
        service.must_work(effort.pid());
        let (mut urgent, _) = service.walker(3);
        service.must_show(effort.pid(), "stopped for an earlier deadline", |tenant| {
            let told = tenant.why.as_ref().is_some_and(|why| why.reason == Reason::EarlierDeadline);
            told && tenant.state == State::Stopped
        });
        service.must_work(urgent.pid());
        urgent.enough();
        urgent.must_end_right(0);
        service.must_work(effort.pid());
        service.must_be(below.pid(), State::Stopped);
        must_end_right([&mut effort, &mut below]);
    });
}

#[test]
fn lower_work_gets_somewhere_although_higher_work_never_ends() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules { job: "max_stop_ms = 100\nmin_run_ms = 10", ..Rules::default() });
        let (mut offline, _) = service.walker(2);
        let (mut online, _) = service.walker(12);
        let aged = |kind: &&EventKind| matches!(kind, EventKind::Resumed { reason: Reason::Aged, .. });
        service.until("it had its turns", |_| service.events_of(offline.pid()).iter().filter(aged).count() >= 4);
        // It completes in its turns.
        offline.enough();
        offline.must_end_right(0);
        assert!(!online.is_done(0));
        assert_eq!(stops(&service.events_of(online.pid())), 0);
        must_end_right([&mut online, &mut offline]);
    });
}
