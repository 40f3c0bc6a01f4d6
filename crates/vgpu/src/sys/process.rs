//! Other processes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

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

/// Lets every process of this user trace the caller, where the system otherwise allows that to its ancestors only.
pub fn allow_tracing() {
    // SAFETY: changes a setting of this process. Systems without the restriction refuse it, and need it not.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Returns when the process has ended or the other end of the connection is closed, which is `true`, or after `limit`.
pub fn wait_for_either(process: BorrowedFd<'_>, connection: BorrowedFd<'_>, limit: Option<Duration>) -> bool {
    let limit = limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
    loop {
        let mut polls = [
            libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: connection.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 },
        ];
        // SAFETY: two structures that live through the call.
        let ready = unsafe { libc::poll(polls.as_mut_ptr(), 2, limit) };
        if ready >= 0 || super::last_error() != libc::EINTR {
            return ready != 0;
        }
    }
}

/// What is the matter with a descriptor at this moment, of `events` and of what is always told.
pub fn poll_now(file: BorrowedFd<'_>, events: i16) -> i16 {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 };
    // SAFETY: one structure, no waiting.
    unsafe { libc::poll(&raw mut poll, 1, 0) };
    poll.revents
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

/// Returns the thread that traces a process's first thread, if any.
pub fn tracer(pid: u32) -> Option<u32> {
    linux_host::process::Status::read(pid)?.tracer
}
