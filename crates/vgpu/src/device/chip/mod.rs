//! The state of the device that all processes share: compute units, execution tokens, and wake-ups.
//!
//! A [`Chip`] is one piece of shared memory. The supervisor makes it; every client process maps it and has a *slot* in
//! it. Each change happens under a lock whose word names the process that holds it, and everything that belongs to a
//! process stands in a part of its own beside the totals. So a process may be killed between any two instructions:
//! after the supervisor has seen it die, the next holder of the lock drops its part and adds up the totals anew.
//!
//! Nothing read from the memory is trusted: numbers are checked or clamped, and it holds no pointers or offsets.

mod crash;
mod layout;
mod lock;
mod process_slot;
mod repair;
mod slots;
mod tokens;
mod waiting;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use super::slots::Geometry;
use crate::sys::{self, Map};
use layout::{ChipHeader, ChipLayout, CuWords, GpuWords, PartWords, ProcessWords, TokensWords};

pub(crate) use layout::{MAX_PROCESSES, MOST_TOKENS, MOST_WORKERS};
pub(crate) use slots::ChipSlots;
pub(crate) use tokens::tokens_of_machine;

/// Number of the slot that a client process has in the chip, below [`MAX_PROCESSES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProcessSlot(u32);

impl ProcessSlot {
    /// Returns the slot of this number, as the supervisor told it to a client, or `None` if it is out of range.
    pub(crate) fn new(number: u32) -> Option<Self> {
        (number < MAX_PROCESSES).then_some(Self(number))
    }

    /// Returns the number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    fn index(self) -> usize {
        self.0 as usize
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..MAX_PROCESSES).map(Self)
    }
}

/// The device that all processes share.
#[derive(Debug)]
pub(crate) struct Chip {
    map: Map,
    layout: ChipLayout,
    /// Nanoseconds.
    clock: fn() -> u64,
    /// Held while a thread of the supervisor takes back what a process had.
    repairing: Mutex<()>,
}

impl Chip {
    /// Creates a device and the file by which others map it.
    ///
    /// # Errors
    /// EINVAL if a size is out of range, and what the operating system says.
    pub(crate) fn create(size: Geometry, gpus: u32, tokens: u32) -> io::Result<(Self, OwnedFd)> {
        let layout = ChipLayout::new(size, gpus, tokens).ok_or(io::ErrorKind::InvalidInput)?;
        let file = sys::memfd("gpreempt-vgpu-chip", layout.bytes as u64)?;
        let chip = Self::new(Map::new(file.as_fd(), 0, layout.bytes)?, layout);
        layout.write(chip.header());
        Ok((chip, file))
    }

    /// Maps the device that another process created.
    ///
    /// # Errors
    /// If the file is not of this version of the program, and what the operating system says.
    pub(crate) fn open(file: BorrowedFd<'_>) -> io::Result<Self> {
        let bytes = sys::file_size(file)?;
        let length = usize::try_from(bytes).ok().filter(|&length| length >= size_of::<ChipHeader>());
        let map = Map::new(file, 0, length.ok_or(io::ErrorKind::InvalidData)?)?;
        // SAFETY: the mapping is long enough, aligned to a page, and the header is made of atomics.
        let header = unsafe { &*map.start().cast::<ChipHeader>() };
        let layout = ChipLayout::read(header, bytes)?;
        Ok(Self::new(map, layout))
    }

    fn new(map: Map, layout: ChipLayout) -> Self {
        Self { map, layout, clock: sys::monotonic_raw_ns, repairing: Mutex::default() }
    }

    /// Returns the size of each gpu.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.layout.size
    }

    /// Returns the number of gpus.
    pub(crate) fn gpus(&self) -> u32 {
        self.layout.gpus
    }

    /// Returns whether a process waits for room on a gpu: it has workgroups without a place.
    pub(crate) fn is_waiting(&self, process: ProcessSlot, gpu: u32) -> bool {
        self.gpu(gpu).is_some_and(|words| waiting::members(&words.waiting).any(|other| other == process))
    }

    /// Stops the clock that lets processes come too late for their turn, so that a slow machine does not fail tests.
    #[cfg(test)]
    pub(crate) fn stop_clock(&mut self) {
        self.clock = || 1;
    }

    /// Returns the number of execution tokens.
    pub(crate) fn tokens(&self) -> u32 {
        self.layout.tokens
    }

    fn part<T>(&self, start: usize, count: usize) -> &[T] {
        assert!(start + count * size_of::<T>() <= self.map.length() && start.is_multiple_of(align_of::<T>()));
        // SAFETY: it lies within the mapping, as checked; all types of the layout are made of atomics alone, for which
        // any bytes are valid.
        unsafe { std::slice::from_raw_parts(self.map.start().add(start).cast::<T>(), count) }
    }

    fn header(&self) -> &ChipHeader {
        &self.part::<ChipHeader>(0, 1)[0]
    }

    fn process(&self, process: ProcessSlot) -> &ProcessWords {
        &self.part::<ProcessWords>(self.layout.processes, MAX_PROCESSES as usize)[process.index()]
    }

    fn gpu(&self, gpu: u32) -> Option<&GpuWords> {
        self.part::<GpuWords>(self.layout.gpu_words, self.layout.gpus as usize).get(gpu as usize)
    }

    fn token_words(&self) -> &TokensWords {
        &self.part::<TokensWords>(self.layout.token_words, 1)[0]
    }

    /// Returns a process's part of a gpu.
    fn process_part(&self, process: ProcessSlot, gpu: u32) -> Option<&PartWords> {
        let gpus = self.layout.gpus as usize;
        let parts = self.part::<PartWords>(self.layout.parts, gpus * MAX_PROCESSES as usize);
        parts.get(process.index() * gpus + gpu as usize).filter(|_| gpu < self.layout.gpus)
    }

    /// Returns the compute units of a gpu as all processes occupy them.
    fn totals(&self, gpu: u32) -> &[CuWords] {
        self.cus(self.layout.totals, gpu as usize)
    }

    /// Returns the compute units of a gpu as one process occupies them.
    fn share(&self, process: ProcessSlot, gpu: u32) -> &[CuWords] {
        self.cus(self.layout.shares, process.index() * self.layout.gpus as usize + gpu as usize)
    }

    fn cus(&self, start: usize, index: usize) -> &[CuWords] {
        let cus = self.layout.size.cus as usize;
        self.part(start + index * cus * size_of::<CuWords>(), cus)
    }
}
