//! A debug session with a program that uses a gpu.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use kfd_abi::debug::{QueueSnapshotEntry, RuntimeInfo, RuntimeState};
use kfd_abi::exception::ExceptionMask;
use linux_host::process::ProcStat;

use crate::driver::{Kfd, Raised};
use crate::error::{Error, Result};
use crate::id::{GpuId, Pid, QueueId};
use crate::process::Processes;
use crate::ptrace::{End, Farewell, Life, Tracee};
use crate::queues::{Batch, Grace};
use crate::sys;

/// Exceptions that a session subscribes to. Those of waves and memory are left to the program's own runtime.
const SUBSCRIBED: ExceptionMask =
    ExceptionMask(ExceptionMask::QUEUE_NEW.0 | ExceptionMask::DEVICE_QUEUE_DELETE.0 | ExceptionMask::PROCESS_RUNTIME.0);

/// How often a call is tried while the driver has no time for it. The waits add up to 255 ms.
const ATTEMPTS: u32 = 9;
/// The same for the end of a session, after which nothing would resume what is stopped. The waits add up to 4 s.
const DISABLE_ATTEMPTS: u32 = 13;

/// Makes a call again while the driver has no time for it, after 1 ms, 2 ms, 4 ms and so on.
fn while_busy<T>(attempts: u32, mut call: impl FnMut() -> Result<T>) -> Result<T> {
    for attempt in 1..attempts {
        match call() {
            Err(error) if error.is_busy() => std::thread::sleep(Duration::from_millis(1 << (attempt - 1))),
            answer => return answer,
        }
    }
    call()
}

/// Events of a traced program.
#[derive(Debug)]
pub enum Event {
    /// The program created a queue, which can be suspended from now on.
    QueueCreated {
        /// On this gpu.
        gpu: GpuId,
        /// The queue.
        queue: QueueId,
    },
    /// The program destroyed one or more queues; a snapshot shows which are left.
    QueueDestroyed {
        /// On this gpu.
        gpu: GpuId,
    },
    /// Its runtime started or ended, and was allowed to continue. Queues can be suspended only while it is enabled.
    RuntimeChanged(RuntimeState),
    /// The driver ended the session: the program ended or executed another, or another debugger ended the session.
    Closed,
    /// The program ended. No event follows.
    Ended(End),
    /// A call of the driver failed.
    Failed(Error),
}

/// The calls of a session, for the tracing thread.
#[derive(Debug)]
pub struct Calls {
    kfd: Arc<Kfd>,
    pid: Pid,
    life: Life,
    runtime: RuntimeInfo,
    /// Whether the session is still there to be ended by us.
    ours: AtomicBool,
}

impl Calls {
    /// The program.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the program's runtime had offered itself when the session began. If not, the driver refuses to stop
    /// queues until it does; a runtime that never does (before ROCm 6) cannot be stopped this way.
    #[must_use]
    pub fn runtime(&self) -> RuntimeInfo {
        self.runtime
    }

    /// All queues, newest first. Those that are new can be stopped afterwards. A driver that has no time for it is
    /// asked again for a quarter of a second.
    ///
    /// # Errors
    ///
    /// If the program ended or another debugger took the session over.
    pub fn snapshot(&self) -> Result<Vec<QueueSnapshotEntry>> {
        while_busy(ATTEMPTS, || self.call(|kfd| kfd.queue_snapshot(self.pid, ExceptionMask::QUEUE_NEW)))
    }

    /// Takes queues off the gpu; returns when their waves are saved. See [`Kfd::suspend_queues`] for the cost.
    ///
    /// # Errors
    ///
    /// If the program ended, its runtime is not enabled, another debugger took the session over, or the gpu is being
    /// reset.
    pub fn suspend(&self, queues: &[QueueId], grace: Grace) -> Result<Batch> {
        self.call(|kfd| kfd.suspend_queues(self.pid, queues, grace))
    }

    /// Puts queues back on the gpu. They run some time after this returns. A driver that has no time for it is asked
    /// again for a quarter of a second.
    ///
    /// # Errors
    ///
    /// As [`Calls::suspend`], and an error that [is busy](Error::is_busy).
    pub fn resume(&self, queues: &[QueueId]) -> Result<Batch> {
        while_busy(ATTEMPTS, || self.call(|kfd| kfd.resume_queues(self.pid, queues)))
    }

    /// Puts every stopped queue back; returns how many.
    ///
    /// # Errors
    ///
    /// As [`Calls::suspend`].
    pub fn resume_all(&self) -> Result<u32> {
        while_busy(ATTEMPTS, || self.call(|kfd| kfd.resume_all(self.pid)))
    }

