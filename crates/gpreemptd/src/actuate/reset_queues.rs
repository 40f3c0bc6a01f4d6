//! Queues that the driver has reset. It takes them off the gpu, but a stop and a resume put them back
//! (`QUEUE_IS_ACTIVE` of `kfd_priv.h` does not know of the reset), so they are left stopped. Only their owner can end
//! them: when it waits to destroy one, that one is resumed, or it would wait for ever.
//!
//! Over the debug interface a reset shows only where the hardware raised the exception "preemption error" for the
//! queue; an actuator of a patched driver is told.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kfd::waiting::{self, WaitingCall};
use kfd::{Batch, Calls, ExceptionMask, QueueId, QueueSnapshotEntry};

/// Queues of a process that were reset while they were stopped.
#[derive(Debug, Default)]
pub(super) struct ResetQueues(Mutex<BTreeSet<QueueId>>);

impl ResetQueues {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<QueueId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resumes queues without those that were reset, which get no result.
    pub(super) fn resume(&self, calls: &Calls, queues: &[QueueId]) -> kfd::Result<Batch> {
        let (reset, sound) = split(queues, &calls.snapshot()?);
        for queue in &reset {
            tracing::warn!("queue {queue} of process {} was reset by the driver and stays off", calls.pid());
        }
        self.lock().extend(reset);
        calls.resume(&sound)
    }

    /// Resumes those that were left out if their owner waits to destroy a queue.
    pub(super) fn release(&self, calls: &Calls) {
        let pid = calls.pid();
        let destroys = |thread: &u32| waiting::call(pid, *thread) == Some(WaitingCall::DestroyQueue);
        if self.is_empty() || !waiting::threads(pid).iter().any(destroys) {
            return;
        }
        let queues: Vec<QueueId> = std::mem::take(&mut *self.lock()).into_iter().collect();
        if let Err(error) = calls.resume(&queues) {
            tracing::warn!("queues that were reset: {error}");
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

/// Splits queues into those that were reset and the others.
fn split(queues: &[QueueId], present: &[QueueSnapshotEntry]) -> (Vec<QueueId>, Vec<QueueId>) {
    let was_reset = |queue: &QueueId| {
        let entry = present.iter().find(|entry| entry.queue_id == queue.0);
        entry.is_some_and(|entry| entry.exception_status.has(ExceptionMask::QUEUE_PREEMPTION_ERROR))
    };
    queues.iter().copied().partition(was_reset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_whose_preemption_failed_is_told_from_the_others() {
        let entry = |queue_id, exception_status| QueueSnapshotEntry {
            queue_id,
            exception_status,
            ..QueueSnapshotEntry::default()
        };
        let trapped = ExceptionMask::QUEUE_WAVE_TRAP;
        let present = [entry(1, trapped), entry(2, trapped | ExceptionMask::QUEUE_PREEMPTION_ERROR)];
        let queues = [1, 2, 3].map(QueueId);
        assert_eq!(split(&queues, &present), (vec![QueueId(2)], vec![QueueId(1), QueueId(3)]));
    }
}
