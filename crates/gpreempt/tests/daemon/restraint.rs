//! What the daemon does not do.

use std::fs;
use std::process::Command;

use gpreempt_proto::{EventKind, RefusalKind, Request, State, Status, Target};
use gpreempt_testkit::daemon::{Rules, TestDaemon, suspended, tenants, tracer};
use gpreempt_testkit::scene;
use gpreempt_testkit::{play, play_each_read_index, this_test, until};
use kfd::Pid;

use super::executable;

/// Waits for so many scans, at each of which something must hold.
fn throughout(service: &TestDaemon<'_>, scans: u64, mut holds: impl FnMut(&Status) -> bool) {
    let begun = service.stats().daemon.scans;
    service.until("scans", |status| {
        assert!(holds(status), "{status:#?}");
        service.stats().daemon.scans >= begun + scans
    });
}

/// Processes that have the driver open.
fn users() -> Vec<u64> {
    let status = scene::status();
    let mut pids: Vec<u64> =
        status["processes"].as_array().expect("a list").iter().filter_map(|found| found["pid"].as_u64()).collect();
    pids.sort_unstable();
    pids
}

fn is_stopped(status: &Status, pid: Pid) -> bool {
    tenants(status, pid).any(|tenant| tenant.state == State::Stopped)
}

#[test]
fn where_there_is_only_one_level_no_process_is_attached_to() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut first, _) = service.walker(2);
        let (mut second, _) = service.walker(2);
        let pids = [first.pid(), second.pid()];
        throughout(&service, 40, |status| {
            let free = |tenant: &gpreempt_proto::TenantStatus| !tenant.attached && tenant.state != State::Stopped;
            status.actuator_pid.is_none() && status.tenants.iter().all(free)
        });
        assert_eq!(pids.map(tracer), [None, None]);
        let mut own = pids.map(|pid| u64::from(pid.0)).to_vec();
        own.sort_unstable();
        assert_eq!(users(), own, "no other process has the driver open");
        let stats = service.stats().daemon;
        assert_eq!((stats.actuator_starts, stats.polls), (0, 0));
        for actor in [&mut first, &mut second] {
            actor.enough();
            actor.must_end_right(0);
        }
    });
}

#[test]
fn an_observing_daemon_tells_what_it_would_do_and_touches_no_process() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules { mode: "observe", ..Rules::default() });
        let (mut offline, _) = service.walker(2);
        let (mut online, queue) = service.idler(12);
        let pids = [offline.pid(), online.pid()];
        online.ask(&format!("walk {queue} 4"));
        let would = |kind: &EventKind| matches!(kind, EventKind::WouldPreempt { by: Some(_), .. });
        service.until("it is told", |status| {
            assert!(!is_stopped(status, offline.pid()) && status.actuator_pid.is_none());
            service.events_of(offline.pid()).iter().any(would)
        });
        assert_eq!(pids.map(tracer), [None, None]);
        let mut own = pids.map(|pid| u64::from(pid.0)).to_vec();
        own.sort_unstable();
        assert_eq!(users(), own, "no other process has the driver open");
        let hold = Request::Hold { target: Target::Pid(offline.pid().0), seconds: 1 };
        assert_eq!(service.refusal(hold).kind, RefusalKind::Observing);
        online.enough();
        online.must_end_right(0);
        let ended = |kind: &EventKind| matches!(kind, EventKind::InversionEnded { lasted_us, .. } if *lasted_us > 0.0);
        service.until("the end is told", |_| service.events_of(online.pid()).iter().any(ended));
        offline.enough();
        offline.must_end_right(0);
        // Loading the higher program is work, too, and may have met the lower.
        assert!(service.count(|gpu| gpu.inversions) >= 1);
        assert_eq!(service.count(|gpu| gpu.preempts), 0);
        assert_eq!(service.stats().daemon.actuator_starts, 0);
    });
}

#[test]
fn processes_that_no_rule_matches_are_not_stopped_and_cause_no_stop() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut stranger, _) = scene.walker(4);
        let (mut offline, _) = service.walker(2);
        throughout(&service, 20, |status| {
            tenants(status, stranger.pid()).all(|tenant| tenant.job.is_none() && tenant.level.is_none())
                && status.tenants.iter().all(|tenant| tenant.state != State::Stopped)
                && status.actuator_pid.is_none()
        });
        let (mut online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        throughout(&service, 20, |status| !is_stopped(status, stranger.pid()));
        assert_eq!((suspended(stranger.pid()), tracer(stranger.pid())), ((0, 1), None));
        for actor in [&mut online, &mut stranger, &mut offline] {
            actor.enough();
            actor.must_end_right(0);
        }
        assert_eq!(service.tenant(stranger.pid()).preempted, 0);
    });
}

#[test]
fn a_process_without_a_runtime_cannot_be_stopped_but_can_be_protected() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let mut plain = service.actor(5);
        plain.ask("open");
        plain.ask("runtime off");
        let queue = plain.queue(7);
        plain.ask(&format!("walk {queue} 4"));
        service.must_be(offline.pid(), State::Stopped);
        let (mut online, _) = service.walker(12);
        service.until("it is known why", |status| {
            tenants(status, plain.pid()).any(|tenant| tenant.unstoppable.as_deref() == Some("runtime not enabled"))
        });
        throughout(&service, 20, |status| !is_stopped(status, plain.pid()));
        service.must_be(offline.pid(), State::Stopped);
        let (status, said) = service.command(&["ps"]);
        assert!(status.success() && said.contains("runtime not enabled"), "{said}");
        for actor in [&mut online, &mut plain, &mut offline] {
            actor.enough();
            actor.must_end_right(0);
        }
    });
}

