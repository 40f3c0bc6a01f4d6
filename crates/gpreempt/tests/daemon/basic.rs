//! The life of the daemon: lower levels stop while a higher one wants, and nothing is lost by it.

use gpreempt_proto::{EventKind, State};

use super::scene::play;
use super::stage::{Rules, Service, stops, suspended};

/// Kernels that fill a gpu of this size for long enough to be met in the middle.
const SMALL_GPU: &[&str] = &["--cus", "8"];
const OFFLINE: &[&str] = &["offline", "--steps", "2000"];

#[test]
fn lower_work_stops_while_higher_work_runs_and_goes_on_where_it_was() {
    play("basic::lower_work_stops_while_higher_work_runs_and_goes_on_where_it_was", SMALL_GPU, |stage| {
        let service = Service::start(stage, Rules::default());
        let offline = service.load(2, OFFLINE);
        offline.until("kernel");
        let (mut online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        assert_eq!(suspended(offline.pid()), (1, 1));
        service.must_be(online.pid(), State::Running);
        let tenant = service.tenant(offline.pid());
        let why = tenant.why.expect("a reason");
        assert_eq!((why.rule.as_str(), tenant.level, tenant.attached), ("higher_wants", Some(2), true));
        assert_eq!(why.by, service.tenant(online.pid()).job);
        assert!(!service.tenant(online.pid()).attached);

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
