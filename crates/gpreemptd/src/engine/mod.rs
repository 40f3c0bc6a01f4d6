//! The deciding thread: a host of `gpreempt-core`.
//!
//! It learns who is there (`members`), sees to it that those who could be stopped can be (`sessions`), looks at rings
//! (`looks`), asks the core, carries out what it says (`carry`), and does what clients ask (`asked`). It never waits
//! for anything but its inbox.

mod asked;
mod breaker;
mod carry;
mod keep;
mod looks;
mod members;
mod pace;
mod sessions;
mod show;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use gpreempt_core::{GpuParams, GpuSet, Nanos};
use gpreempt_proto::{Event, EventKind, Mode};
use kfd::Pid;

use crate::clock;
use crate::config::Config;
use crate::control::Publisher;
use crate::inbox::Input;
use crate::record::{Audit, Recorder};
use crate::scout::{Errand, Leaving, Scout, Scouted};

use carry::Tickets;
use keep::Keep;
use pace::Pace;
use sessions::Actuator;
use world::{Core, Name, World};

/// Signs of life for the guardian come at least this often.
const BEAT: Nanos = Nanos::from_millis(100);

/// A process that waits to destroy a queue is not stopped for this long.
const DESTROYING: Nanos = Nanos::from_millis(200);

/// Messages taken before the clock is looked at again.
const BATCH: usize = 64;

/// What the engine starts from.
#[derive(Debug)]
pub struct Setup {
    /// The configuration.
    pub config: Config,
    /// The executable to start the actuator with.
    pub program: PathBuf,
    /// Where levels and holds set by hand are kept.
    pub directory: PathBuf,
    /// Where it publishes.
    pub board: Arc<Publisher>,
    /// The scout, already running.
    pub scout: Scout,
    /// The way to its own inbox, for whom it starts.
    pub to_self: Sender<Input>,
    /// The engine's last sign of life, monotonic nanoseconds.
    pub alive: Arc<AtomicU64>,
}

/// The engine. [`Engine::run`] is the deciding thread.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    program: PathBuf,
    core: Core,
    world: World,
    scout: Scout,
    board: Arc<Publisher>,
    to_self: Sender<Input>,
    alive: Arc<AtomicU64>,
    record: Recorder,
    audit: Audit,
    keep: Keep,
    pace: Pace,
    actuator: Actuator,
    tickets: Tickets,
    next_ticket: u64,
    own_uid: u32,
    started: Nanos,
    /// When the core wants to be asked, and when something else is due.
    core_wake: Nanos,
    due: Nanos,
    beat_at: Nanos,
    /// Gpus whose deadline jobs ask for more than the gpu has, as of the last decision.
    overcommitted: GpuSet,
    /// Members or settings changed.
    changed: bool,
    publish: bool,
    /// Somebody was left alone because there was no room.
    crowded: bool,
    /// The core was told something since it last decided.
    news: bool,
    stopped: Vec<Pid>,
    /// Bursts that began and ended with the present looks.
    risen: Vec<(Name, Nanos)>,
    fallen: Vec<Name>,
}

impl Engine {
    /// An engine that knows nobody yet.
    ///
    /// # Errors
    ///
    /// If the core refuses its memory, which means that this program is wrong.
    pub fn new(setup: Setup) -> Result<Engine, gpreempt_core::Error> {
        let Setup { config, program, directory, board, scout, to_self, alive } = setup;
        let started = clock::now();
        Ok(Engine {
            config,
            program,
            core: world::new_core()?,
            world: World::default(),
            scout,
            board,
            to_self,
            alive,
            record: Recorder::new(started),
            audit: Audit::default(),
            keep: Keep::open(&directory),
            pace: Pace::new(),
            actuator: Actuator::default(),
            tickets: Tickets::default(),
            next_ticket: 0,
            own_uid: nix::unistd::geteuid().as_raw(),
            started,
            core_wake: Nanos::NEVER,
            overcommitted: GpuSet::EMPTY,
            due: Nanos::NEVER,
            beat_at: Nanos::ZERO,
            changed: true,
            publish: false,
            crowded: false,
            news: false,
            stopped: Vec::new(),
            risen: Vec::new(),
            fallen: Vec::new(),
        })
    }

