//! Address ranges of this process: reserved, backed with device memory or host memory, and given back when dropped.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// A range of addresses of this process; dropping it unmaps the range.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is plain memory of the process; nothing about it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: it hands out raw addresses only; code that reads or writes there carries the proof.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves addresses without memory behind them, aligned to `align`, a power of two not below the page size.
    pub(crate) fn reserve(length: usize, align: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let roomy = length.checked_add(align).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: the system chooses fresh addresses; nothing existing is touched.
        let start = unsafe { map(ptr::null_mut(), roomy, libc::PROT_NONE, flags, -1, 0) }?;
        let before = start.as_ptr().align_offset(align);
        // SAFETY: `align_offset` is below `align`, so the result still lies in the range just mapped.
        let aligned = unsafe { start.add(before) };
        let after = roomy - before - length;
        if before > 0 {
            // SAFETY: these are the unused addresses before the aligned range; nothing refers to them.
            unsafe { libc::munmap(start.as_ptr().cast(), before) };
        }
        if after > 0 {
            // SAFETY: these are the unused addresses behind the aligned range; nothing refers to them.
            unsafe { libc::munmap(aligned.add(length).as_ptr().cast(), after) };
        }
        Ok(Mapping { start: aligned, length })
    }

    /// Backs the whole range with pages of `file`, from `offset` on.
    pub(crate) fn back_with(&mut self, file: &File, offset: u64) -> io::Result<()> {
        self.replace(libc::MAP_SHARED | libc::MAP_FIXED, file.as_raw_fd(), offset)
    }

    /// Backs the whole range with fresh memory of the process.
    pub(crate) fn back_with_memory(&mut self) -> io::Result<()> {
        self.replace(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED, -1, 0)
    }

    fn replace(&mut self, flags: libc::c_int, descriptor: libc::c_int, offset: u64) -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the addresses replaced are those of this mapping, which `&mut self` owns and nothing points into yet.
        unsafe { map(self.start.as_ptr(), self.length, protection, flags, descriptor, offset) }?;
        Ok(())
    }

    /// Maps pages of a device at addresses that the system chooses.
    pub(crate) fn of_device(file: &File, offset: u64, length: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the system chooses fresh addresses; nothing existing is touched.
        let start = unsafe { map(ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), offset) }?;
        Ok(Mapping { start, length })
    }

    /// Returns the first address.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the size in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and nothing refers to it after the drop.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// # Safety
///
/// With `MAP_FIXED`, the range must be the caller's to replace.
unsafe fn map(
    at: *mut u8,
    length: usize,
    protection: libc::c_int,
    flags: libc::c_int,
    descriptor: libc::c_int,
    offset: u64,
) -> io::Result<NonNull<u8>> {
    // The driver's offsets use all 64 bits; the C library calls them signed.
    let offset = offset.cast_signed();
    // SAFETY: as the caller vouches for; a descriptor that cannot be mapped gives an error.
    let address = unsafe { libc::mmap(at.cast(), length, protection, flags, descriptor, offset) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_addresses_are_aligned_and_can_be_given_memory() {
        let mut mapping = Mapping::reserve(8192, 1 << 21).unwrap();
        assert_eq!(mapping.start().as_ptr().addr() % (1 << 21), 0);
        assert_eq!(mapping.length(), 8192);
        mapping.back_with_memory().unwrap();
        // SAFETY: the last byte of memory just mapped for writing.
        let last = unsafe {
            mapping.start().add(8191).write(7);
            mapping.start().add(8191).read()
        };
        assert_eq!(last, 7);
    }
}
