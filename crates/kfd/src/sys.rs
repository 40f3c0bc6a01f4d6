//! Safe wrappers of C library calls: ptrace, waitid, poll, pipes, pidfd. `ioctl` is in [`device`](crate::device).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::id::Pid;

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Creates a pipe and returns its read end first. Neither end blocks: a full pipe must not stop the driver, nor an
/// empty one its reader.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for both descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
    // SAFETY: the call succeeded, so both are open and owned by nothing else.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Waits until one of the descriptors can be read or its other end is closed; returns which.
pub(crate) fn poll<const N: usize>(descriptors: [Option<BorrowedFd<'_>>; N]) -> io::Result<[bool; N]> {
    // The system skips negative ones.
    let raw = |fd: Option<BorrowedFd<'_>>| fd.map_or(-1, |fd| fd.as_raw_fd());
    let mut polled = descriptors.map(|fd| libc::pollfd { fd: raw(fd), events: libc::POLLIN, revents: 0 });
    loop {
        // SAFETY: the array has as many entries as said.
        match check(unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, -1) }) {
            Ok(()) => return Ok(polled.map(|entry| entry.revents != 0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Blocks all signals in the calling thread: they belong to the program that uses this library, and would interrupt
/// calls of the driver that must not be repeated.
pub(crate) fn block_signals() {
    // SAFETY: the set is filled before it is used; the call changes this thread only.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, ptr::null_mut());
    }
}

/// Makes a ptrace request whose data is a number or 0.
pub(crate) fn ptrace(request: libc::c_uint, pid: Pid, data: libc::c_int) -> io::Result<()> {
    let data = ptr::without_provenance_mut::<libc::c_void>(usize::try_from(data).unwrap_or_default());
    // SAFETY: none of the requests of this crate (SEIZE, INTERRUPT, CONT, LISTEN, DETACH) reads or writes memory of
    // this process; data is an option set or a signal number.
    let result = unsafe { libc::ptrace(request, pid.raw(), ptr::null_mut::<libc::c_void>(), data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A change that `waitid` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// `CLD_EXITED`, `CLD_TRAPPED` and so on.
    pub(crate) code: libc::c_int,
    /// Exit status, or the signal in the low byte with the ptrace event above it.
    pub(crate) status: libc::c_int,
}

/// Waits for a change of a tracee or child; `None` if there is none and `options` say not to wait.
pub(crate) fn wait(pid: Pid, options: libc::c_int) -> io::Result<Option<Change>> {
    loop {
        // SAFETY: all bytes zero is a valid value, and the call fills it.
        let (result, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            (libc::waitid(libc::P_PID, pid.0, &mut info, options | libc::__WALL), info)
        };
        match check(result) {
            // SAFETY: the call filled the fields of SIGCHLD, or left zeroes if nothing changed.
            Ok(()) => unsafe {
                let change = Change { code: info.si_code, status: info.si_status() };
                return Ok((info.si_pid() != 0).then_some(change));
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Opens a descriptor of a process; it becomes readable when the process ends.
pub(crate) fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: a plain call without addresses. The C library of older systems has no function for it.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.raw(), 0) };
    let fd = libc::c_int::try_from(result).unwrap_or(-1);
    check(fd)?;
    // SAFETY: the call succeeded, so the descriptor is open and owned by nothing else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads from a descriptor.
pub(crate) fn read(source: &OwnedFd, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the slice has as many bytes as said.
    let count = unsafe { libc::read(source.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Writes one byte to a descriptor.
pub(crate) fn write_byte(end: &OwnedFd) -> io::Result<()> {
    // SAFETY: the address is that of one byte.
    let count = unsafe { libc::write(end.as_raw_fd(), [0u8].as_ptr().cast(), 1) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
