//! Other processes: descriptors of them, and waiting for their end.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{PTracer, Pid, PidfdFlags};
use rustix::time::Timespec;

/// Opens a descriptor of a process that becomes readable when the process ends.
///
/// # Errors
/// ESRCH if there is no such process, and what pidfd_open reports.
pub(crate) fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Whether there is a process with this pid, which may have ended without being reaped.
pub(crate) fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// Lets every process of this user trace the caller, where the system otherwise allows that to its ancestors only.
pub fn allow_tracing() {
    // Systems without the restriction refuse the call and need none.
    let _ = rustix::process::set_ptracer(PTracer::Any);
}

/// Waits until the process has ended or the other end of the connection is closed and returns `true`, or returns
/// `false` after `limit`.
pub(crate) fn wait_for_either(process: BorrowedFd<'_>, connection: BorrowedFd<'_>, limit: Option<Duration>) -> bool {
    // A limit beyond the clock is no limit.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut polls =
        [PollFd::from_borrowed_fd(process, PollFlags::IN), PollFd::from_borrowed_fd(connection, PollFlags::RDHUP)];
    // Without an answer of the kernel the process cannot be watched: the caller then treats it as ended.
    retry_on_intr(|| poll(&mut polls, limit.as_ref())) != Ok(0)
}

/// Returns which of `events`, and of the conditions that poll always reports, hold for a descriptor now.
pub(crate) fn poll_now(file: BorrowedFd<'_>, events: PollFlags) -> PollFlags {
    let mut polls = [PollFd::from_borrowed_fd(file, events)];
    match retry_on_intr(|| poll(&mut polls, Some(&Timespec::default()))) {
        Ok(_) => polls[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

/// Waits until a descriptor can be read: a process has ended, a connection has come.
pub(crate) fn wait_for_input(file: BorrowedFd<'_>) {
    // Without an answer of the kernel there is nothing to wait for.
    let _ = retry_on_intr(|| poll(&mut [PollFd::from_borrowed_fd(file, PollFlags::IN)], None));
}
