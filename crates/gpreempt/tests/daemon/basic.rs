//! The life of the daemon: lower levels stop while a higher one wants, and nothing is lost by it.

use gpreempt_proto::{Event, EventKind, Reason, State, TenantStatus};
use gpreempt_testkit::daemon::{Rules, TestDaemon, cycles, stops, tenants, until_suspended};
use gpreempt_testkit::{play, play_each_read_index, this_test};

/// Kernels that fill a gpu of this size for long enough to be met in the middle.
const SMALL_GPU: &[&str] = &["--cus", "8"];
const OFFLINE: &[&str] = &["offline", "--steps", "2000"];

#[test]
fn lower_work_stops_while_higher_work_runs_and_goes_on_where_it_was() {
    play_each_read_index(this_test!(), SMALL_GPU, |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let offline = service.load(2, OFFLINE);
        offline.until("kernel");
        let (mut online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        until_suspended(offline.pid(), (1, 1));
        service.must_be(online.pid(), State::Running);
        let cause = service.tenant(online.pid());
        assert!(!cause.attached);
        service.must_show(offline.pid(), "stopped for the higher one", |tenant| {
            let told = tenant.why.as_ref().is_some_and(|why| why.reason == Reason::HigherWants && why.by == cause.job);
            told && tenant.level == Some(2) && tenant.attached
        });

        // What was printed before the stop is passed over: while it lasts there is no more.
        offline.printed();
        online.enough();
        online.must_end_right(0);
        service.must_work(offline.pid());
        offline.until("kernel");
        let events = service.events_of(offline.pid());
        assert!(stops(&events) >= 1, "{events:?}");
        let resumed = |kind: &EventKind| matches!(kind, EventKind::Resumed { stopped_us, .. } if *stopped_us > 0.0);
        assert!(events.iter().any(resumed), "{events:?}");
        offline.must_end_right();
        online.leave();
        service.stop();
    });
}

#[test]
fn many_stops_lose_nothing_and_the_device_counts_as_many() {
    play_each_read_index(this_test!(), SMALL_GPU, |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let offline = service.load(2, OFFLINE);
        offline.until("kernel");
        // As many rounds as it takes: on a busy machine several bursts become one.
        let words = ["online", "--requests", "50", "--kernels", "2", "--steps", "50", "--rate", "60", "--wait"];
        while service.count(|gpu| gpu.preempts) < 40 {
            let mut online = service.load(12, &words);
            online.until("ready");
            service.must_be_known(online.pid());
            online.begin();
            assert_eq!(online.must_end_right(), 102);
        }
        service.must_work(offline.pid());
        let kernels = offline.must_end_right();
        service.until("the device counted as many", |_| {
            let (preempts, resumes) = (service.count(|gpu| gpu.preempts), service.count(|gpu| gpu.resumes));
            let device = cycles();
            let counted = |cause: &str| device.get(cause).copied().unwrap_or(0);
            (preempts, resumes) == (counted("suspend"), counted("resume"))
                && service.count(|gpu| gpu.cycles) == preempts + resumes
        });
        assert_eq!(service.count(|gpu| gpu.failures), 0);
        assert!(kernels > 0);
    });
}

#[test]
fn a_second_daemon_on_the_same_gpu_only_watches() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let (mut online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        let second = TestDaemon::start(scene, Rules::default());
        let told = |event: &Event| {
            let EventKind::Actuator { message } = &event.kind else { return false };
            message.contains("the actuator of another daemon")
        };
        second.until("it says why it stops nothing", |_| second.events(None).iter().any(told));
        second.until("it says so of the tenant", |status| {
            let why = |tenant: &TenantStatus| tenant.unstoppable.as_deref() == Some("another daemon manages this gpu");
            tenants(status, offline.pid()).any(why)
        });
        // The first goes, and what it stopped goes on until the second takes over.
        service.stop();
        second.must_be(offline.pid(), State::Stopped);
        online.enough();
        online.must_end_right(0);
        offline.enough();
        offline.must_end_right(0);
    });
}
