//! The ptrace relation to a program, held so that the program does not notice.
//!
//! The driver lets a debugger in if it traces the program's first thread, and some versions want every call from the
//! very thread that does. A [`Tracee`] keeps one thread for that. What the relation brings with it is answered there:
//! signals are passed on, a stop by job control stays a stop, an end is reaped at once so that the real parent learns
//! of it.
//!
//! Stops are awaited by a second thread, because waiting for them cannot be combined with waiting for anything else. It
//! hands each to the first and waits again only after the answer, so that nothing is left waiting for a program that is
//! no longer traced. A detached program needs none: its end is seen through a pidfd.

mod calling;
mod stop;
mod thread;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::id::Pid;
use crate::sys;
use thread::Thread;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Unknown: it was not traced then, or is no longer. A program whose second thread executes another program ends
    /// so.
    Lost,
}

/// Runs on the tracing thread before the relation ends.
pub(crate) type Farewell = Box<dyn FnOnce() + Send>;

/// Messages to the tracing thread.
enum Message {
    /// Run a job.
    Run(Box<dyn FnOnce() + Send>),
    /// Watch a pipe.
    Watch(Watch),
    /// Stop tracing and keep everything else, if that works.
    DetachIf(Box<dyn FnOnce() -> bool + Send>),
    /// The program stopped.
    Stopped(stop::Stop),
    /// The program ended.
    Ended(End),
    /// End the relation.
    Detach,
}

/// A pipe to watch, and what to do when bytes came: it is told whether the other end is still open.
struct Watch {
    source: OwnedFd,
    notice: Box<dyn FnMut(bool) + Send>,
}

/// The way to the tracing thread.
#[derive(Clone)]
struct Port {
    sender: Sender<Message>,
    wake: Arc<OwnedFd>,
}

impl Port {
    /// Returns whether the tracing thread still receives messages.
    fn send(&self, message: Message) -> bool {
        let sent = self.sender.send(message).is_ok();
        thread::wake(&self.wake);
        sent
    }
}

/// State that the tracing thread shares with the handle.
#[derive(Debug, Default)]
struct Shared {
    end: OnceLock<End>,
    stopped: AtomicBool,
    detached: AtomicBool,
}

/// Whether a program ended; outlives its [`Tracee`].
#[derive(Clone, Debug)]
pub(crate) struct Life(Arc<Shared>);

impl Life {
    pub(crate) fn end(&self) -> Option<End> {
        self.0.end.get().copied()
    }
}

/// The traced first thread of a program. Detaches when dropped; the program runs on, unaware.
///
/// A child of this process can be traced, too; its exit status is then left for its parent's `wait`. While the child is
/// traced, such a wait also returns for stops, so the parent must not wait before [`Tracee::end`] says that it ended.
pub struct Tracee {
    pid: Pid,
    port: Port,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Tracee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracee").field("pid", &self.pid).field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Tracee {
    /// Begins to trace a program without stopping it. `at_end` is called once, on the tracing thread, if the program
    /// ends while it is traced.
    ///
    /// # Errors
    ///
    /// [`Error::Ptrace`] if the program does not exist, has another tracer, or may not be traced by this user.
    ///
    /// # References
    ///
    /// `PTRACE_SEIZE` in ptrace(2).
    pub fn seize(pid: Pid, at_end: impl FnOnce(End) + Send + 'static) -> Result<Tracee> {
        let (ready, answer) = mpsc::channel();
        let begun = move |_: &Life, seized: Result<()>| {
            let go_on = seized.is_ok();
            (ready.send(seized).is_ok() && go_on).then(|| Box::new(|| ()) as Farewell)
        };
        let tracee = Tracee::begin(pid, || Ok(()), begun, at_end)?;
        answer.recv().map_err(|_| Error::Gone { pid })??;
        Ok(tracee)
    }

