//! What the daemon says: events, the audit log, status and statistics.

use std::sync::Arc;

use gpreempt_core::Nanos;
use gpreempt_proto::{Event, Status};

use crate::control::Publisher;
use crate::discovery;
use crate::record::{Audit, CpuTimes, DaemonRecord, GpuRecord, Recorder};

/// The way to clients and logs. Nothing here waits: readers are served by the control thread.
#[derive(Debug)]
pub(super) struct StatusPublisher {
    publisher: Arc<Publisher>,
    record: Recorder,
    audit: Audit,
}

impl StatusPublisher {
    pub(super) fn new(publisher: Arc<Publisher>, started: Nanos) -> StatusPublisher {
        StatusPublisher { publisher, record: Recorder::new(started), audit: Audit::default() }
    }

    /// Logs an event.
    pub(super) fn note(&self, event: Event) {
        self.publisher.note(event);
    }

    /// Logs an event that was caused by a job of another user, who may see it, too.
    pub(super) fn note_by(&self, event: Event, cause_uid: u32) {
        self.publisher.note_by(event, cause_uid);
    }

    /// Returns the statistics of the daemon itself.
    pub(super) fn daemon(&mut self) -> &mut DaemonRecord {
        &mut self.record.daemon
    }

    /// Returns the statistics of a gpu.
    pub(super) fn gpu(&mut self, gpu: &discovery::DiscoveredGpu) -> &mut GpuRecord {
        self.record.gpu(gpu.id, &gpu.address)
    }

    /// Adds the end of a stop to the audit log: `victim` was stopped for `stopped` on account of `cause`, or by hand.
    pub(super) fn audit_stop(&mut self, now: Nanos, victim: &str, cause: Option<&str>, stopped: Nanos) {
        self.audit.note(now, victim, cause, 1, stopped);
    }

    /// Writes the audit records that are due by `now`; all of them with [`Nanos::NEVER`].
    pub(super) fn flush_audit(&mut self, now: Nanos) {
        self.audit.flush(now);
    }

    /// Returns when the audit log wants to be written.
    pub(super) fn audit_due(&self) -> Nanos {
        self.audit.due().unwrap_or(Nanos::NEVER)
    }

    /// Publishes status and statistics for clients that wait for them.
    pub(super) fn publish(&self, status: Status, now: Nanos, cpu: CpuTimes) {
        self.publisher.publish(status, self.record.stats(now, cpu));
    }

    /// Returns the events logged so far.
    #[cfg(test)]
    pub(super) fn events(&self) -> Vec<Event> {
        self.publisher.events()
    }
}
