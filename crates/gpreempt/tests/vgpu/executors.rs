//! What executes the waves of a process is a process, too, and may be stopped or killed on its own.

use gpreempt_testkit::scene::status;
use gpreempt_testkit::{Actor, Scene, play, this_test, until};

use super::life::executors;

fn signal(client: &Actor, signal: i32) {
    let executors = executors(client.pid().0);
    assert!(!executors.is_empty());
    for executor in executors {
        // SAFETY: a plain call on an executor of this test's own client.
        assert_eq!(unsafe { libc::kill(executor.cast_signed(), signal) }, 0);
    }
}

/// A process that comes later computes as if nothing had happened.
fn another_one_finds_the_gpu_as_good_as_new(scene: &Scene) {
    let mut next = scene.actor();
    next.ask("open");
    let queue = loop {
        match next.try_to("queue 7") {
            Err(libc::EIO) => std::thread::yield_now(),
            other => break other.expect("a queue"),
        }
    };
    next.ask(&format!("walk {queue} 4"));
    next.enough();
    next.must_end_right(0);
    next.leave();
}

#[test]
fn executors_that_are_stopped_for_ever_cost_a_reset_and_not_the_gpu() {
    // So long that only processes that are stopped are late, however busy the machine is.
    let flags = ["--preemption-timeout-ms", "3000"];
    play(this_test!(), &flags, |scene| {
        let (client, _) = scene.walker(4);
        let mut other = scene.actor();
        other.ask("open");
        signal(&client, libc::SIGSTOP);
        assert_eq!(other.try_to("queue 7"), Err(libc::ETIME));
        another_one_finds_the_gpu_as_good_as_new(scene);
        assert_eq!(status()["gpus"][0]["resets"], 1);
        other.leave();
    });
}

#[test]
fn executors_that_are_killed_leave_nothing_on_the_gpu_while_their_process_lives() {
    play(this_test!(), &[], |scene| {
        let (mut client, _) = scene.walker(4);
        signal(&client, libc::SIGKILL);
        another_one_finds_the_gpu_as_good_as_new(scene);
        let now = status();
        assert_eq!((&now["tokens"]["held"], &now["gpus"][0]["resets"]), (&0.into(), &0.into()), "{now:#}");
        let said = client.try_to("wait 0");
        assert!(said.as_ref().is_err() || said.as_ref().is_ok_and(|said| said.starts_with("failed: ")), "{said:?}");
    });
}

#[test]
fn a_storm_is_counted_while_the_kernel_that_it_interrupts_still_runs() {
    play(this_test!(), &["--storm", "7:2000"], |scene| {
        let (mut client, _) = scene.walker(4);
        let saves = || status()["gpus"][0]["preemption"]["storm_saves"].as_u64().expect("a number");
        until("saves are counted", || saves() > 0);
        let before = saves();
        until("more are counted", || saves() > before);
        assert!(!client.is_done(0));
    });
}

#[test]
fn executors_in_the_middle_of_a_kernel_notice_that_their_supervisor_is_gone() {
    play(this_test!(), &[], |scene| {
        let (client, _) = scene.walker(4);
        let supervisor = status()["supervisor"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a pid");
        // SAFETY: a plain call on the supervisor of this test's own gpu.
        assert_eq!(unsafe { libc::kill(supervisor, libc::SIGKILL) }, 0);
        until("executors end", || executors(client.pid().0).is_empty());
    });
}
