//! A queue in the memory of this process, written and read as that of another.

use std::sync::atomic::{AtomicU64, Ordering};

use gpreempt_observe::{RingFormat, RingPlace};

pub(crate) const SLOT: u64 = 64;
pub(crate) const INVALID: u16 = 1;
const KERNEL: u16 = 2;
const WAIT_ALL: u16 = 3;
const WAIT_ANY: u16 = 5;
const ORDERED: u16 = 1 << 8;
const RPTR: u64 = 0x80;
const WPTR: u64 = 0x38;
const RING: u64 = 0x100;

/// When the read index of a fake passes a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexKind {
    /// When the packet and all before it have completed.
    Retire,
    /// When it is fetched; back at the oldest that has not completed while the queue is saved.
    FetchRewoundAtSave,
    /// When it is fetched.
    Fetch,
}

impl IndexKind {
    pub(crate) const ALL: [IndexKind; 3] = [IndexKind::Retire, IndexKind::FetchRewoundAtSave, IndexKind::Fetch];
}

/// The queue: its object, its ring, then signals.
pub(crate) struct Fake {
    cells: Vec<AtomicU64>,
    base: u64,
    packets: u64,
}

/// The bytes of a packet.
#[derive(Clone, Copy)]
pub(crate) struct Bytes(pub(crate) [u8; SLOT as usize]);

impl Bytes {
    fn new(header: u16) -> Bytes {
        let mut bytes = [0; SLOT as usize];
        bytes[..2].copy_from_slice(&header.to_le_bytes());
        Bytes(bytes)
    }

    fn put(mut self, at: usize, value: u64) -> Bytes {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// One dimension of workgroups of 64.
    pub(crate) fn kernel() -> Bytes {
        let mut packet = Bytes::new(KERNEL);
        packet.0[2] = 1;
        packet.0[4] = 64;
        packet.0[6] = 1;
        packet
    }

    pub(crate) fn wait_all(signals: &[u64]) -> Bytes {
        signals.iter().enumerate().fold(Bytes::new(WAIT_ALL), |packet, (at, signal)| packet.put(8 + 8 * at, *signal))
    }

    pub(crate) fn wait_any(signals: &[u64]) -> Bytes {
        signals.iter().enumerate().fold(Bytes::new(WAIT_ANY), |packet, (at, signal)| packet.put(8 + 8 * at, *signal))
    }

    /// Waits until the signal is not less than `value`.
    pub(crate) fn wait_at_least(signal: u64, value: u64) -> Bytes {
        let mut packet = Bytes::new(0).put(8, signal).put(16, value).put(24, u64::MAX).put(32, 3);
        packet.0[2] = 2;
        packet
    }

    pub(crate) fn ordered(mut self) -> Bytes {
        self.0[1] |= (ORDERED >> 8) as u8;
        self
    }

    pub(crate) fn completes(self, signal: u64) -> Bytes {
        self.put(56, signal)
    }
}

impl Fake {
    pub(crate) fn new(packets: u64, signals: u64) -> Fake {
        let bytes = RING + packets * SLOT + signals * SLOT + 256;
        let cells: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        let base = (cells.as_ptr().expose_provenance() as u64).next_multiple_of(256);
        let fake = Fake { cells, base, packets };
        fake.clear();
        fake
    }

    /// Zeroes the memory and makes all packets invalid, as in a new fake.
    pub(crate) fn clear(&self) {
        self.cells.iter().for_each(|cell| cell.store(0, Ordering::SeqCst));
        for number in 0..self.packets {
            self.header(number, INVALID);
        }
    }

    pub(crate) fn ring(&self) -> RingPlace {
        let (base, bytes) = (self.base + RING, self.packets * SLOT);
        RingPlace { format: RingFormat::Aql, base, bytes, read_index: self.base + RPTR, write_index: self.base + WPTR }
    }

    fn cell(&self, offset: u64) -> &AtomicU64 {
        let start = self.cells.as_ptr().expose_provenance() as u64;
        &self.cells[((self.base - start + offset) / 8) as usize]
    }

    fn slot(&self, number: u64) -> u64 {
        RING + number % self.packets * SLOT
    }

    pub(crate) fn set_read(&self, index: u64) {
        self.cell(RPTR).store(index, Ordering::SeqCst);
    }

    pub(crate) fn set_write(&self, index: u64) {
        self.cell(WPTR).store(index, Ordering::SeqCst);
    }

    /// Writes a packet into its slot, its header last.
    pub(crate) fn put(&self, number: u64, packet: &Bytes) {
        let words = packet.0.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        for (at, word) in (0..).zip(words).collect::<Vec<(u64, u64)>>().into_iter().rev() {
            self.cell(self.slot(number) + 8 * at).store(word, Ordering::SeqCst);
        }
    }

    pub(crate) fn header(&self, number: u64, header: u16) {
        let cell = self.cell(self.slot(number));
        cell.store(cell.load(Ordering::SeqCst) & !0xFFFF | u64::from(header), Ordering::SeqCst);
    }

    /// Submits packets from number `first` on.
    pub(crate) fn submit(&self, first: u64, packets: &[Bytes]) {
        for (number, packet) in (first..).zip(packets) {
            self.put(number, packet);
        }
        self.set_write(first + packets.len() as u64);
    }

    /// Fetches up to packet `end`, exclusive.
    pub(crate) fn fetch(&self, first: u64, end: u64) {
        for number in first..end {
            self.header(number, INVALID);
        }
        self.set_read(end);
    }

    pub(crate) fn signal(&self, index: u64) -> u64 {
        self.base + RING + self.packets * SLOT + index * SLOT
    }

    fn value(&self, index: u64) -> &AtomicU64 {
        self.cell(self.signal(index) - self.base + 8)
    }

    pub(crate) fn set_signal(&self, index: u64, value: i64) {
        self.value(index).store(value.cast_unsigned(), Ordering::SeqCst);
    }

    pub(crate) fn signal_value(&self, index: u64) -> i64 {
        self.value(index).load(Ordering::SeqCst).cast_signed()
    }
}
