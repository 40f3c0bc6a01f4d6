//! Executes plans: entries become commands to the actuator, its answers become reports to the core.

use gpreempt_core::{Action, Entry, EntryNumber, Error, GpuIndex, Nanos, Reason, Report, TenantId};
use gpreempt_proto::{ActuatorKind, EventKind, Mode};
use kfd::{GpuId, Pid};

use crate::actuate::{ActuatorCommand, ActuatorEvent, CommandRefusal, CommandRefusalKind, QueueChange};
use crate::clock;
use crate::control::wire::ToWire as _;

use super::kernel::Decider;
use super::sessions::{Loss, NO_TICKET, Ticket};
use super::world::{TenantKey, World};
use super::{Host, must_succeed};

/// How long a gpu is left alone after the driver said that it is being reset.
const RESET: Nanos = Nanos::from_secs(1);

/// How long a process is not stopped after the driver had no time for it.
const BUSY: Nanos = Nanos::from_secs(2);

/// What is known of the driver's call that executed a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriverCall {
    pub(super) called: Nanos,
    pub(super) answered: Nanos,
    /// Runlist cycles that count for this change.
    pub(super) cycles: u32,
}

impl Host {
    /// Asks the core and carries out what it says. `seen` is when the last look began.
    pub(super) fn decide(&mut self, seen: Nanos, now: Nanos) {
        // Where nothing is new the core says so at once, which would hide what a decision costs.
        let weighs = self.pending.take_core_informed() || self.timers.is_core_due(now);
        let kind = self.actuator_kind();
        let plan = self.core.decide(now, &kind);
        self.timers.set_core_wake(plan.wake);
        let entries = plan.entries.to_vec();
        if weighs {
            self.publisher.daemon().decision.note(clock::now().since(now));
            self.report_limits();
        }
        if entries.is_empty() {
            return;
        }
        self.publisher.daemon().decisions += 1;
        self.carry_out(&entries, seen);
    }

    /// Sends the changes of a plan as one command: an actuator that can makes them together.
    pub(super) fn carry_out(&mut self, entries: &[Entry], seen: Nanos) {
        let changes: Vec<QueueChange> = entries.iter().filter_map(|entry| self.order(entry)).collect();
        if changes.is_empty() {
            return;
        }
        let stopped: Vec<GpuId> = changes.iter().filter(|change| change.preempt).map(|change| change.gpu).collect();
        let sent_at = clock::now();
        if !self.send(&ActuatorCommand::Switch { changes, grace: self.config.grace_kiloclocks }, sent_at) {
            // Everything runs, or soon will: the loss of the actuator is told by itself.
            return;
        }
        for gpu in stopped {
            if let Some(gpu) = self.world.gpus.find(gpu).and_then(|gpu| self.world.gpus.get(gpu)) {
                self.publisher.gpu(&gpu.about).plan.note(sent_at.since(seen));
            }
        }
    }

    /// In observe mode, reports the stops of jobs that have just used their limit up.
    fn report_limits(&mut self) {
        if self.config.mode != Mode::Observe || !self.world.gpus.iter().any(|gpu| gpu.displacements.any_throttled()) {
            return;
        }
        let mut stopped = Vec::new();
        for (name, job) in &mut self.world.jobs {
            let throttled = self.core.job(job.core).is_some_and(|job| job.throttled);
            if throttled && !job.over_limit {
                let members = self.world.tenants.values().filter(|tenant| tenant.job.as_ref() == Some(name));
                stopped.extend(members.filter(|tenant| tenant.runs()).map(|tenant| tenant.key));
            }
            job.over_limit = throttled;
        }
        for key in stopped {
            self.note(key, EventKind::WouldPreempt { reason: Reason::LimitReached.to_wire(), by: None });
        }
    }

    /// Returns the change that an entry asks for; `None` if there is nothing to change.
    fn order(&mut self, entry: &Entry) -> Option<QueueChange> {
        let key = self.world.by_core(entry.tenant)?;
        let noticed = entry.why.cause.and_then(|cause| self.noticed(self.world.job_name(cause)?, key.gpu));
        let tenant = self.world.tenants.get_mut(&key)?;
        let preempt = entry.action == Action::Preempt;
        let running = tenant.about.compute.iter().map(|queue| queue.0).filter(|queue| !tenant.stopped.contains(queue));
        let queues: Vec<u32> = if preempt { running.collect() } else { tenant.stopped.iter().copied().collect() };
        if queues.is_empty() || !self.sessions.is_up() {
            // There is nothing to call the driver for, or no actuator that could.
            let stopped_queues = queues.is_empty().then_some(tenant.stopped_queues());
            let report = Report { at: clock::now(), took: Nanos::ZERO, cycles: Some(0), stopped_queues };
            self.answer_for(key, entry.number, report);
            return None;
        }
        tenant.ordered = Some(entry.number);
        let change =
            QueueChange { ticket: entry.number.0, pid: key.pid.0, gpu: key.gpu, queues: queues.clone(), preempt };
        let (Entry { number, action, why, .. }, sent_at) = (*entry, clock::now());
        self.sessions.open_ticket(Ticket { key, entry: number, action, why, queues, sent_at, noticed });
        Some(change)
    }

