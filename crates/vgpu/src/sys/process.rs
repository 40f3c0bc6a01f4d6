//! Other processes.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor that stands for a process.
///
/// # Errors
/// If there is none.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: a system call with two numbers; a new descriptor belongs to nobody else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as RawFd)) }
    }
}

/// Returns when the process has ended.
pub fn wait_for_exit(process: &OwnedFd) {
    loop {
        let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure that lives through the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, -1) };
        if ready > 0 || (ready < 0 && super::last_error() != libc::EINTR) {
            return;
        }
    }
}

/// When a process started, in clock ticks since boot; 0 if it is gone.
pub fn start_time(pid: i32) -> u64 {
    const FIELD_AFTER_NAME: usize = 19;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold anything, so fields are counted from its closing parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().nth(FIELD_AFTER_NAME).and_then(|field| field.parse().ok()).unwrap_or(0)
}
