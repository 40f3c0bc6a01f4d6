//! Debug sessions between processes: which process may begin one, what it hears of, what it stops.

use std::io::PipeReader;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpreempt_testkit::scene::{process, status, waiting_thread, waves};
use gpreempt_testkit::{Scene, play, play_each_read_index, this_test, until};
use kfd::ptrace::Tracee;
use kfd::{ExceptionMask, Grace, Kfd, Pid, ProcessMemory, QueueId, QueueResult, RuntimeState, Tracer};
use kfd_abi::debug::{DbgTrapArgs, SuspendQueues};
use kfd_abi::ioctl::{Argument, RUNTIME_ENABLE, Request};

/// A driver that wants its callers to trace.
const ORIGINAL: &[&str] = &["--kernel", "dkms"];

/// A session whose calls may come from any thread of this process.
struct Session {
    kfd: Arc<Kfd>,
    leader: Tracee,
    events: PipeReader,
}

impl Session {
    /// Traces a process and begins a session with it, and says whether its runtime is there.
    fn begin(pid: Pid, exceptions: ExceptionMask) -> (Session, RuntimeState) {
        let kfd = Arc::new(Kfd::open().expect("there is a gpu"));
        let leader = Tracee::seize(pid, |_| ()).expect("can be traced");
        let (events, notify) = std::io::pipe().expect("a pipe");
        let enable = {
            let kfd = Arc::clone(&kfd);
            move || kfd.enable(pid, exceptions, &notify)
        };
        let info = leader.run(enable).expect("is alive").expect("a session");
        (Session { kfd, leader, events }, info.runtime_state)
    }

    /// Bytes that the driver has written and the debugger has not read.
    fn noticed(&self) -> usize {
        let mut count: libc::c_int = 0;
        // SAFETY: the call fills one number.
        let result = unsafe { libc::ioctl(self.events.as_raw_fd(), libc::FIONREAD, &raw mut count) };
        assert_eq!(result, 0);
        count.try_into().expect("a count")
    }
}

/// What the driver says to a list of queues that is nowhere.
fn suspend_nowhere(pid: Pid) -> Option<i32> {
    let kfd = std::fs::File::options().read(true).write(true).open("/dev/kfd").expect("there is a gpu");
    let list = SuspendQueues { queue_array_ptr: 8, num_queues: 1, ..SuspendQueues::default() };
    let mut args = DbgTrapArgs::new(pid.0, list);
    let Request(request) = DbgTrapArgs::COMMAND.request();
    // SAFETY: the argument is as large as the request says; nothing is mapped at the address in it.
    let result = unsafe { libc::ioctl(kfd.as_raw_fd(), request.into(), &raw mut args) };
    if result < 0 { std::io::Error::last_os_error().raw_os_error() } else { None }
}

fn refused<T: std::fmt::Debug>(result: kfd::Result<T>) -> Option<i32> {
    result.expect_err("is refused").errno()
}

#[test]
fn a_kernel_stands_still_in_its_middle_until_it_is_resumed() {
    play_each_read_index(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(8);
        let queues = [QueueId(queue)];
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        assert_eq!(tracer.runtime().runtime_state, RuntimeState::ENABLED);
        let snapshot = tracer.snapshot().unwrap();
        let [entry] = &snapshot[..] else { panic!("{snapshot:?}") };
        assert_eq!(entry.queue_id, queue);
        let memory = ProcessMemory::open(client.pid()).unwrap();
        let read_index = || memory.read_u64(entry.read_pointer_address).unwrap();
        let write_index = || memory.read_u64(entry.write_pointer_address).unwrap();

        assert!(tracer.suspend(&queues, Grace::SHORTEST).unwrap().all_done());
        let before = (read_index(), write_index());
        // Debuggers look for the packets of waves between the indices.
        assert_eq!(before.0 < before.1, status()["read_index"] != "fetch", "{before:?}");
        // A doorbell that is rung while the queue is stopped is not lost.
        client.ask(&format!("walk {queue} 2"));
        client.enough();
        // A queue that is stopped counts as stopped again, and the gpu has had a turn without it.
        assert!(tracer.suspend(&queues, Grace::HARDWARE).unwrap().all_done());
        let now = status();
        assert_eq!(process(&now, client.pid().0).unwrap()["queues"][0]["state"], "suspended");
        assert_eq!(waves(&now, client.pid().0), 0);
        assert!(!client.is_done(0) && !client.is_done(1));
        assert_eq!((read_index(), write_index()), (before.0, before.1 + 1));

        assert!(tracer.resume(&queues).unwrap().all_done());
        client.must_end_right(0);
        client.must_end_right(1);
        until("the index has passed both", || read_index() == before.1 + 1);
        tracer.close().unwrap();
        assert_eq!(process(&status(), client.pid().0).unwrap()["debugger"], serde_json::Value::Null);
        client.leave();
    });
}

