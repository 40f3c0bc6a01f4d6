//! The connection of this process to the supervisor.

use std::cell::Cell;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::attached::Attached;
use super::shared::Shared;
use super::{files, paths};
use crate::driver::ProcessKey;
use crate::kill_points;
use crate::protocol::{DMABUF, Reply, SupervisorRequest};
use crate::sys::{self, VerifiedFd};

/// One process's dealings with its virtual gpu.
pub(super) struct Session {
    stream: VerifiedFd<UnixStream>,
    /// Held from a question to its answer.
    asking: Mutex<()>,
    /// Held from a call until what it decided is carried out: numbers and addresses that one call gives back are
    /// another one's right after.
    calls: Mutex<()>,
    /// Set when the process first opens `/dev/kfd`.
    pub(super) attached: OnceLock<Result<Attached, i32>>,
    /// The program's own memory that a gpu may use.
    pub(super) shared: Shared,
    /// The process this session belongs to.
    pub(super) pid: i32,
}

/// Never freed: hooks may be using it at any time. A fork's child starts with none.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());

/// Whether this process has asked about the virtual gpu already: descriptors of ours can exist only then, or if they
/// were inherited from a process that has.
pub fn is_in_use() -> bool {
    paths::socket().is_some()
}

/// The program unmaps memory, or maps other memory over it. Neither allocates nor waits.
pub fn unmapped(start: u64, length: u64) {
    if let Some(session) = current() {
        session.shared.unmapped(start, length);
    }
}

/// Returns what a program that maps `size` bytes of a descriptor at `offset` gets to see, if that is another process's
/// memory, or a part of `/dev/kfd`: the file and the offset there.
///
/// # Errors
/// What the driver answers to offsets of `/dev/kfd`, and ENODEV for the descriptor of a DMA buffer: memory is mapped
/// through the render node that imported it.
pub fn mapped_file(fd: RawFd, offset: u64, size: u64) -> Result<Option<(OwnedFd, u64)>, i32> {
    let Some(Ok(attached)) = current().and_then(|session| session.attached.get()) else { return Ok(None) };
    match files::path_of(fd) {
        Some(path) if path.starts_with(DMABUF) => Err(libc::ENODEV),
        Some(path) if path.starts_with(files::RENDER) => Ok(attached.window(offset, size)),
        Some(path) if path == files::KFD => attached.part_of_kfd(offset, size).map(Some),
        _ => Ok(None),
    }
}

fn current() -> Option<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: sessions are never freed.
    unsafe { session.as_ref() }
}

/// The session of this process, begun if need be. `None` if there is no supervisor (any more).
///
/// There is no lock: a child that is forked meanwhile would find it taken for ever. Of threads that begin at the same
/// time one wins.
pub(super) fn get() -> Option<&'static Session> {
    if let Some(session) = current() {
        return Some(session);
    }
    let stream = UnixStream::from(sys::dup_above(sys::connect(paths::socket()?).ok()?.into()).ok()?);
    static WATCHING_FORKS: AtomicBool = AtomicBool::new(false);
    if !WATCHING_FORKS.load(Ordering::Acquire) {
        // SAFETY: the handler only stores to atomics and closes a descriptor; being called twice does not harm it.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
        WATCHING_FORKS.store(true, Ordering::Release);
    }
    // SAFETY: takes no argument and cannot fail.
    let pid = unsafe { libc::getpid() };
    let session = Session {
        stream: VerifiedFd::new(stream),
        asking: Mutex::new(()),
        calls: Mutex::new(()),
        attached: OnceLock::new(),
        shared: Shared::new(),
        pid,
    };
    let session = Box::into_raw(Box::new(session));
    if SESSION.compare_exchange(std::ptr::null_mut(), session, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: made above and not shared yet.
        drop(unsafe { Box::from_raw(session) });
    }
    current()
}

/// In the child of a fork: the gpu is the parent's. Locks may be held by threads that do not exist here, so nothing is
/// taken apart.
extern "C" fn forget() {
    crate::executor::forget();
    kill_points::set_client(0);
    let session = SESSION.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: sessions are never freed.
    if let Some(stream) = unsafe { session.as_ref() }.and_then(|session| session.stream.get()) {
        // SAFETY: the child's copy of the descriptor, which is not used again.
        unsafe { libc::close(stream.as_raw_fd()) };
    }
}

impl Session {
    /// Asks the supervisor. `None` if it is gone.
    pub(super) fn ask(&self, request: &SupervisorRequest, fds: &[BorrowedFd<'_>]) -> Option<Reply> {
        self.ask_for_files(request, fds).map(|(reply, _)| reply)
    }

    /// Asks the supervisor; files may come with the answer.
    pub(super) fn ask_for_files(
        &self,
        request: &SupervisorRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Option<(Reply, Vec<OwnedFd>)> {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        exchange(self.stream.get()?, request, fds)
    }

    /// Asks the supervisor on a connection of this thread's own: calls on other processes may take long, and those of
    /// different threads must not wait for each other. `process` is what the supervisor knows this process by.
    ///
    /// A thread that is past the destructors of its thread-local data, as in an exit handler, gets a connection for
    /// this one question, and so does a signal handler that interrupts a question.
    pub(super) fn ask_apart(
        &self,
        process: ProcessKey,
        request: &SupervisorRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Option<(Reply, Vec<OwnedFd>)> {
        thread_local! {
            static LINE: Cell<Option<(ProcessKey, UnixStream)>> = const { Cell::new(None) };
        }
        let kept = LINE.try_with(Cell::take).ok().flatten().filter(|(owner, _)| *owner == process);
        let stream = match kept {
            Some((_, stream)) => stream,
            None => connect_apart(process)?,
        };
        let answer = exchange(&stream, request, fds)?;
        // Where the thread keeps nothing any more, this closes the connection.
        let _ = LINE.try_with(|line| line.set(Some((process, stream))));
        Some(answer)
    }

    /// Waits until no other thread is between a call and what it decided.
    pub(super) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection.
    pub(super) fn connection(&self) -> &VerifiedFd<UnixStream> {
        &self.stream
    }

    /// The open gpu of this process.
    ///
    /// # Errors
    /// ENODEV if the gpu is lost, or what prevented its opening.
    pub(super) fn attach(&'static self) -> Result<&'static Attached, i32> {
        self.attached.get_or_init(|| Attached::new(self)).as_ref().map_err(|errno| *errno)
    }
}

/// Connects to the supervisor as another thread of `process`.
fn connect_apart(process: ProcessKey) -> Option<UnixStream> {
    let stream = sys::connect(paths::socket()?).ok()?;
    let stream = UnixStream::from(sys::dup_above(stream.into()).ok()?);
    let (reply, _) = exchange(&stream, &SupervisorRequest::Belong { process }, &[])?;
    matches!(reply, Reply::Done).then_some(stream)
}

/// One question and its answer.
fn exchange(stream: &UnixStream, request: &SupervisorRequest, fds: &[BorrowedFd<'_>]) -> Option<(Reply, Vec<OwnedFd>)> {
    let bytes = serde_json::to_vec(request).ok()?;
    sys::send(stream, &bytes, fds).ok()?;
    let frame = sys::receive(stream).ok()??;
    Some((serde_json::from_slice(&frame.bytes).ok()?, frame.fds))
}
