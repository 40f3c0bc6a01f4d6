//! Decides which processes need a debug session: only potential victims, only under contention, only in enforce mode.

use gpreempt_core::{ActuatorKind, GpuIndex, JobId, Nanos, Report};
use gpreempt_proto::{EventKind, Mode};
use kfd::Pid;

use crate::actuate::{
    ActuatorChoice, ActuatorCommand, ActuatorOptions, CommandRefusal, CommandRefusalKind, TracedQueue,
};
use crate::clock;
use crate::discovery::{ActuatorStart, DiscoveryRequest};

use super::kernel::Decider;
use super::sessions::{Dismissal, Idleness, Loss, RESTART};
use super::world::{Session, Tenant, TenantKey};
use super::{Host, must_succeed};

/// Time before a refused session is tried again.
const RETRY: Nanos = Nanos::from_secs(1);
const RETRY_PERMISSION: Nanos = Nanos::from_secs(10);

/// How often that time doubles while refusals go on.
const DOUBLINGS: u32 = 4;

impl Host {
    /// Notes where jobs compete, and has the decider know of it. Called after every change.
    pub(super) fn apply_changes(&mut self, now: Nanos) {
        self.world.classify_tenants(&self.core);
        self.pending.core_informed();
        for index in self.world.gpus.indices() {
            let contested = self.is_contested(index);
            if let Some(gpu) = self.world.gpus.get_mut(index) {
                if contested && !gpu.contested {
                    gpu.contested_since = now;
                }
                gpu.contested = contested;
            }
        }
        match self.decider {
            Decider::Kernel(_) => self.tell_policy(now),
            Decider::Daemon => self.prepare_stops(now),
        }
    }

    /// Begins the sessions that are needed, and tells the core which tenants can be stopped.
    fn prepare_stops(&mut self, now: Nanos) {
        if self.config.mode == Mode::Enforce {
            self.begin_sessions(now);
            self.dismiss_idle_actuator(now);
        }
        let keys: Vec<TenantKey> = self.world.tenants.keys().copied().collect();
        for key in keys {
            self.update_stoppable(key, now);
        }
        let watched = self.world.gpus.iter().any(|gpu| gpu.contested);
        self.timers.set_polling(watched, now, &self.config.watch);
    }

    /// Returns whether a decision may depend on what tenants of a gpu do: one of them is held, or its job could be
    /// stopped. A job stops as a whole, so it counts on all its gpus where it meets another on one of them.
    fn is_contested(&self, gpu: GpuIndex) -> bool {
        let mut here = self.world.tenants.values().filter(|tenant| tenant.gpu == gpu && tenant.core.is_some());
        here.any(|tenant| tenant.job_id.is_some_and(|job| self.could_be_stopped(job)) || self.is_held(tenant))
    }

    fn is_held(&self, tenant: &Tenant) -> bool {
        tenant.job.as_ref().and_then(|job| self.world.jobs.get(job)).is_some_and(|job| job.held_until.is_some())
    }

    /// Returns whether the policy of one of its gpus could ever stop this job.
    fn could_be_stopped(&self, job: JobId) -> bool {
        self.world.gpus.iter().any(|gpu| gpu.displacements.could_be_stopped(job))
    }

    /// Opens sessions with the processes that need one and have none.
    fn begin_sessions(&mut self, now: Nanos) {
        let mut wanted = self.needing_sessions();
        wanted.retain(|pid| self.wants_session(*pid, now));
        if wanted.is_empty() || !self.ensure_actuator(now) {
            return;
        }
        for pid in wanted {
            let Some(process) = self.world.processes.get_mut(&pid) else { continue };
            process.session = Session::Asked { at: now };
            self.ask_for_queues(pid, now);
        }
    }

    /// Asks the actuator to take a process for a target, or to tell the queues of one that it has.
    pub(super) fn ask_for_queues(&mut self, pid: Pid, now: Nanos) {
        if let Some(process) = self.world.processes.get(&pid) {
            let order = ActuatorCommand::Attach { pid: pid.0, started: process.identity.started };
            self.send(&order, now);
        }
    }

