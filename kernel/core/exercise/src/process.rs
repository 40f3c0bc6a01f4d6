//! A process with queues: packets come, are fetched and end, and a probe looks at them.

use core::ffi::{c_int, c_void};
use core::ptr;

use gpreempt_kernel_core::*;

use crate::numbers::{Checksum, Random};

/// Queues of the process.
pub(crate) const RINGS: u32 = 4;
/// Packets of a ring, and their bytes.
const PACKETS: u64 = 16;
const PACKET: u64 = 64;
const RING: u64 = PACKETS * PACKET;
/// Where the memory of the process begins: rings, then a line of indices for each, then signals.
const BASE: u64 = 0x7F00_0000_0000;
const INDICES: u64 = BASE + RINGS as u64 * RING;
const INDEX_LINE: u64 = 256;
const SIGNALS: u64 = INDICES + RINGS as u64 * INDEX_LINE;
const SIGNAL_COUNT: u32 = 32;
const BYTES: usize = (SIGNALS - BASE) as usize + SIGNAL_COUNT as usize * 64;

/// Types of packets in the lower byte of their header: another vendor's, not written, a kernel, a barrier-AND and a
/// barrier-OR.
const KINDS: [u64; 6] = [0, 1, 2, 2, 3, 5];

/// The process, and the probe that looks at it. All zero is one that did nothing.
#[derive(Debug)]
pub(crate) struct Process {
    probe: *mut GpcProbe,
    memory: Memory,
}

/// The memory of the process.
#[derive(Debug)]
struct Memory {
    bytes: [u8; BYTES],
    /// The read after so many fails in this way; zero: none does.
    fails_in: u32,
    failure: c_int,
}

impl Memory {
    /// Returns eight bytes at an address.
    fn word(&mut self, address: u64) -> Option<&mut [u8; 8]> {
        self.bytes.get_mut(usize::try_from(address.wrapping_sub(BASE)).ok()?..)?.first_chunk_mut()
    }

    fn get(&mut self, address: u64) -> u64 {
        self.word(address).map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn set(&mut self, address: u64, value: u64) {
        if let Some(word) = self.word(address) {
            *word = value.to_le_bytes();
        }
    }
}

/// Copies bytes of the process, as the core asks.
unsafe extern "C" fn read(context: *mut c_void, address: u64, to: *mut c_void, size: usize) -> c_int {
    // SAFETY: the context is the memory of a process that nothing else uses during a call of the core.
    let memory = unsafe { &mut *context.cast::<Memory>() };
    if memory.fails_in > 0 {
        memory.fails_in -= 1;
        if memory.fails_in == 0 {
            return memory.failure;
        }
    }
    let start = usize::try_from(address.wrapping_sub(BASE)).unwrap_or(usize::MAX);
    match memory.bytes.get(start..start.saturating_add(size)) {
        Some(bytes) => {
            // SAFETY: there are that many bytes here, and room for them there.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), size) };
            0
        }
        None => 1,
    }
}

fn read_index(ring: u32) -> u64 {
    INDICES + u64::from(ring) * INDEX_LINE
}

fn write_index(ring: u32) -> u64 {
    read_index(ring) + 128
}

/// Returns the handle of a signal, or none.
fn signal(random: &mut Random) -> u64 {
    if random.once_in(4) { 0 } else { SIGNALS + u64::from(random.below(SIGNAL_COUNT)) * 64 }
}

impl Process {
    pub(crate) fn begin(&mut self, probe: *mut GpcProbe, random: &mut Random, checksum: &mut Checksum) {
        self.probe = probe;
        self.set_rings(random, checksum);
    }

    /// Says which rings there are: mostly all, and one that cannot be at times.
    fn set_rings(&mut self, random: &mut Random, checksum: &mut Checksum) {
        let mut rings = [GpcRing::default(); RINGS as usize + 1];
        for (number, ring) in (0..RINGS).zip(&mut rings) {
            *ring = GpcRing {
                base: BASE + u64::from(number) * RING,
                bytes: RING,
                read_index: read_index(number),
                write_index: write_index(number),
                is_aql: u32::from(number != 3),
                reserved: 0,
            };
        }
        let count = random.one_of(&[RINGS, RINGS, RINGS + 1, 2], RINGS);
        // SAFETY: the probe lies there, and the rings are ours.
        let answer = unsafe { gpc_probe_set_rings(self.probe, rings.as_ptr(), count) };
        checksum.add(answer as u32 as u64);
    }

    /// Lets the process go on and looks at it.
    pub(crate) fn step(&mut self, now: u64, random: &mut Random, checksum: &mut Checksum) {
        for _ in 0..random.below(6) {
            self.act(random);
        }
        if random.once_in(64) {
            self.set_rings(random, checksum);
        }
        self.memory.fails_in = if random.once_in(8) { 1 + random.below(12) } else { 0 };
        self.memory.failure = random.one_of(&[1, 2, 2], 2);
        let memory = GpcMemory { read: Some(read), context: (&raw mut self.memory).cast() };
        let mut found = GpcActivity::default();
        let stopped = random.once_in(8);
        // SAFETY: the probe lies there, and the others are ours.
        let (answer, index) =
            unsafe { (gpc_probe_poll(self.probe, &memory, now, stopped, &mut found), gpc_probe_index(self.probe)) };
        for word in [answer as u32, index as u32, found.activity.0, found.unsure] {
            checksum.add(u64::from(word));
        }
        checksum.add(found.since_ns);
        checksum.add(found.pending);
        if found.unsure != 0 || random.once_in(16) {
            let occupied = random.one_of(&[-1, 0, 0, 40], -1);
            let evicted = if random.once_in(3) { i64::from(random.below(50)) } else { -1 };
            // SAFETY: the probe lies there, and the memory is ours.
            let answer = unsafe { gpc_probe_sampled(self.probe, &memory, now, occupied, evicted, random.once_in(2)) };
            checksum.add(answer as u32 as u64);
        }
        if random.once_in(4096) {
            // SAFETY: the probe lies there.
            checksum.add(unsafe { gpc_probe_refute(self.probe) } as u32 as u64);
        }
    }

    /// Writes a packet, fetches one, or changes a signal.
    fn act(&mut self, random: &mut Random) {
        let ring = random.below(RINGS);
        let (written, fetched) = (self.memory.get(write_index(ring)), self.memory.get(read_index(ring)));
        match random.below(8) {
            0..3 if written.wrapping_sub(fetched) < PACKETS => {
                let packet = BASE + u64::from(ring) * RING + written % PACKETS * PACKET;
                let kind = random.one_of(&KINDS, 2);
                self.memory.set(packet, kind | u64::from(random.below(2)) << 8 | 1 << 16);
                for word in 1..7 {
                    let value = if kind == 3 || kind == 5 { signal(random) } else { u64::from(random.below(64)) };
                    self.memory.set(packet + word * 8, value);
                }
                self.memory.set(packet + 56, signal(random));
                self.memory.set(write_index(ring), written.wrapping_add(1));
            }
            0..6 if fetched != written => self.memory.set(read_index(ring), fetched.wrapping_add(1)),
            // The value of a signal is its second word.
            _ => self.memory.set(SIGNALS + u64::from(random.below(SIGNAL_COUNT)) * 64 + 8, u64::from(random.below(2))),
        }
    }
}
