//! Carrying plans out: entries become orders, answers become reports.

use std::collections::BTreeMap;

use gpreempt_core::{Action, ActuatorKind, Entry, Nanos, Reason, Report, Why};
use gpreempt_proto::EventKind;
use kfd::Pid;

use crate::actuate::{Order, Refused, RefusedKind, Told};
use crate::clock;
use crate::control::wire::ToWire as _;

use super::Engine;
use super::world::{Name, World};

/// How long a gpu is left alone after the driver said that it is being reset.
const RESET: Nanos = Nanos::from_secs(1);

/// The actuator of a stock kernel: one cycle per process and gpu, each way.
const COST: ActuatorKind = ActuatorKind::DebugTrap;

/// An order under way.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) name: Name,
    pub(super) action: Action,
    pub(super) why: Why,
    pub(super) queues: Vec<u32>,
    pub(super) sent_at: Nanos,
    /// When the work on whose account this is was first seen.
    pub(super) noticed: Option<Nanos>,
}

/// Orders under way.
pub(super) type Tickets = BTreeMap<u64, Ticket>;

impl Engine {
    /// Asks the core and carries out what it says. `seen` is when the last look began.
    pub(super) fn decide(&mut self, seen: Nanos, now: Nanos) {
        // Where nothing is new the core says so at once, which would hide what a decision costs.
        let weighs = std::mem::take(&mut self.news) || now >= self.core_wake;
        let plan = self.core.decide(now, &COST);
        self.core_wake = plan.wake;
        self.overcommitted = plan.overcommitted;
        if weighs {
            self.record.daemon.decision.note(clock::now().since(now));
        }
        if plan.entries.is_empty() {
            return;
        }
        let entries = plan.entries.to_vec();
        self.record.daemon.decisions += 1;
        for entry in &entries {
            self.order(entry, seen);
        }
    }

    fn order(&mut self, entry: &Entry, seen: Nanos) {
        let Some(name) = self.world.by_core(entry.tenant) else { return };
        let noticed = entry.why.cause.and_then(|cause| self.noticed(self.world.job_name(cause)?, name.1));
        let Some(tenant) = self.world.tenants.get_mut(&name) else { return };
        let preempt = entry.action == Action::Preempt;
        let running = tenant.about.compute.iter().map(|queue| queue.0).filter(|queue| !tenant.stopped.contains(queue));
        let queues: Vec<u32> = if preempt { running.collect() } else { tenant.stopped.iter().copied().collect() };
        if queues.is_empty() || self.actuator.link.is_none() {
            // There is nothing to call the driver for, or nobody who could.
            let stopped_queues = queues.is_empty().then_some(tenant.stopped_queues());
            return self.answer_for(name, entry.action, stopped_queues, clock::now());
        }
        tenant.ordered = Some(entry.action);
        let gpu = tenant.gpu;
        self.next_ticket += 1;
        let (ticket, pid) = (self.next_ticket, name.0.0);
        let asked = queues.clone();
        let order = match entry.action {
            Action::Preempt => Order::Suspend { ticket, pid, queues, grace: self.config.grace_kiloclocks },
            Action::Resume => Order::Resume { ticket, pid, queues },
        };
        let sent_at = clock::now();
        let record = Ticket { name, action: entry.action, why: entry.why, queues: asked, sent_at, noticed };
        self.tickets.insert(ticket, record);
        if !self.send(&order, sent_at) {
            // Everything runs, or soon will: the loss of the actuator is told by itself.
            return;
        }
        if preempt {
            let place = &self.world.gpus[gpu];
            self.record.gpu(place.about.id.0, &place.about.address).plan.note(sent_at.since(seen));
        }
    }

    /// Tells the core what became of an order that the actuator gives no answer to.
    pub(super) fn answer_for(&mut self, name: Name, action: Action, stopped_queues: Option<u16>, now: Nanos) {
        self.observe_again(name, now);
        if let Some(id) = self.world.tenants.get(&name).and_then(|tenant| tenant.core) {
            let _ = self.core.report(id, action, Report { at: now, took: Nanos::ZERO, stopped_queues });
        }
    }