    /// As [`Tracee::seize`], without waiting for it. On the tracing thread `before` runs first, then the program is
    /// seized, and `begun` is told what came of both. It answers with what is to be done before the relation ends;
    /// without that the relation ends at once, and everything posted is dropped.
    pub(crate) fn begin<T: Send + 'static>(
        pid: Pid,
        before: impl FnOnce() -> Result<T> + Send + 'static,
        begun: impl FnOnce(&Life, Result<T>) -> Option<Farewell> + Send + 'static,
        at_end: impl FnOnce(End) + Send + 'static,
    ) -> Result<Tracee> {
        let resources = |error| Error::Resources { pid, error };
        let (woken, wake) = sys::pipe().map_err(resources)?;
        let (sender, inbox) = mpsc::channel();
        let port = Port { sender, wake: Arc::new(wake) };
        let shared = Arc::new(Shared::default());
        let thread = Thread::new(pid, inbox, woken, port.clone(), Arc::clone(&shared), Box::new(at_end));
        let life = Life(Arc::clone(&shared));
        let run = move || {
            sys::block_signals();
            thread.run(before, |seized| begun(&life, seized));
        };
        let spawned = std::thread::Builder::new().name(format!("tracer-{pid}")).spawn(run).map_err(resources)?;
        Ok(Tracee { pid, port, shared, thread: Some(spawned) })
    }

    /// The program.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended, if it did.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.shared.end.get().copied()
    }

    /// Whether job control holds it: it was sent SIGSTOP, or the terminal's stop key.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Acquire)
    }

    /// Returns whether the program is followed without being traced any more.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.shared.detached.load(Ordering::Acquire)
    }

    /// Runs something on the tracing thread and waits for its result.
    ///
    /// # Errors
    ///
    /// If the program ended.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (sender, result) = mpsc::channel();
        let shared = Arc::clone(&self.shared);
        self.post(move || {
            // The number of an ended program may already be another's.
            if shared.end.get().is_none() {
                // The caller waits below; without it the result is not needed.
                let _ = sender.send(job());
            }
        });
        result.recv().map_err(|_| Error::Gone { pid: self.pid })
    }

    /// Runs something on the tracing thread, after everything posted before, and waits for nothing. It is dropped unrun
    /// if the program could not be traced, and runs even if the program ended.
    pub fn post(&self, job: impl FnOnce() + Send + 'static) {
        self.port.send(Message::Run(Box::new(job)));
    }

    /// Calls `notice` on the tracing thread whenever bytes arrive in a pipe, and a last time with `false` when its
    /// other end is closed. The bytes are taken out first. A pipe watched before is forgotten.
    pub fn watch(&self, source: OwnedFd, notice: impl FnMut(bool) + Send + 'static) {
        self.port.send(Message::Watch(Watch { source, notice: Box::new(notice) }));
    }

    /// Stops tracing the program but goes on following it: jobs run as before, and its end is noticed. `probe`, on the
    /// tracing thread, says whether what the caller needs still works; if not, the program is traced again.
    ///
    /// Stopping to trace interrupts the program's first thread. If that thread is where an interruption might be
    /// noticed, nothing happens and `probe` is not called.
    pub(crate) fn detach_if(&self, probe: impl FnOnce() -> bool + Send + 'static) {
        self.port.send(Message::DetachIf(Box::new(probe)));
    }

    /// Whether the tracing thread has ended: nothing that is posted happens any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the relation without waiting for it: after everything that was posted. The thread ends then.
    pub(crate) fn detach_in_background(mut self) -> Option<JoinHandle<()>> {
        self.port.send(Message::Detach);
        self.thread.take()
    }

    /// Ends the relation, as dropping does.
    pub fn detach(self) {
        drop(self);
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.port.send(Message::Detach);
            // A panic there was reported when it happened, and the kernel has detached the program.
            let _ = thread.join();
        }
    }
}

/// Lets another process trace this one where the system asks for consent (`kernel.yama.ptrace_scope` 1). The consent
/// covers the descendants of that process, and holds for the threads of this process and the program it executes next.
///
/// # Errors
///
/// If the process does not exist, or the system knows no consent: then none is needed.
///
/// # References
///
/// `PR_SET_PTRACER` in prctl(2), `yama_task_prctl` in `yama_lsm.c`.
pub fn allow_tracer(pid: Pid) -> io::Result<()> {
    let pid = libc::c_ulong::try_from(pid.raw()).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: the option takes a number.
    let result = unsafe { libc::prctl(libc::PR_SET_PTRACER, pid, 0, 0, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether an answer to a stop failed for another reason than that the program was killed meanwhile, which is reported
/// as its end soon.
fn failed(result: io::Result<()>) -> bool {
    result.is_err_and(|error| error.raw_os_error() != Some(libc::ESRCH))
}

#[cfg(test)]
mod tests;
