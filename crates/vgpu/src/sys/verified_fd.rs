//! Descriptors that the program may close or replace, because it does not know that they are ours.

use std::os::fd::{AsFd, BorrowedFd};

use super::FileIdentity;

/// A descriptor that is given out only while it still refers to the file it was made with.
#[derive(Debug)]
pub(crate) struct VerifiedFd<T> {
    file: T,
    identity: Option<FileIdentity>,
}

impl<T: AsFd> VerifiedFd<T> {
    /// Remembers which file the descriptor refers to now.
    pub(crate) fn new(file: T) -> Self {
        let identity = FileIdentity::of(file.as_fd());
        Self { file, identity }
    }

    /// Returns the owner of the descriptor, or `None` if the number was closed or refers to another file.
    pub(crate) fn get(&self) -> Option<&T> {
        (self.identity.is_some() && FileIdentity::of(self.file.as_fd()) == self.identity).then_some(&self.file)
    }

    /// Returns the descriptor, under the condition of [`VerifiedFd::get`].
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.get().map(AsFd::as_fd)
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