    /// A message of the actuator.
    pub(super) fn told(&mut self, told: Told, now: Nanos) {
        match told {
            Told::Started { actuator } => {
                self.actuator.pid = Some(actuator);
                // Who is traced by it was perhaps told before, and taken for a foreigner's.
                self.changed = true;
                self.note_machine(EventKind::Actuator { message: format!("started as process {actuator}") });
            }
            Told::Attached { pid, runtime, queues } | Told::Changed { pid, runtime, queues } => {
                self.session_open(Pid(pid), runtime, &queues, now);
                self.bounced(Pid(pid), now);
            }
            Told::Done { ticket, queues, failed, called_ns, answered_ns, .. } => {
                self.done(ticket, &queues, &failed, Nanos(called_ns), Nanos(answered_ns), now);
            }
            Told::Refused(refused) => self.refused(&refused, now),
            Told::Ended { pid } => self.session_ended(Pid(pid), now),
            Told::Lost { why, killed } => self.actuator_lost(&why, killed, now),
        }
    }

    fn done(&mut self, ticket: u64, queues: &[u32], failed: &[u32], called: Nanos, answered: Nanos, now: Nanos) {
        let Some(ticket) = self.tickets.remove(&ticket) else { return };
        let by = ticket.why.cause.and_then(|cause| self.world.job_name(cause)).map(str::to_owned);
        let Some(tenant) = self.world.tenants.get_mut(&ticket.name) else {
            if ticket.action == Action::Preempt {
                self.let_run(ticket.name.0, queues.iter().chain(failed).copied().collect());
            }
            return;
        };
        tenant.ordered = None;
        let changed = |queue: &u32| queues.contains(queue) || failed.contains(queue);
        for queue in &ticket.queues {
            match ticket.action {
                Action::Preempt if changed(queue) => drop(tenant.stopped.insert(*queue)),
                // It was not there any more, which will be told; meanwhile nobody waits for it.
                Action::Preempt => tenant.about.compute.retain(|known| known.0 != *queue),
                Action::Resume => drop(tenant.stopped.remove(queue)),
            }
        }
        let (gpu, took) = (tenant.gpu, answered.since(called));
        if ticket.action == Action::Preempt && tenant.is_stopped() {
            tenant.preempted += u64::from(tenant.stopped_at.is_none());
            tenant.stopped_at.get_or_insert(answered);
            tenant.why = Some(ticket.why);
            let by_rule = || (ticket.why.reason != Reason::Held).then(|| ticket.why.reason.to_wire().to_string());
            tenant.cause = by.clone().or_else(by_rule);
        }
        let stopped_queues = Some(tenant.stopped_queues());
        let (core, count) = (tenant.core, u32::from(tenant.stopped_queues()));
        if let Some(id) = core {
            let _ = self.core.report(id, ticket.action, Report { at: now, took, stopped_queues });
        }
        self.record_call(&ticket, by, gpu, called, answered, count);
        self.bounced(ticket.name.0, answered);
        self.settle_stop(ticket.name, answered);
        self.observe_again(ticket.name, now);
        let place = &mut self.world.gpus[gpu];
        place.measured = true;
        let mut trip = place.breaker.took(took, now, &self.config.breaker);
        if !failed.is_empty() {
            trip = trip.or(place.breaker.failed(now, &self.config.breaker));
        }
        trip.into_iter().for_each(|trip| self.tripped(gpu, trip));
    }

    /// Queues were stopped for a tenant that ended meanwhile: they are new ones with the numbers of the old. Nobody waits for
    /// the answer.
    fn let_run(&mut self, pid: Pid, queues: Vec<u32>) {
        if !queues.is_empty() && self.actuator.link.is_some() {
            self.next_ticket += 1;
            self.send(&Order::Resume { ticket: self.next_ticket, pid: pid.0, queues }, clock::now());
        }
    }

