//! Processes that want the same gpu: a kernel that fills it blocks the others until it is stopped.

use std::sync::Arc;

use gpreempt_testkit::scene::{process, status, waves};
use gpreempt_testkit::{Actor, Scene, play, this_test, until};
use kfd::{Grace, Kfd, QueueId, Tracer};
use serde_json::Value;

/// One XCC with one compute unit, which 32 waves fill.
const ONE_CU: &[&str] = &["--profile", "mi300x-cpx", "--cus", "1"];
const FULL: u32 = 32;
/// How often to look at something that must not change.
const LOOKS: usize = 10;

fn gpu_waves(status: &Value) -> u64 {
    status["gpus"][0]["waves"].as_u64().expect("a number")
}

/// An actor with a queue of this priority and a walk that has been submitted and cannot begin.
fn blocked(scene: &Scene, priority: u32, groups: u32) -> Actor {
    let mut actor = scene.actor();
    actor.ask("open");
    let queue = actor.queue(priority);
    // The new queue took all waves off the gpu for a moment.
    until("the gpu is full again", || gpu_waves(&status()) == u64::from(FULL));
    actor.ask(&format!("walk {queue} {groups}"));
    until_it_waits(&actor);
    actor
}

/// Waits until a process wants room that it does not get.
fn until_it_waits(actor: &Actor) {
    until("it waits for room", || process(&status(), actor.pid().0).is_some_and(|of| of["gpus"][0]["waiting"] == true));
}

/// A process whose walk fills the gpu, and a way to stop it.
fn fill(scene: &Scene) -> (Actor, Tracer, [QueueId; 1]) {
    let (client, queue) = scene.walker(FULL);
    until("the gpu is full", || gpu_waves(&status()) == u64::from(FULL));
    let (tracer, _) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
    (client, tracer, [QueueId(queue)])
}

#[test]
fn a_kernel_that_fills_the_gpu_blocks_others_until_it_is_stopped() {
    play(this_test!(), ONE_CU, |scene| {
        let (mut large, tracer, queues) = fill(scene);
        assert_eq!(status()["gpus"][0]["wave_slots"], FULL);
        let mut small = blocked(scene, 15, 1);
        small.enough();
        for _ in 0..LOOKS {
            let now = status();
            assert_eq!((waves(&now, large.pid().0), waves(&now, small.pid().0)), (FULL.into(), 0));
        }
        assert!(!small.is_done(0), "not even the highest priority takes a place from a wave that runs");
        assert!(tracer.suspend(&queues, Grace::SHORTEST).unwrap().all_done());
        small.must_end_right(0);
        assert!(!large.is_done(0));
        assert!(tracer.resume(&queues).unwrap().all_done());
        large.enough();
        large.must_end_right(0);
        tracer.close().unwrap();
        small.leave();
        large.leave();
    });
}

#[test]
fn a_kernel_that_waits_begins_when_the_one_before_it_ends() {
    play(this_test!(), ONE_CU, |scene| {
        let (mut large, _) = scene.walker(FULL);
        until("the gpu is full", || gpu_waves(&status()) == u64::from(FULL));
        let mut small = blocked(scene, 7, 3);
        small.enough();
        assert!(!small.is_done(0));
        large.enough();
        large.must_end_right(0);
        small.must_end_right(0);
        small.leave();
        large.leave();
    });
}

/// Two processes wait for the gpu, one of a high class and one of a low; the places that become free are the high
/// one's.
fn high_before_low(scene: &Scene, high_first: bool) {
    let priorities = if high_first { [7, 11, 6] } else { [7, 6, 11] };
    // All queues first: each new one takes all waves off the gpu, and then the best claim wins.
    let mut actors = priorities.map(|priority| {
        let mut actor = scene.actor();
        actor.ask("open");
        let queue = actor.queue(priority);
        (actor, queue)
    });
    for (n, (actor, queue)) in actors.iter_mut().enumerate() {
        actor.ask(&format!("walk {queue} {FULL}"));
        until("the gpu is full", || gpu_waves(&status()) == u64::from(FULL));
        if n > 0 {
            until_it_waits(actor);
        }
    }
    let [(mut large, _), (mut first, _), (mut second, _)] = actors;
    let (high, low) = if high_first { (&mut first, &mut second) } else { (&mut second, &mut first) };
    assert_eq!(waves(&status(), large.pid().0), u64::from(FULL));
    large.enough();
    large.must_end_right(0);
    until("the others have all places", || gpu_waves(&status()) == u64::from(FULL));
    let now = status();
    let (high_waves, low_waves) = (waves(&now, high.pid().0), waves(&now, low.pid().0));
    // Executors of a busy machine may come too late for a place that they were offered, so not every one is certain.
    assert!(high_waves > 3 * low_waves, "{high_waves} and {low_waves}");
    high.enough();
    high.must_end_right(0);
    low.enough();
    low.must_end_right(0);
    large.leave();
    first.leave();
    second.leave();
}

