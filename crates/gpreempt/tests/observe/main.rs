//! What is seen of processes at work, without being attached to them.

use std::sync::Arc;

use gpreempt_core::Activity;
use gpreempt_observe::{RingFormat, RingPlace, TenantActivity};
use gpreempt_testkit::scene::status;
use gpreempt_testkit::{Actor, play, play_each_read_index, this_test, until};
use gpreemptd::clock::now;
use gpreemptd::discovery::OccupancySample;
use gpreemptd::observe::TenantProbe;
use kfd::debugfs::{self, MqdKind};
use kfd::{Pid, ProcessMemory, process};

/// Workgroups of a walk: enough to be seen in every sample.
const GROUPS: u32 = 64;

/// The rings of a process as debugfs shows them.
fn rings(pid: Pid) -> Vec<RingPlace> {
    let found = process::find(pid).unwrap().expect("it uses a gpu");
    let bytes = found.queues.first().expect("it has a queue").ring_size;
    let shown = debugfs::read_queues().unwrap();
    let shown = shown.iter().find(|process| process.pid == pid.0).expect("it has a queue");
    let compute = shown.queues.iter().filter(|queue| queue.kind == MqdKind::Compute);
    let ring = |queue: &debugfs::MqdQueue| {
        let (base, read_index, write_index) = (queue.ring()?, queue.rptr_address()?, queue.wptr_address()?);
        Some(RingPlace { format: RingFormat::Aql, base, bytes, read_index, write_index })
    };
    compute.filter_map(ring).collect()
}

/// A probe of a process that has a compute queue, which is idle; and the queue.
fn watch(actor: &mut Actor) -> (TenantProbe, u32) {
    actor.ask("open");
    let queue = actor.queue(7);
    let pid = actor.pid();
    let mut probe = TenantProbe::new(Arc::new(ProcessMemory::open(pid).unwrap()), &rings(pid));
    until_idle(&mut probe);
    (probe, queue)
}

/// Waits until the tenant is seen idle. The read index may pass a packet a moment after its signal has fired.
fn until_idle(probe: &mut TenantProbe) {
    until("it is idle", || look(probe).activity == Activity::Idle);
}

fn look(probe: &mut TenantProbe) -> TenantActivity {
    probe.poll(now(), false).unwrap()
}

/// Whether the read index of this gpu passes packets only when they have retired.
fn index_retires() -> bool {
    status()["read_index"] == "retire"
}

/// Asks the driver, as the daemon does when a look is unsure.
fn sample(probe: &mut TenantProbe, pid: Pid) -> u32 {
    let found = process::find(pid).unwrap().expect("it uses a gpu");
    let usage = found.usage.first().expect("it uses a gpu");
    let at = now();
    let path = format!("/sys/class/kfd/kfd/proc/{pid}/stats_{}/cu_occupancy", usage.gpu);
    let occupied = std::fs::read_to_string(path).unwrap().trim().parse().unwrap();
    let (gpu, occupied_cus, evicted_ms) = (usage.gpu, Some(occupied), usage.evicted_ms);
    probe.sampled(&OccupancySample { pid, gpu, at, occupied_cus, evicted_ms }, true);
    occupied
}

#[test]
fn a_kernel_that_was_fetched_runs_until_its_signal_fires() {
    play_each_read_index(this_test!(), &[], |scene| {
        let mut actor = scene.actor();
        let (mut probe, queue) = watch(&mut actor);
        actor.ask(&format!("walk {queue} {GROUPS}"));
        let retires = index_retires();
        until("it was fetched", || {
            let look = look(&mut probe);
            assert!(look.activity.has_work(), "{look:?}");
            if retires { look.activity == Activity::Running } else { look.pending == 0 }
        });
        assert_eq!(look(&mut probe).activity, Activity::Running);
        until("a signal alone is not believed for ever", || look(&mut probe).unsure);
        // Nor is a sample, so what it confirms is sure for a moment only.
        until("a sample confirms it", || {
            assert!(sample(&mut probe, actor.pid()) > 0);
            let confirmed = look(&mut probe);
            assert_eq!(confirmed.activity, Activity::Running);
            !confirmed.unsure
        });
        assert_eq!(look(&mut probe).pending, u64::from(retires), "its packet");
        actor.enough();
        actor.must_end_right(0);
        until_idle(&mut probe);
        actor.leave();
    });
}

#[test]
fn kernels_without_signals_run_until_a_sample_finds_no_waves() {
    play_each_read_index(this_test!(), &[], |scene| {
        let mut actor = scene.actor();
        let (mut probe, queue) = watch(&mut actor);
        actor.ask(&format!("walk {queue} {GROUPS} silent"));
        until("nothing but a sample can tell", || {
            let look = look(&mut probe);
            assert!(look.activity.has_work(), "{look:?}");
            look.unsure
        });
        until("its waves are on the gpu", || sample(&mut probe, actor.pid()) > 0);
        assert_eq!(look(&mut probe).activity, Activity::Running);
        actor.enough();
        if !index_retires() {
            // Nothing in its memory tells that it ended.
            assert_eq!(look(&mut probe).activity, Activity::Running);
        }
        // The index may pass the packet after the first sample without waves; then the next one tells.
        until("a sample tells its end", || {
            sample(&mut probe, actor.pid()) == 0 && look(&mut probe).activity == Activity::Idle
        });
        actor.leave();
    });
}

#[test]
fn a_queue_that_waits_for_a_signal_is_blocked_and_goes_on_when_it_fires() {
    play_each_read_index(this_test!(), &[], |scene| {
        let mut actor = scene.actor();
        let (mut probe, queue) = watch(&mut actor);
        let retires = index_retires();
        for (job, kind) in ["", " value"].iter().enumerate() {
            actor.ask(&format!("gate {queue}{kind}"));
            actor.ask(&format!("walk {queue} {GROUPS}"));
            until("the processor is at the wait", || look(&mut probe).activity == Activity::Blocked);
            for _ in 0..100 {
                let look = look(&mut probe);
                assert_eq!(look.activity, Activity::Blocked);
                // An index that passes packets at fetch leaves doubts about what it has passed.
                assert!(!(retires && look.unsure), "{look:?}");
            }
            assert_eq!(sample(&mut probe, actor.pid()), 0);
            assert_eq!(look(&mut probe).activity, Activity::Blocked);
            actor.ask("fire");
            assert!(look(&mut probe).activity.has_work());
            until("the kernel behind it runs", || sample(&mut probe, actor.pid()) > 0);
            assert_eq!(look(&mut probe).activity, Activity::Running);
            actor.enough();
            actor.must_end_right(job);
            until_idle(&mut probe);
        }
        actor.leave();
    });
}

#[test]
fn a_process_that_only_copies_is_idle() {
    play(this_test!(), &[], |scene| {
        let mut actor = scene.actor();
        let (mut probe, _) = watch(&mut actor);
        let mut during = 0;
        until("a look fell into the copies", || {
            actor.ask("begin-copy");
            assert_eq!(look(&mut probe).activity, Activity::Idle);
            during += u32::from(actor.ask("copying") == "true");
            actor.ask("copied");
            during > 0
        });
        actor.leave();
    });
}

#[test]
fn a_process_that_was_killed_has_no_rings() {
    play(this_test!(), &[], |scene| {
        let mut actor = scene.actor();
        let (mut probe, queue) = watch(&mut actor);
        actor.ask(&format!("walk {queue} {GROUPS}"));
        assert!(look(&mut probe).activity.has_work());
        actor.kill();
        until("its memory is gone", || probe.poll(now(), false).is_err());
    });
}
