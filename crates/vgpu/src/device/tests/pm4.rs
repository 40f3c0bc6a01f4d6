//! PM4 rings and buffers.

use super::super::{DeviceActivity, PacketFormat};
use super::kernels::{ADD, COUNT, SPIN};
use super::machine::{Machine, RING, Ring, halves};

fn packet(opcode: u32, body: &[u32]) -> Vec<u32> {
    let mut words = vec![3 << 30 | (body.len() as u32 - 1) << 16 | opcode << 8];
    words.extend(body);
    words
}

/// Sets registers of a dispatch from a number on.
fn set(register: u32, values: &[u32]) -> Vec<u32> {
    packet(0x76, &[&[register - 0x2C00], values].concat())
}

const PARTIAL_FLUSH: [u32; 2] = [0xC000_4600, 0x407];

/// What a driver without AQL sends for a kernel: registers, dispatch, wait.
fn dispatch(entry: u64, arguments: u64, group: u32, groups: u32) -> Vec<u32> {
    [
        packet(0x58, &[1 << 27, u32::MAX, u32::MAX, 0, 0, 10]),
        set(0x2E0C, &halves(entry >> 8)),
        set(0x2E12, &[4 << 6 | 0xF0 << 12, 2 << 1 | 1 << 7]),
        set(0x2E2D, &[1]),
        set(0x2E18, &[0]),
        set(0x2E10, &[0, 0]),
        set(0x2E1B, &[0, 0, 0]),
        set(0x2E40, &halves(arguments)),
        set(0x2E15, &[0]),
        set(0x2E04, &[0, 0, 0, group, 1, 1, 0, 0]),
        packet(0x15, &[groups, 1, 1, 0x5]),
    ]
    .concat()
}

fn release(to: u64, value: u64, select: u32) -> Vec<u32> {
    packet(0x49, &[&[0x514, select], &halves(to)[..], &halves(value), &[0]].concat())
}

fn pm4() -> (Machine, Ring) {
    let mut machine = Machine::with_quantum(100);
    let queue = machine.queue(PacketFormat::Pm4);
    (machine, queue)
}

#[test]
fn a_kernel_runs_from_registers() {
    let (mut machine, queue) = pm4();
    let from = machine.buffer(&(0..320).collect::<Vec<u32>>());
    let to = machine.alloc(320 * 4);
    let arguments = machine.buffer(&[halves(from), halves(to), [64, 0]].concat());
    let entry = machine.buffer(ADD);
    let (timeline, mailbox, time) = (machine.alloc(8), machine.alloc(8), machine.alloc(8));
    let words = [
        dispatch(entry, arguments, 64, 5),
        PARTIAL_FLUSH.to_vec(),
        release(time, 0, 3 << 29),
        release(timeline, 5, 1 << 29),
        release(mailbox, 31, 1 << 29 | 2 << 24),
    ]
    .concat();
    machine.submit_words(&queue, &words);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!(machine.words(to, 320), (7..327).collect::<Vec<u32>>());
    assert_eq!((machine.u32(timeline), machine.u32(mailbox)), (5, 31));
    assert!(machine.u64(time) >= 1000);
    assert_eq!(*machine.log.mailboxes.lock().unwrap(), [(mailbox, 31)]);
    assert_eq!(machine.u64(queue.read), words.len() as u64);
    assert_eq!(machine.slots.waves(), 0);
}

#[test]
fn the_end_is_reported_after_the_kernel_and_not_before() {
    let (mut machine, queue) = pm4();
    let (go, result, end) = (machine.alloc(8), machine.alloc(8), machine.alloc(8));
    let arguments = machine.buffer(&[halves(go), halves(result)].concat());
    let entry = machine.buffer(SPIN);
    machine.submit_words(&queue, &[dispatch(entry, arguments, 64, 1), release(end, 1, 1 << 29)].concat());
    machine.run();
    assert_eq!(machine.u32(end), 0);
    machine.set_u32(go, 1);
    machine.run();
    assert_eq!((machine.u32(result), machine.u32(end)), (99, 1));
}

#[test]
fn predicates_choose_the_first_xcc_and_buffers_nest() {
    let (mut machine, queue) = pm4();
    let counter = machine.alloc(8);
    let arguments = machine.buffer(&halves(counter));
    let entry = machine.buffer(COUNT);
    let marks = machine.alloc(32);
    let write = |n: u64, value: u32| packet(0x37, &[&[0x10_0500], &halves(marks + 4 * n)[..], &[value]].concat());
    let inner = machine.buffer(&write(2, 3));
    let predicate = |mask: u32, words: &[u32]| packet(0x23, &[mask << 24 | words.len() as u32]);
    let outer = [
        predicate(1, &write(0, 1)),
        write(0, 1),
        predicate(2, &write(1, 2)),
        write(1, 2),
        dispatch(entry, arguments, 64, 3),
        packet(0x3F, &[&halves(inner)[..], &[5 | 1 << 23]].concat()),
        write(3, 4),
    ]
    .concat();
    let outer_at = machine.buffer(&outer);
    let jump = packet(0x3F, &[&halves(outer_at)[..], &[outer.len() as u32 | 1 << 23]].concat());
    machine.submit_words(&queue, &[jump, packet(0x10, &[0; 100]), PARTIAL_FLUSH.to_vec(), write(4, 5)].concat());
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!(machine.words(marks, 5), [1, 0, 3, 4, 5]);
    assert_eq!(machine.u32(counter), 3);
}

