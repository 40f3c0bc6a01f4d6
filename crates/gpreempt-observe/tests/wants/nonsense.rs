//! Memory in which anything stands, and changes with every read: polls end, soon, and nothing panics.

use std::cell::Cell;

use gpreempt_core::Nanos;
use gpreempt_observe::{ReadFailure, RingFormat, RingPlace, RingState, Scratch, TenantMemory, TenantProbe};
use proptest::prelude::*;

/// Reads of one ring in one poll: each of four looks reads indices, passed packets and the head up to four times, then
/// signals, of which a ring follows 128 and a wait has five.
const MOST_READS: u64 = 4 * (4 * (2 + 2 * 2 + 2 * 2 + 6 + 2) + 128 + 6 + 2);

/// Numbers that mean something, or follow each other, more often than not.
struct Noise {
    state: Cell<u64>,
    index: Cell<u64>,
    reads: Cell<u64>,
}

impl Noise {
    fn next(&self) -> u64 {
        let state = self.state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state.set(state);
        (state ^ state >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8
    }

    fn number(&self) -> u64 {
        let edges = [0, 1, 8, 64, 1 << 32, 1 << 62, 1 << 63, (1 << 63) + 1, u64::MAX, u64::MAX - 3];
        match self.next() % 16 {
            0..4 => edges[self.next() as usize % edges.len()],
            4..8 => {
                self.index.set(self.index.get().wrapping_add(self.next() % 4).wrapping_sub(self.next() % 2));
                self.index.get()
            }
            // A header, and few signals, which are soon used again.
            8..12 => [0x0102, 0x0001, 0x0003, 0x0105, 0x0200][self.next() as usize % 5] | 1 << 16 | 64 << 32,
            12..15 => 0x4000 + self.next() % 24 * 64,
            _ => self.next() << 40 ^ self.next(),
        }
    }
}

impl TenantMemory for Noise {
    fn read(&self, _: u64, bytes: &mut [u8]) -> Result<(), ReadFailure> {
        self.reads.set(self.reads.get() + 1);
        match self.next() % 32 {
            0 => return Err(ReadFailure::Away),
            1 if self.next().is_multiple_of(8) => return Err(ReadFailure::Gone),
            _ => {}
        }
        assert!(bytes.len() <= 2048, "{}", bytes.len());
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.number().to_le_bytes()[..word.len()]);
        }
        Ok(())
    }
}

fn place(noise: &Noise) -> RingPlace {
    let format = if noise.next().is_multiple_of(8) { RingFormat::Pm4 } else { RingFormat::Aql };
    let (base, bytes) = (0x10_0000 * (1 + noise.next() % 6), 64 << (noise.next() % 8));
    let odd = u64::from(noise.next().is_multiple_of(16)) * noise.number();
    RingPlace { format, base: base ^ odd, bytes, read_index: (base + 0x1000) ^ odd, write_index: base + 0x1040 }
}

proptest! {
    #[test]
    fn polls_end_whatever_stands_in_memory(seed: u64, capacity in 0usize..9, calls in 1usize..200) {
        let noise = Noise { state: Cell::new(seed), index: Cell::new(seed >> 1), reads: Cell::new(0) };
        let mut slots: Vec<RingState> = (0..capacity).map(|_| RingState::EMPTY).collect();
        let mut scratch = Box::new(Scratch::EMPTY);
        let mut probe = TenantProbe::new(&mut slots[..]);
        let mut now = Nanos::ZERO;
        for _ in 0..calls {
            // Now and then a clock that jumps.
            let jumps = noise.next().is_multiple_of(50);
            now = if jumps { Nanos(noise.number()) } else { now.plus(Nanos(noise.next() % 5_000_000)) };
            match noise.next() % 8 {
                0 => {
                    let places: Vec<RingPlace> = (0..noise.next() % 12).map(|_| place(&noise)).collect();
                    let unwatched = probe.set_rings(places.iter().copied());
                    let invalid = places.iter().filter(|place| place.check().is_err()).count();
                    prop_assert!(unwatched.invalid == invalid && unwatched.no_room <= places.len());
                }
                1 | 2 => {
                    let (cus, evicted) = ((noise.number() as u32) % 3, noise.next() % 3 * 10);
                    let [told, tells, alone] = [4, 5, 2].map(|one_in| !noise.next().is_multiple_of(one_in));
                    probe.sampled(&noise, now, told.then_some(cus), tells.then_some(evicted), alone);
                }
                3 if noise.next().is_multiple_of(8) => probe.refute_retirement(),
                _ => {
                    noise.reads.set(0);
                    let _ = probe.poll(&noise, &mut scratch, now, noise.next().is_multiple_of(4));
                    prop_assert!(noise.reads.get() <= capacity as u64 * MOST_READS, "{} reads", noise.reads.get());
                }
            }
        }
    }
}
