//! A process that has the driver open, as the supervisor keeps it.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::process_channel::ProcessChannel;
use crate::sys::{self, PollFlags};

/// A process that has the driver open.
pub(super) struct Member {
    pub(super) channel: Arc<ProcessChannel>,
    /// Held during a call on the process, its own or a debugger's.
    busy: Mutex<()>,
    /// Where a debugger wants to be told of events.
    debugger: Mutex<Option<std::fs::File>>,
}

impl Member {
    pub(super) fn new(channel: Arc<ProcessChannel>) -> Self {
        Self { channel, busy: Mutex::new(()), debugger: Mutex::new(None) }
    }

    /// Waits until nobody else makes a call on the process.
    pub(super) fn busy(&self) -> MutexGuard<'_, ()> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a debugger's file, or closes the one that is kept.
    pub(super) fn keep_file(&self, file: Option<OwnedFd>) {
        *self.debugger.lock().unwrap_or_else(PoisonError::into_inner) = file.map(std::fs::File::from);
    }

    /// Tells the debugger that something happened.
    pub(super) fn notify(&self) {
        let mut file = self.debugger.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = file.as_mut().filter(|file| has_room(file)) {
            // Who reads nothing loses nothing either: there is something to read already. Other failures are the
            // debugger's own doing.
            let _ = file.write_all(b".");
        }
    }
}

/// Whether a write would not wait.
fn has_room(file: &std::fs::File) -> bool {
    sys::poll_now(file.as_fd(), PollFlags::OUT).contains(PollFlags::OUT)
}
