//! Shared mappings of files.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A part of a file in memory, shared with all processes that map it; unmapped on drop.
#[derive(Debug)]
pub struct Map {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value and to no thread; its bytes are accessed through atomics or as device
// memory.
unsafe impl Send for Map {}
// SAFETY: shared references give out the address and the length alone; what a caller does with the address it does
// under an `unsafe` block of its own.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `length` bytes at `offset`, readable and writable; children of a fork do not get the mapping.
    ///
    /// # Errors
    /// What mmap reports.
    pub fn new(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses replaces none.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, file, offset)? };
        // SAFETY: the mapping was made above and has not been given out.
        unsafe { rustix::mm::madvise(start, length, Advice::LinuxDontFork) }.ok();
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Lets children of a fork have the mapping after all.
    pub(crate) fn inherit(&self) {
        // SAFETY: changes what a fork copies, not the mapping.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxDoFork) }.ok();
    }

    /// Returns the address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and this value is its only owner. It fails for no mapping of ours.
        unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) }.ok();
    }
}
