//! Processes that a debugger named before they opened the driver: the driver has an entry for them from then on, as the
//! real one has, and they get it when they come.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Supervisor;
use crate::driver::ProcessKey;
use crate::sys;

/// Processes that have an entry and have not opened the driver, with the file of their debugger.
#[derive(Default)]
pub(super) struct Awaited {
    files: Mutex<BTreeMap<ProcessKey, Option<OwnedFd>>>,
}

impl Awaited {
    fn files(&self) -> MutexGuard<'_, BTreeMap<ProcessKey, Option<OwnedFd>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry of a process.
    pub(super) fn find(&self, pid: u32) -> Option<ProcessKey> {
        self.files().keys().find(|key| key.pid == pid).copied()
    }

    /// Keeps the debugger's file until the process comes, or closes the one that is kept.
    pub(super) fn keep_file(&self, process: ProcessKey, file: Option<OwnedFd>) {
        if let Some(kept) = self.files().get_mut(&process) {
            *kept = file;
        }
    }

    /// Returns the file of the debugger of a process that has come and is awaited no longer.
    pub(super) fn take(&self, process: ProcessKey) -> Option<OwnedFd> {
        self.files().remove(&process).flatten()
    }
}

impl Supervisor {
    /// Names the entry that a process gets which has not opened the driver.
    pub(super) fn foresee(&self, pid: u32) -> ProcessKey {
        ProcessKey::new(pid, self.accepted.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits for a process that has an entry now. It is closed if the process ends without opening the driver.
    pub(super) fn await_process(self: &Arc<Self>, process: ProcessKey) {
        self.awaited.files().insert(process, None);
        let Ok(pidfd) = sys::pidfd(process.pid) else { return self.forsake(process) };
        let supervisor = Arc::clone(self);
        let watch = move || {
            sys::wait_for_input(pidfd.as_fd());
            supervisor.forsake(process);
        };
        if std::thread::Builder::new().name("awaited".into()).spawn(watch).is_err() {
            self.forsake(process);
        }
    }

    /// Closes the entry of a process that ended, unless it opened the driver: then its end is noticed otherwise.
    fn forsake(self: &Arc<Self>, process: ProcessKey) {
        if self.awaited.files().remove(&process).is_some() {
            self.close_process(process);
            self.execute_end(process);
        }
    }
}