    /// Tells the core what became of an order that the actuator gives no answer to.
    pub(super) fn answer_for(&mut self, key: TenantKey, entry: EntryNumber, report: Report) {
        self.observe_again(key, report.at);
        if let Some(id) = self.world.tenants.get(&key).and_then(|tenant| tenant.core) {
            self.report(id, entry, report);
        }
    }

    /// Tells the core the result of an entry.
    fn report(&mut self, id: TenantId, entry: EntryNumber, report: Report) {
        match self.core.report(id, entry, report) {
            // The answer came after the core had planned anew, or after the loss of the session had been taken for it.
            // What is stopped now is observed.
            Err(Error::StaleEntry) => tracing::debug!("a late answer to entry {}", entry.0),
            outcome => drop(must_succeed(outcome)),
        }
    }

    /// A message of the actuator.
    pub(super) fn actuator_event(&mut self, told: ActuatorEvent, now: Nanos) {
        match told {
            ActuatorEvent::Started { actuator, kind } => {
                self.sessions.set_actuator(actuator, kind);
                self.publisher.daemon().actuator = Some(kind);
                match kind {
                    ActuatorKind::Kernel => self.kernel_claimed(now),
                    _ if self.decider.kernel().is_some() => self.leave_kernel(Decider::Daemon, now),
                    _ => {}
                }
                // Processes that it traces may have been reported before, and taken for those of another debugger.
                self.pending.members_changed();
                self.note_daemon(EventKind::Actuator {
                    message: format!("started as process {actuator} ({})", kind.in_words()),
                });
            }
            ActuatorEvent::Attached { pid, runtime, queues } | ActuatorEvent::Changed { pid, runtime, queues } => {
                self.session_open(Pid(pid), runtime, &queues, now);
                self.note_cycle(Pid(pid), now);
            }
            ActuatorEvent::Done { ticket, queues, failed, cycles, called_ns, answered_ns, .. } => {
                let call = DriverCall { called: Nanos(called_ns), answered: Nanos(answered_ns), cycles };
                self.command_done(ticket, &queues, &failed, call, now);
            }
            ActuatorEvent::Refused(refused) => self.command_refused(&refused, now),
            ActuatorEvent::Ended { pid } => self.session_ended(Pid(pid), now),
            ActuatorEvent::Kernel { events } => self.kernel_events(events, now),
            ActuatorEvent::PolicyApplied { batch, failed } => self.policy_applied(batch, failed, now),
            ActuatorEvent::KernelStatus(status) => self.kernel_status(&status, now),
            ActuatorEvent::Lost { why, killed } => self.actuator_lost(&Loss { why, killed }, now),
        }
    }

    fn command_done(&mut self, ticket: u64, queues: &[u32], failed: &[u32], call: DriverCall, now: Nanos) {
        let DriverCall { called, answered, .. } = call;
        let Some(ticket) = self.sessions.close_ticket(ticket) else { return };
        let by = ticket.why.cause.and_then(|cause| self.world.job_name(cause)).map(str::to_owned);
        let Some(tenant) = self.world.tenants.get_mut(&ticket.key) else {
            if ticket.action == Action::Preempt {
                self.resume_stray(ticket.key, queues.iter().chain(failed).copied().collect());
            }
            return;
        };
        tenant.ordered.take_if(|ordered| *ordered == ticket.entry);
        let changed = |queue: &u32| queues.contains(queue) || failed.contains(queue);
        for queue in &ticket.queues {
            match ticket.action {
                Action::Preempt if changed(queue) => drop(tenant.stopped.insert(*queue)),
                // It was not there any more, which will be told; meanwhile it is not waited for.
                Action::Preempt => tenant.about.compute.retain(|known| known.0 != *queue),
                Action::Resume => drop(tenant.stopped.remove(queue)),
            }
        }
        let (gpu, took) = (tenant.gpu, answered.since(called));
        if ticket.action == Action::Preempt && tenant.is_stopped() {
            tenant.note_stop(ticket.why, by.as_deref(), answered);
        }
        let stopped_queues = Some(tenant.stopped_queues());
        let (core, count) = (tenant.core, u32::from(tenant.stopped_queues()));
        if let Some(id) = core {
            self.report(id, ticket.entry, Report { at: now, took, cycles: Some(call.cycles), stopped_queues });
        }
        self.record_call(&ticket, by, gpu, call, count);
        self.note_cycle(ticket.key.pid, answered);
        self.record_stop_end(ticket.key, answered);
        self.observe_again(ticket.key, now);
        let Some(place) = self.world.gpus.get_mut(gpu) else { return };
        let mut trip = place.breaker.took(took, now, &self.config.breaker);
        if !failed.is_empty() {
            trip = trip.or(place.breaker.failed(now, &self.config.breaker));
        }
        trip.into_iter().for_each(|trip| self.tripped(gpu, trip));
    }

