//! Tenants that come, change and go while they, or others, are stopped.

use gpreempt_proto::{QueueClass, State, Target};
use gpreempt_testkit::daemon::{Rules, TestDaemon, letter, send, stops, tenants, until_suspended};
use gpreempt_testkit::scene::{process, status};
use gpreempt_testkit::{Actor, play, this_test, until};
use kfd::Pid;
use nix::sys::signal::Signal;

/// Something lower that is stopped, its queue, and the higher one that runs.
fn stopped(service: &TestDaemon<'_>) -> (Actor, u32, Actor) {
    let (offline, queue) = service.walker(2);
    let (online, _) = service.walker(12);
    service.must_be(offline.pid(), State::Stopped);
    (offline, queue, online)
}

/// The higher one ends well, and something lower is stopped for the next.
fn must_go_on(service: &TestDaemon<'_>, mut online: Actor) {
    online.enough();
    online.must_end_right(0);
    let (mut offline, _, mut online) = stopped(service);
    online.enough();
    online.must_end_right(0);
    service.must_work(offline.pid());
    offline.enough();
    offline.must_end_right(0);
}

#[test]
fn a_process_without_a_queue_is_no_tenant_and_its_first_queue_counts() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut online, _) = service.walker(12);
        let mut offline = service.actor(2);
        let pid = offline.pid();
        offline.ask("open");
        until("the driver lists it", || process(&status(), pid.0).is_some());
        let scans = service.stats().daemon.scans;
        service.until("many scans", |status| {
            assert!(tenants(status, pid).next().is_none() && status.actuator_pid.is_none());
            service.stats().daemon.scans > scans + 20
        });
        // Its program is loaded by work on the new queue, which waits as all other work of it does.
        offline.say("queue 7");
        service.must_be_known(pid);
        online.enough();
        online.must_end_right(0);
        let queue = offline.answer().expect("a queue");
        offline.ask(&format!("walk {queue} 1"));
        service.must_work(pid);
        offline.enough();
        offline.must_end_right(0);
    });
}

#[test]
fn a_queue_can_be_destroyed_while_its_tenant_is_stopped() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, first) = service.walker(2);
        let second = offline.queue(7);
        offline.ask(&format!("walk {second} 2"));
        let (mut online, _) = service.walker(12);
        until_suspended(offline.pid(), (2, 2));
        offline.ask(&format!("destroy {first}"));
        // What is left of it is stopped again.
        until_suspended(offline.pid(), (1, 1));
        service.until("the daemon knows one queue", |status| {
            tenants(status, offline.pid()).all(|tenant| tenant.queues.len() == 1 && tenant.state == State::Stopped)
        });
        service.until("that is told", |_| stops(&service.events_of(offline.pid())) >= 2);
        online.enough();
        online.must_end_right(0);
        offline.enough();
        offline.must_end_right(1);
        offline.leave();
    });
}

#[test]
fn a_process_killed_while_stopped_is_forgotten_and_others_go_on() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (offline, _, online) = stopped(&service);
        let pid = offline.pid();
        offline.kill();
        service.must_be_gone(pid);
        until("the driver forgot it", || process(&status(), pid.0).is_none());
        must_go_on(&service, online);
        service.stop();
    });
}

#[test]
fn a_process_can_exit_while_stopped() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (offline, _, online) = stopped(&service);
        let pid = offline.pid();
        offline.leave();
        service.must_be_gone(pid);
        must_go_on(&service, online);
        service.stop();
    });
}

#[test]
fn a_stopped_tenant_runs_for_a_while_when_it_is_told_to_end() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules { daemon: "term_grace_ms = 600000", ..Rules::default() });
        let (offline, _, mut online) = stopped(&service);
        let pid = offline.pid();
        // As after Ctrl-Z, so that the signal does not end it before the daemon saw it.
        send(pid, Signal::SIGSTOP);
        until("it is stopped", || letter(pid) == 'T');
        send(pid, Signal::SIGTERM);
        service.until("it runs", |status| tenants(status, pid).all(|tenant| tenant.state != State::Stopped));
        until_suspended(pid, (0, 1));
        service.must_show(pid, "wants to end", |tenant| {
            tenant.unstoppable.as_ref().is_some_and(|why| why.contains("wants to end"))
        });
        service.must_work(online.pid());
        send(pid, Signal::SIGCONT);
        service.must_be_gone(pid);
        online.enough();
        online.must_end_right(0);
        drop(offline);
    });
}

#[test]
fn a_queue_born_while_its_job_is_stopped_is_stopped_too() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _, mut online) = stopped(&service);
        offline.say("queue 7");
        until_suspended(offline.pid(), (2, 2));
        service.until("the daemon knows both", |status| {
            let stopped = |tenant: &gpreempt_proto::TenantStatus| {
                tenant.queues.iter().filter(|queue| queue.stopped && queue.kind == QueueClass::Compute).count()
            };
            tenants(status, offline.pid()).all(|tenant| stopped(tenant) == 2)
        });
        online.enough();
        online.must_end_right(0);
        let second = offline.answer().expect("a queue");
        offline.ask(&format!("walk {second} 1"));
        service.must_work(offline.pid());
        until_suspended(offline.pid(), (0, 2));
        offline.enough();
        offline.must_end_right(0);
        offline.must_end_right(1);
    });
}

#[test]
fn many_queues_stop_and_run_together() {
    play(this_test!(), &[], |scene| {
        const QUEUES: usize = 128;
        let service = TestDaemon::start(scene, Rules::default());
        let mut offline = service.actor(2);
        let pid = offline.pid();
        offline.ask("open");
        let queues: Vec<u32> = (0..QUEUES).map(|_| offline.queue(7)).collect();
        for queue in [queues[0], queues[QUEUES / 2], queues[QUEUES - 1]] {
            offline.ask(&format!("walk {queue} 1"));
        }
        let (mut online, _) = service.walker(12);
        until_suspended(pid, (QUEUES, QUEUES));
        service.must_be(pid, State::Stopped);
        online.enough();
        online.must_end_right(0);
        until_suspended(pid, (0, QUEUES));
        offline.enough();
        (0..3).for_each(|job| offline.must_end_right(job));
        assert_eq!(service.count(|gpu| gpu.failures), 0);
    });
}

#[test]
fn a_level_changed_while_stopped_takes_effect_at_once() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _, mut online) = stopped(&service);
        let set = |pid: Pid, level: u8| {
            let (status, said) = service.command(&["set", &level.to_string(), "--pid", &pid.to_string()]);
            assert!(status.success(), "{said}");
        };
        set(offline.pid(), 14);
        service.must_work(offline.pid());
        service.must_be(online.pid(), State::Stopped);
        let job = service.tenant(offline.pid()).job.expect("it has one");
        service.until("its level is shown", |status| {
            status.jobs.iter().any(|found| found.job == job && (found.level, found.level_set) == (14, true))
        });
        service.ask(gpreempt_proto::Request::Set { target: Target::Job(job), level: 12 });
        // Equals run side by side.
        service.must_work(online.pid());
        service.must_work(offline.pid());
        set(offline.pid(), 3);
        service.must_be(offline.pid(), State::Stopped);
        online.enough();
        online.must_end_right(0);
        offline.enough();
        offline.must_end_right(0);
    });
}
