//! Builds the status snapshot from what is known. It polls nothing and tells the core nothing: a client that asks for
//! the status changes no decision, and no memory is read that is not read anyway.

use gpreempt_core::{Activity, GpuIndex, Level, Nanos, bounds};
use gpreempt_proto::{
    Bounds, Breaker, GpuStatus, JobStatus, QueueClass, QueueStatus, State, Status, TenantStatus, VERSION, Why,
};

use crate::config::ACTUATOR;
use crate::control::wire::ToWire as _;
use crate::record::CpuTimes;

use super::Host;
use super::world::{Gpu, Tenant};

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

fn millis(time: Nanos) -> Option<f64> {
    (time < Nanos::NEVER).then_some(time.0 as f64 / 1e6)
}

impl Host {
    /// Publishes status and statistics.
    pub(super) fn publish_status(&mut self, now: Nanos) {
        let status = self.status(now);
        self.publisher.daemon().watch_period = self.timers.poll_period();
        self.publisher.publish(status, now, CpuTimes::read(self.sessions.actuator_pid()));
    }

    pub(super) fn status(&mut self, now: Nanos) -> Status {
        let present: Vec<GpuIndex> = self.world.gpus.iter().filter(|gpu| gpu.present).map(|gpu| gpu.index).collect();
        let gpus = present.into_iter().filter_map(|gpu| self.gpu_status(gpu, now)).collect();
        let names: Vec<String> = self.world.jobs.keys().cloned().collect();
        let mut jobs: Vec<JobStatus> = names.iter().filter_map(|name| self.job_status(name, now)).collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job.level));
        let mut tenants: Vec<TenantStatus> =
            self.world.tenants.values().map(|tenant| self.tenant_status(tenant, now)).collect();
        tenants.sort_by(|a, b| (&a.gpu, std::cmp::Reverse(a.level)).cmp(&(&b.gpu, std::cmp::Reverse(b.level))));
        Status {
            schema: VERSION,
            daemon_pid: std::process::id(),
            actuator_pid: self.sessions.actuator_pid(),
            mode: self.config.mode,
            uptime_s: seconds(now.since(self.started)),
            config: self.config.source.as_ref().map(|path| path.display().to_string()),
            gpus,
            jobs,
            tenants,
        }
    }

    fn gpu_status(&mut self, index: GpuIndex, now: Nanos) -> Option<GpuStatus> {
        let core = self.core.gpu(index);
        let holder = core.and_then(|gpu| gpu.holder).and_then(|job| self.world.job_name(job)).map(str::to_owned);
        let Gpu { about, params, breaker, measured, resetting_until, .. } = self.world.gpus.get(index)?;
        Some(GpuStatus {
            gpu: about.address.clone(),
            gpu_id: about.id.0,
            name: about.name.clone(),
            policy: params.policy.to_wire(),
            holder,
            cycle_us: core.map_or(0.0, |gpu| gpu.cycle.0 as f64 / 1e3),
            cycle_measured: *measured,
            breaker: breaker
                .open()
                .map(|(reason, until)| Breaker { message: reason.into(), retry_in_s: seconds(until.since(now)) }),
            resetting: resetting_until.is_some(),
            overcommitted: self.overcommitted.has(index),
        })
    }

    fn job_status(&mut self, name: &str, now: Nanos) -> Option<JobStatus> {
        let job = self.world.jobs.get(name)?;
        let (core, level, max_level) = (job.core, job.level(), job.max_level);
        let (rule, pids) = (job.rule.clone(), job.pids.iter().map(|pid| pid.0).collect());
        let (level_set, held) = (job.level.is_some(), job.held_until);
        Some(JobStatus {
            job: name.into(),
            level: level.get(),
            max_level: max_level.get(),
            level_set,
            rule,
            pids,
            held_s: held.map(|until| seconds(until.since(now))),
            bounds: Some(self.bounds(name, core)),
        })
    }

    fn bounds(&mut self, name: &str, job: gpreempt_core::JobId) -> Bounds {
        let detection = self.timers.poll_period().unwrap_or_else(|| Nanos::from(self.config.scan));
        let gpus: Vec<_> = self
            .world
            .tenants
            .values()
            .filter(|tenant| tenant.job.as_deref() == Some(name))
            .filter_map(|tenant| self.world.gpus.get(tenant.gpu).map(|gpu| gpu.index))
            .collect();
        let longest = gpus
            .into_iter()
            .filter_map(|gpu| self.core.inversion_bound(gpu, job, detection, &ACTUATOR))
            .map(|terms| bounds::inversion(&terms))
            .max();
        let starvation = self.core.starvation_bound(job, detection).map(|terms| bounds::starvation(&terms));
        Bounds { inversion_ms: longest.and_then(millis), starvation_ms: starvation.and_then(millis) }
    }

    fn tenant_status(&self, tenant: &Tenant, now: Nanos) -> TenantStatus {
        let process = self.world.processes.get(&tenant.key.pid);
        let identity = process.map(|process| process.identity.clone()).unwrap_or_default();
        let gpu = self.world.gpus.get(tenant.gpu);
        let watched = gpu.is_some_and(|gpu| gpu.contested) && tenant.probe.is_some();
        let state = state(tenant, watched);
        let since = if state == State::Stopped { tenant.stopped_at } else { None };
        let stopped_now = tenant.stopped_at.map_or(Nanos::ZERO, |at| now.since(at));
        let queue = |kind: QueueClass| {
            move |queue: &kfd::QueueId| QueueStatus { queue: queue.0, kind, stopped: tenant.stopped.contains(&queue.0) }
        };
        let compute = tenant.about.compute.iter().map(queue(QueueClass::Compute));
        TenantStatus {
            gpu: gpu.map(|gpu| gpu.about.address.clone()).unwrap_or_default(),
            gpu_id: tenant.key.gpu.0,
            pid: tenant.key.pid.0,
            container_pid: identity.container_pid,
            command: command(&identity.executable),
            container: identity.container,
            user: process.map(|process| process.user.clone()).unwrap_or_default(),
            uid: identity.uid,
            job: tenant.job.clone(),
            level: tenant.level.map(Level::get),
            state,
            since_s: seconds(now.since(since.unwrap_or(tenant.last.changed_at))),
            why: tenant.why.map(|reason| Why {
                reason: reason.reason.to_wire(),
                by: reason.cause.and_then(|cause| self.world.job_name(cause)).map(str::to_owned),
            }),
            unstoppable: self.unstoppable(tenant, now),
            attached: process.is_some_and(|process| matches!(process.session, super::world::Session::Open { .. })),
            pending: if watched { tenant.last.pending } else { 0 },
            vram: tenant.about.vram,
            preempted: tenant.preempted,
            stopped_s: seconds(tenant.stopped_total.plus(stopped_now)),
            queues: compute.chain(tenant.about.sdma.iter().map(queue(QueueClass::Sdma))).collect(),
        }
    }
}

/// Returns the state for display. Rings are polled only where jobs compete, so that of other tenants is unknown.
fn state(tenant: &Tenant, watched: bool) -> State {
    if tenant.is_stopped() {
        return State::Stopped;
    }
    if !watched || tenant.last.at == Nanos::ZERO {
        return State::Unknown;
    }
    match tenant.last.activity {
        Activity::Idle => State::Idle,
        Activity::Wants => State::Wants,
        Activity::Running => State::Running,
        Activity::Blocked => State::Blocked,
        Activity::Evicted => State::Evicted,
    }
}

/// The file name of an executable.
fn command(executable: &str) -> String {
    executable.rsplit('/').next().unwrap_or(executable).to_string()
}
