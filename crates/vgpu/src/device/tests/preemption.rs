//! Queues that come and go.

use super::super::{DeviceActivity, DeviceConfig, HardwareQueueUpdate, PacketFormat, SaveArea};
use super::kernels::{COUNT, REVERSE, SPIN};
use super::machine::{CONFIG, Machine, RING, Ring, dispatch, halves};
use crate::driver::profile::ReadIndexKind;
use kfd_abi::Abi;
use kfd_abi::aql::{Barrier, FenceScope, Header, KernelDispatch, PacketType};
use kfd_abi::hsa::AmdSignal;

#[test]
fn a_queue_can_be_stopped_between_any_two_instructions() {
    // With a quantum of 1 a turn is an instruction of each wave; the kernel has 12.
    for turns in 0..12 {
        let mut machine = Machine::with_quantum(1);
        let to = machine.alloc(4096);
        let arguments = machine.buffer(&halves(to));
        let kernel = machine.plain_kernel(REVERSE);
        let queue = machine.queue(PacketFormat::Aql);
        let signal = machine.signal(1, None);
        let packet = dispatch(kernel, arguments, 1024, 1024, signal);
        machine.submit(&queue, &KernelDispatch { group_segment_size: 4096, ..packet });
        for _ in 0..turns {
            machine.worker.turn(&machine.device);
        }
        let mut device = machine.device.lock().unwrap();
        assert!(device.suspend(queue.id));
        let groups = device.off_device(queue.id).unwrap();
        assert_eq!(groups.len(), usize::from(turns > 0));
        // What a save and restore would do: the waves go elsewhere and their old records are overwritten.
        for member in groups.iter_mut().flat_map(|group| &mut group.waves) {
            let saved = member.wave.clone();
            member.wave.v.fill([0xDEAD; 64]);
            member.wave = saved;
        }
        drop(device);
        assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
        assert_eq!(machine.run(), DeviceActivity::Idle);
        assert_eq!(machine.value(signal), 1);
        machine.device.lock().unwrap().resume(queue.id);
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
    let queue = machine.queue(PacketFormat::Aql);
    let update = |percent| HardwareQueueUpdate { ring: queue.ring, ring_bytes: RING, priority: 7, percent };
    machine.device.lock().unwrap().update_queue(queue.id, &update(0));
    machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, 0));
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!((machine.u64(queue.read), machine.u32(counter)), (0, 0));
    machine.device.lock().unwrap().update_queue(queue.id, &update(100));
    machine.run();
    assert_eq!((machine.u64(queue.read), machine.u32(counter)), (1, 1));
}

#[test]
fn a_destroyed_queue_leaves_nothing() {
    let mut machine = Machine::with_quantum(10);
    let (go, to) = (machine.alloc(8), machine.alloc(8));
    let arguments = machine.buffer(&[halves(go), halves(to)].concat());
    let kernel = machine.plain_kernel(SPIN);
    let queue = machine.queue(PacketFormat::Aql);
    let signal = machine.signal(1, None);
    machine.submit(&queue, &dispatch(kernel, arguments, 64 * 10, 64, signal));
    machine.run();
    let mut device = machine.device.lock().unwrap();
    let mut held = device.take().unwrap();
    assert!(device.destroy_queue(queue.id) && !device.destroy_queue(queue.id));
    machine.set_u32(go, 1);
    machine.worker.run(&mut held);
    device.put_back(held);
    assert!(device.take().is_none());
    drop(device);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!((machine.value(signal), machine.slots.waves()), (1, 0));
}

#[test]
fn a_queue_is_silent_until_its_doorbell_rings() {
    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Sdma);
    let to = machine.alloc(8);
    let [low, high] = halves(to);
    machine.submit_words(&queue, &[5, low, high, 3]);
    machine.set_u64(queue.doorbell, u64::MAX);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!(machine.u32(to), 0);
    machine.set_u64(queue.doorbell, 16);
    machine.run();
    assert_eq!(machine.u32(to), 3);
}

#[test]
fn the_higher_priority_starts_first() {
    let mut machine = Machine::with_quantum(1);
    let (low, high) = (machine.queue(PacketFormat::Aql), machine.queue(PacketFormat::Aql));
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    let update = HardwareQueueUpdate { ring: high.ring, ring_bytes: RING, priority: 15, percent: 100 };
    machine.device.lock().unwrap().update_queue(high.id, &update);
    for queue in [&low, &high] {
        machine.submit(queue, &dispatch(kernel, arguments, 64 * 4, 64, 0));
    }
    let mut device = machine.device.lock().unwrap();
    device.advance();
    let first: Vec<_> = (0..8).map(|_| device.take().unwrap().group.queue).collect();
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
    let queue = machine.queue(PacketFormat::Aql);
    let idle = |machine: &Machine| idle(machine, &queue);
    assert!(idle(&machine), "nothing was ever asked of it");
    machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, 0));
    assert!(!idle(&machine), "a packet that has not been fetched");
    machine.worker.turn(&machine.device);
    assert_eq!((machine.slots.waves(), machine.u32(counter)), (1, 0));
    assert!(!idle(&machine), "all packets are fetched, a wave has not ended");
    machine.run();
    assert_eq!(machine.u32(counter), 1);
    assert!(idle(&machine), "all is done");
}

