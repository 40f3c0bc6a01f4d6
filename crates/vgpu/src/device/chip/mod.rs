//! What all processes share of the device: compute units, the right to execute, and how they wake each other.
//!
//! A [`Chip`] is one piece of shared memory. The supervisor makes it; every client process maps it and has a *process* in
//! it. Each change happens under a lock whose word names the process that holds it, and everything that belongs to a process
//! stands in a part of its own next to the totals. So a process may be killed between any two instructions: when the
//! supervisor has seen it die, its part is dropped and the totals are added up anew by whoever takes the lock next.
//!
//! Nothing that is read from the memory is trusted: numbers are checked or cut to their range, and no pointers or
//! offsets lie there.

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

use super::slots::Geometry;
use crate::sys::{self, Map};
use layout::{ChipHeader, ChipLayout, CuWords, GpuWords, PartWords, ProcessWords, TokensWords};

pub use layout::{MAX_PROCESSES, MOST_GPUS, MOST_TOKENS, MOST_WORKERS, SPARE};
pub use slots::ChipSlots;
pub use tokens::TokenGuard;

/// The number of a client process on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessSlot(u32);

impl ProcessSlot {
    /// A process by its number, as another process was told it.
    pub fn new(number: u32) -> Option<Self> {
        (number < MAX_PROCESSES).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u32 {
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
pub struct Chip {
    map: Map,
    layout: ChipLayout,
    /// Nanoseconds.
    clock: fn() -> u64,
}

impl Chip {
    /// A new device and the file to share it by.
    ///
    /// # Errors
    /// EINVAL if a size is out of range, and what the operating system says.
    pub fn create(size: Geometry, gpus: u32, tokens: u32) -> io::Result<(Self, OwnedFd)> {
        let layout = ChipLayout::new(size, gpus, tokens).ok_or(io::ErrorKind::InvalidInput)?;
        let file = sys::memfd("gpreempt-vgpu-chip", layout.bytes as u64)?;
        let chip = Self { map: Map::new(file.as_fd(), 0, layout.bytes)?, layout, clock: sys::monotonic_raw_ns };
        layout.write(chip.header());
        Ok((chip, file))
    }

    /// The device of another process.
    ///
    /// # Errors
    /// If the file is not of this version of the program, and what the operating system says.
    pub fn open(file: BorrowedFd<'_>) -> io::Result<Self> {
        let bytes = sys::file_size(file)?;
        let length = usize::try_from(bytes).ok().filter(|&length| length >= size_of::<ChipHeader>());
        let map = Map::new(file, 0, length.ok_or(io::ErrorKind::InvalidData)?)?;
        // SAFETY: the mapping is long enough, aligned to a page, and the header is made of atomics.
        let header = unsafe { &*map.start().cast::<ChipHeader>() };
        let layout = ChipLayout::read(header, bytes)?;
        Ok(Self { map, layout, clock: sys::monotonic_raw_ns })
    }

    /// Size of each gpu.
    pub fn geometry(&self) -> &Geometry {
        &self.layout.size
    }

    /// Gpus.
    pub fn gpus(&self) -> u32 {
        self.layout.gpus
    }

    /// Whether a process waits for room on a gpu: it has workgroups that nobody has given a place.
    pub fn is_waiting(&self, process: ProcessSlot, gpu: u32) -> bool {
        self.gpu(gpu).is_some_and(|words| waiting::members(&words.waiting).any(|other| other == process))
    }

    /// Stops the clock by which processes come too late for their turn, however slow the machine is that tests run on.
    #[cfg(test)]
    pub(crate) fn stop_clock(&mut self) {
        self.clock = || 1;
    }

    /// Execution tokens.
    pub fn tokens(&self) -> u32 {
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

    /// A process's part of a gpu.
    fn process_part(&self, process: ProcessSlot, gpu: u32) -> Option<&PartWords> {
        let gpus = self.layout.gpus as usize;
        let parts = self.part::<PartWords>(self.layout.parts, gpus * MAX_PROCESSES as usize);
        parts.get(process.index() * gpus + gpu as usize).filter(|_| gpu < self.layout.gpus)
    }

    /// The compute units of a gpu as everybody occupies them.
    fn totals(&self, gpu: u32) -> &[CuWords] {
        self.cus(self.layout.totals, gpu as usize)
    }

    /// The compute units of a gpu as one process occupies them.
    fn share(&self, process: ProcessSlot, gpu: u32) -> &[CuWords] {
        self.cus(self.layout.shares, process.index() * self.layout.gpus as usize + gpu as usize)
    }

    fn cus(&self, start: usize, index: usize) -> &[CuWords] {
        let cus = self.layout.size.cus as usize;
        self.part(start + index * cus * size_of::<CuWords>(), cus)
    }
}
