//! Shared mappings of files.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A piece of a file in memory, shared with everybody else who maps it; unmapped on drop.
#[derive(Debug)]
pub struct Map {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value; what lies in it is accessed through atomics or as device memory.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `length` bytes at `offset`, readable and writable; children of a fork do not get it.
    ///
    /// # Errors
    /// What mmap says.
    pub fn new(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses harms nobody.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping was made just now.
        unsafe { libc::madvise(start, length, libc::MADV_DONTFORK) };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and nobody else unmaps it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
