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
}
