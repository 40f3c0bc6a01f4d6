//! Who takes part: processes come, change and go, and with them tenants and jobs.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use gpreempt_core::{GpuId as Slot, GpuSet, Level, Nanos};
use gpreempt_proto::EventKind;
use kfd::{Pid, ProcessMemory, QueueId};

use crate::actuate::TracedQueue;
use crate::config::Assignment;
use crate::observe::Eye;
use crate::scout::{self, Format, Ring};

use super::Engine;
use super::keep::kept_name;
use super::world::{Gpu, Job, Name, Process, Session, Tenant};

/// Kinds of queues as the driver numbers them for a tracer.
const KIND_PM4: u32 = 0;
const KIND_AQL: u32 = 2;

impl Engine {
    /// The gpus are these. Known ones keep their place in the core; that of one that is gone is given to another.
    pub(super) fn set_gpus(&mut self, found: Vec<scout::Gpu>) {
        for gpu in &mut self.world.gpus {
            gpu.present = found.iter().any(|about| about.id == gpu.about.id);
        }
        for about in found {
            if let Some(index) = self.world.gpu_index(about.id.0) {
                self.world.gpus[index].about = about;
                continue;
            }
            let index = self.vacant_gpu();
            let Some(slot) = u8::try_from(index).ok().filter(|_| index < GpuSet::CAPACITY).map(Slot) else {
                tracing::warn!("gpu {} is left alone: more than {} are not managed", about.address, GpuSet::CAPACITY);
                continue;
            };
            let (params, managed) = self.gpu_params(&about.address);
            // It fails if there was none.
            let _ = self.core.remove_gpu(slot);
            if let Err(error) = self.core.set_gpu(slot, params) {
                tracing::error!("gpu {}: {error}", about.address);
                continue;
            }
            let gpu = Gpu::new(about, slot, params, managed);
            match self.world.gpus.get_mut(index) {
                Some(place) => *place = gpu,
                None => self.world.gpus.push(gpu),
            }
        }
    }

    /// The place of a gpu that is gone and has no tenants, or a new one.
    fn vacant_gpu(&self) -> usize {
        let in_use = |index: usize| self.world.tenants.values().any(|tenant| tenant.gpu == index);
        let gone = self.world.gpus.iter().enumerate().find(|(index, gpu)| !gpu.present && !in_use(*index));
        gone.map_or(self.world.gpus.len(), |(index, _)| index)
    }

    /// A process appeared, or its queues changed.
    pub(super) fn set_process(&mut self, found: scout::Process, now: Nanos) {
        let pid = found.identity.pid();
        let known = self.world.processes.get(&pid).is_some_and(|old| old.identity.started == found.identity.started);
        if !known {
            self.remove_process(pid, now);
            self.add_process(&found);
        }
        let unreadable = found.memory.as_ref().err().cloned();
        if let Some(process) = self.world.processes.get_mut(&pid).filter(|old| old.identity != found.identity) {
            // Rules ask for more than before, or somebody moved it to another control group.
            process.identity = found.identity.clone();
            self.judge(pid, now);
        }
        let traced_by = self.world.processes.get(&pid).and_then(|process| process.traced_by);
        let let_go = self.debugger(traced_by).is_some() && self.debugger(found.traced_by).is_none();
        if let Some(process) = self.world.processes.get_mut(&pid) {
            if let (true, Session::Refused { retry_at, .. }) = (let_go, &mut process.session) {
                *retry_at = now;
            }
            process.traced_by = found.traced_by;
            process.unreadable = unreadable;
            process.memory = found.memory.as_ref().ok().cloned();
        }
        // A session tells of queues sooner than the driver's files, which may show what was a moment ago.
        let open = self.is_open(pid);
        let gone: Vec<Name> = self
            .world
            .tenants_of(pid)
            .map(|tenant| tenant.name)
            .filter(|(_, gpu)| !open && found.tenants.iter().all(|tenant| tenant.gpu != *gpu))
            .collect();
        for name in gone {
            self.remove_tenant(name, now);
        }
        for tenant in found.tenants {
            self.set_tenant(pid, tenant, now);
        }
    }