#[test]
fn workgroups_of_a_higher_class_begin_before_those_of_a_lower() {
    play(this_test!(), ONE_CU, |scene| {
        high_before_low(scene, true);
        high_before_low(scene, false);
    });
}

#[test]
fn a_mask_confines_a_queue_to_its_compute_units() {
    let flags = &["--profile", "mi300x-cpx", "--cus", "4"];
    play(this_test!(), flags, |scene| {
        const GROUPS: u32 = 3 * FULL;
        let mut client = scene.actor();
        client.ask("open");
        let queue = client.queue(7);
        client.ask(&format!("cu-mask {queue} 1"));
        client.ask(&format!("walk {queue} {GROUPS}"));
        until("its compute unit is full", || gpu_waves(&status()) == u64::from(FULL));
        for _ in 0..LOOKS {
            assert_eq!(gpu_waves(&status()), u64::from(FULL));
        }
        // A wider mask lets the rest begin; waves that were saved come back.
        client.ask(&format!("cu-mask {queue} {}", 0b1111));
        until("all workgroups have begun", || gpu_waves(&status()) == u64::from(GROUPS));
        client.enough();
        client.must_end_right(0);
        client.leave();
    });
}

/// Unmap-and-map cycles of a gpu for one cause, or for all.
fn cycles(status: &Value, gpu: usize, cause: Option<&str>) -> u64 {
    let causes = status["gpus"][gpu]["cycles"].as_object().expect("an object");
    let wanted = |name: &str| cause.is_none_or(|cause| cause == name);
    causes.iter().filter(|(name, _)| wanted(name)).filter_map(|(_, cycles)| cycles["count"].as_u64()).sum()
}

#[test]
fn stopping_queues_of_one_gpu_leaves_the_other_alone() {
    let flags = &["--profile", "mi300x-cpx", "--gpus", "2"];
    play(this_test!(), flags, |scene| {
        let (mut client, queue) = scene.walker(2);
        let second: u32 = client.ask("queue 7 1").parse().expect("a number");
        client.ask(&format!("walk {second} 2"));
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        let before = status();
        assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
        let after = status();
        assert_eq!(cycles(&after, 0, Some("suspend")), cycles(&before, 0, Some("suspend")) + 1, "{after:#}");
        assert_eq!(cycles(&after, 0, None), cycles(&before, 0, None) + 1);
        assert_eq!(cycles(&after, 1, None), cycles(&before, 1, None));
        client.enough();
        client.must_end_right(1);
        assert!(!client.is_done(0));
        assert!(tracer.resume(&[QueueId(queue)]).unwrap().all_done());
        client.must_end_right(0);
        tracer.close().unwrap();
        client.leave();
    });
}

#[test]
fn more_queues_than_the_hardware_holds_take_turns() {
    play(this_test!(), &[], |scene| {
        // More processes than address spaces, more queues than hardware slots.
        const PROCESSES: usize = 15;
        let mut actors: Vec<Actor> = (0..PROCESSES).map(|_| scene.actor()).collect();
        for actor in &mut actors {
            actor.ask("open");
            for _ in 0..2 {
                let queue = actor.queue(7);
                actor.ask(&format!("walk {queue} 1"));
            }
        }
        assert_eq!(status()["gpus"][0]["over_subscribed"], true);
        until("every process has had a turn", || cycles(&status(), 0, Some("quantum")) >= 4);
        for actor in &mut actors {
            actor.enough();
        }
        for mut actor in actors {
            actor.must_end_right(0);
            actor.must_end_right(1);
            actor.leave();
        }
        let now = status();
        assert_eq!((&now["gpus"][0]["over_subscribed"], &now["gpus"][0]["queues"]), (&false.into(), &0.into()));
    });
}

#[test]
fn queues_that_wait_for_a_signal_notice_it_although_they_take_turns() {
    play(this_test!(), &[], |scene| {
        // More processes than address spaces: some are never on the gpu when the signal fires.
        const PROCESSES: usize = 15;
        let mut actors: Vec<Actor> = (0..PROCESSES).map(|_| scene.actor()).collect();
        for actor in &mut actors {
            actor.ask("open");
            let queue = actor.queue(7);
            actor.ask(&format!("gate {queue}"));
        }
        assert_eq!(status()["gpus"][0]["over_subscribed"], true);
        until("every process has had a turn", || cycles(&status(), 0, Some("quantum")) >= 4);
        for actor in &mut actors {
            assert_eq!(actor.ask("passed 0"), "false");
        }
        for actor in &mut actors {
            // A store to memory, without a doorbell.
            actor.ask("fire");
        }
        for actor in &mut actors {
            until("the barrier has passed", || actor.ask("passed 0") == "true");
        }
        for actor in actors {
            actor.leave();
        }
    });
}
