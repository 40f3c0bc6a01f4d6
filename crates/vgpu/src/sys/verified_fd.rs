//! Descriptors that the program may close or replace: it does not know that they are ours.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// A descriptor that tells whether it still is what it was.
#[derive(Debug)]
pub struct VerifiedFd<T> {
    file: T,
    identity: Option<(u64, u64)>,
}

impl<T: AsFd> VerifiedFd<T> {
    /// Remembers what the descriptor stands for now.
    pub fn new(file: T) -> Self {
        let identity = identity(file.as_fd().as_raw_fd());
        Self { file, identity }
    }

    /// The descriptor, unless somebody closed it or put another file in its place.
    pub fn get(&self) -> Option<&T> {
        let fd = self.file.as_fd().as_raw_fd();
        (self.identity.is_some() && identity(fd) == self.identity).then_some(&self.file)
    }

    /// The same, as a number only.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.get().map(AsFd::as_fd)
    }
}

/// File system and number of the file behind a descriptor.
fn identity(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: all zeros is a valid structure, which the kernel fills; `syscall` because `fstat` may be one of our hooks.
    unsafe {
        let mut facts: libc::stat = std::mem::zeroed();
        (libc::syscall(libc::SYS_fstat, fd, &raw mut facts) == 0).then_some((facts.st_dev, facts.st_ino))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_descriptor_that_was_replaced_is_not_given_out() {
        let (ours, _other) = UnixStream::pair().expect("sockets");
        let (theirs, _) = UnixStream::pair().expect("sockets");
        let known = VerifiedFd::new(ours);
        assert!(known.get().is_some());
        let number = known.get().expect("intact").as_raw_fd();
        // SAFETY: both descriptors belong to this test.
        unsafe { libc::dup2(theirs.as_raw_fd(), number) };
        assert!(known.get().is_none());
    }
}