#[test]
fn queues_of_a_runtime_that_did_not_offer_itself_cannot_be_stopped() {
    play(this_test!(), &[], |scene| {
        let mut client = scene.actor();
        client.ask("open");
        // What tinygrad does by accident: a mode without the bit that enables.
        client.ask("runtime off");
        let queue = QueueId(client.queue(7));
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        assert_eq!(tracer.runtime().runtime_state, RuntimeState::DISABLED);
        assert_eq!(tracer.snapshot().unwrap().len(), 1);
        assert_eq!(refused(tracer.suspend(&[queue], Grace::SHORTEST)), Some(libc::EPERM));
        assert_eq!(refused(tracer.resume(&[queue])), Some(libc::EPERM));
        tracer.close().unwrap();
        client.leave();
    });
}

#[test]
fn only_who_traces_a_process_may_begin_a_session() {
    play(this_test!(), &[], |scene| {
        let mut client = scene.actor();
        client.ask("open");
        let (kfd, pid) = (Kfd::open().unwrap(), client.pid());
        let (_events, notify) = std::io::pipe().unwrap();
        assert_eq!(refused(kfd.enable(pid, ExceptionMask::EMPTY, &notify)), Some(libc::EPERM));
        assert_eq!(refused(kfd.queue_snapshot(pid, ExceptionMask::EMPTY)), Some(libc::EPERM));
        assert_eq!(refused(kfd.queue_snapshot(Pid(u32::MAX >> 1), ExceptionMask::EMPTY)), Some(libc::ESRCH));
        // A tracer that has not begun a session is told so.
        let leader = Tracee::seize(pid, |_| ()).unwrap();
        let early = leader.run(move || kfd.queue_snapshot(pid, ExceptionMask::EMPTY)).unwrap();
        assert_eq!(refused(early), Some(libc::EINVAL));
        leader.detach();
        // Memory is looked at after permission.
        assert_eq!(suspend_nowhere(pid), Some(libc::EPERM));
        let (session, _) = Session::begin(pid, ExceptionMask::EMPTY);
        assert_eq!(suspend_nowhere(pid), Some(libc::EFAULT));
        session.kfd.disable(pid).unwrap();
        client.leave();
    });
}

/// Begins a session, stops tracing, and asks for a snapshot, first from another thread than the one that traces.
fn ask_from_elsewhere(scene: &Scene) -> [Option<i32>; 2] {
    let (mut client, _) = scene.walker(1);
    let pid = client.pid();
    let (Session { kfd, leader, .. }, _) = Session::begin(pid, ExceptionMask::EMPTY);
    let errno = || kfd.queue_snapshot(pid, ExceptionMask::QUEUE_NEW).err().and_then(|error| error.errno());
    let traced = errno();
    leader.detach();
    let detached = errno();
    // Every variant lets any process end a session.
    kfd.disable(pid).unwrap();
    client.enough();
    client.must_end_right(0);
    client.leave();
    [traced, detached]
}

#[test]
fn a_session_outlives_the_trace_that_it_began_with() {
    play(this_test!(), &[], |scene| {
        assert_eq!(ask_from_elsewhere(scene), [None, None]);
    });
}

#[test]
fn the_original_driver_takes_calls_of_the_tracing_thread_only() {
    play(this_test!(), ORIGINAL, |scene| {
        assert_eq!(ask_from_elsewhere(scene), [Some(libc::EPERM); 2]);
        // The tracer of the library makes all calls from that thread.
        let (mut client, queue) = scene.walker(1);
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
        assert_eq!(tracer.resume_all().unwrap(), 1);
        tracer.close().unwrap();
        client.enough();
        client.must_end_right(0);
        client.leave();
    });
}

