//! A process that has the driver open, as the supervisor keeps it.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::process_channel::ProcessChannel;
use crate::protocol::{CallStage, CallStatus};
use crate::sys::{self, PollFlags};

/// A process that has the driver open.
pub(super) struct Member {
    pub(super) channel: Arc<ProcessChannel>,
    /// Held during a call on the process, its own or a debugger's.
    busy: Mutex<()>,
    /// File to which events for a debugger go.
    debugger: Mutex<Option<std::fs::File>>,
    /// Calls of the process that the supervisor serves at the moment, oldest first.
    calls: Mutex<Vec<CallInProgress>>,
}

/// A call that the supervisor serves.
struct CallInProgress {
    /// Tells it from others of the process.
    number: u64,
    name: &'static str,
    stage: CallStage,
    since: Instant,
}

/// Removes a call from those in progress when it is over.
pub(super) struct CallGuard<'a> {
    member: &'a Member,
    number: u64,
}

impl CallGuard<'_> {
    /// Notes how far the call has come.
    pub(super) fn stage(&self, stage: CallStage) {
        if let Some(call) = self.member.lock_calls().iter_mut().find(|call| call.number == self.number) {
            call.stage = stage;
        }
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.member.lock_calls().retain(|call| call.number != self.number);
    }
}

impl Member {
    pub(super) fn new(channel: Arc<ProcessChannel>) -> Self {
        Self { channel, busy: Mutex::new(()), debugger: Mutex::new(None), calls: Mutex::default() }
    }

    fn lock_calls(&self) -> MutexGuard<'_, Vec<CallInProgress>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the supervisor begins to serve a call of the process.
    pub(super) fn begin_call(&self, name: &'static str) -> CallGuard<'_> {
        let mut calls = self.lock_calls();
        let number = calls.last().map_or(0, |call| call.number + 1);
        calls.push(CallInProgress { number, name, stage: CallStage::WaitingForProcess, since: Instant::now() });
        CallGuard { member: self, number }
    }

    /// Returns the calls of the process that are in progress.
    pub(super) fn calls(&self) -> Vec<CallStatus> {
        let status = |call: &CallInProgress| CallStatus {
            name: call.name.to_owned(),
            stage: call.stage,
            ms: u64::try_from(call.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        self.lock_calls().iter().map(status).collect()
    }

    /// Locks the process against other calls on it. Waits for the one in progress.
    pub(super) fn busy(&self) -> MutexGuard<'_, ()> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a debugger's file, or closes the one that is kept.
    pub(super) fn keep_file(&self, file: Option<OwnedFd>) {
        *self.debugger.lock().unwrap_or_else(PoisonError::into_inner) = file.map(std::fs::File::from);
    }

    /// Notifies the debugger of an event, if it has a file.
    pub(super) fn notify(&self) {
        let mut file = self.debugger.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = file.as_mut().filter(|file| has_room(file)) {
            // A debugger that has not read yet loses nothing: there is something to read already. Other failures are
            // its own doing.
            let _ = file.write_all(b".");
        }
    }
}

/// Whether a write would not wait.
fn has_room(file: &std::fs::File) -> bool {
    sys::poll_now(file.as_fd(), PollFlags::OUT).contains(PollFlags::OUT)
}
