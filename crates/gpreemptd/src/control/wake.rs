//! Wakes a thread that sleeps in `poll`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Wakes the control thread. Clones wake the same one.
#[derive(Clone, Debug)]
pub(super) struct Waker(Arc<EventFd>);

impl Waker {
    pub(super) fn new() -> io::Result<Waker> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Waker(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// Wakes it, now or when it sleeps next.
    pub(super) fn wake(&self) {
        // The only possible failure is a counter that is full, and then it is awake.
        let _ = self.0.write(1);
    }

    /// Takes note of all wakes so far.
    pub(super) fn clear(&self) {
        // Nothing to read means that there was no wake.
        let _ = self.0.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
