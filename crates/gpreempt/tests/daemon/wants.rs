//! What counts as higher work, and what brings it to the daemon's notice.

use gpreempt_proto::State;
use gpreempt_testkit::daemon::{Rules, TestDaemon, stops, tenants, until_suspended};
use gpreempt_testkit::scene::{status, waves};
use gpreempt_testkit::{play, play_each_read_index, this_test, until};

#[test]
fn kernels_without_completion_signals_are_protected_until_they_are_done() {
    play_each_read_index(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, queue) = service.idler(2);
        offline.ask(&format!("walk {queue} 512"));
        let (mut online, queue) = service.idler(12);
        let pid = online.pid().0;
        // Twice: when it is done nothing in its memory says so.
        for job in 0..2 {
            service.must_work(offline.pid());
            until_suspended(offline.pid(), (0, 1));
            let before = stops(&service.events_of(offline.pid()));
            online.ask(&format!("walk {queue} 8 silent"));
            service.until("it is stopped", |_| stops(&service.events_of(offline.pid())) > before);
            until("its waves run", || waves(&status(), pid) > 0);
            service.must_be(offline.pid(), State::Stopped);
            until_suspended(offline.pid(), (1, 1));
            online.enough();
            until("its waves are gone", || waves(&status(), pid) == 0);
            online.must_end_right(job);
        }
        service.must_work(offline.pid());
        offline.enough();
        offline.must_end_right(0);
    });
}

#[test]
fn no_tenant_is_stopped_for_copies_nor_attached_for_a_process_that_does_nothing_else() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules::default());
        let (mut offline, _) = service.walker(2);
        let pid = offline.pid();
        let mut copier = service.actor(12);
        copier.ask("open");
        let begun = service.stats().daemon.scans;
        service.until("many scans", |status| {
            copier.ask("copy");
            assert!(tenants(status, pid).all(|tenant| tenant.state != State::Stopped && !tenant.attached));
            assert_eq!(status.actuator_pid, None);
            service.stats().daemon.scans >= begun + 40
        });
        // One that could have other work is worth a session, but its copies are not worth a stop.
        copier.queue(7);
        service.must_be_known(copier.pid());
        service.must_show(pid, "attached", |tenant| tenant.attached);
        service.must_be(copier.pid(), State::Idle);
        // Loading its program was such work.
        service.must_work(pid);
        until_suspended(pid, (0, 1));
        let (stopped, begun) = (stops(&service.events_of(pid)), service.stats().daemon.scans);
        service.until("many scans", |_| {
            copier.ask("copy");
            assert_eq!(stops(&service.events_of(pid)), stopped);
            service.stats().daemon.scans >= begun + 40
        });
        offline.enough();
        offline.must_end_right(0);
    });
}

#[test]
fn notified_work_is_counted_where_only_scans_look() {
    play_each_read_index(this_test!(), &[], |scene| {
        let daemon = "scan_ms = 10\n[watch]\nfixed = true\nperiod_us = 10000";
        let service = TestDaemon::start(scene, Rules { daemon, ..Rules::default() });
        let (mut offline, _) = service.walker(2);
        let (mut online, queue) = service.idler(12);
        // A process that the daemon does not know.
        let own = std::process::id().to_string();
        let known = online.pid().to_string();
        online.ask(&format!("walk {queue} 4"));
        for pid in [&own, &known, &known] {
            let (status, said) = service.command(&["notify", "--pid", pid]);
            assert!(status.success(), "{said}");
        }
        service.until("they are counted", |_| service.stats().daemon.notifications >= 2);
        assert_eq!(service.stats().daemon.notifications, 2);
        service.must_be(offline.pid(), State::Stopped);
        for actor in [&mut online, &mut offline] {
            actor.enough();
            actor.must_end_right(0);
        }
    });
}

#[test]
fn a_daemon_with_a_core_of_its_own_stops_and_resumes() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules { daemon: "[watch]\nspin_core = 0", ..Rules::default() });
        let (mut offline, _) = service.walker(2);
        let (mut online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        online.enough();
        online.must_end_right(0);
        service.must_work(offline.pid());
        offline.enough();
        offline.must_end_right(0);
        service.stop();
    });
}