    /// The number of an ended program may already be another's, so nothing is asked about one.
    fn call<T>(&self, job: impl FnOnce(&Kfd) -> Result<T>) -> Result<T> {
        if self.life.end().is_some() {
            return Err(Error::Gone { pid: self.pid });
        }
        let result = job(&self.kfd);
        if result.as_ref().is_err_and(Error::is_taken_over) {
            self.ours.store(false, Ordering::Release);
        }
        result
    }

    /// Ends the session, once. A session that another debugger took over is left to it.
    fn disable(&self) -> Result<()> {
        let ended = matches!(self.life.end(), Some(End::Exited(_) | End::Killed(_)));
        if ended || !self.ours.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        while_busy(DISABLE_ATTEMPTS, || self.kfd.disable(self.pid))
    }

    /// Takes every report the driver has and passes it on. A start or end of the runtime is answered at once.
    fn report(&self, hear: &mut impl FnMut(&Calls, Event)) -> Result<()> {
        // The runtime's state is told with its report, and only as long as that was not taken back.
        let clear = SUBSCRIBED.without(ExceptionMask::PROCESS_RUNTIME);
        while let Some(raised) = self.call(|kfd| kfd.query_debug_event(self.pid, clear))? {
            if raised.exceptions.has(ExceptionMask::PROCESS_RUNTIME) {
                let info = self.call(|kfd| kfd.take_runtime_report(self.pid))?;
                self.call(|kfd| kfd.send_runtime_event(self.pid, ExceptionMask::PROCESS_RUNTIME))?;
                hear(self, Event::RuntimeChanged(info.runtime_state));
            }
            for event in events_of(raised) {
                hear(self, event);
            }
        }
        Ok(())
    }
}

/// A debug session: the program is traced, its new queues are reported, and queues can be taken off the gpu. When
/// dropped, every queue runs again and the program goes on alone.
///
/// All calls to the driver come from the one thread that traces the program. The program's runtime never waits for the
/// user of a session when it starts or ends.
#[derive(Debug)]
pub struct Tracer {
    tracee: Tracee,
    calls: Arc<OnceLock<Calls>>,
}

impl Tracer {
    /// Begins a session with a running program. Its present queues can be stopped at once.
    ///
    /// A program whose runtime is not enabled yet is accepted: `RuntimeChanged` follows when it is. Until then its
    /// queues cannot be stopped, see [`Tracer::runtime`].
    ///
    /// # Errors
    ///
    /// If the program cannot be traced, has a session with another debugger, or does not use a gpu.
    pub fn attach(kfd: Arc<Kfd>, pid: Pid) -> Result<(Tracer, Receiver<Event>)> {
        let (events, received) = mpsc::channel();
        let (ready, answer) = mpsc::channel();
        // Without a receiver the message is not needed.
        let begun = move |begun: Result<(&Calls, Vec<QueueSnapshotEntry>)>| drop(ready.send(begun.map(drop)));
        let hear = move |_: &Calls, event| drop(events.send(event));
        let tracer = Tracer::begin(pid, None, move || Ok(kfd), begun, hear)?;
        answer.recv().map_err(|_| Error::Gone { pid })??;
        Ok((tracer, received))
    }

    /// As [`Tracer::attach`], without waiting for anything. Everything given is called on the tracing thread: `open`
    /// first; then `begun`, once, with the present queues; then `hear` for every event. `started` is when the program
    /// must have started, in clock ticks since boot as in its `/proc` files: the number may be another's by now.
    ///
    /// # Errors
    ///
    /// If there is no room for a thread. All other failures are told to `begun`.
    pub fn begin(
        pid: Pid,
        started: Option<u64>,
        open: impl FnOnce() -> Result<Arc<Kfd>> + Send + 'static,
        begun: impl FnOnce(Result<(&Calls, Vec<QueueSnapshotEntry>)>) + Send + 'static,
        hear: impl FnMut(&Calls, Event) + Send + 'static,
    ) -> Result<Tracer> {
        let (source, notify) = sys::pipe().map_err(|error| Error::Resources { pid, error })?;
        let calls = Arc::new(OnceLock::new());
        let hear = Arc::new(Mutex::new(hear));
        let start = {
            let calls = Arc::clone(&calls);
            move |life: &Life, seized: Result<Arc<Kfd>>| -> Option<Farewell> {
                let enabled = seized.and_then(|kfd| enable(kfd, pid, started, life, notify));
                let outcome = enabled.and_then(|enabled| {
                    let known: &Calls = calls.get_or_init(|| enabled);
                    Ok((known, known.snapshot()?))
                });
                let go_on = outcome.is_ok();
                begun(outcome);
                let farewell = move || {
                    // An error cannot be reported here; `Tracer::close` reports it.
                    calls.get().map(Calls::disable);
                };
                if !go_on {
                    farewell();
                    return None;
                }
                Some(Box::new(farewell))
            }
        };
        let at_end = {
            let (calls, hear) = (Arc::clone(&calls), Arc::clone(&hear));
            move |end| tell(&calls, &hear, |calls, hear| hear(calls, Event::Ended(end)))
        };
        let tracee = Tracee::begin(pid, open, start, at_end)?;
        let watched = Arc::clone(&calls);
        tracee.watch(source, move |open| tell(&watched, &hear, |calls, hear| look(calls, open, hear)));
        Ok(Tracer { tracee, calls })
    }

