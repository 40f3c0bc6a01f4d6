//! How long waves may go on before they are saved, as far as it does not depend on the speed of the machine.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use gpreempt_testkit::scene::{status, waves};
use gpreempt_testkit::{play, this_test, until};
use kfd::{Kfd, Pid, Tracer};
use kfd_abi::debug::{DbgTrapArgs, QueueStatus, SuspendQueues};
use kfd_abi::ioctl::{Argument, Request};

/// The register has eight bits, and the hardware takes 0 for no limit. The library of this project would not ask for
/// it.
const ENDLESS: u32 = 256;
/// How often to look at something that must not change.
const LOOKS: usize = 50;

/// Stops a queue as a debugger that has attached may: how many were stopped, and what became of the queue.
fn suspend(pid: Pid, queue: u32, grace_period: u32) -> (i32, u32) {
    let kfd = std::fs::File::options().read(true).write(true).open("/dev/kfd").expect("there is a gpu");
    let mut list = [queue];
    let queue_array_ptr = list.as_mut_ptr().expose_provenance() as u64;
    let suspend = SuspendQueues { queue_array_ptr, num_queues: 1, grace_period, ..SuspendQueues::default() };
    let mut args = DbgTrapArgs::new(pid.0, suspend);
    let Request(request) = DbgTrapArgs::COMMAND.request();
    // SAFETY: the argument is as large as the request says; the list in it is one number of ours.
    let result = unsafe { libc::ioctl(kfd.as_raw_fd(), request.into(), &raw mut args) };
    (result, list[0] & !QueueStatus(list[0]).queue_id())
}

/// A session begins with a cycle: waves that have not found room again since have no grace period to end in.
fn until_it_runs_again(pid: Pid) {
    until("the kernel runs again", || waves(&status(), pid.0) > 0);
}

#[test]
fn a_kernel_that_ends_within_its_grace_period_is_not_saved() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(4);
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        tracer.snapshot().unwrap();
        let pid = client.pid();
        until_it_runs_again(pid);
        let before = status();
        let stopping = std::thread::spawn(move || suspend(pid, queue, ENDLESS));
        for _ in 0..LOOKS {
            assert!(!client.is_done(0) && !stopping.is_finished(), "it waits for the kernel");
        }
        client.enough();
        assert_eq!(stopping.join().unwrap(), (1, 0));
        assert!(client.is_done(0));
        client.must_end_right(0);
        let after = status();
        let suspended =
            |status: &serde_json::Value, what: &str| status["gpus"][0]["cycles"]["suspend"][what].as_u64().unwrap_or(0);
        assert_eq!(suspended(&after, "count"), suspended(&before, "count") + 1);
        assert_eq!((suspended(&after, "waves"), suspended(&after, "bytes")), (0, 0));
        tracer.close().unwrap();
        client.leave();
    });
}

#[test]
fn a_kernel_that_never_ends_within_an_endless_grace_period_costs_a_reset() {
    let flags = ["--preemption-timeout-ms", "2000"];
    play(this_test!(), &flags, |scene| {
        let (mut client, queue) = scene.walker(1);
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        tracer.snapshot().unwrap();
        until_it_runs_again(client.pid());
        assert_eq!(suspend(client.pid(), queue, ENDLESS), (0, QueueStatus::ERROR));
        assert_eq!(status()["gpus"][0]["resets"], 1);
        tracer.close().unwrap();
        let said = client.ask("wait 0");
        assert!(said.starts_with("failed: ") && said.contains("reset"), "{said}");
        client.leave();
    });
}
