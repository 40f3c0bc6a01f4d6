//! The connection of this process to the supervisor.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use super::attached::Attached;
use super::paths;
use crate::protocol::{Reply, Request};
use crate::sys;

/// One process's dealings with its virtual gpu.
pub(super) struct Session {
    stream: Mutex<UnixStream>,
    /// Set when the process first opens `/dev/kfd`.
    pub(super) attached: OnceLock<Result<Attached, i32>>,
    /// The process this session belongs to.
    pub(super) pid: i32,
}

/// Never freed: hooks may be using it at any time. A fork's child starts with none.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());
static CONNECTING: Mutex<()> = Mutex::new(());

/// Whether this process has asked about the virtual gpu already: descriptors of ours can exist only then, or if they
/// were inherited from a process that has.
pub fn is_in_use() -> bool {
    paths::socket().is_some()
}

fn current() -> Option<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: sessions are never freed.
    unsafe { session.as_ref() }
}

/// The session of this process, begun if need be. `None` if there is no supervisor (any more).
pub(super) fn get() -> Option<&'static Session> {
    if let Some(session) = current() {
        return Some(session);
    }
    let _guard = CONNECTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(session) = current() {
        return Some(session);
    }
    let stream = UnixStream::from(sys::out_of_the_way(sys::connect(paths::socket()?).ok()?.into()).ok()?);
    static FORKS: Once = Once::new();
    FORKS.call_once(|| {
        // SAFETY: the handler only stores to an atomic and closes a descriptor.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    });
    // SAFETY: takes no argument and cannot fail.
    let pid = unsafe { libc::getpid() };
    let session = Box::new(Session { stream: Mutex::new(stream), attached: OnceLock::new(), pid });
    SESSION.store(Box::into_raw(session), Ordering::Release);
    current()
}

/// In the child of a fork: the gpu is the parent's. Locks may be held by threads that do not exist here, so nothing is
/// taken apart.
extern "C" fn forget() {
    let session = SESSION.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: sessions are never freed; the stream's lock is not taken, only its descriptor number is read.
    if let Some(session) = unsafe { session.as_ref() }
        && let Ok(stream) = session.stream.try_lock()
    {
        // SAFETY: the child's copy of the descriptor; nobody uses it again.
        unsafe { libc::close(stream.as_raw_fd()) };
    }
}

impl Session {
    /// Asks the supervisor. `None` if it is gone.
    pub(super) fn ask(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Option<Reply> {
        let bytes = serde_json::to_vec(request).ok()?;
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        sys::send(&stream, &bytes, fds).ok()?;
        let frame = sys::receive(&stream).ok()??;
        serde_json::from_slice(&frame.bytes).ok()
    }

    /// The descriptor of the connection.
    pub(super) fn connection(&self) -> RawFd {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).as_raw_fd()
    }

    /// The open gpu of this process.
    ///
    /// # Errors
    /// ENODEV if the gpu is lost, or what prevented its opening.
    pub(super) fn attach(&'static self) -> Result<&'static Attached, i32> {
        self.attached.get_or_init(|| Attached::new(self)).as_ref().map_err(|errno| *errno)
    }
}
