//! Processes that die while queues are stopped, and calls that wait for a stopped queue.

use std::process::Command;
use std::sync::Arc;

use gpreempt_testkit::scene::{process, status, waiting_thread};
use gpreempt_testkit::{play, this_test, until};
use kfd::{Grace, Kfd, QueueId, Tracer};
use kfd_abi::ioctl::DESTROY_QUEUE;

use super::life::supervisor;

#[test]
fn queues_run_again_when_the_debugger_that_stopped_them_is_killed() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(4);
        let pid = client.pid();
        let mut debugger = scene.actor();
        debugger.ask(&format!("trace {pid}"));
        debugger.ask("debug");
        debugger.ask("snapshot");
        assert_eq!(debugger.ask(&format!("suspend {queue}")), "true");
        assert_eq!(process(&status(), pid.0).unwrap()["queues"][0]["state"], "suspended");
        client.enough();
        assert!(!client.is_done(0));
        debugger.kill();
        client.must_end_right(0);
        let now = status();
        let client_now = process(&now, pid.0).unwrap();
        assert!(client_now["debugger"].is_null() && client_now["queues"][0]["state"] == "mapped", "{client_now}");
        client.leave();
    });
}

#[test]
fn nothing_is_kept_of_a_process_that_is_killed_while_its_queues_are_stopped() {
    play(this_test!(), &[], |scene| {
        let (client, queue) = scene.walker(4);
        let pid = client.pid();
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), pid).unwrap();
        assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
        client.kill_traced();
        until("the tracer has seen its end", || tracer.tracee().end().is_some());
        until("it is forgotten", || process(&status(), pid.0).is_none());
        let now = status();
        for key in ["queues", "waves", "vram_used_bytes"] {
            assert_eq!(now["gpus"][0][key], 0, "{key}: {now:#}");
        }
        assert_eq!(now["system_used_bytes"], 0, "{now:#}");
        assert!(tracer.resume_all().unwrap_err().is_gone());
        // The gpu is as good as new.
        let (mut next, _) = scene.walker(4);
        next.enough();
        next.must_end_right(0);
        next.leave();
    });
}

#[test]
fn a_client_in_the_middle_of_a_kernel_is_told_when_its_supervisor_is_killed() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(4);
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
        let supervisor = status()["supervisor"].as_i64().expect("a pid");
        // SAFETY: a plain call; the process is the supervisor of this test alone.
        assert_eq!(unsafe { libc::kill(supervisor as i32, libc::SIGKILL) }, 0);
        let said = client.try_to("wait 0");
        assert!(
            matches!(&said, Err(libc::ENODEV)) || said.as_ref().is_ok_and(|said| said.contains("reset")),
            "{said:?}"
        );
        assert_eq!(tracer.snapshot().unwrap_err().errno(), Some(libc::ENODEV));
        drop(tracer);
        client.leave();
    });
}

#[test]
fn destroying_a_stopped_queue_waits_where_everybody_can_see_it() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(2);
        let pid = client.pid();
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), pid).unwrap();
        assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
        let destroy = format!("destroy {queue}");
        client.say(&destroy);
        let mut thread = None;
        until("it waits", || {
            thread = waiting_thread(pid, DESTROY_QUEUE);
            thread.is_some()
        });
        // A signal ends the wait and leaves the queue as it was.
        // SAFETY: a plain call; the thread is one of the client's and has a handler.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid.0, thread.expect("found"), libc::SIGUSR1) };
        assert_eq!(sent, 0);
        assert_eq!(client.answer(), Err(libc::EINTR));
        assert_eq!(process(&status(), pid.0).unwrap()["queues"][0]["state"], "suspended");
        assert_eq!(waiting_thread(pid, DESTROY_QUEUE), None);

        client.say(&destroy);
        until("it waits again", || waiting_thread(pid, DESTROY_QUEUE).is_some());
        assert!(tracer.resume(&[QueueId(queue)]).unwrap().all_done());
        assert_eq!(client.answer(), Ok(String::new()));
        assert_eq!(process(&status(), pid.0).unwrap()["queues"].as_array().map(Vec::len), Some(0));
        tracer.close().unwrap();
        client.leave();
    });
}

/// A process that is halted, and goes on when this is dropped.
struct Halted(u32);

impl Halted {
    fn halt(pid: u32) -> Halted {
        // SAFETY: a plain call; the process is one of this test.
        assert_eq!(unsafe { libc::kill(pid.cast_signed(), libc::SIGSTOP) }, 0);
        Halted(pid)
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::kill(self.0.cast_signed(), libc::SIGCONT) };
    }
}

#[test]
fn a_signal_ends_a_wait_also_while_the_driver_is_asked_again() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(2);
        let pid = client.pid();
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), pid).unwrap();
        assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
        client.say(&format!("destroy {queue}"));
        let mut thread = None;
        until("it waits", || {
            thread = waiting_thread(pid, DESTROY_QUEUE);
            thread.is_some()
        });
        let thread = thread.expect("found");
        let driver = Halted::halt(supervisor(std::process::id()));
        // Seen by a process without the virtual gpu, which would show the call that the program means.
        let asks =
            format!("until grep -q '^{} ' /proc/{pid}/task/{thread}/syscall; do sleep 0.01; done", libc::SYS_recvmsg);
        let seen = Command::new("sh").args(["-c", &asks]).env_remove("LD_PRELOAD").status().expect("can be started");
        assert!(seen.success());
        // SAFETY: a plain call; the thread is one of the client's and has a handler.
        assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, pid.0, thread, libc::SIGUSR1) }, 0);
        drop(driver);
        assert_eq!(client.answer(), Err(libc::EINTR));
        assert!(tracer.resume(&[QueueId(queue)]).unwrap().all_done());
        tracer.close().unwrap();
        client.enough();
        client.must_end_right(0);
        client.leave();
    });
}