    /// The program.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.tracee.pid()
    }

    /// The relation that the session rests on.
    #[must_use]
    pub fn tracee(&self) -> &Tracee {
        &self.tracee
    }

    /// See [`Calls::runtime`].
    #[must_use]
    pub fn runtime(&self) -> RuntimeInfo {
        self.calls.get().map(Calls::runtime).unwrap_or_default()
    }

    /// See [`Calls::snapshot`].
    ///
    /// # Errors
    ///
    /// As [`Calls::snapshot`].
    pub fn snapshot(&self) -> Result<Vec<QueueSnapshotEntry>> {
        self.run(Calls::snapshot)
    }

    /// See [`Calls::suspend`].
    ///
    /// # Errors
    ///
    /// As [`Calls::suspend`].
    pub fn suspend(&self, queues: &[QueueId], grace: Grace) -> Result<Batch> {
        let queues = queues.to_vec();
        self.run(move |calls| calls.suspend(&queues, grace))
    }

    /// See [`Calls::resume`].
    ///
    /// # Errors
    ///
    /// As [`Calls::resume`].
    pub fn resume(&self, queues: &[QueueId]) -> Result<Batch> {
        let queues = queues.to_vec();
        self.run(move |calls| calls.resume(&queues))
    }

    /// See [`Calls::resume_all`].
    ///
    /// # Errors
    ///
    /// As [`Calls::resume_all`].
    pub fn resume_all(&self) -> Result<u32> {
        self.run(Calls::resume_all)
    }

    /// Runs something on the tracing thread, after everything posted before, and waits for nothing. It is dropped unrun
    /// if the session could not begin.
    pub fn post(&self, job: impl FnOnce(&Calls) + Send + 'static) {
        let calls = Arc::clone(&self.calls);
        self.tracee.post(move || {
            calls.get().map(job);
        });
    }

    /// Detaches ptrace and keeps the session, where the driver allows that, so that signals and other debuggers reach
    /// the program directly. Does not wait; `told` learns, on the tracing thread, whether the driver allows it. It is
    /// not called if the program is in a system call that must not be interrupted.
    pub fn detach(&self, told: impl FnOnce(bool) + Send + 'static) {
        let calls = Arc::clone(&self.calls);
        self.tracee.detach_if(move || {
            let probe = |calls: &Calls| calls.kfd.queue_snapshot(calls.pid, ExceptionMask::EMPTY);
            let refused = calls.get().and_then(|calls| probe(calls).err()).is_some_and(|error| error.is_taken_over());
            told(!refused);
            !refused
        });
    }

    /// Returns whether the program is no longer traced although the session continues.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.tracee.is_detached()
    }

    /// Ends the session. The program is detached even if the driver refuses.
    ///
    /// # Errors
    ///
    /// If another debugger took the session over. A program that ended meanwhile is no failure.
    pub fn close(self) -> Result<()> {
        match self.run(Calls::disable) {
            Err(error) if !error.is_gone() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns whether the session is over: the program ended, or the session could not start.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.tracee.end().is_some() || self.tracee.is_finished()
    }

    /// Ends the session after everything that was posted, without waiting. Returns the tracing thread, which then ends.
    pub fn close_in_background(self) -> Option<JoinHandle<()>> {
        self.tracee.detach_in_background()
    }

    fn run<T: Send + 'static>(&self, job: impl FnOnce(&Calls) -> Result<T> + Send + 'static) -> Result<T> {
        let calls = Arc::clone(&self.calls);
        let gone = Error::Gone { pid: self.pid() };
        self.tracee.run(move || calls.get().map(job))?.unwrap_or(Err(gone))
    }
}

