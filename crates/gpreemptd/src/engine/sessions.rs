//! Whom to attach: only who could be stopped, only when two levels really meet, only when the daemon may act.

use gpreempt_core::{Nanos, PolicyKind};
use gpreempt_proto::{EventKind, Mode};
use kfd::Pid;

use crate::actuate::{Link, Order, Refused, RefusedKind, TracedQueue};
use crate::rival;

use super::Engine;
use super::world::{Job, Name, Session, Tenant};

/// How long after a refusal a session is tried again.
const RETRY: Nanos = Nanos::from_secs(1);
const RETRY_PERMISSION: Nanos = Nanos::from_secs(10);

/// How often that time doubles while refusals go on.
const DOUBLINGS: u32 = 4;

/// How long the actuator stays without anybody to manage.
const IDLE: Nanos = Nanos::from_secs(5);

/// First and longest time before a lost actuator is started again.
const RESTART: Nanos = Nanos::from_millis(50);
const RESTART_LONGEST: Nanos = Nanos::from_secs(2);

/// The way to the actuator, and when it may be started.
#[derive(Debug, Default)]
pub(super) struct Actuator {
    pub(super) link: Option<Link>,
    pub(super) pid: Option<u32>,
    /// The actuator of another daemon, as of the last attempt to start ours.
    pub(super) rival: Option<Pid>,
    start_at: Nanos,
    delay: Nanos,
    started_at: Nanos,
    idle_since: Option<Nanos>,
    /// Actuators that were sent away and have not been reported lost yet, and when the last was.
    farewells: u32,
    sent_away_at: Nanos,
}

impl Engine {
    /// Notes where two levels meet, begins the sessions that are needed, and tells the core who can be stopped. Called after
    /// every change.
    pub(super) fn settle_members(&mut self, now: Nanos) {
        self.world.sort_tenants();
        self.news = true;
        for index in 0..self.world.gpus.len() {
            let contested = self.is_contested(index);
            let gpu = &mut self.world.gpus[index];
            if contested && !gpu.contested {
                gpu.contested_since = now;
            }
            gpu.contested = contested;
        }
        if self.config.mode == Mode::Enforce {
            self.begin_sessions(now);
            self.rest_actuator(now);
        }
        let names: Vec<Name> = self.world.tenants.keys().copied().collect();
        for name in names {
            self.tell_stoppable(name, now);
        }
        let watched = self.world.gpus.iter().any(|gpu| gpu.contested);
        self.pace.watch(watched, now, &self.config.watch);
    }

    /// Whether tenants on a gpu could get into each other's way.
    fn is_contested(&self, gpu: usize) -> bool {
        let here: Vec<&Tenant> =
            self.world.tenants.values().filter(|tenant| tenant.gpu == gpu && tenant.core.is_some()).collect();
        here.iter().any(|tenant| self.could_be_stopped(tenant) || self.is_held(tenant))
    }

    fn is_held(&self, tenant: &Tenant) -> bool {
        tenant.job.as_ref().and_then(|job| self.world.jobs.get(job)).is_some_and(|job| job.held_until.is_some())
    }

    /// Whether another job on the same gpu could displace this tenant.
    fn could_be_stopped(&self, tenant: &Tenant) -> bool {
        let Some(gpu) = self.world.gpus.get(tenant.gpu) else { return false };
        let Some(mine) = tenant.job.as_ref().and_then(|job| self.world.jobs.get(job)) else { return false };
        let displaces = |other: &Job| match gpu.params.policy {
            PolicyKind::Priority if gpu.params.slice > Nanos::ZERO => other.level() >= mine.level(),
            PolicyKind::Priority => other.level() > mine.level(),
            PolicyKind::Fair | PolicyKind::Deadline => true,
        };
        let throttled = gpu.params.policy == PolicyKind::Fair && mine.params.limit < gpreempt_core::Permille::ALL;
        let others = self.world.tenants.values().filter(|other| other.gpu == tenant.gpu && other.job != tenant.job);
        throttled || others.filter_map(|other| self.world.jobs.get(other.job.as_ref()?)).any(displaces)
    }

