//! The thread that traces a program, and the one that waits for it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use super::calling::{is_destroying_queue, may_be_interrupted};
use super::stop::{Stop, classify};
use super::{End, Farewell, Message, Port, Shared, Watch, failed};
use crate::error::{Error, Result};
use crate::id::Pid;
use crate::sys;

/// How long a program may take to stop for the detachment. One that sleeps in the kernel longer is detached by the end
/// of the thread, which needs no stop.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes the tracing thread look into its inbox. A full pipe wakes it as well.
pub(super) fn wake(end: &OwnedFd) {
    let _ = sys::write_byte(end);
}

/// State of the tracing thread.
pub(super) struct Thread {
    pid: Pid,
    inbox: Receiver<Message>,
    woken: OwnedFd,
    port: Port,
    shared: Arc<Shared>,
    at_end: Option<Box<dyn FnOnce(End) + Send>>,
    watch: Option<Watch>,
    /// Lets the waiting thread wait again; without it, it ends.
    answered: Option<Sender<()>>,
    /// Becomes readable when a detached program ends.
    process: Option<OwnedFd>,
    leaving: bool,
}

/// Result of asking a program to stop.
enum Asked {
    Stopped(Stop),
    Ended,
    Late,
}

impl Thread {
    pub(super) fn new(
        pid: Pid,
        inbox: Receiver<Message>,
        woken: OwnedFd,
        port: Port,
        shared: Arc<Shared>,
        at_end: Box<dyn FnOnce(End) + Send>,
    ) -> Thread {
        Thread {
            pid,
            inbox,
            woken,
            port,
            shared,
            at_end: Some(at_end),
            watch: None,
            answered: None,
            process: None,
            leaving: false,
        }
    }

    pub(super) fn run<T>(
        mut self,
        before: impl FnOnce() -> Result<T>,
        begun: impl FnOnce(Result<T>) -> Option<Farewell>,
    ) {
        let outcome = before().and_then(|made| self.seize().map(|()| made));
        if let Some(farewell) = begun(outcome) {
            self.serve();
            farewell();
        }
        if self.answered.is_some() {
            // Also if nothing came of it: the waiting thread ends only with an answer.
            self.detach();
        }
    }

    fn seize(&mut self) -> Result<()> {
        let pid = self.pid;
        // No option: in particular, the program survives the end of its tracer.
        sys::ptrace(libc::PTRACE_SEIZE, pid, 0).map_err(|error| Error::Ptrace { request: "SEIZE", pid, error })?;
        let (answered, answers) = mpsc::channel();
        let port = self.port.clone();
        let waiter = std::thread::Builder::new().name(format!("waiter-{pid}"));
        waiter
            .spawn(move || wait_for_changes(pid, &port, &answers))
            .map_err(|error| Error::Resources { pid, error })?;
        self.answered = Some(answered);
        Ok(())
    }

    fn serve(&mut self) {
        while !self.leaving {
            let watched = self.watch.as_ref().map(|watch| watch.source.as_fd());
            let process = self.process.as_ref().map(OwnedFd::as_fd);
            // It fails only without memory; then the end of the thread detaches the program.
            let Ok([woken, watched, ended]) = sys::poll([Some(self.woken.as_fd()), watched, process]) else { return };
            if woken {
                drain(&self.woken);
            }
            if ended {
                self.end(End::Lost);
            }
            while !self.leaving
                && let Ok(message) = self.inbox.try_recv()
            {
                self.handle(message);
            }
            if watched && !self.leaving {
                self.look();
            }
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Run(job) => job(),
            Message::Watch(watch) => self.watch = Some(watch),
            Message::DetachIf(probe) => self.detach_if(probe),
            Message::Stopped(stop) => self.answer(stop),
            Message::Ended(end) => self.end(end),
            Message::Detach => self.leaving = true,
        }
    }

    fn look(&mut self) {
        let Some(mut watch) = self.watch.take() else { return };
        let open = drain(&watch.source);
        if self.shared.end.get().is_none() {
            (watch.notice)(open);
        }
        self.watch = open.then_some(watch);
    }

    /// Continues the program as if it were not traced.
    fn answer(&mut self, stop: Stop) {
        let group = stop == Stop::Group;
        let answer = if group { libc::PTRACE_LISTEN } else { libc::PTRACE_CONT };
        let result = sys::ptrace(answer, self.pid, stop.signal());
        self.shared.stopped.store(group, Ordering::Release);
        if failed(result) {
            self.end(End::Lost);
        } else {
            self.release_waiter();
        }
    }

