//! AQL packets that are as they should be.

use kfd_abi::aql::{FenceScope, Header, KernelDispatch, PacketType, Pm4Ib};
use kfd_abi::hsa::AmdSignal;
use std::mem::offset_of;

use vgpu_isa::inst::Target;

use super::super::{DeviceConfig, PacketFormat, Worker};
use super::kernels::{ADD, COUNT, ITEM, MESSAGE, PRIVATE, PRIVATE_GFX90A, REVERSE, SPIN, STATE};
use super::machine::{CONFIG, Machine, dispatch, halves};

pub(super) fn unordered(packet: KernelDispatch) -> KernelDispatch {
    let header = Header::new(PacketType::KERNEL_DISPATCH, false, FenceScope::NONE, FenceScope::NONE);
    KernelDispatch { header, ..packet }
}

/// Runs `ADD` over `items` and checks every word around.
fn add(machine: &mut Machine, items: u32, group: u16) -> u64 {
    let input: Vec<u32> = (0..items + 64).map(|i| i * 3).collect();
    let from = machine.buffer(&input);
    let to = machine.alloc(4 * u64::from(items + 64));
    let arguments = machine.buffer(&[halves(from), halves(to), [group.into(), 0]].concat());
    let kernel = machine.plain_kernel(ADD);
    let queue = machine.queue(PacketFormat::Aql);
    let signal = machine.signal(1, Some(42));
    machine.submit(&queue, &dispatch(kernel, arguments, items, group, signal));
    machine.run();
    let got = machine.words(to, u64::from(items + 64));
    let expected: Vec<u32> = (0..items + 64).map(|i| if i < items { i * 3 + 7 } else { 0 }).collect();
    assert_eq!(got, expected, "{items} items in groups of {group}");
    assert_eq!(machine.value(signal), 0);
    assert_eq!(machine.u32(queue.ring) & 0xFF, u32::from(PacketType::INVALID.0));
    assert_eq!(machine.u64(queue.read), 1);
    signal
}

#[test]
fn a_grid_is_executed_to_its_partial_edges() {
    for (items, group) in [(1, 64), (64, 64), (65, 64), (1000, 192), (5000, 256), (4096, 1024), (777, 1)] {
        let mut machine = Machine::new();
        let signal = add(&mut machine, items, group);
        assert_eq!(*machine.log.events.lock().unwrap(), [42], "one event, once");
        assert_eq!(machine.u64(machine.u64(signal + offset_of!(AmdSignal, event_mailbox_ptr) as u64)), 42);
        let start = machine.u64(signal + offset_of!(AmdSignal, start_ts) as u64);
        let end = machine.u64(signal + offset_of!(AmdSignal, end_ts) as u64);
        assert!(start >= 1000 && end > start, "{start} to {end}");
        assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
    }
}

#[test]
fn work_items_are_numbered_in_their_partial_groups() {
    let mut machine = Machine::new();
    let to = machine.alloc(4 * 64 * 4);
    let arguments = machine.buffer(&halves(to));
    let kernel = machine.plain_kernel(ITEM);
    let queue = machine.queue(PacketFormat::Aql);
    for n in 0..256 {
        machine.set_u32(to + 4 * n, 0xFFFF_FFFF);
    }
    let packet = KernelDispatch {
        setup: 2,
        workgroup_size_x: 8,
        workgroup_size_y: 8,
        grid_size_x: 12,
        grid_size_y: 10,
        ..dispatch(kernel, arguments, 12, 8, 0)
    };
    machine.submit(&queue, &packet);
    machine.run();
    for (group, [width, height]) in [[8_u32, 8_u32], [4, 8], [8, 2], [4, 2]].into_iter().enumerate() {
        let got = machine.words(to + 256 * group as u64, 64);
        let mut expected = vec![0xFFFF_FFFF; 64];
        for item in 0..width * height {
            expected[item as usize] = (item % width) | (item / width) << 10;
        }
        assert_eq!(got, expected, "group {group}");
    }
}

/// 16 waves meet at two barriers.
fn reverse(machine: &mut Machine) -> u64 {
    let to = machine.alloc(4096);
    let arguments = machine.buffer(&halves(to));
    let kernel = machine.plain_kernel(REVERSE);
    let queue = machine.queue(PacketFormat::Aql);
    let packet = dispatch(kernel, arguments, 1024, 1024, 0);
    machine.submit(&queue, &KernelDispatch { group_segment_size: 4096, ..packet });
    machine.run();
    to
}