    /// Queues were stopped for a tenant that ended meanwhile: they are new ones with the numbers of the old. The
    /// answer is not waited for.
    fn resume_stray(&mut self, key: TenantKey, queues: Vec<u32>) {
        if !queues.is_empty() && self.sessions.is_up() {
            let change = QueueChange { ticket: NO_TICKET, pid: key.pid.0, gpu: key.gpu, queues, preempt: false };
            self.send(&ActuatorCommand::Switch { changes: vec![change], grace: None }, clock::now());
        }
    }

    /// Books a stop or a resume: statistics and log.
    pub(super) fn record_call(
        &mut self,
        ticket: &Ticket,
        by: Option<String>,
        gpu: GpuIndex,
        call: DriverCall,
        queues: u32,
    ) {
        let DriverCall { called, answered, cycles } = call;
        let Some(place) = self.world.gpus.get(gpu) else { return };
        let record = self.publisher.gpu(&place.about);
        record.cycles += u64::from(cycles);
        let took_us = answered.since(called).0 as f64 / 1e3;
        let reason = ticket.why.reason.to_wire();
        let victim = self.world.tenants.get(&ticket.key);
        match ticket.action {
            Action::Preempt => {
                record.preempts += 1;
                record.preempt.note(answered.since(ticket.sent_at));
                record.inversion.note(ticket.why.after.plus(answered.since(ticket.sent_at)));
                let after_us = ticket.why.after.0 as f64 / 1e3;
                let bound = ticket.why.bound.to_wire();
                let cause = by.clone();
                let seen_ns = ticket.noticed.map(|at| at.0);
                let kind = EventKind::Preempted { reason, by, bound, after_us, took_us, queues, seen_ns };
                self.note_by(ticket.key, kind, cause.as_deref());
            }
            Action::Resume => {
                record.resumes += 1;
                record.resume.note(answered.since(ticket.sent_at));
                let stopped = victim.and_then(|tenant| tenant.stopped_at);
                let stopped = stopped.map_or(ticket.why.after, |at| answered.since(at));
                let stopped_us = stopped.0 as f64 / 1e3;
                self.note(ticket.key, EventKind::Resumed { reason, stopped_us, took_us });
            }
        }
    }

    /// When the work of a job on a gpu was first seen.
    fn noticed(&self, job: &str, gpu: GpuId) -> Option<Nanos> {
        let here =
            self.world.tenants.values().filter(|tenant| tenant.key.gpu == gpu && tenant.job.as_deref() == Some(job));
        here.filter(|tenant| tenant.last.activity.has_work()).map(|tenant| tenant.last.noticed_at).min()
    }

    fn command_refused(&mut self, refused: &CommandRefusal, now: Nanos) {
        let Some(ticket) = refused.ticket.and_then(|ticket| self.sessions.close_ticket(ticket)) else {
            if refused.ticket.is_none() {
                self.session_refused(refused, now);
            }
            return;
        };
        let Some(tenant) = self.world.tenants.get_mut(&ticket.key) else { return };
        tenant.ordered.take_if(|ordered| *ordered == ticket.entry);
        let gpu = tenant.gpu;
        if let Some(id) = tenant.core {
            self.report(id, ticket.entry, Report { at: now, took: Nanos::ZERO, cycles: None, stopped_queues: None });
        }
        match refused.kind {
            CommandRefusalKind::Gone => {
                // If it is not the process that is gone, the session is, and a new one is needed.
                self.close_session(ticket.key.pid);
                return self.session_ended(ticket.key.pid, now);
            }
            CommandRefusalKind::Runtime | CommandRefusalKind::Debugger | CommandRefusalKind::Permission => {
                // The session is worth nothing any more; what was stopped under it is let go with it.
                self.close_session(ticket.key.pid);
                self.session_refused(refused, now);
            }
            CommandRefusalKind::Reset => self.reset(gpu, now),
            // The core tries it again; until then the process is not stopped, or not stopped any longer.
            CommandRefusalKind::Busy => return self.busy(&ticket, refused, now),
            CommandRefusalKind::Other => {}
        }
        let Some(place) = self.world.gpus.get_mut(gpu) else { return };
        self.publisher.gpu(&place.about).failures += 1;
        let trip = place.breaker.failed(now, &self.config.breaker);
        let message = refused.message.clone();
        self.note(ticket.key, EventKind::Failed { action: ticket.action.to_wire(), message });
        trip.into_iter().for_each(|trip| self.tripped(gpu, trip));
        self.pending.members_changed();
    }

