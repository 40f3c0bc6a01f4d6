//! What sysfs and debugfs show of processes that work.

use std::sync::Arc;

use gpreempt_testkit::scene::{status, waves};
use gpreempt_testkit::{play, this_test, until};
use kfd::debugfs::{self, HqdPlace, MqdKind};
use kfd::{Kfd, ProcessMemory, Tracer, process};
use kfd_abi::mqd;

fn number(path: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.trim_end().parse().unwrap_or_else(|_| panic!("{path}: {text:?}"))
}

#[test]
fn occupancy_and_memory_of_a_process_are_seen_while_it_has_them() {
    play(this_test!(), &[], |scene| {
        let (mut client, queue) = scene.walker(64);
        let pid = client.pid();
        let found = process::find(pid).unwrap().expect("it uses a gpu");
        let [shown] = &found.queues[..] else { panic!("{found:?}") };
        assert_eq!(shown.id.0, queue);
        let [usage] = &found.usage[..] else { panic!("{found:?}") };
        assert!(usage.vram > 0 && usage.gpu == shown.gpu && usage.evicted_ms == Some(0), "{usage:?}");
        let occupancy = format!("/sys/class/kfd/kfd/proc/{pid}/stats_{}/cu_occupancy", usage.gpu);
        assert!(number(&occupancy) > 0);
        client.enough();
        client.must_end_right(0);
        until("its waves are gone", || waves(&status(), pid.0) == 0);
        assert_eq!(number(&occupancy), 0);
        client.leave();
        until("it is no longer listed", || process::find(pid).unwrap().is_none());
    });
}

#[test]
fn debugfs_shows_the_queues_of_all_processes_and_where_their_indices_are() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    play(this_test!(), &[], |scene| {
        let (mut first, _) = scene.walker(2);
        let (mut second, _) = scene.walker(2);
        second.queue(11);
        let shown = debugfs::read_queues().unwrap();
        for (client, count) in [(&first, 1), (&second, 2)] {
            let pid = client.pid();
            let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), pid).unwrap();
            let snapshot = tracer.snapshot().unwrap();
            tracer.close().unwrap();
            let memory = ProcessMemory::open(pid).unwrap();
            let process = shown.iter().find(|process| process.pid == pid.0).expect("shown");
            assert_eq!((process.queues.len(), snapshot.len()), (count, count));
            for (queue, entry) in process.queues.iter().zip(&snapshot) {
                assert_eq!((queue.kind, queue.gpu_id), (MqdKind::Compute, entry.gpu_id));
                assert_eq!((queue.ring(), queue.descriptors.len()), (Some(entry.ring_base_address), 8));
                assert_eq!(queue.rptr_address(), Some(entry.read_pointer_address));
                assert_eq!(queue.wptr_address(), Some(entry.write_pointer_address));
                let index = |address: Option<u64>| memory.read_u64(address.unwrap()).unwrap();
                // The packet that loads the program, and the walk on the first queue of each.
                assert!((1..=2).contains(&index(queue.wptr_address())));
                assert!(index(queue.rptr_address()) <= index(queue.wptr_address()));
                assert_eq!(queue.save_area(0).unwrap().0, entry.ctx_save_restore_address);
            }
        }
        let nodes = debugfs::parse_slots(&std::fs::read_to_string("/sys/kernel/debug/kfd/hqds").unwrap());
        let slots = nodes.iter().flat_map(|node| &node.slots);
        let on_first_xcc = |place: HqdPlace| matches!(place, HqdPlace::Compute { xcc: 0, .. });
        let active: Vec<_> = slots.filter(|slot| on_first_xcc(slot.place) && slot.is_active() == Some(true)).collect();
        assert_eq!(active.len(), 3);
        let mut rings: Vec<u64> = active
            .iter()
            .filter_map(|slot| {
                let [low, high] = [mqd::PQ_BASE, mqd::PQ_BASE + 4].map(|offset| slot.register(offset));
                Some((u64::from(high?) << 32 | u64::from(low?)) << 8)
            })
            .collect();
        let mut expected: Vec<u64> =
            shown.iter().flat_map(|process| &process.queues).filter_map(debugfs::MqdQueue::ring).collect();
        rings.sort_unstable();
        expected.sort_unstable();
        assert_eq!(rings, expected);
        let runlists = std::fs::read_to_string("/sys/kernel/debug/kfd/rls").unwrap();
        assert!(!runlists.contains("No active runlist") && runlists.lines().count() > 3, "{runlists}");
        for client in [&mut first, &mut second] {
            client.enough();
            client.must_end_right(0);
        }
        first.leave();
        second.leave();
        let runlists = std::fs::read_to_string("/sys/kernel/debug/kfd/rls").unwrap();
        assert!(runlists.contains("No active runlist"), "{runlists}");
    });
}