#[test]
fn sixteen_waves_meet_at_barriers() {
    for quantum in [1, 3, 1000] {
        let mut machine = Machine::with_quantum(quantum);
        let to = reverse(&mut machine);
        let expected: Vec<u32> = (0..1024).rev().map(|i| i + 0x12345).collect();
        assert_eq!(machine.words(to, 1024), expected, "quantum {quantum}");
        assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
    }
}

#[test]
fn the_quantum_does_not_show_in_memory() {
    let contents = |quantum| {
        let mut machine = Machine::with_quantum(quantum);
        let signal = add(&mut machine, 1000, 192);
        reverse(&mut machine);
        for field in [offset_of!(AmdSignal, start_ts), offset_of!(AmdSignal, end_ts)] {
            machine.set_u64(signal + field as u64, 0);
        }
        machine.contents()
    };
    assert!(contents(1) == contents(1_000_000));
}

#[test]
fn private_memory_is_there() {
    let mut machine = Machine::new();
    let to = machine.alloc(1024);
    let arguments = machine.buffer(&halves(to));
    let kernel = machine.kernel(PRIVATE, 1 | 2 << 1 | 1 << 7, 1 << 3);
    let queue = machine.queue(PacketFormat::Aql);
    let packet = dispatch(kernel, arguments, 256, 256, 0);
    machine.submit(&queue, &KernelDispatch { private_segment_size: 12, ..packet });
    machine.run();
    assert_eq!(machine.words(to, 256), (5..261).collect::<Vec<u32>>());
    machine.submit(&queue, &KernelDispatch { private_segment_size: 8, ..packet });
    machine.run();
    assert!(machine.stopped(&queue), "an access beyond private memory stops the queue");
    assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
}

#[test]
fn private_memory_is_a_buffer_on_gfx90a() {
    let mut machine = Machine::with(DeviceConfig { target: Target::Gfx90a, ..CONFIG }, 1);
    let to = machine.alloc(1024);
    let arguments = machine.buffer(&halves(to));
    // Private segment buffer, arguments, flat scratch; workgroup x and the wave's offset.
    let kernel = machine.kernel(PRIVATE_GFX90A, 1 | 8 << 1 | 1 << 7, 1 | 1 << 3 | 1 << 5);
    let queue = machine.queue(PacketFormat::Aql);
    let packet = dispatch(kernel, arguments, 256, 256, 0);
    machine.submit(&queue, &KernelDispatch { private_segment_size: 16, ..packet });
    machine.run();
    assert_eq!(machine.words(to, 256), (5..261).collect::<Vec<u32>>());
}

#[test]
fn waves_start_with_the_registers_of_the_abi() {
    let mut machine = Machine::new();
    let to = machine.alloc(256);
    let arguments = machine.buffer(&[halves(to), [0xAAAA, 0xBBBB]].concat());
    // Dispatch and queue pointer, arguments, dispatch id, private size; two dwords preloaded from the third on.
    let kernel = machine.kernel(STATE, 11 << 1 | 0xF << 7, 0b101_1110 | (2 | 2 << 7) << 16);
    let queue = machine.queue(PacketFormat::Aql);
    machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, 0));
    let packet = KernelDispatch {
        setup: 3,
        workgroup_size_y: 3,
        grid_size_y: 3,
        private_segment_size: 64,
        ..dispatch(kernel, arguments, 13, 13, 0)
    };
    machine.submit(&queue, &packet);
    machine.run();
    let expected: [u32; 13] = [
        (queue.ring + 64) as u32,
        queue.object as u32,
        1,
        64,
        0xAAAA,
        0xBBBB,
        0,
        0,
        0,
        1 << 31 | 1,
        0x3F0,
        u32::MAX,
        (1 << 7) - 1,
    ];
    assert_eq!(machine.words(to, 13), expected);
}

