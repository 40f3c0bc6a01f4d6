//! Layout of the shared memory: nothing but atomics, all zero at first.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::super::cu::{Cu, RECENT, SIMDS, Simd};
use super::super::cu_mask::MOST_CUS;
use super::super::slots::Geometry;
use super::crash;
use super::lock::LockWords;

/// Most client processes at a time.
pub(crate) const MAX_PROCESSES: u32 = 256;
/// Most execution tokens.
pub(crate) const MOST_TOKENS: u32 = 64;
/// Most gpus.
pub(crate) const MOST_GPUS: u32 = 64;
/// Most workers of a client process.
pub(crate) const MOST_WORKERS: usize = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"gprechip");
/// Version of the layout; changes with every change of this file.
const VERSION: u64 = 2;

/// A set of processes.
pub(super) type ProcessSet = [AtomicU64; MAX_PROCESSES as usize / 64];

#[repr(C)]
pub(super) struct ChipHeader {
    /// Magic, version, bytes, gpus, tokens, then the geometry.
    words: [AtomicU64; 16],
}

/// State of a client process.
#[repr(C, align(64))]
pub(super) struct ProcessWords {
    pub(super) state: AtomicU32,
    /// Counts wake-ups of the workers.
    pub(super) wake: AtomicU32,
    /// The count when a worker last noticed.
    pub(super) seen: AtomicU32,
    /// Workers that sleep, or are about to.
    pub(super) asleep: AtomicU32,
    pub(super) closed: AtomicU32,
    /// Workers that wait for a token.
    pub(super) token_waiters: AtomicU32,
    /// Not 0: all tokens of the dead process were taken back.
    pub(super) tokens_gone: AtomicU32,
    /// Time with tokens divided by occupied wave slots.
    pub(super) virtual_time: AtomicU64,
    pub(super) workers: [AtomicU32; MOST_WORKERS],
}

/// State of a gpu.
#[repr(C, align(64))]
pub(super) struct GpuWords {
    pub(super) lock: LockWords,
    /// Waves of all processes.
    pub(super) waves: AtomicU32,
    pub(super) next: AtomicU32,
    pub(super) turn: AtomicU32,
    reserved: AtomicU32,
    /// Workgroups that found room so far.
    pub(super) taken: AtomicU64,
    /// Workgroups that have left. It leaps when there may be room anywhere.
    pub(super) version: AtomicU64,
    /// Compute units of the last of them.
    pub(super) recent: [AtomicU32; RECENT as usize],
    /// Processes with a workgroup that waits.
    pub(super) waiting: ProcessSet,
}

/// A process's part of a gpu.
#[repr(C, align(64))]
pub(super) struct PartWords {
    pub(super) waves: AtomicU32,
    /// Not 0: everything of the dead process was taken back.
    pub(super) gone: AtomicU32,
    /// When a workgroup of it found room last, in workgroups.
    pub(super) served: AtomicU64,
    /// What its best waiting workgroup needs.
    pub(super) wanted: AtomicU64,
    /// Number of a compute unit where that fits, plus 1; 0 if nowhere.
    pub(super) candidate: AtomicU32,
    reserved: AtomicU32,
    /// Since when it fits, in nanoseconds.
    pub(super) offered: AtomicU64,
    pub(super) mask: [AtomicU64; MOST_CUS as usize / 64],
}

/// A token.
#[repr(C)]
pub(super) struct TokenWords {
    /// Number of the holder's slot plus 1; 0 if free.
    pub(super) holder: AtomicU32,
    reserved: AtomicU32,
    /// Since when it is held, up to which time that was accounted for, or since when it is free.
    pub(super) since: AtomicU64,
}

/// All tokens.
#[repr(C, align(64))]
pub(super) struct TokensWords {
    pub(super) lock: LockWords,
    /// Least virtual time of all processes that hold or wait for a token; never decreases.
    pub(super) floor: AtomicU64,
    /// Processes that wait.
    pub(super) waiting: ProcessSet,
    pub(super) tokens: [TokenWords; MOST_TOKENS as usize],
}

/// Occupied resources of a compute unit: by all processes, or by one.
#[repr(C)]
pub(super) struct CuWords {
    simds: [AtomicU64; SIMDS],
    lds: AtomicU64,
}