    fn record_call(
        &mut self,
        ticket: &Ticket,
        by: Option<String>,
        gpu: usize,
        called: Nanos,
        answered: Nanos,
        queues: u32,
    ) {
        let place = &self.world.gpus[gpu];
        let record = self.record.gpu(place.about.id.0, &place.about.address);
        record.cycles += 1;
        let took_us = answered.since(called).0 as f64 / 1e3;
        let reason = ticket.why.reason.to_wire();
        let victim = self.world.tenants.get(&ticket.name);
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
                self.note_by(ticket.name, kind, cause.as_deref());
            }
            Action::Resume => {
                record.resumes += 1;
                record.resume.note(answered.since(ticket.sent_at));
                let stopped = victim.and_then(|tenant| tenant.stopped_at).map_or(Nanos::ZERO, |at| answered.since(at));
                let stopped_us = stopped.0 as f64 / 1e3;
                self.note(ticket.name, EventKind::Resumed { reason, stopped_us, took_us });
            }
        }
    }

    /// When the work of a job on a gpu was first seen.
    fn noticed(&self, job: &str, gpu: u32) -> Option<Nanos> {
        let here =
            self.world.tenants.values().filter(|tenant| tenant.name.1 == gpu && tenant.job.as_deref() == Some(job));
        here.filter(|tenant| tenant.seen.activity.has_work()).map(|tenant| tenant.seen.noticed_at).min()
    }

    fn refused(&mut self, refused: &Refused, now: Nanos) {
        let Some(ticket) = refused.ticket.and_then(|ticket| self.tickets.remove(&ticket)) else {
            if refused.ticket.is_none() {
                self.session_refused(refused, now);
            }
            return;
        };
        let Some(tenant) = self.world.tenants.get_mut(&ticket.name) else { return };
        tenant.ordered = None;
        let gpu = tenant.gpu;
        if let Some(id) = tenant.core {
            let report = Report { at: now, took: Nanos::ZERO, stopped_queues: None };
            let _ = self.core.report(id, ticket.action, report);
        }
        match refused.kind {
            RefusedKind::Gone => {
                // If it is not the process that is gone, the session is, and a new one is needed.
                self.release_process(ticket.name.0);
                return self.session_ended(ticket.name.0, now);
            }
            RefusedKind::Runtime | RefusedKind::Debugger | RefusedKind::Permission => {
                // The session is worth nothing any more; what was stopped under it is let go with it.
                self.release_process(ticket.name.0);
                self.session_refused(refused, now);
            }
            RefusedKind::Reset => self.reset(gpu, now),
            RefusedKind::Other => {}
        }
        let place = &mut self.world.gpus[gpu];
        self.record.gpu(place.about.id.0, &place.about.address).failures += 1;
        let trip = place.breaker.failed(now, &self.config.breaker);
        let message = refused.message.clone();
        self.note(ticket.name, EventKind::Failed { action: ticket.action.to_wire(), message });
        trip.into_iter().for_each(|trip| self.tripped(gpu, trip));
        self.changed = true;
    }

    pub(super) fn reset(&mut self, gpu: usize, now: Nanos) {
        let place = &mut self.world.gpus[gpu];
        place.resetting_until = Some(now.plus(RESET));
        let _ = self.core.set_resetting(place.slot, true);
        self.ask_at(now.plus(RESET));
    }

    /// Books the end of a stop, if the tenant runs again.
    pub(super) fn settle_stop(&mut self, name: Name, now: Nanos) {
        if let Some(tenant) = self.world.tenants.get_mut(&name)
            && !tenant.is_stopped()
            && let Some(since) = tenant.stopped_at.take()
        {
            let stopped = now.since(since);
            tenant.stopped_total = tenant.stopped_total.plus(stopped);
            tenant.why = None;
            let (cause, victim) = (tenant.cause.take(), tenant.job.as_deref().unwrap_or("-"));
            self.audit.note(now, victim, cause.as_deref(), 1, stopped);
            if let Some(gpu) = self.world.gpus.get(tenant.gpu) {
                self.record.gpu(gpu.about.id.0, &gpu.about.address).stopped.note(stopped);
            }
        }
    }

    /// Gpus whose pause is over are managed again.
    pub(super) fn recover(&mut self, now: Nanos) {
        for gpu in 0..self.world.gpus.len() {
            let place = &mut self.world.gpus[gpu];
            if place.resetting_until.is_some_and(|until| now >= until) {
                place.resetting_until = None;
                let _ = self.core.set_resetting(place.slot, false);
            }
            if now >= place.spared_until
                && let Some(name) = place.spared_for.take()
                && let Some(tenant) = self.world.tenants.get_mut(&name)
            {
                // From here on it is protected, so its length says nothing of either kind.
                tenant.seen.contested = false;
            }
            place.breaker.quiet(now, &self.config.breaker);
            if place.breaker.retry(now) {
                self.note_gpu(gpu, EventKind::Recovered);
                self.changed = true;
            }
        }
    }

    /// Asks for everything that is still to come. Only the earliest instant is remembered, and that one has passed.
    pub(super) fn ask_for_what_lies_ahead(&mut self, now: Nanos) {
        let World { gpus, processes, jobs, .. } = &self.world;
        let places = gpus.iter().flat_map(|gpu| {
            let spared = gpu.spared_for.map(|_| gpu.spared_until);
            [gpu.resetting_until, gpu.breaker.open().map(|(_, until)| until), spared]
        });
        let holds = jobs.values().map(|job| job.held_until);
        let leaving = processes.values().map(|process| Some(process.leaving_until));
        let next = places.chain(holds).chain(leaving).flatten().filter(|&at| at > now).min();
        next.into_iter().for_each(|at| self.ask_at(at));
    }
}
