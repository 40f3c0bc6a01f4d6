//! Buffers that processes share: the files behind them, and the descriptors that stand for them.
//!
//! A DMA buffer's descriptor is an opening of a memory file that the supervisor makes. It cannot be forged, because the
//! file is recognised by its inode, and it is locked: the lock belongs to the opening, which copies of the descriptor,
//! children and messages on sockets share, so that it is free when the last of them is closed, however that comes
//! about. That is looked for before every call that depends on it, and otherwise a few times a second.
//!
//! The bytes lie in the render file of the process that allocated the buffer, which the supervisor keeps from the first
//! export until the buffer is gone. A process that imports it gets the whole file: the driver lets any process have a
//! buffer whose descriptor it was given, but here only processes of the exporter's user and of root get it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::Supervisor;
use crate::driver::{Errno, FdKind, ShareEffect};
use crate::protocol::{DMABUF, FILE_PREFIX};
use crate::sys::{self, FileIdentity};

/// How often closed descriptors are looked for while there are any open ones.
const LOOK: Duration = Duration::from_millis(100);

/// What processes share.
#[derive(Default)]
pub(super) struct Sharing {
    state: Mutex<State>,
    /// There is a descriptor to look after.
    exported: Condvar,
}

#[derive(Default)]
struct State {
    /// Exported buffers by the driver's number.
    buffers: BTreeMap<u64, SharedBuffer>,
    /// DMA buffers by token.
    dmabufs: BTreeMap<u64, Dmabuf>,
}

/// The bytes of an exported buffer.
struct SharedBuffer {
    file: OwnedFd,
    offset: u64,
    size: u64,
    /// User of the process that exported it first.
    uid: u32,
}

/// A descriptor that stands for a buffer.
struct Dmabuf {
    buffer: u64,
    /// An opening of its file that does not count.
    probe: OwnedFd,
    identity: FileIdentity,
}

impl Dmabuf {
    /// Whether all copies of the descriptor are closed.
    fn is_closed(&self) -> bool {
        rustix::fs::flock(&self.probe, FlockOperation::NonBlockingLockExclusive).is_ok()
    }
}

/// A call's part in sharing: who makes it, and the file that came with it.
pub(super) struct Party {
    pub(super) uid: u32,
    pub(super) file: Option<OwnedFd>,
}

impl Sharing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a file is that a process of `uid` names as a DMA buffer.
    ///
    /// # Errors
    /// EPERM if it belongs to another user.
    pub(super) fn recognise(&self, file: &OwnedFd, uid: u32) -> Result<FdKind, Errno> {
        let state = self.state();
        let identity = FileIdentity::of(file.as_fd());
        let found = state.dmabufs.iter().find(|(_, dmabuf)| Some(dmabuf.identity) == identity);
        let Some((token, dmabuf)) = found else { return Ok(FdKind::Other) };
        let is_own = state.buffers.get(&dmabuf.buffer).is_some_and(|buffer| buffer.uid == uid);
        if is_own || uid == 0 { Ok(FdKind::Dmabuf { token: *token }) } else { Err(Errno::EPERM) }
    }

    /// Executes the effects of a call while the driver is locked. Returns the file to pass to the process, if any.
    ///
    /// # Errors
    /// The error of the call if a descriptor cannot be made; the caller tells the driver that it is closed.
    pub(super) fn execute(&self, effects: Vec<ShareEffect>, mut party: Party) -> Result<Option<OwnedFd>, Errno> {
        let mut passed = None;
        for effect in effects {
            match effect {
                ShareEffect::ExportDmabuf { token, buffer, offset, size } => {
                    let file = party.file.take();
                    passed = Some(self.export(token, (buffer, offset, size), file, party.uid)?);
                }
                ShareEffect::PassBuffer { buffer } => {
                    let state = self.state();
                    let file = state.buffers.get(&buffer).and_then(|buffer| buffer.file.try_clone().ok());
                    passed = Some(file.ok_or(Errno::EMFILE)?);
                }
                ShareEffect::DiscardBuffer { buffer } => self.discard(buffer),
            }
        }
        Ok(passed)
    }

    /// Gives back the bytes of buffers that the end of a process or of a descriptor has freed.
    pub(super) fn discard_all(&self, effects: Vec<ShareEffect>) {
        for effect in effects {
            if let ShareEffect::DiscardBuffer { buffer } = effect {
                self.discard(buffer);
            }
        }
    }

    fn discard(&self, buffer: u64) {
        let discarded = self.state().buffers.remove(&buffer);
        if let Some(SharedBuffer { file, offset, size, .. }) = discarded {
            sys::punch_hole(file.as_fd(), offset, size);
        }
    }

    fn export(
        &self,
        token: u64,
        (buffer, offset, size): (u64, u64, u64),
        file: Option<OwnedFd>,
        uid: u32,
    ) -> Result<OwnedFd, Errno> {
        let mut state = self.state();
        if let Entry::Vacant(new) = state.buffers.entry(buffer) {
            // A process that does not bring its file along is not ours.
            let file = file.filter(|file| sys::is_as_long_as(file.as_fd(), offset + size)).ok_or(Errno::EINVAL)?;
            new.insert(SharedBuffer { file, offset, size, uid });
        }
        let made = || -> io::Result<(OwnedFd, OwnedFd)> {
            let descriptor = sys::memfd(&format!("{FILE_PREFIX}{DMABUF}{token}"), size)?;
            let probe = sys::reopen_read_only(descriptor.as_fd())?;
            rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive)?;
            Ok((descriptor, probe))
        };
        let (descriptor, probe) = made().map_err(|_| Errno::EMFILE)?;
        let identity = FileIdentity::of(descriptor.as_fd()).ok_or(Errno::EMFILE)?;
        state.dmabufs.insert(token, Dmabuf { buffer, probe, identity });
        self.exported.notify_one();
        Ok(descriptor)
    }

    /// Forgets the descriptors that are closed; returns their tokens.
    fn take_closed(&self) -> Vec<u64> {
        let closed = self.state().dmabufs.extract_if(.., |_, dmabuf| dmabuf.is_closed()).collect::<Vec<_>>();
        closed.into_iter().map(|(token, _)| token).collect()
    }

    fn wait_for_exports(&self) {
        let none = |state: &mut State| state.dmabufs.is_empty();
        drop(self.exported.wait_while(self.state(), none));
    }
}