#[test]
fn higher_work_that_waits_for_lower_work_does_not_stop_it() {
    play_each_read_index(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut online, queue) = service.idler(12);
        online.ask(&format!("gate {queue}"));
        online.ask(&format!("walk {queue} 4"));
        let (mut offline, _) = service.walker(2);
        service.must_be(online.pid(), State::Blocked);
        throughout(&service, 40, |status| !is_stopped(status, offline.pid()));
        assert_eq!(service.count(|gpu| gpu.preempts), 0);
        // The lower work completes what the higher waits for; then the higher goes first again.
        offline.enough();
        offline.must_end_right(0);
        let queue = scene::process(&scene::status(), offline.pid().0).expect("there")["queues"][0]["id"].clone();
        offline.ask(&format!("walk {queue} 4"));
        online.ask("fire");
        service.must_be(offline.pid(), State::Stopped);
        online.enough();
        online.must_end_right(0);
        offline.enough();
        offline.must_end_right(1);
    });
}

#[test]
#[ignore = "needs strace, and permission to trace"]
fn memory_of_processes_is_read_only_where_two_levels_meet() {
    play(this_test!(), &[], |scene| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = directory.path().join("calls");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-yy", "-qq", "-e", "trace=pread64,preadv,process_vm_readv", "-e", "signal=none", "-o"]);
        strace.arg(&log).arg(executable());
        let service = TestDaemon::start_with(scene, Rules::default(), strace);
        let reads = || {
            let text = fs::read_to_string(&log).expect("strace writes it");
            // The last line may not be written to its end.
            let lines: Vec<&str> = text.rfind('\n').map_or("", |end| &text[..end]).lines().collect();
            // A call during which another thread called is on two lines, the result on the second.
            let result = |at: usize| {
                let line = lines[at];
                let thread = line.split(' ').next().unwrap_or_default();
                let mut later = lines[at + 1..].iter().filter(|later| later.split(' ').next() == Some(thread));
                if line.contains("<unfinished") { later.next().copied().unwrap_or_default() } else { line }
            };
            let of_memory = |line: &str| line.contains("/mem>") || line.contains("process_vm_readv(");
            // Whether the memory is still there is asked by reading nothing of it.
            let reads = |at: &usize| of_memory(lines[*at]) && !result(*at).contains("= -1");
            (0..lines.len()).filter(reads).map(|at| lines[at].to_owned()).collect::<Vec<_>>()
        };
        let mut first = service.actor(2);
        first.ask("open");
        let queue = first.queue(7);
        first.ask(&format!("walk {queue} 4"));
        // Asking for the status is no reason to read, either.
        let appeared = |service: &TestDaemon<'_>, pid: Pid| {
            tenants(&service.status(), pid).all(|tenant| tenant.state == State::Unknown)
                && service.events_of(pid).iter().any(|kind| matches!(kind, EventKind::Appeared { .. }))
        };
        until("the daemon knows it", || appeared(&service, first.pid()));
        let mut second = service.actor(2);
        second.ask("open");
        let queue = second.queue(7);
        second.ask(&format!("walk {queue} 4"));
        until("the daemon knows the second", || appeared(&service, second.pid()));
        assert_eq!(reads(), [""; 0]);
        let (mut online, _) = service.walker(12);
        service.must_be(first.pid(), State::Stopped);
        until("rings are looked at", || reads().len() > 10);
        for actor in [&mut online, &mut first, &mut second] {
            actor.enough();
            actor.must_end_right(0);
        }
    });
}

/// It waits for nothing but its inbox, so that no disk and no process can delay a decision.
#[test]
#[ignore = "needs strace, and permission to trace"]
fn the_deciding_thread_opens_no_file_and_starts_no_process() {
    play(this_test!(), &[], |scene| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = directory.path().join("calls");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-Y", "-qq", "-e", "trace=%file,%process,fsync,fdatasync", "-e", "signal=none", "-o"]);
        strace.arg(&log).arg(executable());
        let service = TestDaemon::start_with(scene, Rules::default(), strace);
        let calls_of = |thread: &str| {
            let text = fs::read_to_string(&log).expect("strace writes it");
            // Threads and their ends are no processes.
            let counts =
                |line: &&str| !line.contains("clone3(") && !line.contains("clone(") && !line.contains(" exit(");
            let of_thread = |line: &&str| line.contains(&format!("<{thread}>"));
            text.lines().filter(of_thread).filter(counts).map(str::to_owned).collect::<Vec<_>>()
        };
        let (mut offline, _) = service.walker(2);
        let target = || Target::Pid(offline.pid().0);
        service.must_be_known(offline.pid());
        service.ask(Request::Set { target: target(), level: 3 });
        let (mut online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        service.ask(Request::Hold { target: target(), seconds: 5 });
        service.ask(Request::Release { target: target() });
        online.enough();
        online.must_end_right(0);
        service.must_work(offline.pid());
        assert_eq!(calls_of("decide"), [""; 0]);
        // The threads that do it instead are seen.
        until("files are read and written", || !calls_of("discovery").is_empty() && !calls_of("overrides").is_empty());
        offline.enough();
        offline.must_end_right(0);
    });
}
