//! One process whose queues are stopped and resumed. The driver is called on the thread that traces it; the methods of
//! [`Target`] only post work to that thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kfd::{
    Batch, Calls, Error, Event, GpuId, Grace, Kfd, Pid, QueueId, QueueResult, QueueSnapshotEntry, RuntimeState, Tracer,
};

use super::refusal::{refused, with_kind};
use super::reports::Reports;
use super::reset_queues::ResetQueues;
use super::{ActuatorEvent, CommandRefusalKind, TracedQueue};
use crate::clock;

/// Time between two attempts to stop tracing a program.
const STOP_TRACING_AGAIN: Duration = Duration::from_millis(500);

/// What all targets share.
#[derive(Debug)]
pub(super) struct Common {
    reports: Arc<Reports>,
    /// Opened by the first tracing thread that needs it: the main thread makes no calls of the driver.
    kfd: Mutex<Option<Arc<Kfd>>>,
    /// The driver wants its callers to trace.
    must_trace: AtomicBool,
}

impl Common {
    pub(super) fn new(reports: Arc<Reports>) -> Common {
        Common { reports, kfd: Mutex::new(None), must_trace: AtomicBool::new(false) }
    }

    /// Tells the daemon.
    pub(super) fn tell(&self, told: &ActuatorEvent) {
        self.reports.tell(told);
    }

    fn kfd(&self) -> kfd::Result<Arc<Kfd>> {
        let mut kfd = self.kfd.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kfd {
            Some(kfd) => Ok(Arc::clone(kfd)),
            None => Ok(Arc::clone(kfd.insert(Arc::new(Kfd::open()?)))),
        }
    }
}

/// A command that is answered in any case, also if the session ends before it is executed.
struct Ticket {
    common: Arc<Common>,
    pid: Pid,
    number: u64,
    answered: bool,
}

impl Ticket {
    fn answer(mut self, told: &ActuatorEvent) {
        self.answered = true;
        self.common.tell(told);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.answered {
            let gone = Error::Gone { pid: self.pid };
            self.common.tell(&ActuatorEvent::Refused(refused(Some(self.number), self.pid, &gone)));
        }
    }
}

/// What an order asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Suspend(Grace),
    Resume,
}

/// A target, as the main thread has it. Nothing here waits.
#[derive(Debug)]
pub(super) struct Target {
    common: Arc<Common>,
    tracer: Tracer,
    pub(super) started: u64,
    state: Arc<State>,
    /// When to try again to stop tracing it.
    stop_tracing_at: Instant,
}

/// What is known of a target.
#[derive(Debug, Default)]
struct State {
    /// Its runtime has offered itself.
    runtime: AtomicBool,
    /// The session is over, or could not begin, and the daemon was told.
    over: AtomicBool,
    reset: ResetQueues,
}

impl Target {
    /// Begins a session, after `predecessor` is through with its own.
    pub(super) fn attach(
        common: &Arc<Common>,
        pid: Pid,
        started: u64,
        predecessor: Option<JoinHandle<()>>,
    ) -> kfd::Result<Target> {
        let state = Arc::new(State::default());
        let open = {
            let common = Arc::clone(common);
            move || {
                // A panic there was reported when it happened.
                let _ = predecessor.map(JoinHandle::join);
                // What it got changes nothing here.
                let _ = crate::os::priority::raise();
                common.kfd()
            }
        };
        let begun = {
            let (common, state) = (Arc::clone(common), Arc::clone(&state));
            move |begun: kfd::Result<(&Calls, Vec<QueueSnapshotEntry>)>| match begun {
                Ok((calls, queues)) => {
                    let enabled = calls.runtime().runtime_state == RuntimeState::ENABLED;
                    state.runtime.store(enabled, Ordering::Release);
                    common.tell(&ActuatorEvent::Attached { pid: pid.0, runtime: enabled, queues: traced(&queues) });
                }
                Err(error) => {
                    // The daemon may ask again at once.
                    state.over.store(true, Ordering::Release);
                    common.tell(&ActuatorEvent::Refused(refused(None, pid, &error)));
                }
            }
        };
        let reporter = EventReporter { common: Arc::clone(common), state: Arc::clone(&state) };
        let report = move |calls: &Calls, event| reporter.report(calls, event);
        let tracer = Tracer::begin(pid, Some(started), open, begun, report)?;
        let mut target = Target { common: Arc::clone(common), tracer, started, state, stop_tracing_at: Instant::now() };
        target.stop_tracing();
        Ok(target)
    }

    /// Stops tracing it, if the driver allows that and it is time to try. A program that is in a call which must not be
    /// interrupted is tried again later.
    pub(super) fn stop_tracing(&mut self) {
        let settled = self.tracer.is_detached() || self.common.must_trace.load(Ordering::Acquire);
        if settled || Instant::now() < self.stop_tracing_at {
            return;
        }
        self.stop_tracing_at = Instant::now() + STOP_TRACING_AGAIN;
        let common = Arc::clone(&self.common);
        self.tracer.detach(move |works| common.must_trace.store(!works, Ordering::Release));
    }

    /// Whether the session is over, or could not begin.
    pub(super) fn is_over(&self) -> bool {
        self.state.over.load(Ordering::Acquire) || self.tracer.is_over()
    }

    /// Says again what there is.
    pub(super) fn describe(&self) {
        let (common, state) = (Arc::clone(&self.common), Arc::clone(&self.state));
        self.tracer.post(move |calls| match calls.snapshot() {
            Ok(queues) => common.tell(&ActuatorEvent::Attached {
                pid: calls.pid().0,
                runtime: state.runtime.load(Ordering::Acquire),
                queues: traced(&queues),
            }),
            Err(error) => common.tell(&ActuatorEvent::Refused(refused(None, calls.pid(), &error))),
        });
    }

