//! A debug session with a program that uses a gpu.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use kfd_abi::debug::{QueueSnapshotEntry, RuntimeInfo, RuntimeState};
use kfd_abi::exception::ExceptionMask;

use crate::driver::{Kfd, Raised};
use crate::error::{Error, Result};
use crate::id::{GpuId, Pid, QueueId};
use crate::ptrace::{End, Leader};
use crate::queues::{Batch, Grace};
use crate::sys;

/// What a session hears of. Exceptions of waves and memory are left to the program's own runtime.
const SUBSCRIBED: ExceptionMask =
    ExceptionMask(ExceptionMask::QUEUE_NEW.0 | ExceptionMask::DEVICE_QUEUE_DELETE.0 | ExceptionMask::PROCESS_RUNTIME.0);

/// What happens in a traced program.
#[derive(Debug)]
pub enum Event {
    /// It created a queue, which can be stopped from now on.
    QueueCreated {
        /// On this gpu.
        gpu: GpuId,
        /// The queue.
        queue: QueueId,
    },
    /// It destroyed one or more queues; a snapshot shows which are left.
    QueueDestroyed {
        /// On this gpu.
        gpu: GpuId,
    },
    /// Its runtime started or ended, and was let go on.
    RuntimeChanged,
    /// It ended. Nothing follows.
    Ended(End),
    /// The driver no longer answers for it.
    Failed(Error),
}

/// A debug session: the program is traced, its new queues are reported, and queues can be taken off the gpu. When dropped,
/// every queue runs again and the program goes on alone.
///
/// All calls to the driver come from the one thread that traces the program. The program's runtime never waits for the
/// user of a session when it starts or ends.
#[derive(Debug)]
pub struct Tracer {
    kfd: Arc<Kfd>,
    leader: Leader,
    runtime: RuntimeInfo,
    enabled: bool,
}

impl Tracer {
    /// Begins a session with a running program. Its present queues can be stopped at once.
    ///
    /// A program whose runtime is not enabled yet is accepted: `RuntimeChanged` follows when it is. Until then its queues
    /// cannot be stopped, see [`Tracer::runtime`].
    ///
    /// # Errors
    ///
    /// If the program cannot be traced, has a session with another debugger, or does not use a gpu.
    pub fn attach(kfd: Arc<Kfd>, pid: Pid) -> Result<(Tracer, Receiver<Event>)> {
        let (events, received) = mpsc::channel();
        let (source, notify) = sys::pipe().map_err(|error| Error::Resources { pid, error })?;
        let ended = events.clone();
        // Whoever dropped the receiver does not want to know.
        let leader = Leader::seize(pid, move |end| drop(ended.send(Event::Ended(end))))?;
        let begun = Arc::clone(&kfd);
        let runtime = leader.run(move || begin(&begun, pid, &notify))??;
        let tracer = Tracer { kfd, leader, runtime, enabled: true };
        if !matches!(runtime.runtime_state, RuntimeState::DISABLED | RuntimeState::ENABLED) {
            return Err(Error::Runtime { pid, state: runtime.runtime_state });
        }
        let kfd = Arc::clone(&tracer.kfd);
        tracer.leader.watch(source, move || report(&kfd, pid, &events));
        tracer.snapshot()?;
        Ok((tracer, received))
    }

    /// The program.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.leader.pid()
    }

    /// The relation that the session rests on.
    #[must_use]
    pub fn leader(&self) -> &Leader {
        &self.leader
    }

    /// Whether the program's runtime had offered itself when the session began. If not, the driver refuses to stop queues
    /// until it does; a runtime that never does (before ROCm 6) cannot be stopped this way.
    #[must_use]
    pub fn runtime(&self) -> RuntimeInfo {
        self.runtime
    }

    /// All queues, newest first. Those that are new can be stopped afterwards.
    ///
    /// # Errors
    ///
    /// If the program ended or another debugger took the session over.
    pub fn snapshot(&self) -> Result<Vec<QueueSnapshotEntry>> {
        self.call(|kfd, pid| kfd.queue_snapshot(pid, ExceptionMask::QUEUE_NEW))
    }

    /// Takes queues off the gpu; returns when their waves are saved. See [`Kfd::suspend_queues`] for the cost.
    ///
    /// # Errors
    ///
    /// If the program ended, its runtime is not enabled, another debugger took the session over, or the gpu is being reset.
    pub fn suspend(&self, queues: &[QueueId], grace: Grace) -> Result<Batch> {
        let queues = queues.to_vec();
        self.call(move |kfd, pid| kfd.suspend_queues(pid, &queues, grace))
    }

    /// Puts queues back on the gpu. They run some time after this returns.
    ///
    /// # Errors
    ///
    /// As [`Tracer::suspend`].
    pub fn resume(&self, queues: &[QueueId]) -> Result<Batch> {
        let queues = queues.to_vec();
        self.call(move |kfd, pid| kfd.resume_queues(pid, &queues))
    }

    /// Puts every stopped queue back; returns how many.
    ///
    /// # Errors
    ///
    /// As [`Tracer::suspend`].
    pub fn resume_all(&self) -> Result<u32> {
        self.call(Kfd::resume_all)
    }

    /// Ends the session and says whether the driver agreed. The program is detached in any case.
    ///
    /// # Errors
    ///
    /// If another debugger took the session over. A program that ended meanwhile is no failure.
    pub fn detach(mut self) -> Result<()> {
        self.enabled = false;
        match self.call(Kfd::disable) {
            Err(error) if !error.is_gone() => Err(error),
            _ => Ok(()),
        }
    }

    fn call<T: Send + 'static>(&self, job: impl FnOnce(&Kfd, Pid) -> Result<T> + Send + 'static) -> Result<T> {
        let (kfd, pid) = (Arc::clone(&self.kfd), self.pid());
        self.leader.run(move || job(&kfd, pid))?
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if self.enabled {
            // Nobody is left to tell; `detach` does.
            let _ = self.call(Kfd::disable);
        }
    }
}

