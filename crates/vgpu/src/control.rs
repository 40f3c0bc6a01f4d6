//! The page that supervisor and engine share: how a doorbell wakes an engine.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::sys::{self, Map};

#[repr(C)]
struct Words {
    /// Not 0: somebody has something for the engine.
    wake: AtomicU32,
    /// Not 0: the engine sleeps, or is about to.
    asleep: AtomicU32,
}

/// The control page of one client process.
#[derive(Debug)]
pub(crate) struct Control {
    map: Map,
}

const SIZE: usize = 4096;

impl Control {
    /// A new page and the file to share it by.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let file = sys::memfd("gpreempt-vgpu-control", SIZE as u64)?;
        Ok((Self::open(file.as_fd())?, file))
    }

    /// The page of another process.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn open(file: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self { map: Map::new(file, 0, SIZE)? })
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping is a page, zero at first, and holds nothing but these atomics.
        unsafe { &*self.map.start().cast::<Words>() }
    }

    /// Tells the engine to look again.
    pub(crate) fn wake(&self) {
        self.words().wake.store(1, Ordering::SeqCst);
        if self.words().asleep.load(Ordering::SeqCst) != 0 {
            sys::wake(&self.words().wake);
        }
    }

    /// Sleeps until woken, at most `limit`. `still_idle` is asked once more after everybody can see that we sleep.
    pub(crate) fn sleep(&self, limit: Duration, still_idle: impl FnOnce() -> bool) {
        let words = self.words();
        words.asleep.fetch_add(1, Ordering::SeqCst);
        if words.wake.swap(0, Ordering::SeqCst) == 0 && still_idle() {
            sys::wait(&words.wake, 0, Some(limit));
        }
        words.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}
