//! The daemon on the drivers of all kernels, and what only some of them do.

use std::sync::Arc;

use gpreempt_proto::{EventKind, Reason, State, TenantStatus};
use gpreempt_testkit::daemon::{Rules, TestDaemon, stops, until_suspended};
use gpreempt_testkit::{Scene, play, play_each_kernel, this_test, until};
use kfd::{Error, Kfd, Pid, Processes, Tracer};

const SMALL_GPU: &[&str] = &["--cus", "8"];
const OFFLINE: &[&str] = &["offline", "--steps", "2000"];

#[test]
fn a_job_is_attached_stopped_resumed_and_shown_on_every_kernel() {
    play_each_kernel(this_test!(), SMALL_GPU, |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let offline = service.load(2, OFFLINE);
        offline.until("kernel");
        for _ in 0..3 {
            let (mut online, _) = service.walker(12);
            service.must_be(offline.pid(), State::Stopped);
            until_suspended(offline.pid(), (1, 1));
            let by = service.tenant(online.pid()).job;
            service.must_show(offline.pid(), "stopped for the higher one", |tenant| {
                let told = tenant.why.as_ref().is_some_and(|why| why.reason == Reason::HigherWants && why.by == by);
                told && tenant.attached
            });
            let (status, text) = service.command(&["ps"]);
            assert!(status.success() && text.contains("higher_wants"), "{text}");
            offline.printed();
            online.enough();
            online.must_end_right(0);
            service.must_work(offline.pid());
            offline.until("kernel");
            online.leave();
        }
        assert!(stops(&service.events_of(offline.pid())) >= 3);
        assert_eq!(service.count(|gpu| gpu.failures), 0);
        offline.must_end_right();
        service.stop();
    });
}

#[test]
fn queues_of_stopped_processes_run_when_the_daemon_is_killed_on_every_kernel() {
    play_each_kernel(this_test!(), &[], |scene| {
        let mut service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let (online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        service.kill();
        offline.enough();
        offline.must_end_right(0);
        online.kill();
    });
}

#[test]
fn a_process_with_contexts_is_not_stopped_and_every_report_says_why() {
    play(this_test!(), &["--kernel", "7.2"], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let pid = offline.pid();
        offline.ask("context");
        until("the driver shows it", || Processes::default().contexts(pid).is_ok_and(|found| found == Some(vec![0])));
        let unreachable = |tenant: &TenantStatus| {
            tenant.unstoppable.as_deref().is_some_and(|why| why.contains("1 of its contexts are out of reach"))
        };
        service.must_show(pid, "out of reach", unreachable);
        let (mut online, _) = service.walker(12);
        service.must_be(online.pid(), State::Running);
        service.must_show(pid, "still out of reach and running", |tenant| {
            unreachable(tenant) && tenant.state != State::Stopped
        });
        let (_, text) = service.command(&["doctor"]);
        assert!(text.contains(&format!("{pid} has 1 more")), "{text}");
        let (_, text) = service.command(&["ps"]);
        assert!(text.contains("out of reach of a debug session"), "{text}");
        assert_eq!(stops(&service.events_of(pid)), 0);

        // Without the context it is a job like others.
        offline.ask("close-context");
        service.must_be(pid, State::Stopped);
        online.enough();
        online.must_end_right(0);
        offline.enough();
        offline.must_end_right(0);
    });
}

#[test]
fn a_context_that_comes_during_a_stop_ends_it() {
    play(this_test!(), &["--kernel", "7.2"], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let (mut online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        offline.ask("context");
        service.must_work(offline.pid());
        offline.enough();
        offline.must_end_right(0);
        online.enough();
        online.must_end_right(0);
    });
}

#[test]
fn a_resume_that_the_driver_has_no_time_for_is_shown_and_tried_again() {
    // Longer than the actuator is patient by itself.
    play(this_test!(), &["--kernel", "dkms", "--sampling-after-stop-ms", "900"], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let (mut online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        online.enough();
        online.must_end_right(0);
        service.must_show(offline.pid(), "the driver is busy", |tenant| {
            tenant.unstoppable.as_deref().is_some_and(|why| why.contains("the driver is busy with it"))
        });
        service.must_work(offline.pid());
        let events = service.events_of(offline.pid());
        let busy = |kind: &&EventKind| matches!(kind, EventKind::Failed { message, .. } if message.contains("busy"));
        assert_eq!(events.iter().filter(busy).count(), 1, "{events:?}");
        offline.enough();
        offline.must_end_right(0);
        // The gpu is not to blame.
        assert!(service.status().gpus.iter().all(|gpu| gpu.breaker.is_none()));
        online.leave();
    });
}

/// Begins a session with a process, as the actuator does.
fn attach(pid: Pid) -> kfd::Result<()> {
    let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open()?), pid)?;
    tracer.close()
}

#[test]
fn no_session_begins_before_the_process_has_opened_the_driver() {
    play_each_kernel(this_test!(), &[], |scene: &Scene| {
        let mut early = scene.actor();
        let refused = attach(early.pid());
        assert!(matches!(refused, Err(Error::NotOpen { .. })), "{refused:?}");
        // The driver would have made an entry for it.
        assert!(!Processes::default().is_open_by(early.pid()));
        let mut careless = scene.actor();
        careless.ask("open");
        careless.ask(&format!("trace {}", early.pid()));
        careless.ask("debug");
        assert!(Processes::default().is_open_by(early.pid()));
        careless.ask("disable");
        // It gets that entry when it comes, and nothing of it is left when it goes.
        early.ask("open");
        let queue = early.queue(7);
        assert_eq!(Processes::default().find(early.pid()).unwrap().unwrap().queues.len(), 1);
        early.ask(&format!("destroy {queue}"));
        let pid = early.pid();
        careless.leave();
        attach(pid).unwrap();
        early.leave();
        until("its entry is gone", || !Processes::default().is_open_by(pid));
    });
}

#[test]
fn a_process_that_a_debugger_named_leaves_no_entry_if_it_never_comes() {
    play(this_test!(), &[], |scene| {
        let early = scene.actor();
        let pid = early.pid();
        let mut careless = scene.actor();
        careless.ask("open");
        careless.ask(&format!("trace {pid}"));
        careless.ask("debug");
        assert!(Processes::default().is_open_by(pid));
        early.kill_traced();
        until("its entry is gone", || !Processes::default().is_open_by(pid));
        careless.leave();
    });
}
