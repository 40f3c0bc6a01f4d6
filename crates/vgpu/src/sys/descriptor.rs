//! Descriptors: which file one refers to, another opening of the same file, and a number out of the program's way.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Device and inode number of a file: equal for all descriptors of one file, whichever process opened them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// Returns the identity of the open file, or `None` if the descriptor is closed.
    pub(crate) fn of(file: BorrowedFd<'_>) -> Option<Self> {
        let stat = rustix::fs::fstat(file).ok()?;
        Some(Self { device: stat.st_dev, inode: stat.st_ino })
    }

    fn of_number(fd: RawFd) -> Option<Self> {
        if fd < 0 {
            return None;
        }
        // SAFETY: the number is not -1, and it is passed to `fstat` alone, which answers EBADF if it is closed.
        Self::of(unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

/// Returns whether two descriptor numbers refer to one file. A closed number refers to none.
pub(crate) fn is_same_file(one: RawFd, other: RawFd) -> bool {
    FileIdentity::of_number(one).is_some_and(|one| FileIdentity::of_number(other) == Some(one))
}

/// Returns the size of a file in bytes.
///
/// # Errors
/// What fstat reports, and `InvalidData` for a negative size.
pub(crate) fn file_size(file: BorrowedFd<'_>) -> io::Result<u64> {
    u64::try_from(rustix::fs::fstat(file)?.st_size).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Opens the same file again, for reading only.
///
/// # Errors
/// What open reports.
pub(crate) fn reopen_read_only(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    open_again(file, OFlags::RDONLY)
}

/// Opens the same file again: the new description has its own offset and its own lifetime.
///
/// # Errors
/// What open reports.
pub(crate) fn reopen(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    open_again(file, OFlags::RDWR)
}

fn open_again(file: BorrowedFd<'_>, access: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path_of(file.as_raw_fd()), access | OFlags::CLOEXEC, Mode::empty())?)
}

/// The lock of one number of a file. It belongs to an opening, and goes with the last copy of its descriptor.
fn number_lock(number: u64) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: i64::try_from(number).unwrap_or(i64::MAX - 1),
        l_len: 1,
        l_pid: 0,
    }
}

/// Locks a number of a file for the opening behind this descriptor.
///
/// # Errors
/// What fcntl reports: EAGAIN if another opening has it.
pub(crate) fn lock_number(fd: RawFd, number: u64) -> io::Result<()> {
    // SAFETY: the structure is complete and outlives the call; a closed descriptor is answered with EBADF.
    let result = unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &number_lock(number)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until no other opening has a number of the file locked. Returns at once if the kernel cannot tell.
pub(crate) fn wait_until_unlocked(file: &OwnedFd, number: u64) {
    let wait = || {
        // SAFETY: as above.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &number_lock(number)) };
        result < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    };
    while wait() {}
}

/// Returns where the kernel shows a descriptor: by thread, because the first thread of the process may have ended.
pub(super) fn path_of(fd: RawFd) -> String {
    format!("/proc/thread-self/fd/{fd}")
}

/// First descriptor number that [`dup_above`] tries. Programs choose small ones themselves: shells redirect to them
/// without asking whether they are in use.
const FIRST_OWN_FD: RawFd = 200;

/// Moves a descriptor above the numbers that programs choose themselves. The result is closed on exec. Where the limit
/// on descriptors is too low for that, the descriptor keeps its number.
///
/// # Errors
/// What fcntl reports, except EINVAL.
pub(crate) fn dup_above(file: OwnedFd) -> io::Result<OwnedFd> {
    match rustix::io::fcntl_dupfd_cloexec(&file, FIRST_OWN_FD) {
        Ok(copy) => Ok(copy),
        Err(Errno::INVAL) => Ok(file),
        Err(errno) => Err(errno.into()),
    }
}

/// Gives the calling thread a descriptor table of its own, with a copy of every descriptor up to `last`. Descriptors
/// that the thread opens or closes from now on are its own.
///
/// # Errors
/// ENOSYS before Linux 5.9, ENOMEM.
pub(crate) fn unshare_descriptors_above(last: RawFd) -> io::Result<()> {
    let first = last.cast_unsigned() + 1;
    // SAFETY: other threads keep their table. This one must not use a descriptor above `last` that it had before, which
    // is what its caller asks for.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::memfd;

    #[test]
    fn a_file_is_told_from_another_of_the_same_name() {
        let (file, other) = (memfd("test", 0).expect("a file"), memfd("test", 0).expect("a file"));
        let copies = [file.try_clone().expect("a copy"), reopen(file.as_fd()).expect("an opening")];
        for copy in copies {
            assert!(is_same_file(file.as_raw_fd(), copy.as_raw_fd()));
            assert!(!is_same_file(other.as_raw_fd(), copy.as_raw_fd()));
        }
        assert!(!is_same_file(-1, -1));
    }

    #[test]
    fn a_locked_number_is_free_when_the_last_copy_of_its_opening_is_closed() {
        let file = memfd("test", 0).expect("a file");
        let opening = reopen(file.as_fd()).expect("an opening");
        let copy = opening.try_clone().expect("a copy");
        lock_number(opening.as_raw_fd(), 7).expect("free");
        assert!(lock_number(file.as_raw_fd(), 7).is_err());
        lock_number(file.as_raw_fd(), 8).expect("another number");
        drop(opening);
        assert!(lock_number(file.as_raw_fd(), 7).is_err(), "a copy is open");
        let waiter = std::thread::spawn(move || wait_until_unlocked(&file, 7));
        drop(copy);
        waiter.join().expect("ends");
    }
}