    /// Decides until it is told to stop. Then everything runs and nobody is traced.
    pub fn run(mut self, inbox: &Receiver<Input>) {
        self.prepare_thread();
        loop {
            let due = self.next_due();
            let Some(first) = self.wait(inbox, due) else { break };
            let mut now = clock::now();
            if let Some(input) = first {
                if !self.take(input, now) {
                    break;
                }
            } else if due <= now {
                self.record.daemon.wakeup.note(now.since(due));
            }
            if !self.drain(inbox, &mut now) {
                break;
            }
            self.act(now);
            self.alive.store(now.0, Ordering::Relaxed);
        }
        drop(self.end_actuator());
        self.audit.flush(Nanos::NEVER);
    }

    /// Asks the kernel for punctuality, and for a core of its own where the operator wants that.
    fn prepare_thread(&self) {
        // Outside the log line, which may not be wanted: what is inside would then not happen.
        let urgency = kfd::urgency::prefer();
        tracing::debug!("the deciding thread runs with {urgency:?}");
        if let Some(core) = self.config.watch.spin_core {
            let mut set = nix::sched::CpuSet::new();
            let pinned =
                set.set(core).and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set));
            if let Err(error) = pinned {
                tracing::warn!("cannot pin the deciding thread to core {core}: {error}");
            }
        }
    }

    fn next_due(&self) -> Nanos {
        let beat = if self.actuator.link.is_some() { self.beat_at } else { Nanos::NEVER };
        self.pace.next().min(self.core_wake).min(self.due).min(beat).min(self.audit.due().unwrap_or(Nanos::NEVER))
    }

    /// The next message, `Some(None)` when something is due, `None` when nobody is left to send one.
    fn wait(&self, inbox: &Receiver<Input>, due: Nanos) -> Option<Option<Input>> {
        if self.config.watch.spin_core.is_some() && self.pace.next() < Nanos::NEVER {
            return match inbox.try_recv() {
                Ok(input) => Some(Some(input)),
                Err(TryRecvError::Empty) => Some(None),
                Err(TryRecvError::Disconnected) => None,
            };
        }
        if due == Nanos::NEVER {
            return inbox.recv().ok().map(Some);
        }
        match inbox.recv_timeout(Duration::from_nanos(due.since(clock::now()).0)) {
            Ok(input) => Some(Some(input)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Takes what else is there. False if the engine is to stop.
    fn drain(&mut self, inbox: &Receiver<Input>, now: &mut Nanos) -> bool {
        for _ in 0..BATCH {
            let Ok(input) = inbox.try_recv() else { return true };
            *now = clock::now();
            if !self.take(input, *now) {
                return false;
            }
        }
        true
    }

    /// Takes a message. False if the engine is to stop.
    fn take(&mut self, input: Input, now: Nanos) -> bool {
        match input {
            Input::Scouted(scouted) => self.scouted(scouted, now),
            Input::Told(told) => self.told(told, now),
            Input::Asked(asked) => self.asked(asked, now),
            Input::Notified { pid, uid } => self.notified(Pid(pid), uid, now),
            Input::Publish => self.publish = true,
            Input::Configured(config) => self.configure(*config, now),
            Input::Stop => return false,
        }
        true
    }

    fn scouted(&mut self, scouted: Scouted, now: Nanos) {
        match scouted {
            Scouted::Gpus(gpus) => self.set_gpus(gpus),
            Scouted::Process(process) => self.set_process(*process, now),
            Scouted::Gone { pid } => self.remove_process(pid, now),
            Scouted::Sampled(sample) => self.sampled(sample, now),
            Scouted::Leaving { pid, why } => self.leaving(pid, why, now),
            Scouted::Scanned { .. } => {
                self.record.daemon.scans += 1;
                self.look_at_all(now);
            }
        }
    }

    /// A stopped process wants to go: it runs, for a while.
    fn leaving(&mut self, pid: Pid, why: Leaving, now: Nanos) {
        let grace = match why {
            Leaving::Destroying | Leaving::Exiting => DESTROYING,
            Leaving::Terminated => breaker::nanos(self.config.term_grace),
        };
        if let Some(process) = self.world.processes.get_mut(&pid) {
            process.leaving_until = process.leaving_until.max(now.plus(grace));
            self.ask_at(now.plus(grace));
            self.changed = true;
        }
    }

    /// Somebody says that it has just submitted work.
    fn notified(&mut self, pid: Pid, uid: u32, now: Nanos) {
        let owner = self.world.processes.get(&pid).map(|process| process.identity.uid);
        if !owner.is_some_and(|owner| owner == uid || self.peer(uid).is_operator()) {
            return;
        }
        self.record.daemon.notifications += 1;
        if self.world.tenants_of(pid).any(|tenant| self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.contested)) {
            self.watch(now);
        }
    }

    fn configure(&mut self, config: Config, now: Nanos) {
        let was = self.config.mode;
        self.config = config;
        self.scout.tell(Errand::Configure { scan: self.config.scan, variables: self.config.variables() });
        self.judge_anew(now);
        if was == Mode::Enforce && self.config.mode == Mode::Observe {
            let pids: Vec<Pid> = self.world.processes.keys().copied().collect();
            pids.into_iter().for_each(|pid| self.release_process(pid));
            self.dismiss_actuator();
        }
    }

    /// What is due, and what follows from what was learned.
    fn act(&mut self, now: Nanos) {
        if now >= self.due {
            self.due = Nanos::NEVER;
            self.changed = true;
            self.recover(now);
            self.end_holds(now);
            self.ask_for_what_lies_ahead(now);
        }
        if self.changed {
            self.changed = false;
            self.settle_members(now);
        }
        if now >= self.pace.next() {
            self.watch(now);
            self.record.daemon.look.note(clock::now().since(now));
            if self.changed {
                self.changed = false;
                self.settle_members(now);
            }
            self.pace.looked(now, &self.config.watch);
        }
        self.decide(now, clock::now());
        self.tell_scout();
        if let Some(link) = self.actuator.link.as_mut().filter(|_| now >= self.beat_at) {
            link.beat();
            self.beat_at = now.plus(BEAT);
        }
        self.audit.flush(now);
        if std::mem::take(&mut self.publish) {
            self.show(now);
        }
    }

    /// Tells the scout who is stopped, if that changed.
    fn tell_scout(&mut self) {
        let stopped: Vec<Pid> = self.world.stopped_pids().into_iter().collect();
        if stopped != self.stopped {
            self.stopped.clone_from(&stopped);
            self.scout.tell(Errand::Stopped(stopped));
        }
    }

    /// Asks to act at `at` even if nothing is heard.
    fn ask_at(&mut self, at: Nanos) {
        self.due = self.due.min(at);
    }

    fn gpu_params(&self, address: &str) -> (GpuParams, bool) {
        (self.config.gpu(address), self.config.manages(address))
    }

    /// Something happened to a tenant.
    fn note(&self, name: Name, kind: EventKind) {
        self.board.note(self.event(name, kind));
    }

    /// Something happened to a tenant on account of a job, whose owner may know of it.
    fn note_by(&self, name: Name, kind: EventKind, cause: Option<&str>) {
        match cause.and_then(|cause| self.world.jobs.get(cause)) {
            Some(cause) => self.board.note_by(self.event(name, kind), cause.uid),
            None => self.note(name, kind),
        }
    }

    fn event(&self, name: Name, kind: EventKind) -> Event {
        let tenant = self.world.tenants.get(&name);
        let process = self.world.processes.get(&name.0);
        let gpu = tenant.and_then(|tenant| self.world.gpus.get(tenant.gpu));
        Event {
            at_ms: keep::now_ms(),
            kind,
            gpu: gpu.map(|gpu| gpu.about.address.clone()),
            pid: Some(name.0.0),
            job: tenant.and_then(|tenant| tenant.job.clone()),
            uid: process.map(|process| process.identity.uid),
        }
    }

    fn note_job(&self, job: &str, kind: EventKind) {
        let uid = self.world.jobs.get(job).map(|job| job.uid);
        self.board.note(Event { at_ms: keep::now_ms(), kind, gpu: None, pid: None, job: Some(job.into()), uid });
    }

    fn note_gpu(&self, gpu: usize, kind: EventKind) {
        let gpu = self.world.gpus.get(gpu).map(|gpu| gpu.about.address.clone());
        self.board.note(Event { at_ms: keep::now_ms(), kind, gpu, pid: None, job: None, uid: None });
    }

    fn note_machine(&self, kind: EventKind) {
        self.board.note(Event { at_ms: keep::now_ms(), kind, gpu: None, pid: None, job: None, uid: None });
    }
}

#[cfg(test)]
mod tests;