    fn end(&mut self, end: End) {
        self.answered = None;
        self.process = None;
        self.shared.stopped.store(false, Ordering::Release);
        if self.shared.end.set(end).is_ok()
            && let Some(at_end) = self.at_end.take()
        {
            at_end(end);
        }
    }

    /// Stops tracing, and begins again if the probe says that more than that was lost.
    fn detach_if(&mut self, probe: Box<dyn FnOnce() -> bool + Send>) {
        let pid = self.pid;
        if self.is_untraced() || !may_be_interrupted(pid) {
            return;
        }
        // While it is traced the number cannot become another's.
        let Ok(process) = sys::pidfd_open(pid) else { return };
        let Asked::Stopped(stop) = self.ask_to_stop() else { return };
        if sys::ptrace(libc::PTRACE_DETACH, pid, stop.signal()).is_err() {
            // Killed meanwhile: the waiting thread tells.
            return self.release_waiter();
        }
        self.answered = None;
        self.process = Some(process);
        self.shared.stopped.store(false, Ordering::Release);
        self.shared.detached.store(true, Ordering::Release);
        if !probe() && self.shared.end.get().is_none() {
            self.shared.detached.store(false, Ordering::Release);
            self.process = None;
            if self.seize().is_err() {
                self.end(End::Lost);
            }
        }
    }

    fn is_untraced(&self) -> bool {
        self.shared.end.get().is_some() || self.process.is_some()
    }

    /// Ends the relation, with a signal that was just on its way. Without success the end of this thread does.
    fn detach(&mut self) {
        // The driver repeats an interrupted destruction of a queue from its beginning and releases its memory twice.
        if self.is_untraced() || is_destroying_queue(self.pid) {
            return;
        }
        if let Asked::Stopped(stop) = self.ask_to_stop() {
            self.answered = None;
            // If it was killed meanwhile there is nothing left to detach.
            let _ = sys::ptrace(libc::PTRACE_DETACH, self.pid, stop.signal());
        }
    }

    /// Asks the program to stop, and does what else comes up until it does.
    fn ask_to_stop(&mut self) -> Asked {
        if sys::ptrace(libc::PTRACE_INTERRUPT, self.pid, 0).is_err() {
            return Asked::Late;
        }
        let deadline = Instant::now() + PATIENCE;
        while let Ok(message) = self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            match message {
                Message::Stopped(stop) => return Asked::Stopped(stop),
                Message::Ended(end) => {
                    self.end(end);
                    return Asked::Ended;
                }
                other => self.handle(other),
            }
        }
        Asked::Late
    }

    fn release_waiter(&self) {
        if let Some(answered) = &self.answered {
            // The waiting thread ends only after it reported an end.
            let _ = answered.send(());
        }
    }
}

/// Takes everything out of a pipe. Says whether its other end is still open.
fn drain(source: &OwnedFd) -> bool {
    let mut bytes = [0; 256];
    loop {
        match sys::read(source, &mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// Waits for stops and the end of the program and reports them, until its end or until the tracing thread ends.
fn wait_for_changes(pid: Pid, port: &Port, answers: &Receiver<()>) {
    sys::block_signals();
    let own = is_own_child(pid);
    // The exit status of a child of this process belongs to its parent's `wait`.
    let keep = if own { libc::WNOWAIT } else { 0 };
    loop {
        let change = match sys::wait(pid, libc::WEXITED | libc::WSTOPPED | keep) {
            Ok(Some(change)) => classify(change),
            Ok(None) => continue,
            Err(_) => Err(End::Lost),
        };
        let message = match change {
            Ok(stop) => {
                if own {
                    // It was only looked at so far. If it was killed since, there is nothing to take.
                    let _ = sys::wait(pid, libc::WSTOPPED | libc::WNOHANG);
                }
                Message::Stopped(stop)
            }
            Err(end) => Message::Ended(end),
        };
        if !port.send(message) || change.is_err() || answers.recv().is_err() {
            return;
        }
    }
}

/// Returns whether this process is the parent of another.
fn is_own_child(pid: Pid) -> bool {
    linux_host::process::ProcStat::read(pid.0).is_some_and(|stat| stat.parent == std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_drained_and_its_end_noticed() {
        let (source, end) = sys::pipe().unwrap();
        wake(&end);
        wake(&end);
        assert!(drain(&source));
        drop(end);
        assert!(!drain(&source));
    }
}
