//! Builds the status snapshot from what is known. It polls nothing and tells the core nothing: a client that asks for
//! the status changes no decision, and no memory is read that is not read anyway.

use gpreempt_core::{Activity, GpuIndex, JobId, Level, Nanos, bounds};
use gpreempt_kernel_abi::GpuFlags;
use gpreempt_proto::{
    Bounds, Breaker, GpuStatus, JobStatus, QueueClass, QueueStatus, State, Status, TenantStatus, VERSION, Why,
};

use kfd::GpuId;

use crate::control::wire::ToWire as _;
use crate::record::CpuTimes;

use super::Host;
use super::kernel::Decider;
use super::world::{Gpu, Job, Session, Tenant};

/// What a scheduler has on a gpu.
#[derive(Debug, Default)]
struct Decided {
    holder: Option<String>,
    cycle: Nanos,
    measured: bool,
    overcommitted: bool,
}

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

    pub(super) fn status(&self, now: Nanos) -> Status {
        let present = self.world.gpus.iter().filter(|gpu| gpu.present);
        let gpus = present.map(|gpu| self.gpu_status(gpu, now)).collect();
        let mut jobs: Vec<JobStatus> =
            self.world.jobs.iter().map(|(name, job)| self.job_status(name, job, now)).collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job.level));
        let mut tenants: Vec<TenantStatus> =
            self.world.tenants.values().map(|tenant| self.tenant_status(tenant, now)).collect();
        tenants.sort_by(|a, b| (&a.gpu, std::cmp::Reverse(a.level)).cmp(&(&b.gpu, std::cmp::Reverse(b.level))));
        Status {
            schema: VERSION,
            daemon_pid: std::process::id(),
            actuator_pid: self.sessions.actuator_pid(),
            actuator: self.sessions.actuator_pid().and(self.sessions.kind()),
            mode: self.config.mode,
            uptime_s: seconds(now.since(self.started)),
            config: self.config.source.as_ref().map(|path| path.display().to_string()),
            gpus,
            jobs,
            tenants,
        }
    }

    fn gpu_status(&self, gpu: &Gpu, now: Nanos) -> GpuStatus {
        let Gpu { about, params, breaker, index, resetting_until, .. } = gpu;
        let Decided { holder, cycle, measured, overcommitted } = self.decided(about.id, *index);
        GpuStatus {
            gpu: about.address.clone(),
            gpu_id: about.id.0,
            name: about.name.clone(),
            policy: params.policy.to_wire(),
            holder,
            cycle_us: cycle.0 as f64 / 1e3,
            cycle_measured: measured,
            breaker: breaker
                .open()
                .map(|(reason, until)| Breaker { message: reason.into(), retry_in_s: seconds(until.since(now)) }),
            resetting: resetting_until.is_some(),
            overcommitted,
        }
    }

    /// Returns what the scheduler that decides has on a gpu.
    fn decided(&self, id: GpuId, index: GpuIndex) -> Decided {
        if let Some(gpu) = self.kernel_gpu(id) {
            return Decided {
                holder: self.kernel_job(gpu.holder).map(str::to_owned),
                cycle: Nanos(gpu.cycle_ns),
                measured: gpu.flags.has(GpuFlags::MEASURED),
                overcommitted: gpu.flags.has(GpuFlags::OVERCOMMITTED),
            };
        }
        let Some(gpu) = self.core.gpu(index) else { return Decided::default() };
        Decided {
            holder: gpu.holder.and_then(|job| self.world.job_name(job)).map(str::to_owned),
            cycle: gpu.cycle,
            measured: gpu.measured,
            overcommitted: gpu.overcommitted,
        }
    }

    fn job_status(&self, name: &str, job: &Job, now: Nanos) -> JobStatus {
        JobStatus {
            job: name.into(),
            level: job.level().get(),
            max_level: job.max_level.get(),
            level_set: job.level.is_some(),
            rule: job.rule.clone(),
            pids: job.pids.iter().map(|pid| pid.0).collect(),
            held_s: job.held_until.map(|until| seconds(until.since(now))),
            bounds: Some(self.bounds(job.core)),
        }
    }

    fn bounds(&self, job: JobId) -> Bounds {
        let detection = match self.decider {
            Decider::Kernel(_) => Nanos::from(self.config.watch.kernel_period),
            Decider::Daemon => self.timers.poll_period().unwrap_or_else(|| Nanos::from(self.config.scan)),
        };
        let members = self.core.tenants().filter_map(|id| self.core.tenant(id)).filter(|tenant| tenant.job == job);
        let longest = members
            .filter_map(|tenant| self.core.inversion_bound(tenant.gpu, job, detection, &self.actuator_kind()))
            .map(|terms| bounds::inversion(&terms))
            .max();
        let starvation = self.core.starvation_bound(job, detection).map(|terms| bounds::starvation(&terms));
        Bounds { inversion_ms: longest.and_then(millis), starvation_ms: starvation.and_then(millis) }
    }

    fn tenant_status(&self, tenant: &Tenant, now: Nanos) -> TenantStatus {
        let process = self.world.processes.get(&tenant.key.pid);
        let identity = process.map(|process| process.identity.clone()).unwrap_or_default();
        let gpu = self.world.gpus.get(tenant.gpu);
        let (watched, attached) = match self.decider.kernel() {
            Some(kernel) => (kernel.watches(tenant.key), kernel.has(tenant.key.pid)),
            None => {
                let open = process.is_some_and(|process| matches!(process.session, Session::Open { .. }));
                (gpu.is_some_and(|gpu| gpu.contested) && tenant.probe.is_some(), open)
            }
        };
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
            attached,
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
