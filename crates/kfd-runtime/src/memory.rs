//! Buffers: memory that host and gpu see at the same address.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use kfd_abi::memory::AllocFlags;
use kfd_abi::{Abi, PAGE_SIZE};

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::mapping::Mapping;

/// An address on the gpu; in this runtime the same as on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuAddr(pub u64);

impl GpuAddr {
    /// The address `offset` bytes further on.
    #[must_use]
    pub const fn plus(self, offset: u64) -> GpuAddr {
        GpuAddr(self.0.wrapping_add(offset))
    }
}

impl fmt::Display for GpuAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Where a buffer lies and how it is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Video memory that the host can reach, too.
    Vram,
    /// System memory of the driver.
    Gtt,
    /// The same, past the gpu's caches: what host and packet processor poll.
    Uncached,
    /// Memory of the process.
    UserMemory,
}

impl Placement {
    fn flags(self) -> AllocFlags {
        let always = AllocFlags::WRITABLE | AllocFlags::EXECUTABLE | AllocFlags::NO_SUBSTITUTE;
        always
            | match self {
                Placement::Vram => AllocFlags::VRAM | AllocFlags::PUBLIC,
                Placement::Gtt => AllocFlags::GTT | AllocFlags::COHERENT,
                Placement::Uncached => AllocFlags::GTT | AllocFlags::COHERENT | AllocFlags::UNCACHED,
                Placement::UserMemory => AllocFlags::USERPTR | AllocFlags::COHERENT,
            }
    }
}

/// Allocates the buffers of one gpu.
#[derive(Debug)]
pub(crate) struct Heap {
    pub(crate) driver: Arc<Driver>,
    pub(crate) gpu_id: u32,
    pub(crate) render: File,
    /// Last address the gpu can translate.
    pub(crate) limit: u64,
}

/// Buffers of at least this size are aligned to it, so that the gpu maps them with large pages.
const LARGE: usize = 2 << 20;

impl Heap {
    /// Allocates at least `size` bytes, zeroed or not as the driver does it, and maps them into `gpu_ids`.
    pub(crate) fn allocate(&self, size: usize, placement: Placement, gpu_ids: &[u32]) -> Result<Buffer> {
        let page = PAGE_SIZE as usize;
        let no_room = |source| Error::Call {
            operation: "mmap of a buffer",
            source,
            advice: "the process may be short of memory or mappings (`ulimit -v`, vm.max_map_count)",
        };
        let length = size
            .max(1)
            .checked_next_multiple_of(page)
            .ok_or_else(|| no_room(io::Error::from(io::ErrorKind::OutOfMemory)))?;
        let align = if length >= LARGE { LARGE } else { page };
        let mut mapping = Mapping::reserve(length, align).map_err(no_room)?;
        let start = mapping.start().as_ptr().expose_provenance() as u64;
        if start.saturating_add(length as u64 - 1) > self.limit {
            return Err(no_room(io::Error::from(io::ErrorKind::AddrNotAvailable)));
        }
        if placement == Placement::UserMemory {
            mapping.back_with_memory().map_err(no_room)?;
        }
        let flags = placement.flags();
        let (handle, offset) = self.driver.allocate(self.gpu_id, GpuAddr(start), length as u64, flags)?;
        // From here on dropping the buffer frees what there is.
        let mut buffer =
            Buffer { driver: Arc::clone(&self.driver), handle, gpu_ids: Vec::new(), mapping, usable: size };
        if placement != Placement::UserMemory {
            buffer.mapping.back_with(&self.render, offset).map_err(no_room)?;
        }
        self.driver.map(handle, gpu_ids)?;
        buffer.gpu_ids = gpu_ids.to_vec();
        Ok(buffer)
    }
}

/// Memory of one or more gpus, mapped into this process at the same address. Freed when dropped.
///
/// The gpu reads and writes it at any time, so nothing here hands out references to its bytes: contents are copied in
/// and out, words that are polled are atomics. Copying in takes the buffer exclusively, so threads of this process
/// cannot disturb each other; the caller, which has the signals, must not read what the gpu is still writing.
#[derive(Debug)]
pub struct Buffer {
    driver: Arc<Driver>,
    handle: u64,
    gpu_ids: Vec<u32>,
    mapping: Mapping,
    usable: usize,
}

impl Buffer {
    /// Returns the first address.
    #[must_use]
    pub fn address(&self) -> GpuAddr {
        GpuAddr(self.mapping.start().as_ptr().expose_provenance() as u64)
    }

    /// Returns the number of bytes asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.usable
    }

    /// Returns whether no bytes were asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.usable == 0
    }

    /// Returns the driver's handle.
    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    fn check(&self, offset: usize, length: usize) -> Result<()> {
        // Whole pages are mapped, so the runtime itself may use the rest of the last one.
        match offset.checked_add(length) {
            Some(end) if end <= self.mapping.length() => Ok(()),
            _ => Err(Error::OutOfBounds { offset, length, size: self.mapping.length() }),
        }
    }

    /// Copies bytes in.
    ///
    /// # Errors
    ///
    /// If they do not fit.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes.len())?;
        // SAFETY: the range lies in the mapping, which is writable and overlaps no Rust object.
        unsafe { self.mapping.start().as_ptr().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies bytes out.
    ///
    /// # Errors
    ///
    /// If there are not so many.
    pub fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>> {
        self.check(offset, length)?;
        let mut bytes = vec![0; length];
        // SAFETY: the range lies in the mapping, which is readable and overlaps no Rust object.
        unsafe { self.mapping.start().as_ptr().add(offset).copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
        Ok(bytes)
    }

    /// Copies a structure in.
    pub(crate) fn put<T: Abi>(&mut self, offset: usize, value: &T) -> Result<()> {
        let mut bytes = vec![0; T::SIZE];
        value.encode(&mut bytes).ok_or(Error::OutOfBounds { offset, length: T::SIZE, size: bytes.len() })?;
        self.write(offset, &bytes)
    }

    /// A 64-bit word that both sides may change.
    pub(crate) fn atomic(&self, offset: usize) -> Result<&AtomicU64> {
        self.check(offset, size_of::<AtomicU64>())?;
        if !offset.is_multiple_of(align_of::<AtomicU64>()) {
            return Err(Error::OutOfBounds { offset, length: size_of::<AtomicU64>(), size: self.mapping.length() });
        }
        // SAFETY: the word lies in the mapping, is aligned (mappings start on pages), lives as long as the buffer, and
        // any bytes are a valid value.
        Ok(unsafe { AtomicU64::from_ptr(self.mapping.start().as_ptr().add(offset).cast()) })
    }

    /// The same, signed.
    pub(crate) fn atomic_signed(&self, offset: usize) -> Result<&AtomicI64> {
        let word = self.atomic(offset)?;
        // SAFETY: the word lives as long as the buffer, and both types have the same layout and take any bytes.
        Ok(unsafe { AtomicI64::from_ptr(word.as_ptr().cast()) })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A drop cannot report an error; what the driver refuses here it cleans up at the end of the process.
        if !self.gpu_ids.is_empty() {
            let _ = self.driver.unmap(self.handle, &self.gpu_ids);
        }
        let _ = self.driver.free(self.handle);
    }
}
