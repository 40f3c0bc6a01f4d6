//! What the owner of a queue does to it while it works, and no other process may.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use gpreempt_testkit::scene::{process, status, waves};
use gpreempt_testkit::{Actor, play, this_test};
use kfd::{ExceptionMask, Grace, Kfd, Pid, QueueId, QueueSnapshotEntry, Tracer};
use kfd_abi::ioctl::{Argument, Request};
use kfd_abi::queue::UpdateQueueArgs;

/// The queues of an actor, without a debugger that stays.
fn queues(actor: &Actor) -> Vec<QueueSnapshotEntry> {
    let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), actor.pid()).unwrap();
    let queues = tracer.snapshot().unwrap();
    tracer.close().unwrap();
    queues
}

#[test]
fn a_queue_that_its_owner_turns_off_stands_still_until_it_is_on_again() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(8);
        let entry = queues(&client)[0];
        let wave_state = format!("wave-state {queue} {}", entry.ctx_save_restore_address);
        assert_eq!(client.try_to(&wave_state), Err(libc::EINVAL), "only of a queue that is off");
        assert_eq!(client.update(&entry, 0, 7), Ok(String::new()));
        let now = status();
        assert_eq!(process(&now, client.pid().0).unwrap()["queues"][0]["state"], "off");
        assert_eq!(waves(&now, client.pid().0), 0);
        let sizes = client.ask(&wave_state);
        let sizes: Vec<u32> = sizes.split(' ').map(|size| size.parse().expect("a number")).collect();
        assert!(sizes.len() == 2 && sizes.iter().all(|&size| size > 0), "{sizes:?}");
        // A doorbell that is rung meanwhile is not lost.
        client.ask(&format!("walk {queue} 2"));
        client.enough();
        // Another change, so that the gpu has had a turn without the queue.
        assert_eq!(client.update(&entry, 0, 11), Ok(String::new()));
        assert!(!client.is_done(0) && !client.is_done(1));
        assert_eq!(client.update(&entry, 100, 7), Ok(String::new()));
        client.must_end_right(0);
        client.must_end_right(1);
        client.leave();
    });
}

#[test]
fn a_queue_that_is_off_and_stopped_runs_when_both_have_ended() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(2);
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        let entry = tracer.snapshot().unwrap()[0];
        assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
        assert_eq!(client.update(&entry, 0, 7), Ok(String::new()));
        client.enough();
        assert!(tracer.resume(&[QueueId(queue)]).unwrap().all_done());
        assert_eq!(process(&status(), client.pid().0).unwrap()["queues"][0]["state"], "off");
        assert!(!client.is_done(0));
        assert_eq!(client.update(&entry, 100, 7), Ok(String::new()));
        client.must_end_right(0);
        tracer.close().unwrap();
        client.leave();
    });
}

/// A copy of another process's descriptor.
fn copy_descriptor(pid: Pid, descriptor: &str) -> OwnedFd {
    let descriptor: i32 = descriptor.parse().expect("a number");
    // SAFETY: plain calls; each descriptor that they return is new and has no other owner.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid.0, 0);
        assert!(process >= 0, "{}", std::io::Error::last_os_error());
        let process = OwnedFd::from_raw_fd(process as i32);
        let copy = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), descriptor, 0);
        assert!(copy >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(copy as i32)
    }
}

/// Turns a queue off through a descriptor; the error number, if that is refused.
fn turn_off(kfd: &impl AsRawFd, queue_id: u32) -> Option<i32> {
    let mut args = UpdateQueueArgs { queue_id, queue_percentage: 0, ..UpdateQueueArgs::default() };
    let Request(request) = UpdateQueueArgs::COMMAND.request();
    // SAFETY: the argument is as large as the request says and holds no address that the driver follows.
    let result = unsafe { libc::ioctl(kfd.as_raw_fd(), request.into(), &raw mut args) };
    if result < 0 { std::io::Error::last_os_error().raw_os_error() } else { None }
}

#[test]
fn a_copy_of_the_owners_descriptor_does_not_make_an_owner() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue_id) = scene.walker(1);
        let descriptor = client.ask("descriptor");
        let copy = copy_descriptor(client.pid(), &descriptor);
        assert_eq!(turn_off(&copy, queue_id), Some(libc::EBADF));
        // Nor does it act as the caller's own when that has the driver open, too.
        let own = std::fs::File::options().read(true).write(true).open("/dev/kfd").unwrap();
        assert_eq!(turn_off(&copy, queue_id), Some(libc::EBADF));
        assert_eq!(turn_off(&own, queue_id), Some(libc::EFAULT), "there is no such queue of the caller");
        let duplicate = own.try_clone().unwrap();
        drop(own);
        assert_eq!(turn_off(&duplicate, queue_id), Some(libc::EFAULT), "a copy within the process is as good");
        assert_eq!(process(&status(), client.pid().0).unwrap()["queues"][0]["state"], "mapped");
        client.enough();
        client.must_end_right(0);
        client.leave();
    });
}

#[test]
fn a_debugger_that_comes_and_goes_leaves_the_kernel_as_it_was() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(8);
        let kfd = Arc::new(Kfd::open().unwrap());
        for _ in 0..10 {
            let (tracer, _events) = Tracer::attach(Arc::clone(&kfd), client.pid()).unwrap();
            assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
            // Without a word: the end of the session resumes.
            tracer.close().unwrap();
            assert_eq!(kfd.queue_snapshot(client.pid(), ExceptionMask::EMPTY).unwrap_err().errno(), Some(libc::EPERM));
        }
        client.enough();
        client.must_end_right(0);
        client.leave();
    });
}
