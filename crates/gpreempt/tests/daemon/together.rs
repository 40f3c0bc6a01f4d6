//! Jobs of several processes and gpus.

use gpreempt_proto::State;
use gpreempt_testkit::daemon::{Rules, TestDaemon, suspended, tenants, until_suspended};
use gpreempt_testkit::{Actor, play, this_test};

const TWO_GPUS: &[&str] = &["--gpus", "2"];

/// Begins a walk on a new queue of a gpu.
fn walk_on(actor: &mut Actor, gpu: u32) {
    let queue = actor.ask(&format!("queue 7 {gpu}"));
    actor.ask(&format!("walk {queue} 2"));
}

#[test]
fn a_job_of_two_processes_on_two_gpus_stops_and_runs_as_one() {
    play(this_test!(), TWO_GPUS, |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let mut members = [service.member(2, "train"), service.member(2, "train")];
        for (actor, gpus) in members.iter_mut().zip([&[0, 1][..], &[1]]) {
            actor.ask("open");
            gpus.iter().for_each(|gpu| walk_on(actor, *gpu));
        }
        let mut alone = service.actor(2);
        alone.ask("open");
        walk_on(&mut alone, 1);
        let pids = members.each_ref().map(Actor::pid);
        service.until("all are known", |status| status.tenants.len() == 4);
        let status = service.status();
        let job = tenants(&status, pids[0]).next().and_then(|tenant| tenant.job.clone()).expect("a job");
        assert!(job.ends_with("/train"), "{job}");
        let listed = status.jobs.iter().find(|found| found.job == job).expect("listed");
        assert_eq!(listed.pids.len(), 2);

        // Something higher on the first gpu only.
        let mut online = service.actor(12);
        online.ask("open");
        walk_on(&mut online, 0);
        pids.iter().for_each(|pid| service.must_be(*pid, State::Stopped));
        until_suspended(pids[0], (2, 2));
        until_suspended(pids[1], (1, 1));
        let cause = service.tenant(online.pid()).job;
        for pid in pids {
            service.must_show(pid, "stopped for the higher one", |tenant| {
                tenant.why.as_ref().is_some_and(|why| why.by == cause)
            });
        }
        // A job beside it, which is in the way of no other, is left alone.
        service.must_work(alone.pid());
        assert_eq!(suspended(alone.pid()), (0, 1));

        online.enough();
        online.must_end_right(0);
        pids.iter().for_each(|pid| service.must_work(*pid));
        for actor in &mut members {
            actor.enough();
            actor.must_end_right(0);
        }
        members[0].must_end_right(1);
        alone.enough();
        alone.must_end_right(0);
    });
}

#[test]
fn a_member_that_begins_to_work_while_its_job_is_stopped_waits_with_the_others() {
    play(this_test!(), TWO_GPUS, |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let mut first = service.member(2, "train");
        first.ask("open");
        walk_on(&mut first, 0);
        let mut second = service.member(2, "train");
        second.ask("open");
        let queue = second.ask("queue 7 1");
        service.must_be_known(second.pid());
        let (mut online, _) = service.walker(12);
        service.must_be(first.pid(), State::Stopped);
        // On a gpu where no job is above it.
        second.ask(&format!("walk {queue} 1"));
        service.must_be(second.pid(), State::Stopped);
        until_suspended(second.pid(), (1, 1));
        let pid = second.pid();
        second.kill();
        service.must_be_gone(pid);
        service.must_be(first.pid(), State::Stopped);
        until_suspended(first.pid(), (1, 1));
        online.enough();
        online.must_end_right(0);
        service.must_work(first.pid());
        first.enough();
        first.must_end_right(0);
    });
}