#[test]
fn a_queue_made_during_a_session_is_unknown_until_a_snapshot_shows_it() {
    play(this_test!(), &[], |scene| {
        let (mut client, first) = scene.walker(1);
        let pid = client.pid();
        let (session, _) = Session::begin(pid, ExceptionMask::QUEUE_NEW);
        let kfd = &session.kfd;
        kfd.queue_snapshot(pid, ExceptionMask::QUEUE_NEW).unwrap();
        let noticed = session.noticed();
        let second = client.queue(7);
        assert_eq!(session.noticed(), noticed + 1);
        let queues = [QueueId(first), QueueId(second)];
        let batch = kfd.suspend_queues(pid, &queues, Grace::SHORTEST).unwrap();
        assert_eq!(batch.results(), [(queues[0], QueueResult::Done), (queues[1], QueueResult::Unknown)]);
        let snapshot = kfd.queue_snapshot(pid, ExceptionMask::QUEUE_NEW).unwrap();
        let new: Vec<(u32, bool)> = snapshot
            .iter()
            .map(|entry| (entry.queue_id, entry.exception_status.has(ExceptionMask::QUEUE_NEW)))
            .collect();
        assert_eq!(new, [(second, true), (first, false)], "the newest first");
        assert!(kfd.suspend_queues(pid, &queues, Grace::SHORTEST).unwrap().all_done());
        assert_eq!(kfd.query_debug_event(pid, ExceptionMask::QUEUE_NEW).unwrap(), None);
        // The end of a session resumes everything.
        kfd.disable(pid).unwrap();
        client.enough();
        client.must_end_right(0);
        client.leave();
    });
}

#[test]
fn a_second_debugger_is_refused_and_takes_the_session_over_nevertheless() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(1);
        let pid = client.pid();
        let (session, _) = Session::begin(pid, ExceptionMask::EMPTY);
        session.leader.detach();
        session.kfd.queue_snapshot(pid, ExceptionMask::QUEUE_NEW).unwrap();
        let mut thief = scene.actor();
        thief.ask(&format!("trace {pid}"));
        assert_eq!(thief.try_to("debug"), Err(libc::EALREADY));
        assert_eq!(refused(session.kfd.queue_snapshot(pid, ExceptionMask::EMPTY)), Some(libc::EPERM));
        assert_eq!(thief.ask("snapshot"), "1");
        assert_eq!(thief.ask(&format!("suspend {queue}")), "true");
        // It may also end the session that it did not begin.
        thief.ask("disable");
        assert!(process(&status(), pid.0).unwrap()["debugger"].is_null());
        client.enough();
        client.must_end_right(0);
        thief.leave();
        client.leave();
    });
}

#[test]
fn the_start_of_a_debugged_runtime_waits_for_the_debugger() {
    play(this_test!(), &[], |scene| {
        let mut client = scene.actor();
        client.ask("open");
        client.ask("runtime off");
        let pid = client.pid();
        let (session, state) = Session::begin(pid, ExceptionMask::PROCESS_RUNTIME);
        assert_eq!(state, RuntimeState::DISABLED);
        client.say("runtime on");
        until("it waits", || waiting_thread(pid, RUNTIME_ENABLE).is_some());
        until("the debugger is told", || session.noticed() == 1);
        let raised = session.kfd.query_debug_event(pid, ExceptionMask::PROCESS_RUNTIME).unwrap();
        assert!(raised.is_some_and(|raised| raised.exceptions.has(ExceptionMask::PROCESS_RUNTIME)));
        session.kfd.send_runtime_event(pid, ExceptionMask::PROCESS_RUNTIME).unwrap();
        assert_eq!(client.answer(), Ok(String::new()));
        // An answer that was given before lets the next one pass.
        session.kfd.send_runtime_event(pid, ExceptionMask::PROCESS_RUNTIME).unwrap();
        client.ask("runtime off");
        session.kfd.disable(pid).unwrap();
        client.leave();
    });
}

#[test]
fn doorbells_that_are_rung_during_cycles_are_neither_lost_nor_answered_twice() {
    play(this_test!(), &[], |scene| {
        const JOBS: usize = 60;
        let mut client = scene.actor();
        client.ask("open");
        let queue = client.queue(7);
        let mut other = scene.actor();
        other.ask("open");
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        tracer.snapshot().unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
                    assert!(tracer.resume(&[QueueId(queue)]).unwrap().all_done());
                }
            });
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let queue = other.queue(7);
                    other.ask(&format!("destroy {queue}"));
                }
            });
            // Whatever goes wrong here must end the others, too.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for job in 0..JOBS {
                    client.ask(&format!("walk {queue} 2"));
                    client.enough();
                    client.must_end_right(job);
                }
            }));
            over.store(true, Ordering::Relaxed);
            assert!(done.is_ok());
        });
        // A completion signal that was counted down twice would be below zero.
        assert!((0..JOBS).all(|job| client.is_done(job)));
        tracer.close().unwrap();
        client.leave();
        other.leave();
    });
}