    fn add_process(&mut self, found: &scout::Process) {
        let identity = found.identity.clone();
        let unmanaged = self.keep.by_hand.unmanaged.get(&identity.pid) == Some(&identity.started);
        let treatment = self.config.assignment(&identity);
        for note in treatment.iter().flat_map(|treatment| &treatment.notes) {
            tracing::warn!("process {}: {note}", identity.pid);
        }
        let process = Process {
            user: self.config.user_name(identity.uid),
            identity,
            treatment,
            session: Session::None,
            refusals: 0,
            traced_by: found.traced_by,
            unmanaged,
            unreadable: None,
            memory: None,
            leaving_until: Nanos::ZERO,
        };
        self.world.processes.insert(found.identity.pid(), process);
    }

    fn set_tenant(&mut self, pid: Pid, about: scout::Tenant, now: Nanos) {
        let name = (pid, about.gpu);
        let Some(gpu) = self.world.gpu_index(about.gpu) else { return };
        if let Entry::Vacant(place) = self.world.tenants.entry(name) {
            place.insert(Tenant::new(name, gpu, now));
            self.set_queues(name, about, now);
            self.enlist(name, now);
            let rule = self.world.processes.get(&pid).and_then(|process| process.treatment.as_ref());
            let (level, rule) = (rule.map(|rule| rule.params.level.get()), rule.map(|rule| rule.rule.clone()));
            self.note(name, EventKind::Appeared { level, rule });
        } else if self.is_open(pid) {
            // The session told of the queues; the rest comes from the driver's files.
            if let Some(tenant) = self.world.tenants.get_mut(&name) {
                tenant.about.vram = about.vram;
                tenant.about.sdma = about.sdma;
            }
        } else {
            self.set_queues(name, about, now);
        }
        self.changed = true;
    }

    fn is_open(&self, pid: Pid) -> bool {
        self.world.processes.get(&pid).is_some_and(|process| matches!(process.session, Session::Open { .. }))
    }

    /// The queues of a tenant are these now.
    fn set_queues(&mut self, name: Name, about: scout::Tenant, now: Nanos) {
        let memory = self.world.processes.get(&name.0).and_then(|process| process.memory.clone());
        let Some(tenant) = self.world.tenants.get_mut(&name) else { return };
        if tenant.about.rings != about.rings || tenant.eye.is_none() {
            tenant.eye = see(tenant.eye.take(), memory, &about.rings);
        }
        tenant.about = about;
        let here: BTreeSet<u32> = tenant.about.compute.iter().map(|queue| queue.0).collect();
        tenant.stopped.retain(|queue| here.contains(queue));
        self.settle_stop(name, now);
        self.changed = true;
    }

    /// A session told which queues a process has.
    pub(super) fn set_traced(&mut self, pid: Pid, queues: &[TracedQueue], now: Nanos) {
        let gpus: BTreeSet<u32> = queues.iter().map(|queue| queue.gpu).collect();
        let names: BTreeSet<Name> = self.world.tenants_of(pid).map(|tenant| tenant.name).collect();
        for name in names {
            if !queues.iter().any(|queue| queue.gpu == name.1 && is_compute(queue)) {
                self.remove_tenant(name, now);
            }
        }
        for gpu in gpus {
            let here = || queues.iter().filter(move |queue| queue.gpu == gpu && is_compute(queue));
            if here().next().is_none() {
                continue;
            }
            let old = self.world.tenants.get(&(pid, gpu)).map(|tenant| tenant.about.clone()).unwrap_or_default();
            let about = scout::Tenant {
                gpu,
                compute: here().map(|queue| QueueId(queue.queue)).collect(),
                rings: here().map(ring).collect(),
                blind: None,
                ..old
            };
            if self.world.tenants.contains_key(&(pid, gpu)) {
                self.set_queues((pid, gpu), about, now);
            } else {
                self.set_tenant(pid, about, now);
            }
        }
    }