    fn begin_sessions(&mut self, now: Nanos) {
        let mut wanted: Vec<Pid> = Vec::new();
        for (name, job) in &self.world.jobs {
            let members = || self.world.tenants.values().filter(|tenant| tenant.job.as_deref() == Some(name.as_str()));
            if job.held_until.is_some() || members().any(|tenant| self.could_be_stopped(tenant)) {
                wanted.extend(job.pids.iter().copied());
            }
        }
        // Where the driver's files may not be read, only a session tells where rings are: that of the one to be protected, too.
        let contested = |tenant: &Tenant| self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.contested);
        let blind = |tenant: &&Tenant| {
            tenant.core.is_some() && tenant.about.blind.as_ref().is_some_and(|blind| blind.refused) && contested(tenant)
        };
        wanted.extend(self.world.tenants.values().filter(blind).map(|tenant| tenant.name.0));
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|pid| self.wants_session(*pid, now));
        if wanted.is_empty() || !self.start_actuator(now) {
            return;
        }
        for pid in wanted {
            let Some(process) = self.world.processes.get_mut(&pid) else { continue };
            process.session = Session::Asked { at: now };
            let order = Order::Attach { pid: pid.0, started: process.identity.started };
            self.send(&order, now);
        }
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
                self.ask_at(retry_at);
                false
            }
            Session::Asked { .. } | Session::Open { .. } => false,
        }
    }

    fn start_actuator(&mut self, now: Nanos) -> bool {
        if self.actuator.link.is_some() {
            return true;
        }
        if now < self.actuator.start_at {
            self.ask_at(self.actuator.start_at);
            return false;
        }
        if self.actuator.farewells > 0 && now.since(self.actuator.sent_away_at) < RESTART_LONGEST {
            // The one that was sent away is still on its way out, and would pass for another daemon's.
            self.ask_at(now.plus(RESTART));
            return false;
        }
        let rival = rival::find();
        if rival != self.actuator.rival {
            self.actuator.rival = rival;
            if let Some(rival) = rival {
                let message = format!("not started: process {rival} is the actuator of another daemon on these gpus");
                tracing::error!("{message}; nothing is stopped while it is there");
                self.note_machine(EventKind::Actuator { message });
            }
        }
        if rival.is_some() {
            self.back_off(now);
            return false;
        }
        match Link::start(&self.program, self.to_self.clone()) {
            Ok(link) => {
                self.actuator.link = Some(link);
                self.actuator.started_at = now;
                self.record.daemon.actuator_starts += 1;
                true
            }
            Err(error) => {
                tracing::error!("cannot start the actuator: {error}; nothing is stopped until it can be");
                self.back_off(now);
                false
            }
        }
    }

    fn back_off(&mut self, now: Nanos) {
        let actuator = &mut self.actuator;
        actuator.delay = actuator.delay.times(2).clamp(RESTART, RESTART_LONGEST);
        actuator.start_at = now.plus(actuator.delay);
        self.ask_at(self.actuator.start_at);
    }

    /// Ends the actuator when there has been nobody to manage for a while.
    fn rest_actuator(&mut self, now: Nanos) {
        let busy = self.world.processes.values().any(|process| !matches!(process.session, Session::None));
        if busy || self.actuator.link.is_none() {
            self.actuator.idle_since = None;
            return;
        }
        let since = *self.actuator.idle_since.get_or_insert(now);
        if now.since(since) >= IDLE {
            self.dismiss_actuator();
        } else {
            self.ask_at(since.plus(IDLE));
        }
    }

    /// Ends the actuator in good order: everything runs, nobody is traced. Returns what ends it when dropped, which may
    /// take a while.
    pub(super) fn end_actuator(&mut self) -> Option<Link> {
        let link = self.actuator.link.take();
        if link.is_some() {
            self.actuator.farewells += 1;
            self.actuator.sent_away_at = crate::clock::now();
            self.note_machine(EventKind::Actuator { message: "ended: nobody to manage".into() });
        }
        self.actuator.pid = None;
        self.actuator.idle_since = None;
        link
    }

    /// Ends the actuator without waiting for it.
    pub(super) fn dismiss_actuator(&mut self) {
        if let Some(link) = self.end_actuator() {
            // Without a thread left it happens here, late but in order.
            let _ = std::thread::Builder::new().name("farewell".into()).spawn(move || drop(link));
        }
    }

    /// An order; an actuator that does not take it is lost, which is told by its own message.
    pub(super) fn send(&mut self, order: &Order, now: Nanos) -> bool {
        let sent = self.actuator.link.as_mut().is_some_and(|link| link.send(order));
        if !sent {
            tracing::warn!("the actuator takes no orders");
            self.ask_at(now.plus(RESTART));
        }
        sent
    }

    pub(super) fn session_open(&mut self, pid: Pid, runtime: bool, queues: &[TracedQueue], now: Nanos) {
        let Some(process) = self.world.processes.get_mut(&pid) else {
            self.send(&Order::Detach { pid: pid.0 }, now);
            return;
        };
        if !matches!(process.session, Session::Asked { .. } | Session::Open { .. }) {
            // It was ended meanwhile, before this was heard.
            return;
        }
        process.session = Session::Open { runtime };
        process.refusals = 0;
        self.set_traced(pid, queues, now);
        self.changed = true;
    }

    /// An order to attach was refused.
    pub(super) fn session_refused(&mut self, refused: &Refused, now: Nanos) {
        let pid = Pid(refused.pid);
        let first = match refused.kind {
            RefusedKind::Permission => RETRY_PERMISSION,
            _ => RETRY,
        };
        self.bounced(pid, now);
        let Some(process) = self.world.processes.get_mut(&pid) else { return };
        let why = match refused.kind {
            RefusedKind::Runtime => "runtime not enabled".to_string(),
            _ => refused.message.clone(),
        };
        // An attempt that fails late costs cycles of all its gpus.
        let wait = first.times(1 << process.refusals.min(DOUBLINGS));
        let told_before = process.refusals > 0;
        process.refusals = process.refusals.saturating_add(1);
        process.session = Session::Refused { why, retry_at: now.plus(wait) };
        self.ask_at(now.plus(wait));
        self.changed = true;
        if refused.kind != RefusedKind::Gone && !told_before {
            let name = self.world.tenants_of(pid).map(|tenant| tenant.name).next();
            let message = refused.message.clone();
            name.inspect(|&name| {
                self.note(name, EventKind::Failed { action: gpreempt_proto::Action::Attach, message });
            });
        }
    }

    /// A session ended because its process did, or is no longer ours.
    pub(super) fn session_ended(&mut self, pid: Pid, now: Nanos) {
        let Some(process) = self.world.processes.get_mut(&pid) else { return };
        process.session = Session::Refused { why: "the session ended".into(), retry_at: now.plus(RETRY) };
        self.ask_at(now.plus(RETRY));
        self.all_run(pid, now);
    }

    /// The actuator is gone: the driver has resumed everything.
    pub(super) fn actuator_lost(&mut self, why: &str, killed: bool, now: Nanos) {
        if self.actuator.farewells > 0 {
            // Every actuator is lost once; this one was sent away.
            self.actuator.farewells -= 1;
            return;
        }
        if self.actuator.link.take().is_none() {
            return;
        }
        tracing::warn!("the actuator ended: {why}; everything runs");
        self.record.daemon.actuator_kills += u64::from(killed);
        self.actuator.pid = None;
        self.tickets.clear();
        let pids: Vec<Pid> = self.world.processes.keys().copied().collect();
        for pid in pids {
            if let Some(process) = self.world.processes.get_mut(&pid) {
                process.session = Session::None;
            }
            self.all_run(pid, now);
        }
        if now.since(self.actuator.started_at) > RESTART_LONGEST {
            // One that lived for a while gives no reason for a longer wait.
            self.actuator.delay = Nanos::ZERO;
        }
        self.back_off(now);
        self.note_machine(EventKind::Actuator { message: format!("lost: {why}") });
        self.changed = true;
    }

    /// Whatever of a process was stopped runs again, by other means than an order.
    fn all_run(&mut self, pid: Pid, now: Nanos) {
        self.bounced(pid, now);
        let names: Vec<Name> = self.world.tenants_of(pid).map(|tenant| tenant.name).collect();
        for name in names {
            let ordered = self.world.tenants.get_mut(&name).and_then(|tenant| {
                tenant.stopped.clear();
                tenant.ordered.take()
            });
            self.settle_stop(name, now);
            match ordered {
                // Its answer does not come any more, and the core would wait for it.
                Some(action) => self.answer_for(name, action, Some(0), now),
                None => self.observe_again(name, now),
            }
        }
        self.changed = true;
    }

    /// Ends the session with a process, if there is one; the driver resumes what of it is stopped.
    pub(super) fn release_process(&mut self, pid: Pid) {
        let open = self.world.processes.get(&pid).is_some_and(|process| process.session != Session::None);
        if open {
            self.end_session(pid);
            if let Some(process) = self.world.processes.get_mut(&pid) {
                process.session = Session::None;
            }
            self.all_run(pid, crate::clock::now());
        }
    }

    pub(super) fn end_session(&mut self, pid: Pid) {
        self.tickets.retain(|_, ticket| ticket.name.0 != pid);
        if self.actuator.link.is_some() {
            self.send(&Order::Detach { pid: pid.0 }, crate::clock::now());
        }
    }

    /// Who traces, unless it is our actuator.
    pub(super) fn debugger(&self, tracer: Option<Pid>) -> Option<Pid> {
        tracer.filter(|tracer| self.actuator.pid != Some(tracer.0))
    }

    /// Why a tenant cannot be stopped, for people; `None` if it can, or if nobody would want to.
    pub(super) fn unstoppable(&self, tenant: &Tenant, now: Nanos) -> Option<String> {
        let process = self.world.processes.get(&tenant.name.0)?;
        if process.unmanaged {
            return Some("unmanaged by the operator".into());
        }
        if let Some(debugger) = self.debugger(process.traced_by) {
            return Some(format!("debugger {debugger} is attached"));
        }
        if now < process.leaving_until {
            return Some("it wants to end, or to destroy a queue".into());
        }
        match &process.session {
            Session::Open { runtime: false } => Some("runtime not enabled".into()),
            Session::Refused { why, .. } => Some(why.clone()),
            Session::None if self.actuator.rival.is_some() => Some("another daemon manages this gpu".into()),
            _ => tenant.about.blind.as_ref().filter(|_| tenant.eye.is_none()).map(|blind| blind.why.clone()),
        }
    }

    fn tell_stoppable(&mut self, name: Name, now: Nanos) {
        let Some(tenant) = self.world.tenants.get(&name) else { return };
        let Some(id) = tenant.core else { return };
        let Some(process) = self.world.processes.get(&name.0) else { return };
        let Some(gpu) = self.world.gpus.get(tenant.gpu) else { return };
        let spared = gpu.spared_for.is_some_and(|cause| cause != name);
        let able = matches!(process.session, Session::Open { runtime: true })
            && self.config.mode == Mode::Enforce
            && gpu.breaker.open().is_none()
            && !spared
            && self.unstoppable(tenant, now).is_none();
        if able == tenant.stoppable {
            return;
        }
        let _ = self.core.set_stoppable(id, able);
        if let Some(tenant) = self.world.tenants.get_mut(&name) {
            tenant.stoppable = able;
        }
    }
}
