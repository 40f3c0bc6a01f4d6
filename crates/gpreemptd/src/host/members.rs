//! Membership: processes come, change and go, and with them tenants and jobs.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use gpreempt_core::{ActuatorKind, GpuIndex, GpuSet, Level, Nanos};
use gpreempt_observe::{RingFormat, RingPlace};
use gpreempt_proto::EventKind;
use kfd::{GpuId, Pid, ProcessMemory, QueueId, QueueType};

use crate::actuate::TracedQueue;
use crate::config::Assignment;
use crate::discovery;
use crate::observe::TenantProbe;

use super::overrides::override_key;
use super::world::{Gpu, Job, Process, Session, Tenant, TenantKey};
use super::{Host, must_succeed};

impl Host {
    /// Takes the list of gpus. Known ones keep their place in the core; that of one that is gone is given to another.
    pub(super) fn set_gpus(&mut self, found: Vec<discovery::DiscoveredGpu>) {
        for gpu in self.world.gpus.iter_mut() {
            gpu.present = found.iter().any(|about| about.id == gpu.about.id);
        }
        for about in found {
            if let Some(known) = self.world.gpus.find(about.id).and_then(|index| self.world.gpus.get_mut(index)) {
                known.about = about;
                continue;
            }
            let Some(index) = self.vacant_gpu() else {
                tracing::warn!("gpu {} is not managed: there are more than {}", about.address, GpuSet::CAPACITY);
                continue;
            };
            let (params, managed) = (self.config.gpu(&about.address), self.config.manages(&about.address));
            // It fails if there was none.
            let _ = self.core.remove_gpu(index);
            if let Err(error) = self.core.set_gpu(index, params) {
                tracing::error!("gpu {}: {error}", about.address);
                continue;
            }
            self.world.gpus.put(Gpu::new(about, index, params, managed));
        }
    }

    /// Returns the place of a gpu that is gone and has no tenants, or a new one; `None` if the core has no room.
    fn vacant_gpu(&self) -> Option<GpuIndex> {
        let in_use = |index: GpuIndex| self.world.tenants.values().any(|tenant| tenant.gpu == index);
        let gone = self.world.gpus.iter().find(|gpu| !gpu.present && !in_use(gpu.index)).map(|gpu| gpu.index);
        gone.or_else(|| self.world.gpus.next_index())
    }

    /// A process appeared, or its queues changed.
    pub(super) fn set_process(&mut self, found: discovery::Process, now: Nanos) {
        let pid = found.identity.pid();
        let known = self.world.processes.get(&pid).is_some_and(|old| old.identity.started == found.identity.started);
        if !known {
            self.remove_process(pid, now);
            self.add_process(&found);
        }
        let unreadable = found.memory.as_ref().err().cloned();
        if let Some(process) = self.world.processes.get_mut(&pid).filter(|old| old.identity != found.identity) {
            // Rules ask for more than before, or the process was moved to another control group.
            process.identity = found.identity.clone();
            self.reapply_rules_to(pid, now);
        }
        let traced_by = self.world.processes.get(&pid).and_then(|process| process.traced_by);
        let debugger_left = self.debugger(traced_by).is_some() && self.debugger(found.traced_by).is_none();
        if let Some(process) = self.world.processes.get_mut(&pid) {
            if let (true, Session::Refused { retry_at, .. }) = (debugger_left, &mut process.session) {
                *retry_at = now;
            }
            process.traced_by = found.traced_by;
            process.contexts = found.contexts;
            process.unreadable = unreadable;
            process.memory = found.memory.as_ref().ok().cloned();
        }
        // A session tells of queues sooner than the driver's files, which may show what was a moment ago.
        let open = self.is_open(pid);
        let gone: Vec<TenantKey> = self
            .world
            .tenants_of(pid)
            .map(|tenant| tenant.key)
            .filter(|key| !open && found.tenants.iter().all(|tenant| tenant.gpu != key.gpu))
            .collect();
        for key in gone {
            self.remove_tenant(key, now);
        }
        if open && self.actuator_kind() == ActuatorKind::Combined && !self.has_queues(pid, &found.tenants) {
            // There is no session that tells of changes: they have to be asked for.
            self.ask_for_queues(pid, now);
        }
        for tenant in found.tenants {
            self.set_tenant(pid, tenant, now);
        }
    }