    /// Gives a tenant its job and its place in the core, if rules and gpu have one for it.
    pub(super) fn enlist(&mut self, name: Name, now: Nanos) {
        let Some(tenant) = self.world.tenants.get(&name) else { return };
        let Some(gpu) = self.world.gpus.get(tenant.gpu).filter(|gpu| gpu.managed) else { return };
        let slot = gpu.slot;
        let Some(process) = self.world.processes.get(&name.0).filter(|process| !process.unmanaged) else { return };
        let Some(treatment) = process.treatment.clone() else { return };
        let (uid, started) = (process.identity.uid, process.identity.started);
        let kept = kept_name(&treatment.job, &process.identity);
        let Some(job) = self.job_for(&treatment, uid, kept.clone(), now) else {
            self.crowded = true;
            tracing::warn!("process {} is left alone: no room for more jobs", name.0);
            return;
        };
        match self.core.add_tenant(job, slot, false) {
            Ok(id) => {
                self.keep.join(&kept, name.0.0, started);
                if let Some(job) = self.world.jobs.get_mut(&treatment.job) {
                    job.pids.insert(name.0);
                }
                self.tune_job(&treatment.job);
                if let Some(tenant) = self.world.tenants.get_mut(&name) {
                    tenant.core = Some(id);
                    tenant.job = Some(treatment.job);
                    tenant.stoppable = false;
                }
            }
            Err(error) => {
                tracing::warn!("process {} is left alone: {error}", name.0);
                self.crowded = true;
                self.forget_if_empty(&treatment.job);
            }
        }
        self.changed = true;
    }

    /// There is room again for those who found none.
    fn enlist_the_rest(&mut self, now: Nanos) {
        if std::mem::take(&mut self.crowded) {
            let left_out = self.world.tenants.values().filter(|tenant| tenant.core.is_none());
            let names: Vec<Name> = left_out.map(|tenant| tenant.name).collect();
            for name in names {
                if self.crowded {
                    break;
                }
                self.enlist(name, now);
            }
        }
    }

    fn job_for(&mut self, treatment: &Assignment, uid: u32, kept: String, now: Nanos) -> Option<gpreempt_core::JobId> {
        if let Some(job) = self.world.jobs.get(&treatment.job) {
            return Some(job.core);
        }
        self.keep.forget_ended();
        let by_hand = self.keep.by_hand.levels.get(&kept).copied().and_then(Level::new);
        let held_until = self.keep.held(&kept).map(|left| now.plus(super::breaker::nanos(left)));
        let mut job = Job {
            core: self.core.add_job(treatment.params).ok()?,
            rule: treatment.rule.clone(),
            max_level: treatment.max_level,
            params: treatment.params,
            level: by_hand,
            trusted: self.keep.by_hand.trusted.contains(&kept),
            kept,
            held_until: None,
            pids: BTreeSet::new(),
            uid,
        };
        let core = job.core;
        self.core.set_job(core, job.effective()).ok()?;
        if let Some(until) = held_until {
            self.core.hold(core, until).ok()?;
            job.held_until = held_until;
            self.ask_at(until);
        }
        self.world.jobs.insert(treatment.job.clone(), job);
        Some(core)
    }

    /// Gives a job what its members may have together.
    fn tune_job(&mut self, name: &str) {
        let Some(job) = self.world.jobs.get_mut(name) else { return };
        let members = job.pids.iter().filter_map(|pid| self.world.processes.get(pid)?.treatment.as_ref());
        let Some(treatment) = Assignment::of_job(members) else { return };
        let before = (job.params, job.max_level, &job.rule);
        if before != (treatment.params, treatment.max_level, &treatment.rule) {
            (job.params, job.max_level, job.rule) = (treatment.params, treatment.max_level, treatment.rule);
            let _ = self.core.set_job(job.core, job.effective());
            self.changed = true;
        }
    }

    /// A process is gone, or executed another program.
    pub(super) fn remove_process(&mut self, pid: Pid, now: Nanos) {
        let names: Vec<Name> = self.world.tenants_of(pid).map(|tenant| tenant.name).collect();
        for name in names {
            self.remove_tenant(name, now);
        }
        if let Some(process) = self.world.processes.remove(&pid)
            && !matches!(process.session, Session::None)
        {
            self.end_session(pid);
        }
    }