    /// Returns the processes that need a session: all of a job of which a member is held or could be stopped, except
    /// those that a session cannot stop, and those whose rings only a session can find.
    pub(super) fn needing_sessions(&self) -> Vec<Pid> {
        let mut needing: Vec<Pid> = Vec::new();
        for job in self.world.jobs.values() {
            if job.held_until.is_some() || self.could_be_stopped(job.core) {
                let reachable = |pid: &Pid| self.world.processes.get(pid).is_none_or(|process| process.contexts == 0);
                needing.extend(job.pids.iter().copied().filter(reachable));
            }
        }
        // Where the driver's files may not be read, the process to be protected needs a session, too.
        let contested = |tenant: &Tenant| self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.contested);
        let blind = |tenant: &&Tenant| {
            tenant.core.is_some() && tenant.about.blind.as_ref().is_some_and(|blind| blind.refused) && contested(tenant)
        };
        needing.extend(self.world.tenants.values().filter(blind).map(|tenant| tenant.key.pid));
        needing.sort_unstable();
        needing.dedup();
        needing
    }

    fn wants_session(&mut self, pid: Pid, now: Nanos) -> bool {
        let Some(process) = self.world.processes.get(&pid) else { return false };
        if process.unmanaged || self.debugger(process.traced_by).is_some() {
            return false;
        }
        match process.session {
            Session::None => true,
            Session::Refused { retry_at, .. } if now >= retry_at => true,
            Session::Refused { retry_at, .. } => {
                self.timers.wake_at(retry_at);
                false
            }
            Session::Asked { .. } | Session::Open { .. } => false,
        }
    }

    /// Returns whether the actuator takes commands; else asks for its start, whose outcome changes members.
    pub(super) fn ensure_actuator(&mut self, now: Nanos) -> bool {
        match self.sessions.begin_start(now) {
            Ok(true) => {
                self.discovery.tell(DiscoveryRequest::StartActuator {
                    program: self.program.clone(),
                    options: ActuatorOptions { choice: self.config.actuator, keep: self.config.keep },
                });
                false
            }
            Ok(false) => self.sessions.is_up(),
            Err(again) => {
                self.timers.wake_at(again);
                false
            }
        }
    }

    /// Takes the outcome of a start.
    pub(super) fn actuator_start(&mut self, outcome: ActuatorStart, now: Nanos) {
        let link = match outcome {
            ActuatorStart::Started(link) => link,
            ActuatorStart::OtherDaemon(pid) => {
                let is_new = self.sessions.other_daemon() != Some(pid);
                self.timers.wake_at(self.sessions.not_started(Some(pid), now));
                if is_new {
                    let message = format!("not started: process {pid} is the actuator of another daemon on these gpus");
                    tracing::error!("{message}; nothing is stopped while it is there");
                    self.note_daemon(EventKind::Actuator { message });
                }
                return;
            }
            ActuatorStart::Failed(error) => {
                tracing::error!("cannot start the actuator: {error}; nothing is stopped until it can be");
                self.timers.wake_at(self.sessions.not_started(None, now));
                return;
            }
        };
        self.publisher.daemon().actuator_starts += 1;
        if let Some(loss) = self.sessions.started(link, now) {
            return self.actuator_lost(&loss, now);
        }
        if self.config.mode == Mode::Observe && self.config.actuator != ActuatorChoice::Kernel {
            // The configuration changed meanwhile.
            self.dismiss_actuator(Dismissal::Observing);
        }
        self.pending.members_changed();
    }

    /// Ends the actuator when there has been no process to manage for a while.
    fn dismiss_idle_actuator(&mut self, now: Nanos) {
        let has_sessions = self.world.processes.values().any(|process| !matches!(process.session, Session::None));
        match self.sessions.idleness(has_sessions, now) {
            Idleness::Busy => {}
            Idleness::Until(at) => self.timers.wake_at(at),
            Idleness::Over => self.dismiss_actuator(Dismissal::Idle),
        }
    }

    /// Dismisses the actuator: all queues run, and no process is traced. Does not wait for it. The event says why.
    pub(super) fn dismiss_actuator(&mut self, why: Dismissal) {
        if self.decider.kernel().is_some() && why != Dismissal::Renewed {
            // Without this, the kernel would keep the policy for a while.
            self.sessions.send(&ActuatorCommand::Clear);
        }
        if self.sessions.dismiss(clock::now()) {
            self.note_daemon(EventKind::Actuator { message: format!("ended: {}", why.as_str()) });
        }
    }

    /// Sends a command. An actuator that does not take it is lost, which its own report says.
    pub(super) fn send(&mut self, command: &ActuatorCommand, now: Nanos) -> bool {
        let sent = self.sessions.send(command);
        if !sent {
            tracing::warn!("the actuator takes no commands");
            self.timers.wake_at(now.plus(RESTART));
        }
        sent
    }

    pub(super) fn session_open(&mut self, pid: Pid, runtime: bool, queues: &[TracedQueue], now: Nanos) {
        let Some(process) = self.world.processes.get_mut(&pid) else {
            self.send(&ActuatorCommand::Detach { pid: pid.0 }, now);
            return;
        };
        if !matches!(process.session, Session::Asked { .. } | Session::Open { .. }) {
            // It was ended meanwhile, before this was heard.
            return;
        }
        process.session = Session::Open { runtime };
        process.refusals = 0;
        self.set_traced(pid, queues, now);
        self.pending.members_changed();
    }

    /// An order to attach was refused.
    pub(super) fn session_refused(&mut self, refused: &CommandRefusal, now: Nanos) {
        let pid = Pid(refused.pid);
        let first = match refused.kind {
            CommandRefusalKind::Permission => RETRY_PERMISSION,
            _ => RETRY,
        };
        self.note_cycle(pid, now);
        let Some(process) = self.world.processes.get_mut(&pid) else { return };
        let why = match refused.kind {
            CommandRefusalKind::Runtime => "runtime not enabled".to_string(),
            _ => refused.message.clone(),
        };
        // An attempt that fails late costs cycles of all its gpus.
        let wait = first.times(1 << process.refusals.min(DOUBLINGS));
        let told_before = process.refusals > 0;
        process.refusals = process.refusals.saturating_add(1);
        process.session = Session::Refused { why, retry_at: now.plus(wait) };
        self.timers.wake_at(now.plus(wait));
        self.pending.members_changed();
        if refused.kind != CommandRefusalKind::Gone && !told_before {
            let key = self.world.tenants_of(pid).map(|tenant| tenant.key).next();
            let message = refused.message.clone();
            key.inspect(|&key| {
                self.note(key, EventKind::Failed { action: gpreempt_proto::Action::Attach, message });
            });
        }
    }

    /// A session ended because its process did, or is no longer ours.
    pub(super) fn session_ended(&mut self, pid: Pid, now: Nanos) {
        let Some(process) = self.world.processes.get_mut(&pid) else { return };
        process.session = Session::Refused { why: "the session ended".into(), retry_at: now.plus(RETRY) };
        self.timers.wake_at(now.plus(RETRY));
        self.all_run(pid, now);
    }

    /// Takes the report that an actuator is gone: the driver has resumed everything, or the kernel goes on without it.
    pub(super) fn actuator_lost(&mut self, loss: &Loss, now: Nanos) {
        let Some(restart_at) = self.sessions.lost(loss, now) else { return };
        let Loss { why, killed } = loss;
        self.publisher.daemon().actuator_kills += u64::from(*killed);
        self.timers.wake_at(restart_at);
        if self.decider.kernel().is_some() {
            return self.kernel_alone(loss, now);
        }
        tracing::warn!("the actuator ended: {why}; all queues run");
        let pids: Vec<Pid> = self.world.processes.keys().copied().collect();
        for pid in pids {
            if let Some(process) = self.world.processes.get_mut(&pid) {
                process.session = Session::None;
            }
            self.all_run(pid, now);
        }
        self.note_daemon(EventKind::Actuator { message: format!("lost: {why}") });
        self.pending.members_changed();
    }

    /// Whatever of a process was stopped runs again, by other means than an order.
    pub(super) fn all_run(&mut self, pid: Pid, now: Nanos) {
        self.note_cycle(pid, now);
        let keys: Vec<TenantKey> = self.world.tenants_of(pid).map(|tenant| tenant.key).collect();
        for key in keys {
            let ordered = self.world.tenants.get_mut(&key).and_then(|tenant| {
                tenant.stopped.clear();
                tenant.ordered.take()
            });
            self.record_stop_end(key, now);
            match ordered {
                // Its answer does not come any more, and the core would wait for it.
                Some(entry) => {
                    let report = Report { at: now, took: Nanos::ZERO, cycles: None, stopped_queues: Some(0) };
                    self.answer_for(key, entry, report);
                }
                None => self.observe_again(key, now),
            }
        }
        self.pending.members_changed();
    }

    /// Ends the session with a process, if there is one; the driver resumes what of it is stopped.
    pub(super) fn close_session(&mut self, pid: Pid) {
        let open = self.world.processes.get(&pid).is_some_and(|process| process.session != Session::None);
        if open {
            self.end_session(pid);
            if let Some(process) = self.world.processes.get_mut(&pid) {
                process.session = Session::None;
            }
            self.all_run(pid, clock::now());
        }
    }

    pub(super) fn end_session(&mut self, pid: Pid) {
        self.sessions.drop_tickets(pid);
        if self.sessions.is_up() {
            self.send(&ActuatorCommand::Detach { pid: pid.0 }, clock::now());
        }
    }

    /// Returns the tracer, unless it is our actuator. The combined actuator traces nothing, so that no
    /// debugger is in its way.
    pub(super) fn debugger(&self, tracer: Option<Pid>) -> Option<Pid> {
        if self.actuator_kind() == ActuatorKind::Combined {
            return None;
        }
        tracer.filter(|tracer| self.sessions.actuator_pid() != Some(tracer.0))
    }

    /// Returns why a tenant cannot be stopped, for people; `None` if it can, or if no job needs it stopped.
    pub(super) fn unstoppable(&self, tenant: &Tenant, now: Nanos) -> Option<String> {
        let process = self.world.processes.get(&tenant.key.pid)?;
        if process.unmanaged {
            return Some("unmanaged by the operator".into());
        }
        if let Some(debugger) = self.debugger(process.traced_by) {
            return Some(format!("debugger {debugger} is attached"));
        }
        if process.contexts > 0 {
            return Some(format!("{} of its contexts are out of reach of a debug session", process.contexts));
        }
        if let Some((answer, _)) = process.busy.as_ref().filter(|(_, until)| now < *until) {
            return Some(format!("the driver is busy with it: {answer}"));
        }
        if now < process.leaving_until {
            return Some("it wants to end, or to destroy a queue".into());
        }
        if let Some(kernel) = self.decider.kernel() {
            return kernel.unstoppable(tenant.key);
        }
        match &process.session {
            Session::Open { runtime: false } => Some("runtime not enabled".into()),
            Session::Refused { why, .. } => Some(why.clone()),
            Session::None if self.sessions.other_daemon().is_some() => Some("another daemon manages this gpu".into()),
            _ => tenant.about.blind.as_ref().filter(|_| tenant.probe.is_none()).map(|blind| blind.why.clone()),
        }
    }

    fn update_stoppable(&mut self, key: TenantKey, now: Nanos) {
        let Some(tenant) = self.world.tenants.get(&key) else { return };
        let Some(id) = tenant.core else { return };
        let Some(process) = self.world.processes.get(&key.pid) else { return };
        let Some(gpu) = self.world.gpus.get(tenant.gpu) else { return };
        let control = self.bursts.control_on(tenant.gpu).is_some_and(|control| control != key);
        let able = matches!(process.session, Session::Open { runtime: true })
            && self.config.mode == Mode::Enforce
            && gpu.breaker.open().is_none()
            && !control
            && self.unstoppable(tenant, now).is_none();
        if able == tenant.stoppable {
            return;
        }
        must_succeed(self.core.set_stoppable(id, able));
        if let Some(tenant) = self.world.tenants.get_mut(&key) {
            tenant.stoppable = able;
        }
    }
}