    /// Returns whether the compute queues of a process are known to be these.
    fn has_queues(&self, pid: Pid, tenants: &[discovery::Tenant]) -> bool {
        let known = |tenant: &discovery::Tenant| tenant.compute.iter().map(|&queue| (tenant.gpu, queue)).collect();
        let found: Vec<BTreeSet<(GpuId, QueueId)>> = tenants.iter().map(known).collect();
        let known: Vec<BTreeSet<(GpuId, QueueId)>> =
            self.world.tenants_of(pid).map(|tenant| known(&tenant.about)).collect();
        found.into_iter().flatten().collect::<BTreeSet<_>>() == known.into_iter().flatten().collect()
    }

    fn add_process(&mut self, found: &discovery::Process) {
        let identity = found.identity.clone();
        let unmanaged = self.overrides.current().unmanaged.get(&identity.pid) == Some(&identity.started);
        let assignment = self.config.assignment(&identity);
        for note in assignment.iter().flat_map(|assignment| &assignment.notes) {
            tracing::warn!("process {}: {note}", identity.pid);
        }
        let process = Process {
            user: self.config.user_name(identity.uid),
            whole_cgroup: self.config.whole_cgroup(&identity).map(str::to_owned),
            identity,
            assignment,
            session: Session::None,
            refusals: 0,
            traced_by: found.traced_by,
            unmanaged,
            unreadable: None,
            memory: None,
            leaving_until: Nanos::ZERO,
            contexts: found.contexts,
            busy: None,
        };
        self.world.processes.insert(found.identity.pid(), process);
    }

    fn set_tenant(&mut self, pid: Pid, about: discovery::Tenant, now: Nanos) {
        let key = TenantKey { pid, gpu: about.gpu };
        let Some(gpu) = self.world.gpus.find(about.gpu) else { return };
        if let Entry::Vacant(place) = self.world.tenants.entry(key) {
            place.insert(Tenant::new(key, gpu, now));
            self.set_queues(key, about, now);
            self.place_tenant(key, now);
            let rule = self.world.processes.get(&pid).and_then(|process| process.assignment.as_ref());
            let (level, rule) = (rule.map(|rule| rule.params.level.get()), rule.map(|rule| rule.rule.clone()));
            self.note(key, EventKind::Appeared { level, rule });
        } else if self.is_open(pid) {
            // The session told of the queues; the rest comes from the driver's files.
            if let Some(tenant) = self.world.tenants.get_mut(&key) {
                tenant.about.vram = about.vram;
                tenant.about.sdma = about.sdma;
            }
        } else {
            self.set_queues(key, about, now);
        }
        self.pending.members_changed();
    }

    fn is_open(&self, pid: Pid) -> bool {
        self.world.processes.get(&pid).is_some_and(|process| matches!(process.session, Session::Open { .. }))
    }

