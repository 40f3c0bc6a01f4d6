//! The device file: typed calls, the window onto GPU memory, the shared page.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::ioctl::{Getter, Setter, Updater};
use vgpu_isa::memory::{Mapping, Space};

use super::abi::{
    self, AnswerArgs, AttachArgs, InterruptArgs, NextArgs, OrderArgs, Page, Range, RangesArgs, UnmappedArgs,
};
use crate::sys::Map;

/// The device file before it serves an address space.
pub(super) struct Link {
    file: File,
}

impl Link {
    /// Opens the device file.
    ///
    /// # Errors
    /// What open reports.
    pub(super) fn open(device: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(device);
        file.map(|file| Self { file })
            .map_err(|error| io::Error::new(error.kind(), format!("cannot open {}: {error}", device.display())))
    }

    /// Waits for an address space that has no engine.
    ///
    /// # Errors
    /// What ioctl reports.
    pub(super) fn next(&self) -> io::Result<NextArgs> {
        let next = rustix::io::retry_on_intr(|| {
            // SAFETY: the opcode is that of this structure, which the kernel fills.
            let call = unsafe { Getter::<{ abi::NEXT }, NextArgs>::new() };
            // SAFETY: the call writes to its own argument alone.
            unsafe { rustix::ioctl::ioctl(self.file.as_fd(), call) }
        });
        Ok(next?)
    }

    /// Becomes the engine of an address space.
    ///
    /// # Errors
    /// ESRCH if it is closed, EBUSY if it has an engine, and what mmap reports.
    pub(super) fn attach(self, id: u64) -> io::Result<Attached> {
        // SAFETY: the opcode is that of this structure, which the kernel reads.
        let call = unsafe { Setter::<{ abi::ATTACH }, AttachArgs>::new(AttachArgs { id }) };
        // SAFETY: the call reads its own argument alone.
        unsafe { rustix::ioctl::ioctl(self.file.as_fd(), call) }?;
        let size = usize::try_from(abi::WINDOW_SIZE).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let window = Map::new(self.file.as_fd(), 0, size)?;
        let page = Map::new(self.file.as_fd(), abi::PAGE_OFFSET, 4096)?;
        Ok(Attached { file: self.file, window, page })
    }
}

/// The device file of one address space.
pub(super) struct Attached {
    file: File,
    window: Map,
    page: Map,
}

impl Attached {
    /// Returns the words that the kernel shares.
    fn page(&self) -> &Page {
        // SAFETY: the mapping is a page, which holds the structure; it consists of atomics alone.
        unsafe { &*self.page.start().cast::<Page>() }
    }

    /// Returns how many orders were ever given.
    pub(super) fn orders(&self) -> u32 {
        self.page().orders.load(Ordering::Acquire)
    }

    /// Publishes how many waves the queue in a slot has on the device.
    pub(super) fn show_waves(&self, slot: u32, waves: u32) {
        if let Some(word) = self.page().waves.get(slot as usize) {
            word.store(waves, Ordering::Relaxed);
        }
    }

    /// Takes the next order; waits for one, or for a doorbell, at most so long.
    ///
    /// # Errors
    /// What ioctl reports.
    pub(super) fn order(&self, wait: Duration) -> io::Result<OrderArgs> {
        let timeout_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let mut args = OrderArgs { timeout_ns, ..OrderArgs::default() };
        loop {
            // SAFETY: the opcode is that of this structure, which the kernel reads and fills.
            let call = unsafe { Updater::<{ abi::ORDER }, OrderArgs>::new(&mut args) };
            // SAFETY: the call touches its own argument alone.
            match unsafe { rustix::ioctl::ioctl(self.file.as_fd(), call) } {
                Ok(()) => return Ok(args),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers an order.
    ///
    /// # Errors
    /// What ioctl reports. An order that is not waited for any more is no error.
    pub(super) fn answer(&self, number: u64, queues: &[UnmappedArgs]) -> io::Result<()> {
        let count = u32::try_from(queues.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let args = AnswerArgs { number, queues: queues.as_ptr().expose_provenance() as u64, count, reserved: 0 };
        // SAFETY: the opcode is that of this structure, which the kernel reads.
        let call = unsafe { Setter::<{ abi::ANSWER }, AnswerArgs>::new(args) };
        // SAFETY: the kernel reads the argument and the `count` structures that it points to, which live until then.
        match unsafe { rustix::ioctl::ioctl(self.file.as_fd(), call) } {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Raises an interrupt. One that the kernel refuses is lost, as on a device that was reset.
    pub(super) fn interrupt(&self, args: InterruptArgs) {
        // SAFETY: the opcode is that of this structure, which the kernel reads.
        let call = unsafe { Setter::<{ abi::INTERRUPT }, InterruptArgs>::new(args) };
        // SAFETY: the call reads its own argument alone.
        let _ = unsafe { rustix::ioctl::ioctl(self.file.as_fd(), call) };
    }

    /// Returns the address space as it is now.
    ///
    /// # Errors
    /// What ioctl reports.
    pub(super) fn space(&self) -> io::Result<Space> {
        let mut ranges = vec![Range::default(); 256];
        let count = loop {
            let room = u32::try_from(ranges.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
            let mut args = RangesArgs { ranges: ranges.as_mut_ptr().expose_provenance() as u64, room, count: 0 };
            // SAFETY: the opcode is that of this structure, which the kernel reads and fills.
            let call = unsafe { Updater::<{ abi::RANGES }, RangesArgs>::new(&mut args) };
            // SAFETY: the kernel writes at most `room` structures where the argument points, which is room for them.
            unsafe { rustix::ioctl::ioctl(self.file.as_fd(), call) }?;
            if args.count <= room {
                break args.count as usize;
            }
            ranges = vec![Range::default(); args.count as usize + 64];
        };
        let mut space = Space::new();
        for range in ranges.iter().take(count) {
            let inside = range.window.checked_add(range.size).is_some_and(|end| end <= abi::WINDOW_SIZE);
            let Some(end) = range.va.checked_add(range.size).filter(|_| inside) else { continue };
            let mapping = Mapping {
                start: range.va,
                end,
                host: self.window.start().wrapping_add(range.window as usize),
                writable: range.flags & Range::WRITABLE != 0,
                executable: range.flags & Range::EXECUTABLE != 0,
                guarded: false,
            };
            // SAFETY: the range lies in the window, which stays mapped as long as this value. Pages leave it only
            // after the engine has answered that it does not use the old address space any more.
            unsafe { space.insert(mapping) };
        }
        Ok(space)
    }
}
