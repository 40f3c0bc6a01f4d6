//! A gpu that does not answer its driver is reset; its processes lose their work, later ones do not notice.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;

use gpreempt_testkit::scene::{process, status};
use gpreempt_testkit::{play, this_test};
use kfd::{Grace, Kfd, QueueId, QueueResult, Tracer};

use super::executable;

/// So long that only the fault that is asked for makes a process late, however busy the machine is.
const TIMEOUT: &str = "3000";

/// A gpu whose reset takes long enough to be met.
fn slow_to_reset() -> tempfile::NamedTempFile {
    let text = Command::new(executable()).args(["vgpu", "profiles", "mi300x"]).output().expect("can be started");
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    file.write_all(&text.stdout).and_then(|()| writeln!(file, "\n[cycle]\nreset_ms = 8000")).expect("can be written");
    file
}

#[test]
fn a_gpu_that_hangs_is_reset_and_serves_the_next_process() {
    let profile = slow_to_reset();
    let path = profile.path().to_str().expect("a path of text");
    let flags = ["--profile", path, "--hang-at-cycle", "2", "--preemption-timeout-ms", TIMEOUT];
    play(this_test!(), &flags, |scene| {
        let (mut first, _) = scene.walker(4);
        let mut second = scene.actor();
        let mut third = scene.actor();
        second.ask("open");
        // Its queue is the second change of the runlist, in which the waves of the first do not stop.
        assert_eq!(second.try_to("queue 7"), Err(libc::ETIME));
        // A process that comes during the reset is asked to come again.
        third.ask("open");
        assert_eq!(third.try_to("queue 7"), Err(libc::EIO));
        first.enough();
        let said = first.ask("wait 0");
        assert!(said.starts_with("failed: ") && said.contains("reset"), "{said}");
        // A process that was there before gets a queue, but neither it nor the old ones are put on the gpu again.
        let said = second.ask("queue 7");
        assert!(said.starts_with("failed: ") && said.contains("reset"), "{said}");
        let now = status();
        assert_eq!(now["gpus"][0]["resets"], 1);
        assert_eq!(process(&now, first.pid().0).unwrap()["queues"][0]["state"], "evicted");
        first.leave();
        second.leave();

        let queue = loop {
            match third.try_to("queue 7") {
                Err(libc::EIO) => std::thread::yield_now(),
                other => break other.expect("a queue"),
            }
        };
        third.ask(&format!("walk {queue} 4"));
        third.enough();
        third.must_end_right(0);
        third.leave();
    });
}

#[test]
fn a_debugger_is_told_of_each_queue_that_the_gpu_failed_to_stop() {
    let profile = slow_to_reset();
    let path = profile.path().to_str().expect("a path of text");
    // The first cycle is that of the new queue, the second the debugger's arrival.
    let flags = ["--profile", path, "--hang-at-cycle", "3", "--preemption-timeout-ms", TIMEOUT];
    play(this_test!(), &flags, |scene| {
        let (mut client, queue) = scene.walker(2);
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        let entry = tracer.snapshot().unwrap()[0];
        let stopped = tracer.suspend(&[QueueId(queue), QueueId(queue + 1)], Grace::SHORTEST).unwrap();
        let expected = [(QueueId(queue), QueueResult::Failed), (QueueId(queue + 1), QueueResult::Unknown)];
        assert_eq!(stopped.results(), expected);
        // While the reset lasts nothing can be resumed either, one by one or all at once.
        assert_eq!(tracer.resume(&[QueueId(queue)]).unwrap().results(), [expected[0]]);
        assert_eq!(tracer.resume_all().unwrap(), 0);
        // Nor can its owner change it.
        assert_eq!(client.update(&entry, 0, 7), Err(libc::EIO));
        assert_eq!(client.update(&entry, 100, 11), Err(libc::EIO));
        assert_eq!(client.try_to(&format!("cu-mask {queue} 1")), Err(libc::EIO));
        tracer.close().unwrap();
        let said = client.ask("wait 0");
        assert!(said.starts_with("failed: ") && said.contains("reset"), "{said}");
        client.leave();
    });
}

#[test]
fn who_wants_to_know_is_told_of_a_reset() {
    let flags = ["vgpu", "run", "--hang-at-cycle", "1", "--preemption-timeout-ms", "1000", "--"];
    let run = |log: bool| {
        let mut command = Command::new(executable());
        command.args(flags).arg(executable()).args(["selftest", "--kernel", "walk"]);
        if log {
            command.env("GPREEMPT_VGPU_LOG", "1");
        }
        let output = command.output().expect("can be started");
        assert!(!output.status.success(), "the gpu was reset");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = "vgpu: gpu 0 did not stop its waves within 1s and is reset";
    assert!(run(true).contains(said) && !run(false).contains(said));
}
