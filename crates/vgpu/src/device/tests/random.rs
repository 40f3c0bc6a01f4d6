//! Random packets: whatever comes, the engine comes back.

use proptest::prelude::*;

use super::super::PacketFormat;
use super::kernels::COUNT;
use super::machine::{BASE, Machine, halves};

/// Words that look like parts of packets more often than chance would have it.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (0_u32..256, 0_u32..16).prop_map(|(opcode, count)| 3 << 30 | count << 16 | opcode << 8),
        (0_u32..20, 0_u32..8).prop_map(|(opcode, sub)| sub << 8 | opcode),
        (0_u32..1 << 20).prop_map(|offset| BASE as u32 + (offset & !3)),
        0_u32..16,
    ]
}

/// An AQL packet of words, with a kind that exists.
fn packet() -> impl Strategy<Value = [u8; 64]> {
    (prop::collection::vec(word(), 16), 0_u16..8, any::<u16>(), 0_u64..64).prop_map(|(words, kind, bits, slot)| {
        let mut bytes = [0; 64];
        for (chunk, word) in bytes.chunks_exact_mut(4).zip(&words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes[..2].copy_from_slice(&(bits & 0xFF00 | kind).to_le_bytes());
        // Often a kernel object and a signal that exist.
        if slot < 32 {
            bytes[4..12].copy_from_slice(&[16, 0, 2, 0, 1, 0, 0, 0]);
            bytes[12..24].copy_from_slice(&[40, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0]);
            bytes[24..32].fill(0);
            bytes[32..40].copy_from_slice(&(BASE + 256).to_le_bytes());
            bytes[40..48].copy_from_slice(&(BASE + 512).to_le_bytes());
            bytes[56..64].fill(0);
        }
        bytes
    })
}

/// A machine with a kernel at `BASE + 256` and its arguments at `BASE + 512`.
fn machine() -> Machine {
    let mut machine = Machine::with_quantum(64);
    let kernel = machine.plain_kernel(COUNT);
    assert_eq!(kernel, BASE + 256);
    let arguments = machine.alloc(256);
    for (n, half) in (0..).zip(halves(BASE + 1024)) {
        machine.set_u32(arguments + 4 * n, half);
    }
    machine.alloc(1024);
    machine
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_aql_packets(packets in prop::collection::vec(packet(), 1..20)) {
        let mut machine = machine();
        let queue = machine.queue(PacketFormat::Aql);
        for packet in &packets {
            machine.submit_bytes(&queue, packet);
        }
        for _ in 0..500 {
            machine.worker.turn(&machine.device);
        }
        machine.device.lock().unwrap().destroy_queue(queue.id);
        prop_assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
    }

    #[test]
    fn any_stream(words in prop::collection::vec(word(), 1..200), sdma in any::<bool>()) {
        let mut machine = machine();
        let queue = machine.queue(if sdma { PacketFormat::Sdma } else { PacketFormat::Pm4 });
        machine.submit_words(&queue, &words);
        for _ in 0..500 {
            machine.worker.turn(&machine.device);
        }
        machine.device.lock().unwrap().destroy_queue(queue.id);
        prop_assert_eq!((machine.slots.waves(), machine.slots.lds()), (0, 0));
    }
}