    /// Executes a command after those before it.
    pub(super) fn order(&self, number: u64, queues: &[u32], action: Action) {
        let (common, pid) = (Arc::clone(&self.common), self.tracer.pid());
        let ticket = Ticket { common, pid, number, answered: false };
        let queues: Vec<QueueId> = queues.iter().copied().map(QueueId).collect();
        let state = Arc::clone(&self.state);
        self.tracer.post(move |calls| execute(calls, &state.reset, ticket, &queues, action));
    }

    /// Lets the process destroy queues that were reset.
    pub(super) fn release_reset(&self) {
        if !self.state.reset.is_empty() {
            let state = Arc::clone(&self.state);
            self.tracer.post(move |calls| state.reset.release(calls));
        }
    }

    /// Ends the session after what was ordered; everything of it runs then. The thread ends with it.
    pub(super) fn detach(self) -> Option<JoinHandle<()>> {
        self.tracer.close_in_background()
    }
}

/// Tells the daemon of changes.
struct EventReporter {
    common: Arc<Common>,
    state: Arc<State>,
}

impl EventReporter {
    fn report(&self, calls: &Calls, event: Event) {
        match event {
            Event::QueueCreated { .. } | Event::QueueDestroyed { .. } => self.tell_change(calls),
            Event::RuntimeChanged(state) => {
                self.state.runtime.store(state == RuntimeState::ENABLED, Ordering::Release);
                self.tell_change(calls);
            }
            Event::Ended(_) | Event::Closed => self.tell_end(calls.pid()),
            Event::Failed(error) => {
                tracing::warn!(%error, "a session is over");
                self.tell_end(calls.pid());
            }
        }
    }

    fn tell_change(&self, calls: &Calls) {
        // Also makes new queues known to the driver: until then it does not stop them. An error is that of a session
        // that ends, which is told by itself.
        if let Ok(queues) = calls.snapshot() {
            let runtime = self.state.runtime.load(Ordering::Acquire);
            self.common.tell(&ActuatorEvent::Changed { pid: calls.pid().0, runtime, queues: traced(&queues) });
        }
    }

    fn tell_end(&self, pid: Pid) {
        if !self.state.over.swap(true, Ordering::AcqRel) {
            self.common.tell(&ActuatorEvent::Ended { pid: pid.0 });
        }
    }
}

fn traced(queues: &[QueueSnapshotEntry]) -> Vec<TracedQueue> {
    let queue = |entry: &QueueSnapshotEntry| TracedQueue {
        queue: entry.queue_id,
        gpu: GpuId(entry.gpu_id),
        kind: entry.queue_type,
        ring: entry.ring_base_address,
        bytes: entry.ring_size.into(),
        rptr: entry.read_pointer_address,
        wptr: entry.write_pointer_address,
    };
    queues.iter().map(queue).collect()
}

/// Makes the one call of an order and answers it.
fn execute(calls: &Calls, reset: &ResetQueues, ticket: Ticket, queues: &[QueueId], action: Action) {
    let called_ns = clock::now().0;
    let outcome = match action {
        Action::Suspend(grace) => calls.suspend(queues, grace),
        Action::Resume => reset.resume(calls, queues),
    };
    let mut answered_ns = clock::now().0;
    let batch = match outcome {
        Ok(batch) => batch,
        Err(error) => {
            let number = ticket.number;
            return ticket.answer(&ActuatorEvent::Refused(refusal(calls, number, &error)));
        }
    };
    let (mut done, mut failed) = sorted(&batch);
    let mut cycles = 1;
    if let Action::Suspend(grace) = action
        && let Some(second) = suspend_new(calls, &batch, grace)
    {
        answered_ns = clock::now().0;
        cycles += u32::from(!second.results().is_empty());
        let (more, failures) = sorted(&second);
        done.extend(more);
        failed.extend(failures);
    }
    let (number, pid) = (ticket.number, ticket.pid.0);
    ticket.answer(&ActuatorEvent::Done { ticket: number, pid, queues: done, failed, cycles, called_ns, answered_ns });
}

/// Queues that were created since the last snapshot can be stopped after another one.
fn suspend_new(calls: &Calls, batch: &Batch, grace: Grace) -> Option<Batch> {
    let unknown: Vec<QueueId> = batch.with(QueueResult::Unknown).collect();
    if unknown.is_empty() {
        return None;
    }
    let present = calls.snapshot().ok()?;
    let is_present = |queue: &QueueId| present.iter().any(|entry| entry.queue_id == queue.0);
    let new: Vec<QueueId> = unknown.into_iter().filter(is_present).collect();
    // Without any, there is no call. What the first call did is worth telling even if this one fails.
    calls.suspend(&new, grace).ok()
}

fn sorted(batch: &Batch) -> (Vec<u32>, Vec<u32>) {
    let numbers = |verdict| batch.with(verdict).map(|queue| queue.0).collect();
    (numbers(QueueResult::Done), numbers(QueueResult::Failed))
}

/// The driver has one number for a runtime that is not there and for a session that is another's; only the first still
/// answers questions.
fn refusal(calls: &Calls, number: u64, error: &Error) -> super::CommandRefusal {
    if error.is_without_runtime() && calls.snapshot().is_err_and(|error| error.is_taken_over()) {
        return with_kind(Some(number), calls.pid(), CommandRefusalKind::Debugger, error.to_string());
    }
    refused(Some(number), calls.pid(), error)
}