    /// The queues of a tenant are these now.
    fn set_queues(&mut self, key: TenantKey, about: discovery::Tenant, now: Nanos) {
        let memory = self.world.processes.get(&key.pid).and_then(|process| process.memory.clone());
        let Some(tenant) = self.world.tenants.get_mut(&key) else { return };
        if tenant.about.rings != about.rings || tenant.probe.is_none() {
            tenant.probe = see(tenant.probe.take(), memory, &about.rings);
            let refuted = self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.index_passes_unfinished);
            if let Some(probe) = tenant.probe.as_mut().filter(|_| refuted) {
                probe.refute_retirement();
            }
        }
        tenant.about = about;
        let here: BTreeSet<u32> = tenant.about.compute.iter().map(|queue| queue.0).collect();
        tenant.stopped.retain(|queue| here.contains(queue));
        self.record_stop_end(key, now);
        self.pending.members_changed();
    }

    /// A session told which queues a process has.
    pub(super) fn set_traced(&mut self, pid: Pid, queues: &[TracedQueue], now: Nanos) {
        let gpus: BTreeSet<GpuId> = queues.iter().map(|queue| queue.gpu).collect();
        let keys: BTreeSet<TenantKey> = self.world.tenants_of(pid).map(|tenant| tenant.key).collect();
        for key in keys {
            if !queues.iter().any(|queue| queue.gpu == key.gpu && queue.kind.is_compute()) {
                self.remove_tenant(key, now);
            }
        }
        for gpu in gpus {
            let here = || queues.iter().filter(move |queue| queue.gpu == gpu && queue.kind.is_compute());
            if here().next().is_none() {
                continue;
            }
            let key = TenantKey { pid, gpu };
            let known = self.world.tenants.get(&key).map(|tenant| tenant.about.clone());
            let about = discovery::Tenant {
                compute: here().map(|queue| QueueId(queue.queue)).collect(),
                rings: here().map(ring).collect(),
                blind: None,
                ..known.unwrap_or_else(|| discovery::Tenant::on(gpu))
            };
            if self.world.tenants.contains_key(&key) {
                self.set_queues(key, about, now);
            } else {
                self.set_tenant(pid, about, now);
            }
        }
    }

    /// Gives a tenant its job and its place in the core, if rules and gpu have one for it.
    pub(super) fn place_tenant(&mut self, key: TenantKey, now: Nanos) {
        let Some(tenant) = self.world.tenants.get(&key) else { return };
        let Some(gpu) = self.world.gpus.get(tenant.gpu).filter(|gpu| gpu.managed) else { return };
        let slot = gpu.index;
        let Some(process) = self.world.processes.get(&key.pid).filter(|process| !process.unmanaged) else { return };
        let Some(assignment) = process.assignment.clone() else { return };
        let (uid, started) = (process.identity.uid, process.identity.started);
        let kept = override_key(&assignment.job, &process.identity);
        let Some(job) = self.job_for(&assignment, uid, kept.clone(), now) else {
            self.pending.no_room();
            tracing::warn!("process {} is not managed: no room for more jobs", key.pid);
            return;
        };
        match self.core.add_tenant(job, slot, false) {
            Ok(id) => {
                self.overrides.join(&kept, key.pid.0, started);
                if let Some(job) = self.world.jobs.get_mut(&assignment.job) {
                    job.pids.insert(key.pid);
                }
                self.update_job_params(&assignment.job);
                if let Some(tenant) = self.world.tenants.get_mut(&key) {
                    tenant.core = Some(id);
                    tenant.job_id = Some(job);
                    tenant.job = Some(assignment.job);
                    tenant.stoppable = false;
                }
            }
            Err(error) => {
                tracing::warn!("process {} is not managed: {error}", key.pid);
                self.pending.no_room();
                self.forget_if_empty(&assignment.job);
            }
        }
        self.pending.members_changed();
    }

    /// Adds the tenants that found no room, when there is some again.
    fn retry_unplaced(&mut self, now: Nanos) {
        if self.pending.take_no_room() {
            let left_out = self.world.tenants.values().filter(|tenant| tenant.core.is_none());
            let keys: Vec<TenantKey> = left_out.map(|tenant| tenant.key).collect();
            for key in keys {
                if self.pending.has_no_room() {
                    break;
                }
                self.place_tenant(key, now);
            }
        }
    }

    fn job_for(&mut self, assignment: &Assignment, uid: u32, kept: String, now: Nanos) -> Option<gpreempt_core::JobId> {
        if let Some(job) = self.world.jobs.get(&assignment.job) {
            return Some(job.core);
        }
        let by_hand = self.overrides.current().levels.get(&kept).copied().and_then(Level::new);
        let held_until = self.overrides.held(&kept).map(|left| now.plus(Nanos::from(left)));
        let mut job = Job {
            core: self.core.add_job(assignment.params).ok()?,
            rule: assignment.rule.clone(),
            max_level: assignment.max_level,
            params: assignment.params,
            level: by_hand,
            trusted: self.overrides.current().trusted.contains(&kept),
            override_key: kept,
            held_until: None,
            over_limit: false,
            pids: BTreeSet::new(),
            uid,
        };
        let core = job.core;
        self.core.set_job(core, job.effective()).ok()?;
        if let Some(until) = held_until {
            self.core.hold(core, until).ok()?;
            job.held_until = held_until;
            self.timers.wake_at(until);
        }
        self.world.jobs.insert(assignment.job.clone(), job);
        Some(core)
    }

    /// Gives a job what its members may have together.
    fn update_job_params(&mut self, name: &str) {
        let Some(job) = self.world.jobs.get_mut(name) else { return };
        let members = job.pids.iter().filter_map(|pid| self.world.processes.get(pid)?.assignment.as_ref());
        let Some(assignment) = Assignment::of_job(members) else { return };
        let before = (job.params, job.max_level, &job.rule);
        if before != (assignment.params, assignment.max_level, &assignment.rule) {
            (job.params, job.max_level, job.rule) = (assignment.params, assignment.max_level, assignment.rule);
            must_succeed(self.core.set_job(job.core, job.effective()));
            self.pending.members_changed();
        }
    }

    /// A process is gone, or executed another program.
    pub(super) fn remove_process(&mut self, pid: Pid, now: Nanos) {
        let keys: Vec<TenantKey> = self.world.tenants_of(pid).map(|tenant| tenant.key).collect();
        for key in keys {
            self.remove_tenant(key, now);
        }
        if let Some(process) = self.world.processes.remove(&pid)
            && !matches!(process.session, Session::None)
        {
            self.end_session(pid);
        }
    }

    fn remove_tenant(&mut self, key: TenantKey, now: Nanos) {
        if let Some(tenant) = self.world.tenants.get(&key) {
            self.bursts.end_control(tenant.gpu, key);
            self.note(key, EventKind::Gone);
        }
        self.remove_member(key, now);
        self.world.tenants.remove(&key);
        self.retry_unplaced(now);
    }

    /// Takes a tenant out of its job and out of the core. What of it is stopped has to be let go by other means.
    pub(super) fn remove_member(&mut self, key: TenantKey, now: Nanos) {
        let Some(tenant) = self.world.tenants.get_mut(&key) else { return };
        tenant.job_id = None;
        if let Some(id) = tenant.core.take() {
            must_succeed(self.core.remove_tenant(id));
        }
        tenant.stopped.clear();
        tenant.stoppable = false;
        self.record_stop_end(key, now);
        self.pending.members_changed();
        let Some(job_name) = self.world.tenants.get_mut(&key).and_then(|tenant| tenant.job.take()) else { return };
        let member = |tenant: &Tenant| tenant.key.pid == key.pid && tenant.job.as_deref() == Some(job_name.as_str());
        if !self.world.tenants.values().any(member)
            && let Some(job) = self.world.jobs.get_mut(&job_name)
        {
            job.pids.remove(&key.pid);
            self.update_job_params(&job_name);
        }
        self.forget_if_empty(&job_name);
    }

    fn forget_if_empty(&mut self, name: &str) {
        let empty = !self.world.tenants.values().any(|tenant| tenant.job.as_deref() == Some(name));
        if empty && let Some(job) = self.world.jobs.remove(name) {
            must_succeed(self.core.remove_job(job.core));
        }
    }

    /// The rules changed: every process is judged anew. Tenants that stay in their job keep their state.
    pub(super) fn reapply_rules(&mut self, now: Nanos) {
        for gpu in self.world.gpus.iter_mut() {
            (gpu.params, gpu.managed) = (self.config.gpu(&gpu.about.address), self.config.manages(&gpu.about.address));
            must_succeed(self.core.set_gpu(gpu.index, gpu.params));
        }
        let pids: Vec<Pid> = self.world.processes.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.reapply_rules_to(pid, now));
        self.pending.members_changed();
    }

    /// Judges a process anew.
    fn reapply_rules_to(&mut self, pid: Pid, now: Nanos) {
        let Some(process) = self.world.processes.get_mut(&pid) else { return };
        let assignment = self.config.assignment(&process.identity);
        let job = |assignment: &Option<Assignment>| assignment.as_ref().map(|assignment| assignment.job.clone());
        let stays = job(&process.assignment) == job(&assignment);
        process.assignment.clone_from(&assignment);
        process.whole_cgroup = self.config.whole_cgroup(&process.identity).map(str::to_owned);
        if let (true, Some(new)) = (stays, &assignment) {
            self.update_job_params(&new.job);
        }
        let managed = |gpu: GpuIndex| self.world.gpus.get(gpu).is_some_and(|gpu| gpu.managed);
        let moves: Vec<TenantKey> = self
            .world
            .tenants_of(pid)
            .filter(|tenant| !stays || tenant.core.is_some() != managed(tenant.gpu))
            .map(|tenant| tenant.key)
            .collect();
        if !moves.is_empty() {
            self.close_session(pid);
        }
        for key in moves {
            self.remove_member(key, now);
            self.place_tenant(key, now);
        }
    }
}

/// The probe for these rings; an old one keeps what it knows of those that stay.
fn see(old: Option<TenantProbe>, memory: Option<Arc<ProcessMemory>>, rings: &[RingPlace]) -> Option<TenantProbe> {
    match (old, memory) {
        (Some(mut probe), _) => {
            probe.set_rings(rings);
            Some(probe)
        }
        (None, Some(memory)) if !rings.is_empty() => Some(TenantProbe::new(memory, rings)),
        _ => None,
    }
}

fn ring(queue: &TracedQueue) -> RingPlace {
    let format = if queue.kind == QueueType::COMPUTE_AQL { RingFormat::Aql } else { RingFormat::Pm4 };
    RingPlace { format, base: queue.ring, bytes: queue.bytes, read_index: queue.rptr, write_index: queue.wptr }
}
