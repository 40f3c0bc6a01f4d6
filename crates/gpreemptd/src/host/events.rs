//! Events of tenants, jobs, gpus and the daemon, with what identifies them.

use gpreempt_core::GpuIndex;
use gpreempt_proto::{Event, EventKind};
use kfd::Pid;
use linux_host::clock::wall_ms;

use super::Host;
use super::world::TenantKey;

impl Host {
    /// Logs an event of a tenant.
    pub(super) fn note(&self, key: TenantKey, kind: EventKind) {
        self.publisher.note(self.event(key, kind));
    }

    /// Logs an event of a tenant that was caused by a job, whose owner may see it, too.
    pub(super) fn note_by(&self, key: TenantKey, kind: EventKind, cause: Option<&str>) {
        match cause.and_then(|cause| self.world.jobs.get(cause)) {
            Some(cause) => self.publisher.note_by(self.event(key, kind), cause.uid),
            None => self.note(key, kind),
        }
    }

    fn event(&self, key: TenantKey, kind: EventKind) -> Event {
        let tenant = self.world.tenants.get(&key);
        let process = self.world.processes.get(&key.pid);
        let gpu = tenant.and_then(|tenant| self.world.gpus.get(tenant.gpu));
        Event {
            at_ms: wall_ms(),
            kind,
            gpu: gpu.map(|gpu| gpu.about.address.clone()),
            pid: Some(key.pid.0),
            job: tenant.and_then(|tenant| tenant.job.clone()),
            uid: process.map(|process| process.identity.uid),
        }
    }

    /// Logs an event of a process, on all its gpus.
    pub(super) fn note_process(&self, pid: Pid, kind: EventKind) {
        let job = self.world.tenants_of(pid).find_map(|tenant| tenant.job.clone());
        let uid = self.world.processes.get(&pid).map(|process| process.identity.uid);
        self.publisher.note(Event { at_ms: wall_ms(), kind, gpu: None, pid: Some(pid.0), job, uid });
    }

    /// Logs an event of a job.
    pub(super) fn note_job(&self, job: &str, kind: EventKind) {
        let uid = self.world.jobs.get(job).map(|job| job.uid);
        self.publisher.note(Event { at_ms: wall_ms(), kind, gpu: None, pid: None, job: Some(job.into()), uid });
    }

    /// Logs an event of a gpu.
    pub(super) fn note_gpu(&self, gpu: GpuIndex, kind: EventKind) {
        let gpu = self.world.gpus.get(gpu).map(|gpu| gpu.about.address.clone());
        self.publisher.note(Event { at_ms: wall_ms(), kind, gpu, pid: None, job: None, uid: None });
    }

    /// Logs an event of the daemon itself.
    pub(super) fn note_daemon(&self, kind: EventKind) {
        self.publisher.note(Event { at_ms: wall_ms(), kind, gpu: None, pid: None, job: None, uid: None });
    }
}
