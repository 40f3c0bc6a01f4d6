//! Queues that wait for each other.

use kfd_abi::Abi;
use kfd_abi::aql::{
    Barrier, BarrierValue, FenceScope, Header, PACKET_SIZE, Packet, PacketType, SignalCondition, SignalHandle,
};
use kfd_abi::hsa::AmdSignal;

use super::super::{DeviceActivity, PacketFormat};
use super::kernels::{COUNT, SPIN};
use super::machine::{Machine, dispatch, halves};

fn barrier(kind: PacketType, signals: &[u64], completion_signal: u64) -> Barrier {
    let mut dep_signal = [0; 5];
    dep_signal[..signals.len()].copy_from_slice(signals);
    let header = Header::new(kind, false, FenceScope::NONE, FenceScope::NONE);
    Barrier { header, dep_signal, completion_signal, ..Barrier::default() }
}

#[test]
fn queues_that_wait_for_each_other_in_turns_get_through() {
    let mut machine = Machine::with_quantum(10);
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let kernel = machine.plain_kernel(COUNT);
    let (one, two) = (machine.queue(PacketFormat::Aql), machine.queue(PacketFormat::Aql));
    let signals: Vec<u64> = (0..9).map(|_| machine.signal(1, None)).collect();
    // Each packet of one queue waits for the packet of the other that was submitted last.
    for (n, pair) in signals.windows(2).enumerate() {
        let queue = if n % 2 == 0 { &one } else { &two };
        machine.submit(queue, &barrier(PacketType::BARRIER_AND, &[pair[0]], 0));
        machine.submit(queue, &dispatch(kernel, arguments, 64, 64, pair[1]));
    }
    assert_eq!(machine.run(), DeviceActivity::Waiting);
    assert_eq!(machine.u32(counter), 0);
    machine.set_u64(signals[0] + AmdSignal::VALUE, 0);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!(machine.u32(counter), 8);
    assert!(signals.iter().all(|&signal| machine.value(signal) == 0));
}

#[test]
fn barriers_want_all_signals_or_one() {
    let mut machine = Machine::new();
    let (all, any, none) =
        (machine.queue(PacketFormat::Aql), machine.queue(PacketFormat::Aql), machine.queue(PacketFormat::Aql));
    let [a, b] = [machine.signal(1, None), machine.signal(2, None)];
    let done = [machine.signal(1, None), machine.signal(1, None), machine.signal(1, None)];
    machine.submit(&all, &barrier(PacketType::BARRIER_AND, &[a, b], done[0]));
    machine.submit(&any, &barrier(PacketType::BARRIER_OR, &[a, b], done[1]));
    machine.submit(&none, &barrier(PacketType::BARRIER_OR, &[], done[2]));
    machine.run();
    assert_eq!(done.map(|signal| machine.value(signal)), [1, 1, 0]);
    machine.set_u64(b + AmdSignal::VALUE, 0);
    machine.run();
    assert_eq!(done.map(|signal| machine.value(signal)), [1, 0, 0]);
    machine.set_u64(a + AmdSignal::VALUE, 0);
    machine.run();
    assert_eq!(done.map(|signal| machine.value(signal)), [0, 0, 0]);
}

#[test]
fn a_barrier_may_want_a_value() {
    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Aql);
    let (signal, done) = (machine.signal(0x10, None), machine.signal(1, None));
    let packet = BarrierValue {
        header: Header::new(PacketType::VENDOR_SPECIFIC, false, FenceScope::NONE, FenceScope::NONE),
        format: 2,
        signal,
        value: 3,
        mask: 0xF,
        cond: SignalCondition::GTE,
        completion_signal: done,
        ..BarrierValue::default()
    };
    machine.submit(&queue, &packet);
    assert_eq!(machine.run(), DeviceActivity::Waiting);
    machine.set_u64(signal + AmdSignal::VALUE, 0x13);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!(machine.value(done), 0);
}

#[test]
fn the_device_and_the_client_agree_on_every_condition() {
    // The client reads signals from the memory of a process; the test's own holds a copy of the device's signal.
    let memory = kfd::ProcessMemory::open(kfd::Pid(std::process::id())).unwrap();
    for (condition, value) in (0..=u32::from(u8::MAX)).flat_map(|condition| [2, 3, 4].map(|value| (condition, value))) {
        let mut machine = Machine::new();
        let (signal, done) = (machine.signal(value, None), machine.signal(1, None));
        let record = Box::new(AmdSignal { value, ..AmdSignal::ZERO });
        let wait = |signal: u64| BarrierValue {
            header: Header::new(PacketType::VENDOR_SPECIFIC, false, FenceScope::NONE, FenceScope::NONE),
            format: 2,
            signal,
            value: 3,
            mask: -1,
            cond: SignalCondition(condition),
            completion_signal: done,
            ..BarrierValue::default()
        };
        let mut slot = [0; PACKET_SIZE];
        wait((&raw const *record).expose_provenance() as u64).encode(&mut slot).unwrap();
        let read = |signal: SignalHandle| memory.read_u64(signal.value_address()).map(u64::cast_signed);
        let client = Packet::decode(&slot).kind.passes(read).unwrap();

        let queue = machine.queue(PacketFormat::Aql);
        machine.submit(&queue, &wait(signal));
        machine.run();
        let device = machine.value(done) == 0;

        assert_eq!(client, device, "condition {condition}, value {value}");
        assert!(condition < 4 || !device, "condition {condition} is undefined and holds for {value}");
    }
}

#[test]
fn copies_wait_for_kernels_and_kernels_for_copies() {
    let mut machine = Machine::with_quantum(20);
    let (compute, copies) = (machine.queue(PacketFormat::Aql), machine.queue(PacketFormat::Sdma));
    let (go, result, copy) = (machine.alloc(8), machine.alloc(8), machine.alloc(8));
    let arguments = machine.buffer(&[halves(go), halves(result)].concat());
    let kernel = machine.plain_kernel(SPIN);
    let (started, finished, copied) = (machine.signal(1, None), machine.signal(1, None), machine.signal(1, None));
    machine.submit(&compute, &barrier(PacketType::BARRIER_AND, &[], started));
    machine.submit(&compute, &dispatch(kernel, arguments, 64, 64, finished));
    machine.submit(&compute, &barrier(PacketType::BARRIER_AND, &[copied], 0));
    machine.submit(&compute, &dispatch(kernel, arguments, 64, 64, started));
    let [finished_low, finished_high] = halves(finished + AmdSignal::VALUE);
    let [copied_low, copied_high] = halves(copied + AmdSignal::VALUE);
    let [result_low, result_high] = halves(result);
    let [copy_low, copy_high] = halves(copy);
    let [go_low, go_high] = halves(go);
    machine.submit_words(
        &copies,
        &[
            5,
            go_low,
            go_high,
            1, // lets the kernel go
            0xB000_0008,
            finished_low,
            finished_high,
            0,
            u32::MAX,
            0, // waits for its end
            1,
            7,
            0,
            result_low,
            result_high,
            copy_low,
            copy_high, // copies what it wrote
            0x5E00_000A,
            copied_low,
            copied_high,
            u32::MAX,
            u32::MAX,
            0,
            0,
            0, // completes by adding -1
        ],
    );
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!((machine.u32(copy), machine.value(copied)), (99, 0));
    assert_eq!(machine.value(started), -1, "both the first and the last packet completed it");
}
