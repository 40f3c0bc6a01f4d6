//! Threads that wait in a call, as `/proc/PID/task/TID/syscall` shows them.
//!
//! A scheduler that stops queues has to learn when their owner waits to destroy one, and that file is the only sign. A
//! thread that waits here does so in another system call than it would on a real gpu, so readers of the file are shown
//! the call it means.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::protocol::Site;

/// Number of the system call on x86-64.
const IOCTL: u32 = 16;

/// All threads that wait in a call.
#[derive(Default)]
pub(super) struct Waiting {
    threads: Mutex<HashMap<u32, (u32, Site)>>,
}

impl Waiting {
    fn threads(&self) -> std::sync::MutexGuard<'_, HashMap<u32, (u32, Site)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread of a process waits, or no longer.
    pub(super) fn set(&self, pid: u32, site: Site, waits: bool) {
        let mut threads = self.threads();
        if waits {
            threads.insert(site.tid, (pid, site));
        } else {
            threads.remove(&site.tid);
        }
    }

    /// A process is gone.
    pub(super) fn forget(&self, pid: u32) {
        self.threads().retain(|_, (process, _)| *process != pid);
    }

    /// The file of a thread that waits.
    pub(super) fn file(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix("/proc/")?.strip_suffix("/syscall")?;
        let (pid, tid) = rest.split_once("/task/").unwrap_or((rest, rest));
        let (pid, tid): (u32, u32) = (pid.parse().ok()?, tid.parse().ok()?);
        let threads = self.threads();
        let (process, site) = threads.get(&tid).filter(|(process, _)| *process == pid)?;
        let Site { fd, request, argument, .. } = site;
        debug_assert_eq!(*process, pid);
        Some(format!("{IOCTL} {fd:#x} {request:#x} {argument:#x} 0x0 0x0 0x0 0x0 0x0\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_is_shown_in_its_call() {
        let waiting = Waiting::default();
        let site = Site { tid: 12, fd: 5, request: 0xC008_4B03, argument: 0x7FFD_0000 };
        waiting.set(10, site, true);
        let text = waiting.file("/proc/10/task/12/syscall").expect("waits");
        assert!(text.starts_with("16 0x5 0xc0084b03 0x7ffd0000 "), "{text}");
        for other in
            ["/proc/10/task/13/syscall", "/proc/11/task/12/syscall", "/proc/10/task/12/stat", "/proc/10/syscall"]
        {
            assert_eq!(waiting.file(other), None, "{other}");
        }
        waiting.set(10, site, false);
        assert_eq!(waiting.file("/proc/10/task/12/syscall"), None);
    }
}