impl Supervisor {
    /// Tells the driver of DMA buffers whose descriptors are closed.
    pub(super) fn close_dmabufs(&self) {
        let closed = self.sharing.take_closed();
        let Some(device) = self.device().filter(|_| !closed.is_empty()) else { return };
        let mut driver = device.driver();
        for token in closed {
            self.sharing.discard_all(driver.dmabuf_closed(token));
        }
    }

    /// Starts the thread that notices closed DMA buffers that no call asks about.
    pub(super) fn watch_dmabufs(self: &Arc<Self>) -> Result<(), String> {
        let supervisor = Arc::clone(self);
        let watch = move || {
            loop {
                supervisor.sharing.wait_for_exports();
                std::thread::sleep(LOOK);
                supervisor.close_dmabufs();
            }
        };
        let started = std::thread::Builder::new().name("dmabufs".into()).spawn(watch);
        started.map(drop).map_err(|error| format!("there can be no more threads: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 8192;

    fn export(sharing: &Sharing, token: u64) -> OwnedFd {
        let file = sys::memfd("render", 4 * SIZE).ok();
        let effect = ShareEffect::ExportDmabuf { token, buffer: 1, offset: SIZE, size: SIZE };
        sharing.execute(vec![effect], Party { uid: 7, file }).expect("is made").expect("is passed")
    }

    #[test]
    fn a_descriptor_is_open_as_long_as_any_copy_of_it() {
        let sharing = Sharing::default();
        let first = export(&sharing, 1);
        let copy = first.try_clone().expect("a copy");
        let (here, there) = std::os::unix::net::UnixStream::pair().expect("sockets");
        sys::send(&here, b"x", &[first.as_fd()]).expect("is sent");
        drop((first, copy));
        assert!(sharing.take_closed().is_empty(), "the message holds it");
        let received = sys::receive(&there).expect("is there").expect("is open");
        drop((here, there));
        assert!(sharing.take_closed().is_empty());
        drop(received);
        assert_eq!(sharing.take_closed(), [1]);
        assert!(sharing.take_closed().is_empty());
    }

    #[test]
    fn a_descriptor_is_recognised_by_its_file_and_for_its_user() {
        let sharing = Sharing::default();
        let descriptor = export(&sharing, 3);
        assert_eq!(sharing.recognise(&descriptor, 7), Ok(FdKind::Dmabuf { token: 3 }));
        assert_eq!(sharing.recognise(&descriptor, 0), Ok(FdKind::Dmabuf { token: 3 }));
        assert_eq!(sharing.recognise(&descriptor, 8), Err(Errno::EPERM));
        let forged = sys::memfd(&format!("{FILE_PREFIX}{DMABUF}3"), SIZE).expect("a file");
        assert_eq!(sharing.recognise(&forged, 7), Ok(FdKind::Other));
    }

    #[test]
    fn the_bytes_are_given_back_once_and_only_those_of_the_buffer() {
        use std::os::unix::fs::FileExt;
        let sharing = Sharing::default();
        let file = std::fs::File::from(sys::memfd("render", 4 * SIZE).expect("a file"));
        file.write_all_at(&[1; 3 * SIZE as usize], 0).expect("room");
        let effect = ShareEffect::ExportDmabuf { token: 1, buffer: 1, offset: SIZE, size: SIZE };
        let along = Some(file.try_clone().expect("a copy").into());
        let descriptor = sharing.execute(vec![effect], Party { uid: 7, file: along }).expect("is made");
        let passed = sharing.execute(vec![ShareEffect::PassBuffer { buffer: 1 }], Party { uid: 7, file: None });
        let passed = passed.expect("is known").expect("is passed");
        assert_eq!(FileIdentity::of(passed.as_fd()), FileIdentity::of(file.as_fd()));
        drop(descriptor);
        sharing.discard_all(vec![ShareEffect::DiscardBuffer { buffer: 1 }]);
        let byte = |at: u64| {
            let mut byte = [9];
            file.read_exact_at(&mut byte, at).expect("is there");
            byte[0]
        };
        assert_eq!([byte(SIZE - 1), byte(SIZE), byte(2 * SIZE - 1), byte(2 * SIZE)], [1, 0, 0, 1]);
        let again = sharing.execute(vec![ShareEffect::PassBuffer { buffer: 1 }], Party { uid: 7, file: None });
        assert_eq!(again.map(drop), Err(Errno::EMFILE));
    }
}
