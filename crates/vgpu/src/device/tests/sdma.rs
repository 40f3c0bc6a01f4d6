//! The copy engine.

use super::super::{DeviceActivity, PacketFormat};
use super::machine::{Machine, Ring, halves};

fn sdma() -> (Machine, Ring) {
    let mut machine = Machine::new();
    let queue = machine.queue(PacketFormat::Sdma);
    (machine, queue)
}

#[test]
fn large_copies_and_fills_arrive_whole() {
    let (mut machine, queue) = sdma();
    let words = 80_000;
    let from = machine.buffer(&(0..words).collect::<Vec<u32>>());
    let to = machine.alloc(4 * u64::from(words));
    let [from_low, from_high] = halves(from);
    let [to_low, to_high] = halves(to);
    machine.submit_words(&queue, &[1, 4 * words - 1, 0, from_low, from_high, to_low, to_high]);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!(machine.words(to, words.into()), (0..words).collect::<Vec<u32>>());
    machine.submit_words(&queue, &[0x8000_000B, to_low, to_high, 0xABCD_1234, 4 * words - 4]);
    machine.submit_words(&queue, &[0xB, to_low, to_high, 0x7F, 2]);
    machine.run();
    let got = machine.words(to, words.into());
    assert_eq!(got[0], 0xAB7F_7F7F);
    assert!(got[1..].iter().all(|&word| word == 0xABCD_1234));
    assert_eq!(machine.u64(queue.read), 4 * 17);
}

#[test]
fn rectangles_are_copied_between_pitches() {
    let (mut machine, queue) = sdma();
    let from = machine.buffer(&(0..200).collect::<Vec<u32>>());
    let to = machine.alloc(400);
    let [from_low, from_high] = halves(from);
    let [to_low, to_high] = halves(to);
    // From (1, 2, 0) with 10 words a row and 50 a slice to (0, 1, 0) with 4 and 20: 3 by 2 by 2 words.
    let words = [
        2 << 29 | 4 << 8 | 1,
        from_low,
        from_high,
        2 << 16 | 1,
        9 << 13,
        49, //
        to_low,
        to_high,
        1 << 16,
        3 << 13,
        19,
        1 << 16 | 2,
        1,
    ];
    machine.submit_words(&queue, &words);
    machine.run();
    let got = machine.words(to, 40);
    let mut expected = vec![0; 40];
    for (z, y, x) in (0..2).flat_map(|z| (0..2).flat_map(move |y| (0..3).map(move |x| (z, y, x)))) {
        expected[z * 20 + (y + 1) * 4 + x] = (z * 50 + (y + 2) * 10 + x + 1) as u32;
    }
    assert_eq!(got, expected);
}

#[test]
fn the_small_packets_do_what_they_say() {
    let (mut machine, queue) = sdma();
    let at = machine.alloc(64);
    let a = |offset: u64| halves(at + offset);
    machine.set_u64(at + 32, 10);
    let words = [
        vec![3 << 16, 0xDEAD, 0xDEAD, 0xDEAD],
        [&[2], &a(0)[..], &[1, 11, 12]].concat(),
        [&[5], &a(8)[..], &[13]].concat(),
        [&[0x20D], &a(16)[..]].concat(),
        vec![6, 77],
        // Host data path flush, then two polls of memory that hold at once.
        vec![8 | 1 << 26 | 3 << 28, 0x1000, 0x1004, 1, 1, 0],
        [&[8 | 3 << 28 | 1 << 31], &a(8)[..], &[13, 0xFF, 0]].concat(),
        [&[8 | 4 << 28 | 1 << 31], &a(8)[..], &[14, 0xFF, 0]].concat(),
        // Skipped, because the word is not 14: a fence.
        [&[9], &a(8)[..], &[14, 4]].concat(),
        [&[5], &a(8)[..], &[99]].concat(),
        [&[0x2F << 25 | 10], &a(32)[..], &[5, 0, 0, 0, 0]].concat(),
    ]
    .concat();
    machine.submit_words(&queue, &words);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!(machine.words(at, 3), [11, 12, 13]);
    assert!(machine.u64(at + 16) >= 1000);
    assert_eq!(machine.u64(at + 32), 15);
    assert_eq!(*machine.log.events.lock().unwrap(), [77]);
    assert!(machine.log.errors.lock().unwrap().is_empty());
}

#[test]
fn buffers_are_executed_before_the_ring_goes_on() {
    let (mut machine, queue) = sdma();
    let at = machine.alloc(64);
    let [low, high] = halves(at);
    let buffer = machine.buffer(&[
        8 | 3 << 28 | 1 << 31,
        low,
        high,
        1,
        u32::MAX,
        0, //
        5,
        low + 4,
        high,
        21,
        0,
        0,
    ]);
    let [buffer_low, buffer_high] = halves(buffer);
    machine.submit_words(&queue, &[4, buffer_low, buffer_high, 12, 0, 0, 5, low + 8, high, 22]);
    assert_eq!(machine.run(), DeviceActivity::Waiting);
    assert_eq!(machine.words(at, 3), [0, 0, 0]);
    machine.set_u32(at, 1);
    assert_eq!(machine.run(), DeviceActivity::Idle);
    assert_eq!(machine.words(at, 3), [1, 21, 22]);
}