    /// The driver had no time for a process: that is no failure of the gpu. Told once while it lasts.
    fn busy(&mut self, ticket: &Ticket, refused: &CommandRefusal, now: Nanos) {
        let message = refused.message.clone();
        let Some(process) = self.world.processes.get_mut(&ticket.key.pid) else { return };
        let before = process.busy.replace((message.clone(), now.plus(BUSY)));
        self.timers.wake_at(now.plus(BUSY));
        if before.is_none_or(|(_, until)| now >= until) {
            self.note(ticket.key, EventKind::Failed { action: ticket.action.to_wire(), message });
        }
        self.pending.members_changed();
    }

    pub(super) fn reset(&mut self, gpu: GpuIndex, now: Nanos) {
        self.reset_for(gpu, RESET, now);
    }

    /// The driver resets a gpu: nothing is tried there for so long, or until the end is told.
    pub(super) fn reset_for(&mut self, gpu: GpuIndex, time: Nanos, now: Nanos) {
        let Some(place) = self.world.gpus.get_mut(gpu) else { return };
        place.resetting_until = Some(now.plus(time));
        must_succeed(self.core.set_resetting(place.index, true));
        self.timers.wake_at(now.plus(time));
    }

    /// Books the end of a stop, if the tenant runs again.
    pub(super) fn record_stop_end(&mut self, key: TenantKey, now: Nanos) {
        if let Some(tenant) = self.world.tenants.get_mut(&key)
            && !tenant.is_stopped()
            && let Some(since) = tenant.stopped_at.take()
        {
            let stopped = now.since(since);
            tenant.stopped_total = tenant.stopped_total.plus(stopped);
            tenant.why = None;
            let (cause, victim) = (tenant.cause.take(), tenant.job.as_deref().unwrap_or("-"));
            self.publisher.audit_stop(now, victim, cause.as_deref(), stopped);
            if let Some(gpu) = self.world.gpus.get(tenant.gpu) {
                self.publisher.gpu(&gpu.about).stopped.note(stopped);
            }
        }
    }

    /// Gpus whose pause is over are managed again.
    pub(super) fn recover(&mut self, now: Nanos) {
        for key in self.bursts.end_long_controls(now) {
            if let Some(tenant) = self.world.tenants.get_mut(&key) {
                // From here on it is protected, so its length says nothing of either kind.
                tenant.last.contested = false;
            }
        }
        for index in self.world.gpus.indices() {
            let Some(gpu) = self.world.gpus.get_mut(index) else { continue };
            if gpu.resetting_until.is_some_and(|until| now >= until) {
                gpu.resetting_until = None;
                must_succeed(self.core.set_resetting(index, false));
            }
            gpu.breaker.quiet(now, &self.config.breaker);
            if gpu.breaker.retry(now) {
                self.note_gpu(index, EventKind::Recovered);
                self.pending.members_changed();
            }
        }
    }

    /// Asks for everything that is still to come. Only the earliest instant is remembered, and that one has passed.
    pub(super) fn rearm_timer(&mut self, now: Nanos) {
        let World { gpus, processes, jobs, .. } = &self.world;
        let gpus = gpus.iter().flat_map(|gpu| [gpu.resetting_until, gpu.breaker.open().map(|(_, until)| until)]);
        let controls = self.bursts.control_ends().map(Some);
        let holds = jobs.values().map(|job| job.held_until);
        let leaving = processes.values().map(|process| Some(process.leaving_until));
        let busy = processes.values().map(|process| process.busy.as_ref().map(|(_, until)| *until));
        let next = gpus.chain(controls).chain(holds).chain(leaving).chain(busy).chain([self.kernel_forgets_at()]);
        let next = next.flatten().filter(|&at| at > now).min();
        next.into_iter().for_each(|at| self.timers.wake_at(at));
    }
}
