//! Queues that come and go.

use super::super::{Pulse, QueueKind, QueueUpdate, SaveArea};
use super::kernels::{COUNT, REVERSE, SPIN};
use super::machine::{Machine, RING, dispatch, halves};
use kfd_abi::aql::KernelDispatch;

#[test]
fn a_queue_can_be_stopped_between_any_two_instructions() {
    // With a quantum of 1 a turn is an instruction of each wave; the kernel has 12.
    for turns in 0..12 {
        let mut machine = Machine::with_quantum(1);
        let to = machine.alloc(4096);
        let arguments = machine.buffer(&halves(to));
        let kernel = machine.plain_kernel(REVERSE);
        let queue = machine.queue(QueueKind::Aql);
        let signal = machine.signal(1, None);
        let packet = dispatch(kernel, arguments, 1024, 1024, signal);
        machine.submit(&queue, &KernelDispatch { group_segment_size: 4096, ..packet });
        for _ in 0..turns {
            machine.worker.turn(&machine.engine);
        }
        let mut engine = machine.engine.lock().unwrap();
        assert!(engine.suspend(queue.id));
        let groups = engine.off_device(queue.id).unwrap();
        assert_eq!(groups.len(), usize::from(turns > 0));
        // What a save and restore would do: the waves go elsewhere and their old records are overwritten.
        for member in groups.iter_mut().flat_map(|group| &mut group.waves) {
            let saved = member.wave.clone();
            member.wave.v.fill([0xDEAD; 64]);
            member.wave = saved;
        }
        drop(engine);
        assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
        assert_eq!(machine.run(), Pulse::Idle);
        assert_eq!(machine.value(signal), 1);
        machine.engine.lock().unwrap().resume(queue.id);
        machine.run();
        assert_eq!(machine.value(signal), 0);
        assert_eq!(machine.words(to, 1024), (0..1024).rev().map(|i| i + 0x12345).collect::<Vec<u32>>(), "{turns}");
        assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
    }
}

#[test]
fn percentage_zero_is_off() {
    let mut machine = Machine::new();
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    let queue = machine.queue(QueueKind::Aql);
    let update = |percent| QueueUpdate { ring: queue.ring, ring_bytes: RING, priority: 7, percent };
    machine.engine.lock().unwrap().update_queue(queue.id, &update(0));
    machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, 0));
    assert_eq!(machine.run(), Pulse::Idle);
    assert_eq!((machine.u64(queue.read), machine.u32(counter)), (0, 0));
    machine.engine.lock().unwrap().update_queue(queue.id, &update(100));
    machine.run();
    assert_eq!((machine.u64(queue.read), machine.u32(counter)), (1, 1));
}

#[test]
fn a_destroyed_queue_leaves_nothing() {
    let mut machine = Machine::with_quantum(10);
    let (go, to) = (machine.alloc(8), machine.alloc(8));
    let arguments = machine.buffer(&[halves(go), halves(to)].concat());
    let kernel = machine.plain_kernel(SPIN);
    let queue = machine.queue(QueueKind::Aql);
    let signal = machine.signal(1, None);
    machine.submit(&queue, &dispatch(kernel, arguments, 64 * 10, 64, signal));
    machine.run();
    let mut engine = machine.engine.lock().unwrap();
    let mut held = engine.take().unwrap();
    assert!(engine.destroy_queue(queue.id) && !engine.destroy_queue(queue.id));
    machine.set_u32(go, 1);
    machine.worker.run(&mut held);
    engine.put_back(held);
    assert!(engine.take().is_none());
    drop(engine);
    assert_eq!(machine.run(), Pulse::Idle);
    assert_eq!((machine.value(signal), machine.slots.waves()), (1, 0));
}

#[test]
fn a_queue_is_silent_until_its_doorbell_rings() {
    let mut machine = Machine::new();
    let queue = machine.queue(QueueKind::Sdma);
    let to = machine.alloc(8);
    let [low, high] = halves(to);
    machine.submit_words(&queue, &[5, low, high, 3]);
    machine.set_u64(queue.doorbell, u64::MAX);
    assert_eq!(machine.run(), Pulse::Idle);
    assert_eq!(machine.u32(to), 0);
    machine.set_u64(queue.doorbell, 16);
    machine.run();
    assert_eq!(machine.u32(to), 3);
}

#[test]
fn the_higher_priority_starts_first() {
    let mut machine = Machine::with_quantum(1);
    let (low, high) = (machine.queue(QueueKind::Aql), machine.queue(QueueKind::Aql));
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    let update = QueueUpdate { ring: high.ring, ring_bytes: RING, priority: 15, percent: 100 };
    machine.engine.lock().unwrap().update_queue(high.id, &update);
    for queue in [&low, &high] {
        machine.submit(queue, &dispatch(kernel, arguments, 64 * 4, 64, 0));
    }
    let mut engine = machine.engine.lock().unwrap();
    engine.advance();
    let first: Vec<_> = (0..8).map(|_| engine.take().unwrap().group.queue).collect();
    assert_eq!(first, [[high.id; 4], [low.id; 4]].concat());
}

#[test]
fn a_queue_is_idle_if_it_has_neither_packets_nor_workgroups() {
    let mut machine = Machine::with_quantum(1);
    let (control_stack, size) = (4096, 64 << 10);
    let address = machine.alloc(size.into());
    machine.save_area = Some(SaveArea { address, size, control_stack, xccs: 1 });
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    let queue = machine.queue(QueueKind::Aql);
    let idle = |machine: &Machine| {
        let mut engine = machine.engine.lock().unwrap();
        engine.unmap();
        let left = engine.save_all();
        engine.map(&[queue.id]);
        left.iter().all(|queue| queue.idle)
    };
    assert!(idle(&machine), "nothing was ever asked of it");
    machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, 0));
    assert!(!idle(&machine), "a packet that nobody has fetched");
    machine.worker.turn(&machine.engine);
    assert_eq!((machine.u64(queue.read), machine.u32(counter)), (1, 0));
    assert!(!idle(&machine), "all packets are fetched, a wave has not ended");
    machine.run();
    assert_eq!(machine.u32(counter), 1);
    assert!(idle(&machine), "all is done");
}

#[test]
fn a_reset_takes_everything_off_the_device_for_good() {
    let mut machine = Machine::with_quantum(1);
    let flag = machine.alloc(8);
    let arguments = machine.buffer(&halves(flag));
    let kernel = machine.plain_kernel(SPIN);
    let queue = machine.queue(QueueKind::Aql);
    let signal = machine.signal(1, None);
    machine.submit(&queue, &dispatch(kernel, arguments, 64 * 100, 64, signal));
    for _ in 0..20 {
        machine.worker.turn(&machine.engine);
    }
    assert!(machine.slots.waves() > 0);
    machine.engine.lock().unwrap().drain();
    machine.engine.lock().unwrap().reset();
    assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
    machine.engine.lock().unwrap().map(&[queue.id]);
    assert_eq!(machine.run(), Pulse::Idle);
    assert_eq!((machine.slots.waves(), machine.value(signal)), (0, 1));
}
