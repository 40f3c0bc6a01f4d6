//! What executes the waves of a process is a process, too, and may be stopped or killed on its own.

use gpreempt_testkit::scene::status;
use gpreempt_testkit::{Actor, Scene, play, this_test};

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