/// Enables the session on the tracing thread. One answer is given in advance: a runtime that ends while this process is
/// busy, or gone, must not wait for it.
fn enable(kfd: Arc<Kfd>, pid: Pid, started: Option<u64>, life: &Life, notify: OwnedFd) -> Result<Calls> {
    // The process is traced: from here on its pid cannot be reused.
    if started.is_some() && started != start_of(pid) {
        return Err(Error::Gone { pid });
    }
    // The driver would make an entry for a process that has none, with the gpus that this program may use.
    if !Processes::default().is_open_by(pid) {
        return Err(Error::NotOpen { pid });
    }
    let runtime = kfd.enable(pid, SUBSCRIBED, &notify)?;
    let calls = Calls { kfd, pid, life: life.clone(), runtime, ours: AtomicBool::new(true) };
    let usable = match runtime.runtime_state {
        RuntimeState::DISABLED | RuntimeState::ENABLED => {
            calls.call(|kfd| kfd.send_runtime_event(pid, ExceptionMask::PROCESS_RUNTIME))
        }
        state => Err(Error::Runtime { pid, state }),
    };
    match usable {
        Ok(()) => Ok(calls),
        Err(error) => {
            // The error that is returned says more than this one would.
            let _ = calls.disable();
            Err(error)
        }
    }
}

/// Returns when a process started, in clock ticks since boot.
fn start_of(pid: Pid) -> Option<u64> {
    ProcStat::read(pid.0).map(|stat| stat.start)
}

fn tell<H>(calls: &OnceLock<Calls>, hear: &Mutex<H>, say: impl FnOnce(&Calls, &mut H)) {
    if let Some(calls) = calls.get() {
        say(calls, &mut hear.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Something came from the driver, or nothing will any more.
fn look(calls: &Calls, open: bool, hear: &mut impl FnMut(&Calls, Event)) {
    match calls.report(hear) {
        // The end of the program is reported by itself.
        Err(error) if !error.is_gone() => hear(calls, Event::Failed(error)),
        _ if !open => {
            calls.ours.store(false, Ordering::Release);
            hear(calls, Event::Closed);
        }
        _ => {}
    }
}

fn events_of(raised: Raised) -> impl Iterator<Item = Event> {
    let Raised { exceptions, gpu, queue } = raised;
    let created = exceptions.has(ExceptionMask::QUEUE_NEW).then_some(Event::QueueCreated { gpu, queue });
    let destroyed = exceptions.has(ExceptionMask::DEVICE_QUEUE_DELETE).then_some(Event::QueueDestroyed { gpu });
    created.into_iter().chain(destroyed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(exceptions: ExceptionMask) -> Vec<String> {
        let raised = Raised { exceptions, gpu: GpuId(5), queue: QueueId(2) };
        events_of(raised).map(|event| format!("{event:?}")).collect()
    }

    #[test]
    fn a_busy_driver_is_asked_so_often_and_no_other_answer_is_asked_for_again() {
        fn refused(errno: i32) -> Error {
            let error = std::io::Error::from_raw_os_error(errno);
            Error::Trap { operation: kfd_abi::debug::TrapOp::RESUME_QUEUES, pid: Pid(1), error }
        }
        let ask = |attempts, answer: fn(u32) -> Result<u32>| {
            let mut calls = 0;
            let result = while_busy(attempts, || {
                calls += 1;
                answer(calls)
            });
            (calls, result.map_err(|error| error.errno()))
        };
        assert_eq!(ask(5, |_| Err(refused(libc::EBUSY))), (5, Err(Some(libc::EBUSY))));
        assert_eq!(ask(5, |call| if call < 3 { Err(refused(libc::EBUSY)) } else { Ok(call) }), (3, Ok(3)));
        assert_eq!(ask(5, |_| Err(refused(libc::EPERM))), (1, Err(Some(libc::EPERM))));
        assert_eq!(ask(1, |_| Err(refused(libc::EBUSY))), (1, Err(Some(libc::EBUSY))));
    }

    #[test]
    fn reports_become_events_with_their_source() {
        assert_eq!(named(ExceptionMask::QUEUE_NEW), ["QueueCreated { gpu: GpuId(5), queue: QueueId(2) }"]);
        assert_eq!(named(ExceptionMask::DEVICE_QUEUE_DELETE), ["QueueDestroyed { gpu: GpuId(5) }"]);
        assert!(named(ExceptionMask::PROCESS_RUNTIME).is_empty(), "it is told with the state");
        assert!(named(ExceptionMask::QUEUE_WAVE_TRAP).is_empty());
    }

    #[test]
    fn the_start_of_a_process_is_the_kernels() {
        let own = start_of(Pid(std::process::id())).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(start_of(Pid(child.id())).unwrap() >= own && own > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(start_of(Pid(u32::MAX >> 1)), None);
    }

    #[test]
    fn nothing_is_subscribed_that_the_programs_runtime_needs() {
        let left = ExceptionMask::DEFINED.without(SUBSCRIBED);
        assert!(left.has(ExceptionMask::DEVICE_MEMORY_VIOLATION) && left.has(ExceptionMask::QUEUE_WAVE_ABORT));
        assert_eq!(SUBSCRIBED.0.count_ones(), 3);
    }
}
