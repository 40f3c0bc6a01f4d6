//! When a gpu is left to the hardware, and when it is managed again.

use std::fs;
use std::path::Path;
use std::process::Command;

use gpreempt_proto::EventKind;

use gpreempt_testkit::daemon::{Rules, TestDaemon, until_suspended};
use gpreempt_testkit::{play, this_test};

use super::executable;

/// A gpu that takes long to stop anything, as a file.
fn slow_gpu() -> String {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slow-gpu.toml");
    let output = Command::new(executable()).args(["vgpu", "profiles", "mi300x"]).output().expect("can be started");
    let profile = String::from_utf8(output.stdout).expect("text");
    fs::write(&file, format!("{profile}\n[cycle]\nunmap_us = 30000\n")).expect("can be written");
    file.into_os_string().into_string().expect("a path of text")
}

/// Whether all of these are in the log, in this order.
fn in_order(events: &[EventKind], wanted: &[fn(&EventKind) -> bool]) -> bool {
    let mut events = events.iter();
    wanted.iter().all(|wanted| events.any(wanted))
}

#[test]
fn a_gpu_that_is_slow_is_left_alone_for_a_while_and_then_managed_again() {
    play(this_test!(), &["--profile", &slow_gpu()], |scene| {
        let breaker = "slow = 1\nslow_after_ms = 10\npause_s = 2\nlongest_s = 2";
        let service = TestDaemon::start(scene, Rules { breaker, ..Rules::default() });
        let (mut offline, _) = service.walker(2);
        let (mut online, _) = service.walker(12);
        let wanted: &[fn(&EventKind) -> bool] = &[
            |kind| matches!(kind, EventKind::Preempted { .. }),
            |kind| matches!(kind, EventKind::BackedOff { message, .. } if message.contains("slower than 10ms")),
            |kind| matches!(kind, EventKind::Resumed { .. }),
            |kind| matches!(kind, EventKind::Recovered),
            |kind| matches!(kind, EventKind::Preempted { .. }),
        ];
        let all = || service.events(None).into_iter().map(|event| event.kind).collect::<Vec<_>>();
        service.until("it is stopped, left alone, and stopped again", |_| in_order(&all(), wanted));
        // That goes on, so a client that looks long enough sees it.
        service.until("the status tells", |status| {
            status.gpus[0].breaker.as_ref().is_some_and(|breaker| breaker.message.contains("slower than 10ms"))
        });
        service.until("people are told", |_| {
            let (status, said) = service.command(&["ps"]);
            assert!(status.success(), "{said}");
            said.contains("left to the hardware") && said.contains("slower than 10ms")
        });
        service.must_work(offline.pid());
        until_suspended(offline.pid(), (0, 1));
        for actor in [&mut online, &mut offline] {
            actor.enough();
            actor.must_end_right(0);
        }
        assert_eq!(service.count(|gpu| gpu.failures), 0);
        service.stop();
    });
}