#[test]
fn packets_pass_those_before_unless_they_have_the_barrier_bit() {
    let mut machine = Machine::with_quantum(50);
    let go = machine.alloc(8);
    let to = machine.alloc(8);
    let arguments = machine.buffer(&[halves(go), halves(to)].concat());
    let kernel = machine.plain_kernel(SPIN);
    let queue = machine.queue(PacketFormat::Aql);
    let signals = [machine.signal(1, None), machine.signal(1, None), machine.signal(1, None)];
    let counter = machine.alloc(8);
    let count_arguments = machine.buffer(&halves(counter));
    let count = machine.plain_kernel(COUNT);
    machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, signals[0]));
    machine.submit(&queue, &unordered(dispatch(count, count_arguments, 64, 64, signals[1])));
    machine.submit(&queue, &dispatch(count, count_arguments, 64, 64, signals[2]));
    machine.run();
    let values = signals.map(|signal| machine.value(signal));
    assert_eq!(values, [1, 0, 1], "the second passes, the third has the barrier bit");
    assert_eq!((machine.u32(counter), machine.u32(to)), (1, 0));
    machine.set_u32(go, 1);
    machine.run();
    assert_eq!(signals.map(|signal| machine.value(signal)), [0, 0, 0]);
    assert_eq!((machine.u32(counter), machine.u32(to)), (2, 99));
    assert_eq!(machine.slots.waves(), 0);
}

#[test]
fn several_workers_run_each_workgroup_once() {
    let mut machine = Machine::new();
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    let queue = machine.queue(PacketFormat::Aql);
    let signal = machine.signal(3, Some(9));
    for _ in 0..3 {
        machine.submit(&queue, &unordered(dispatch(kernel, arguments, 64 * 700, 64, signal)));
    }
    let device = &machine.device;
    std::thread::scope(|scope| {
        for quantum in [1, 2, 1000] {
            let machine = &machine;
            scope.spawn(move || {
                let mut worker = Worker::new(CONFIG, quantum);
                while machine.value(signal) > 0 {
                    worker.turn(device);
                }
            });
        }
    });
    assert_eq!(machine.u32(counter), 2100);
    assert_eq!(*machine.log.events.lock().unwrap(), [9, 9, 9]);
    assert_eq!(machine.slots.waves(), 0);
}

#[test]
fn waves_can_interrupt_the_host() {
    let mut machine = Machine::new();
    let kernel = machine.plain_kernel(MESSAGE);
    let queue = machine.queue(PacketFormat::Aql);
    let signal = machine.signal(1, None);
    machine.submit(&queue, &dispatch(kernel, 0, 128, 128, signal));
    machine.run();
    assert_eq!(*machine.log.messages.lock().unwrap(), [0x2A, 0x2A], "one of each wave");
    assert_eq!(machine.value(signal), 0);
}

#[test]
fn a_ring_is_used_round_and_round() {
    let mut machine = Machine::new();
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    let queue = machine.queue(PacketFormat::Aql);
    for n in 1..=200 {
        machine.submit(&queue, &dispatch(kernel, arguments, 64, 64, 0));
        machine.run();
        assert_eq!((machine.u64(queue.read), machine.u32(counter)), (n, n as u32));
    }
}

#[test]
fn an_aql_packet_may_jump_to_pm4() {
    let mut machine = Machine::new();
    let to = machine.alloc(16);
    let [low, high] = halves(to);
    // WRITE_DATA to memory; WAIT_REG_MEM until the second word is 5.
    let buffer = machine.buffer(&[
        0xC003_3700,
        0x0010_0200,
        low,
        high,
        77, //
        0xC005_3C00,
        0x13,
        low + 4,
        high,
        5,
        u32::MAX,
        4,
    ]);
    let queue = machine.queue(PacketFormat::Aql);
    let signal = machine.signal(1, None);
    let packet = Pm4Ib {
        header: Header::new(PacketType::VENDOR_SPECIFIC, true, FenceScope::SYSTEM, FenceScope::SYSTEM),
        format: 1,
        ib_jump_cmd: Pm4Ib::jump(buffer, 12),
        dw_cnt_remain: Pm4Ib::REMAINING,
        completion_signal: signal,
        ..Pm4Ib::default()
    };
    machine.submit(&queue, &packet);
    machine.run();
    assert_eq!((machine.u32(to), machine.value(signal)), (77, 1), "it waits");
    machine.set_u32(to + 4, 5);
    machine.run();
    assert_eq!(machine.value(signal), 0);
}
