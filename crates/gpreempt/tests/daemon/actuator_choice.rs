//! Which actuator serves. The virtual gpu has no scheduling descriptors, as no released driver has.

use std::fs;
use std::process::Command;

use gpreempt_proto::{ActuatorKind, State};
use gpreempt_testkit::daemon::{Rules, TestDaemon, until_suspended};
use gpreempt_testkit::{play, this_test};

#[test]
fn where_the_driver_cannot_switch_sets_of_queues_auto_is_the_debug_trap() {
    play(this_test!(), &[], |scene| {
        let service = TestDaemon::start(scene, Rules { daemon: "actuator = \"auto\"", ..Rules::default() });
        assert_eq!(service.status().actuator, None, "there is nothing to stop yet");
        let (mut offline, _) = service.walker(2);
        let (mut online, _) = service.walker(12);
        service.must_be(offline.pid(), State::Stopped);
        until_suspended(offline.pid(), (1, 1));
        let status = service.until("an actuator serves", |status| status.actuator.is_some());
        assert_eq!(status.actuator, Some(ActuatorKind::DebugTrap));
        assert_eq!(service.stats().daemon.actuator, Some(ActuatorKind::DebugTrap));
        let (_, shown) = service.command(&["ps"]);
        assert!(shown.starts_with("Enforcing (actuator: debug trap): daemon"), "{shown}");
        let (_, shown) = service.command(&["stats"]);
        assert!(shown.contains("Actuator: debug trap, 1 start"), "{shown}");
        let (_, shown) = service.command(&["doctor", "--json"]);
        assert!(shown.contains("debug trap, at work"), "{shown}");
        for actor in [&mut online, &mut offline] {
            actor.enough();
            actor.must_end_right(0);
        }
        online.leave();
        offline.leave();
        service.stop();
    });
}

#[test]
fn an_actuator_that_the_driver_lacks_is_refused_with_the_remedy() {
    play(this_test!(), &[], |scene| {
        let directory = tempfile::tempdir().unwrap();
        let (config, socket) = (directory.path().join("insisting.toml"), directory.path().join("socket"));
        let combined = Rules { daemon: "actuator = \"combined\"", ..Rules::default() };
        let kernel = Rules { daemon: "actuator = \"kernel\"", ..Rules::default() };
        for (insisting, word) in [(&kernel, "kernel"), (&combined, "combined")] {
            fs::write(&config, insisting.text()).unwrap();
            let mut daemon = Command::new("gpreempt");
            let refused = daemon.args(["daemon", "--config"]).arg(&config).arg("--socket").arg(&socket).output();
            let refused = refused.unwrap();
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{said}");
            assert!(said.contains(&format!("actuator = \"{word}\" is not available")), "{said}");
            assert!(said.contains("kernel/patch") && said.contains("actuator = \"auto\""), "{said}");
        }

        // A running daemon keeps what it has.
        let service = TestDaemon::start(scene, Rules::default());
        fs::write(service.config(), combined.text()).unwrap();
        let (status, said) = service.command(&["reload"]);
        assert!(!status.success() && said.contains("actuator = \"combined\" is not available"), "{said}");
        service.stop();
    });
}