/// Enables the session on the tracing thread. One answer is given in advance: a runtime that ends while this process is
/// busy, or gone, must not wait for it.
fn begin(kfd: &Kfd, pid: Pid, notify: &OwnedFd) -> Result<RuntimeInfo> {
    let runtime = kfd.enable(pid, SUBSCRIBED, notify)?;
    kfd.send_runtime_event(pid, ExceptionMask::PROCESS_RUNTIME).inspect_err(|_| {
        // The error that is returned says more than this one would.
        let _ = kfd.disable(pid);
    })?;
    Ok(runtime)
}

/// Takes every report the driver has and passes it on. A start or end of the runtime is answered at once.
fn report(kfd: &Kfd, pid: Pid, events: &Sender<Event>) {
    loop {
        let raised = match kfd.query_debug_event(pid, SUBSCRIBED) {
            Ok(Some(raised)) => raised,
            Ok(None) => return,
            // The end of the program is reported by itself.
            Err(error) if error.is_gone() => return,
            Err(error) => return drop(events.send(Event::Failed(error))),
        };
        if raised.exceptions.has(ExceptionMask::PROCESS_RUNTIME)
            && let Err(error) = kfd.send_runtime_event(pid, ExceptionMask::PROCESS_RUNTIME)
            && !error.is_gone()
        {
            drop(events.send(Event::Failed(error)));
        }
        for event in events_of(raised) {
            drop(events.send(event));
        }
    }
}

fn events_of(raised: Raised) -> impl Iterator<Item = Event> {
    let Raised { exceptions, gpu, queue } = raised;
    let created = exceptions.has(ExceptionMask::QUEUE_NEW).then_some(Event::QueueCreated { gpu, queue });
    let destroyed = exceptions.has(ExceptionMask::DEVICE_QUEUE_DELETE).then_some(Event::QueueDestroyed { gpu });
    let runtime = exceptions.has(ExceptionMask::PROCESS_RUNTIME).then_some(Event::RuntimeChanged);
    created.into_iter().chain(destroyed).chain(runtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(exceptions: ExceptionMask) -> Vec<String> {
        let raised = Raised { exceptions, gpu: GpuId(5), queue: QueueId(2) };
        events_of(raised).map(|event| format!("{event:?}")).collect()
    }

    #[test]
    fn reports_become_events_with_their_source() {
        assert_eq!(named(ExceptionMask::QUEUE_NEW), ["QueueCreated { gpu: GpuId(5), queue: QueueId(2) }"]);
        assert_eq!(named(ExceptionMask::DEVICE_QUEUE_DELETE), ["QueueDestroyed { gpu: GpuId(5) }"]);
        assert_eq!(named(ExceptionMask::PROCESS_RUNTIME), ["RuntimeChanged"]);
        assert!(named(ExceptionMask::QUEUE_WAVE_TRAP).is_empty());
    }

    #[test]
    fn nothing_is_subscribed_that_the_programs_runtime_needs() {
        let left = ExceptionMask::DEFINED.without(SUBSCRIBED);
        assert!(left.has(ExceptionMask::DEVICE_MEMORY_VIOLATION) && left.has(ExceptionMask::QUEUE_WAVE_ABORT));
        assert_eq!(SUBSCRIBED.0.count_ones(), 3);
    }
}