impl CuWords {
    pub(super) fn load(&self) -> Cu {
        let simds = std::array::from_fn(|n| {
            let word = self.simds[n].load(Ordering::Relaxed);
            let field = |shift: u32| (word >> shift) as u32 & 0xFFFF;
            Simd { waves: field(0), vgprs: field(16), sgprs: field(32) }
        });
        Cu { simds, lds: self.lds.load(Ordering::Relaxed) as u32 }
    }

    pub(super) fn store(&self, cu: &Cu) {
        for (word, simd) in self.simds.iter().zip(&cu.simds) {
            let field = |value: u32, shift: u32| u64::from(value.min(0xFFFF)) << shift;
            crash::point();
            word.store(field(simd.waves, 0) | field(simd.vgprs, 16) | field(simd.sgprs, 32), Ordering::Relaxed);
        }
        crash::point();
        self.lds.store(u64::from(cu.lds), Ordering::Relaxed);
    }
}

/// Where the parts of the memory start, and the sizes they follow from. Taken from the header once and checked: what
/// a client writes there later changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChipLayout {
    pub(super) size: Geometry,
    pub(super) gpus: u32,
    pub(super) tokens: u32,
    pub(super) processes: usize,
    pub(super) gpu_words: usize,
    pub(super) token_words: usize,
    pub(super) parts: usize,
    pub(super) totals: usize,
    pub(super) shares: usize,
    pub(super) bytes: usize,
}

impl ChipLayout {
    /// Returns the layout for a device, or `None` if something is out of range.
    pub(super) fn new(size: Geometry, gpus: u32, tokens: u32) -> Option<Self> {
        let within = |value: u32, most: u32| (1..=most).contains(&value);
        let sane = within(size.cus, MOST_CUS)
            && within(size.xccs, size.cus)
            && within(size.engines, size.cus)
            && within(size.waves, 255)
            && within(size.vgprs, 0xFFFF)
            && within(size.sgprs, 0xFFFF)
            && within(size.lds, 0xF_FFFE)
            && within(gpus, MOST_GPUS)
            && within(tokens, MOST_TOKENS);
        if !sane {
            return None;
        }
        let mut bytes = 0_usize;
        let mut part = |each: usize, count: usize| {
            let start = bytes;
            bytes = (start + each * count).next_multiple_of(4096);
            start
        };
        let (process_count, gpu_count, cu_count) = (MAX_PROCESSES as usize, gpus as usize, size.cus as usize);
        part(size_of::<ChipHeader>(), 1);
        let processes = part(size_of::<ProcessWords>(), process_count);
        let gpu_words = part(size_of::<GpuWords>(), gpu_count);
        let token_words = part(size_of::<TokensWords>(), 1);
        let parts = part(size_of::<PartWords>(), process_count * gpu_count);
        let totals = part(size_of::<CuWords>(), gpu_count * cu_count);
        let shares = part(size_of::<CuWords>(), process_count * gpu_count * cu_count);
        Some(Self { size, gpus, tokens, processes, gpu_words, token_words, parts, totals, shares, bytes })
    }

    fn header(&self) -> [u64; 12] {
        let Geometry { cus, xccs, engines, waves, vgprs, sgprs, lds } = self.size;
        let numbers = [self.gpus, self.tokens, cus, xccs, engines, waves, vgprs, sgprs, lds].map(u64::from);
        let mut words = [MAGIC, VERSION, self.bytes as u64, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        words[3..].copy_from_slice(&numbers);
        words
    }

    pub(super) fn write(&self, header: &ChipHeader) {
        for (word, value) in header.words.iter().zip(self.header()) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Reads the layout from a header, in a file of `bytes` bytes.
    pub(super) fn read(header: &ChipHeader, bytes: u64) -> io::Result<Self> {
        let words: [u64; 12] = std::array::from_fn(|n| header.words[n].load(Ordering::Relaxed));
        let number = |n: usize| u32::try_from(words[n]).unwrap_or(0);
        let size = Geometry {
            cus: number(5),
            xccs: number(6),
            engines: number(7),
            waves: number(8),
            vgprs: number(9),
            sgprs: number(10),
            lds: number(11),
        };
        Self::new(size, number(3), number(4))
            .filter(|layout| layout.header() == words && layout.bytes as u64 == bytes)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}