#[test]
fn memory_is_waited_for_compared_and_changed() {
    let (mut machine, queue) = pm4();
    let at = machine.alloc(64);
    let to = machine.alloc(64);
    machine.set_u64(at, 40);
    let [low, high] = halves(at);
    let [to_low, to_high] = halves(to);
    let words = [
        packet(0x3C, &[5 | 1 << 4, low, high, 41, u32::MAX, 4]),
        // Add 2, keep what was there, wait for a swap that takes.
        packet(0x1E, &[0x2F, low, high, 2, 0, 0, 0, 0]),
        packet(0x40, &[6 | 2 << 8 | 1 << 16, 0, 0, to_low, to_high]),
        packet(0x1E, &[0x28 | 1 << 8, low, high, 7, 0, 50, 0, 0]),
        packet(0x40, &[1 | 5 << 8, low, high, to_low + 8, to_high]),
        packet(0x40, &[9 | 5 << 8 | 1 << 16, 0, 0, to_low + 16, to_high]),
        packet(0x40, &[5 | 5 << 8, 0x55, 0, to_low + 24, to_high]),
        // Host data path flush: a register that is written and one that is waited for.
        packet(0x3C, &[3 | 1 << 6, 0x106, 0x107, u32::MAX, u32::MAX, 4]),
        packet(0x50, &[3 << 20 | 3 << 29, low, high, to_low + 32, to_high, 8]),
    ]
    .concat();
    machine.submit_words(&queue, &words);
    assert_eq!(machine.run(), DeviceActivity::Waiting);
    machine.set_u64(at, 41);
    assert_eq!(machine.run(), DeviceActivity::Waiting);
    assert_eq!((machine.u64(at), machine.u64(to)), (43, 41));
    machine.set_u64(at, 50);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!((machine.u64(at), machine.u32(to + 8), machine.u32(to + 24)), (7, 7, 0x55));
    assert!(machine.u64(to + 16) >= 1000);
    assert_eq!(machine.u64(to + 32), 7);
    assert!(machine.log.errors.lock().unwrap().is_empty());
}

#[test]
fn dispatches_count_threads_or_groups_and_start_anywhere() {
    let (mut machine, queue) = pm4();
    let from = machine.buffer(&[0; 256]);
    let to = machine.alloc(1024);
    let arguments = machine.buffer(&[halves(from), halves(to), [32, 0]].concat());
    let entry = machine.buffer(ADD);
    let sizes = machine.buffer(&[70, 1, 1]);
    let [low, high] = halves(sizes);
    let with_initiator = |initiator: u32| {
        let mut words = dispatch(entry, arguments, 32, 0);
        let end = words.len();
        words.splice(end - 5.., packet(0x16, &[low, high, initiator]));
        words
    };
    // 70 threads: three groups of 32, the last with 6.
    machine.submit_words(&queue, &[with_initiator(1 | 4 | 1 << 5), PARTIAL_FLUSH.to_vec()].concat());
    machine.run();
    let sum = |machine: &Machine| machine.words(to, 256).iter().map(|&word| u32::from(word == 7)).sum::<u32>();
    assert_eq!((sum(&machine), machine.u32(to + 4 * 69), machine.u32(to + 4 * 70)), (70, 7, 0));
    // Groups 5 and 6, by a start register.
    let mut words = dispatch(entry, arguments, 32, 0);
    let end = words.len();
    words.splice(end - 5.., [set(0x2E04, &[5, 0, 0]), packet(0x15, &[7, 1, 1, 1])].concat());
    machine.submit_words(&queue, &words);
    machine.run();
    assert_eq!((sum(&machine), machine.u32(to + 4 * 160), machine.u32(to + 4 * 223)), (134, 7, 7));
}

#[test]
fn a_ring_wraps_in_the_middle_of_a_packet() {
    let (mut machine, queue) = pm4();
    let to = machine.alloc(8);
    let write = |value: u32| packet(0x37, &[&[0x10_0500], &halves(to)[..], &[value]].concat());
    for value in 1..=RING as u32 / 4 {
        machine.submit_words(&queue, &write(value));
        machine.run();
        assert_eq!((machine.u32(to), machine.u64(queue.read)), (value, u64::from(value) * 5));
    }
}