    fn remove_tenant(&mut self, name: Name, now: Nanos) {
        if let Some(tenant) = self.world.tenants.get(&name) {
            let gpu = tenant.gpu;
            self.note(name, EventKind::Gone);
            if self.world.gpus.get(gpu).is_some_and(|gpu| gpu.spared_for == Some(name)) {
                self.world.gpus[gpu].spared_for = None;
            }
        }
        self.discharge(name, now);
        self.world.tenants.remove(&name);
        self.enlist_the_rest(now);
    }

    /// Takes a tenant out of its job and out of the core. What of it is stopped has to be let go by other means.
    pub(super) fn discharge(&mut self, name: Name, now: Nanos) {
        let Some(tenant) = self.world.tenants.get_mut(&name) else { return };
        if let Some(id) = tenant.core.take() {
            let _ = self.core.remove_tenant(id);
        }
        tenant.stopped.clear();
        tenant.stoppable = false;
        self.settle_stop(name, now);
        self.changed = true;
        let Some(job_name) = self.world.tenants.get_mut(&name).and_then(|tenant| tenant.job.take()) else { return };
        let member = |tenant: &Tenant| tenant.name.0 == name.0 && tenant.job.as_deref() == Some(job_name.as_str());
        if !self.world.tenants.values().any(member)
            && let Some(job) = self.world.jobs.get_mut(&job_name)
        {
            job.pids.remove(&name.0);
            self.tune_job(&job_name);
        }
        self.forget_if_empty(&job_name);
    }

    fn forget_if_empty(&mut self, name: &str) {
        let empty = !self.world.tenants.values().any(|tenant| tenant.job.as_deref() == Some(name));
        if empty && let Some(job) = self.world.jobs.remove(name) {
            let _ = self.core.remove_job(job.core);
        }
    }

    /// The rules changed: every process is judged anew. Tenants that stay in their job keep their state.
    pub(super) fn judge_anew(&mut self, now: Nanos) {
        for index in 0..self.world.gpus.len() {
            let (params, managed) = self.gpu_params(&self.world.gpus[index].about.address.clone());
            let gpu = &mut self.world.gpus[index];
            (gpu.params, gpu.managed) = (params, managed);
            let _ = self.core.set_gpu(gpu.slot, params);
        }
        let pids: Vec<Pid> = self.world.processes.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.judge(pid, now));
        self.changed = true;
    }

    /// Judges a process anew.
    fn judge(&mut self, pid: Pid, now: Nanos) {
        let Some(process) = self.world.processes.get_mut(&pid) else { return };
        let treatment = self.config.assignment(&process.identity);
        let job = |treatment: &Option<Assignment>| treatment.as_ref().map(|treatment| treatment.job.clone());
        let stays = job(&process.treatment) == job(&treatment);
        process.treatment.clone_from(&treatment);
        if let (true, Some(new)) = (stays, &treatment) {
            self.tune_job(&new.job);
        }
        let managed = |gpu: usize| self.world.gpus.get(gpu).is_some_and(|gpu| gpu.managed);
        let moves: Vec<Name> = self
            .world
            .tenants_of(pid)
            .filter(|tenant| !stays || tenant.core.is_some() != managed(tenant.gpu))
            .map(|tenant| tenant.name)
            .collect();
        if !moves.is_empty() {
            self.release_process(pid);
        }
        for name in moves {
            self.discharge(name, now);
            self.enlist(name, now);
        }
    }
}

/// The eye for these rings; an old one keeps what it knows of those that stay.
fn see(old: Option<Eye>, memory: Option<Arc<ProcessMemory>>, rings: &[Ring]) -> Option<Eye> {
    match (old, memory) {
        (Some(mut eye), _) => {
            eye.set_rings(rings);
            Some(eye)
        }
        (None, Some(memory)) if !rings.is_empty() => Some(Eye::new(memory, rings)),
        _ => None,
    }
}

fn is_compute(queue: &TracedQueue) -> bool {
    matches!(queue.kind, KIND_PM4 | KIND_AQL)
}

fn ring(queue: &TracedQueue) -> Ring {
    let format = if queue.kind == KIND_AQL { Format::Aql } else { Format::Pm4 };
    Ring { format, base: queue.ring, bytes: queue.bytes, rptr: queue.rptr, wptr: queue.wptr }
}