/// Whether a queue says that it has nothing to do when it is taken off the device for a moment.
fn idle(machine: &Machine, queue: &Ring) -> bool {
    let mut device = machine.device.lock().unwrap();
    device.unmap();
    let left = device.save_all();
    let all = device.queue_ids();
    device.map(&all);
    left.iter().find(|left| left.id == queue.id.0).unwrap().idle
}

#[test]
fn a_queue_that_has_fetched_a_packet_is_not_idle_until_the_packet_is_through() {
    // The read index of this kind shows what was fetched.
    let mut machine = Machine::with(DeviceConfig { read_index: ReadIndexKind::Fetch, ..CONFIG }, 1);
    let fetched = |machine: &Machine, queue: &Ring| machine.u64(queue.read) == machine.u64(queue.write);
    // A barrier that waits for a signal.
    let aql = machine.queue(PacketFormat::Aql);
    let signal = machine.signal(1, None);
    let header = Header::new(PacketType::BARRIER_AND, false, FenceScope::NONE, FenceScope::NONE);
    machine.submit(&aql, &Barrier { header, dep_signal: [signal, 0, 0, 0, 0], ..Barrier::ZERO });
    assert_eq!(machine.run(), DeviceActivity::Waiting);
    assert!(fetched(&machine, &aql) && !idle(&machine, &aql), "no doorbell rings when the signal changes");
    machine.set_u64(signal + AmdSignal::VALUE, 0);
    machine.run();
    assert!(idle(&machine, &aql));
    // A wait for memory in an indirect buffer: WAIT_REG_MEM until a word is 1.
    let pm4 = machine.queue(PacketFormat::Pm4);
    let word = machine.alloc(4);
    let [low, high] = halves(word);
    let buffer = machine.buffer(&[0xC005_3C00, 3 | 1 << 4, low, high, 1, u32::MAX, 4]);
    let [low, high] = halves(buffer);
    machine.submit_words(&pm4, &[0xC002_3F00, low, high, 7 | 1 << 23]);
    assert_eq!(machine.run(), DeviceActivity::Waiting);
    assert!(fetched(&machine, &pm4) && !idle(&machine, &pm4));
    machine.set_u32(word, 1);
    machine.run();
    assert!(idle(&machine, &pm4));
    // A copy under way: so many packets come before it that the device begins it and looks elsewhere first.
    let sdma = machine.queue(PacketFormat::Sdma);
    let (from, to) = (machine.alloc(64), machine.alloc(64));
    let ([from_low, from_high], [to_low, to_high]) = (halves(from), halves(to));
    let copy = [1, 63, 0, from_low, from_high, to_low, to_high];
    machine.submit_words(&sdma, &[[0; 63].as_slice(), &copy].concat());
    machine.device.lock().unwrap().advance();
    assert!(fetched(&machine, &sdma) && !idle(&machine, &sdma));
    machine.run();
    assert!(idle(&machine, &sdma));
    // One that has met an error will never go on with what it holds.
    machine.submit(&aql, &Barrier { header, dep_signal: [8, 0, 0, 0, 0], ..Barrier::ZERO });
    machine.run();
    assert!(machine.stopped(&aql) && idle(&machine, &aql));
}

#[test]
fn what_an_earlier_stop_has_saved_is_not_saved_again() {
    let mut machine = Machine::with_quantum(1);
    let (control_stack, size) = (4096, 64 << 10);
    let address = machine.alloc(size.into());
    machine.save_area = Some(SaveArea { address, size, control_stack, xccs: 1 });
    let flag = machine.alloc(8);
    let arguments = machine.buffer(&halves(flag));
    let kernel = machine.plain_kernel(SPIN);
    let queue = machine.queue(PacketFormat::Aql);
    machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, 0));
    for _ in 0..3 {
        machine.worker.turn(&machine.device);
    }
    let mut device = machine.device.lock().unwrap();
    device.unmap();
    let first = device.save_all()[0];
    assert!(first.written && first.saved.bytes > 0);
    let again = device.save_all()[0];
    assert_eq!((again.written, again.saved), (false, first.saved), "it is there, and cost nothing");
    device.map(&[queue.id]);
    device.unmap();
    assert!(device.save_all()[0].written, "it has been back");
}

#[test]
fn a_reset_takes_everything_off_the_device_for_good() {
    let mut machine = Machine::with_quantum(1);
    let flag = machine.alloc(8);
    let arguments = machine.buffer(&halves(flag));
    let kernel = machine.plain_kernel(SPIN);
    let queue = machine.queue(PacketFormat::Aql);
    let signal = machine.signal(1, None);
    machine.submit(&queue, &dispatch(kernel, arguments, 64 * 100, 64, signal));
    for _ in 0..20 {
        machine.worker.turn(&machine.device);
    }
    assert!(machine.slots.waves() > 0);
    machine.device.lock().unwrap().drain();
    machine.device.lock().unwrap().reset();
    assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
    machine.device.lock().unwrap().map(&[queue.id]);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!((machine.slots.waves(), machine.value(signal)), (0, 1));
}
