//! The deciding thread: a host of `gpreempt-core`.
//!
//! It keeps the list of processes, tenants and jobs (`members`), asks the core which jobs could displace which
//! (`displacement`), opens sessions with potential victims (`attach`), polls rings (`polling`), has the core decide and
//! executes its plans (`execute`), serves clients (`requests`) and publishes what it did (`snapshot`, `events`). Where
//! the scheduler in the kernel decides, it neither polls nor plans: it tells that one the policy (`kernel`).
//!
//! Its parts keep their own state behind a few methods: `Timers`, `Sessions`, `BurstLog`, `StatusPublisher`,
//! `OverrideStore` and the marks of `Pending`.
//!
//! The thread waits for its inbox, without a lock that a sender of lower priority could hold (`os::channel`). It opens
//! no file, starts no process, waits for none, and takes no lock that is held during a system call that may wait. Two
//! of its system calls can be delayed from outside all the same:
//!
//! - Reading the memory of a tenant, through a descriptor that the discovery thread has opened. It takes the lock of
//!   the tenant's address space and faults pages in, which a file system of the tenant's (FUSE) can delay.
//! - Writing log and audit records to stderr, which waits while a pipe there is full.
//!
//! A delay of 500 ms makes the guardian end the actuator, so that all queues run.

mod attach;
mod breaker;
mod burst_log;
mod displacement;
mod events;
mod execute;
mod kernel;
mod members;
mod override_writer;
mod overrides;
mod pacer;
mod pending;
mod polling;
mod publisher;
mod requests;
mod sessions;
mod snapshot;
mod timers;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Duration;

use gpreempt_core::{ActuatorKind, Nanos};
use gpreempt_proto::{self as proto, Mode};
use kfd::Pid;

use crate::actuate::{ActuatorChoice, LinkReaper};
use crate::clock;
use crate::config::Config;
use crate::control::Publisher;
use crate::discovery::{Discovery, DiscoveryEvent, DiscoveryRequest, ResumeCause};
use crate::inbox::{Inbox, Input};

use burst_log::BurstLog;
use kernel::Decider;
use overrides::OverrideStore;
use pending::Pending;
use publisher::StatusPublisher;
use sessions::{Dismissal, Sessions};
use timers::Timers;
use world::{Core, World};

/// A process that waits to destroy a queue is not stopped for this long.
const DESTROYING: Nanos = Nanos::from_millis(200);

/// Messages taken before the clock is looked at again.
const BATCH: usize = 64;

/// What the host starts from.
#[derive(Debug)]
pub struct Setup {
    /// The configuration.
    pub config: Config,
    /// The executable to start the actuator with.
    pub program: PathBuf,
    /// Where levels and holds set by hand are kept.
    pub directory: PathBuf,
    /// Takes status, statistics and events for clients.
    pub publisher: Arc<Publisher>,
    /// The discovery thread, already running.
    pub discovery: Discovery,
    /// The thread that waits for actuators to end, already running.
    pub reaper: LinkReaper,
    /// The host's last sign of life, monotonic nanoseconds.
    pub alive: Arc<AtomicU64>,
}

/// The deciding thread: see [`Host::run`].
#[derive(Debug)]
pub struct Host {
    config: Config,
    program: PathBuf,
    decider: Decider,
    core: Core,
    world: World,
    discovery: Discovery,
    alive: Arc<AtomicU64>,
    publisher: StatusPublisher,
    overrides: OverrideStore,
    timers: Timers,
    sessions: Sessions,
    bursts: BurstLog,
    pending: Pending,
    own_uid: u32,
    started: Nanos,
    /// Stopped processes, as the discovery thread was last told.
    stopped: Vec<Pid>,
}

impl Host {
    /// Makes a host that knows no process yet. Reads the overrides of an earlier daemon.
    ///
    /// # Errors
    ///
    /// If the core refuses its memory, which means that this program is wrong.
    pub fn new(setup: Setup) -> Result<Host, gpreempt_core::Error> {
        let Setup { config, program, directory, publisher, discovery, reaper, alive } = setup;
        let started = clock::now();
        Ok(Host {
            decider: Decider::of(config.actuator),
            config,
            program,
            core: world::new_core()?,
            world: World::default(),
            discovery,
            alive,
            publisher: StatusPublisher::new(publisher, started),
            overrides: OverrideStore::open(&directory),
            timers: Timers::new(),
            sessions: Sessions::new(reaper),
            bursts: BurstLog::default(),
            pending: Pending::new(),
            own_uid: nix::unistd::geteuid().as_raw(),
            started,
            stopped: Vec::new(),
        })
    }

    /// Decides until it is told to stop. Then everything runs and no process is traced.
    pub fn run(mut self, inbox: &Inbox) {
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
                self.publisher.daemon().wakeup.note(now.since(due));
            }
            if !self.drain(inbox, &mut now) {
                break;
            }
            self.act(now);
            self.alive.store(now.0, Ordering::Relaxed);
        }
        self.dismiss_actuator(Dismissal::Shutdown);
        self.publisher.flush_audit(Nanos::NEVER);
        // Dropping `sessions` waits until every actuator has ended.
    }

    /// Asks the kernel for punctuality, and for a core of its own where the operator wants that.
    fn prepare_thread(&self) {
        // Outside the log line, which may not be wanted: what is inside would then not happen.
        let urgency = crate::os::priority::raise();
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
        self.timers.next(self.sessions.is_up()).min(self.publisher.audit_due())
    }

    /// The next message, `Some(None)` when something is due, `None` when all senders are gone.
    fn wait(&self, inbox: &Inbox, due: Nanos) -> Option<Option<Input>> {
        if self.config.watch.spin_core.is_some() && self.timers.is_polling() {
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

    /// Takes what else is there. False if the host is to stop.
    fn drain(&mut self, inbox: &Inbox, now: &mut Nanos) -> bool {
        for _ in 0..BATCH {
            let Ok(input) = inbox.try_recv() else { return true };
            *now = clock::now();
            if !self.take(input, *now) {
                return false;
            }
        }
        true
    }

    /// Takes a message. False if the host is to stop.
    fn take(&mut self, input: Input, now: Nanos) -> bool {
        match input {
            Input::Discovery(event) => self.discovery_event(event, now),
            Input::Actuator(told) => self.actuator_event(told, now),
            Input::Request(asked) => self.client_request(asked, now),
            Input::Notified { pid, uid } => self.notified(Pid(pid), uid, now),
            Input::Publish => self.pending.status_wanted(),
            Input::Configured(config) => self.configure(*config, now),
            Input::Stop => return false,
        }
        true
    }

    fn discovery_event(&mut self, event: DiscoveryEvent, now: Nanos) {
        match event {
            DiscoveryEvent::Gpus(gpus) => self.set_gpus(gpus),
            DiscoveryEvent::Process(process) => self.set_process(*process, now),
            DiscoveryEvent::Gone { pid } => self.remove_process(pid, now),
            DiscoveryEvent::Occupancy(sample) => self.sampled(sample, now),
            DiscoveryEvent::MustResume { pid, cause } => self.must_resume(pid, cause, now),
            DiscoveryEvent::ActuatorStart(outcome) => self.actuator_start(outcome, now),
            DiscoveryEvent::TrackedEnded(processes) => self.overrides.processes_ended(&processes),
            DiscoveryEvent::Scanned { .. } => {
                self.publisher.daemon().scans += 1;
                match self.decider {
                    Decider::Daemon => self.poll_all(now),
                    // The first one completes the policy.
                    Decider::Kernel(_) if self.publisher.daemon().scans == 1 => self.pending.members_changed(),
                    Decider::Kernel(_) => {}
                }
            }
        }
    }

    /// A stopped process wants to go: it runs, for a while.
    fn must_resume(&mut self, pid: Pid, cause: ResumeCause, now: Nanos) {
        let grace = match cause {
            ResumeCause::Destroying | ResumeCause::Exiting => DESTROYING,
            ResumeCause::Terminated => Nanos::from(self.config.term_grace),
        };
        if let Some(process) = self.world.processes.get_mut(&pid) {
            process.leaving_until = process.leaving_until.max(now.plus(grace));
            self.timers.wake_at(now.plus(grace));
            self.pending.members_changed();
        }
    }

    /// A client says that the process has just submitted work.
    fn notified(&mut self, pid: Pid, uid: u32, now: Nanos) {
        let owner = self.world.processes.get(&pid).map(|process| process.identity.uid);
        if !owner.is_some_and(|owner| owner == uid || self.peer(uid).is_operator()) {
            return;
        }
        self.publisher.daemon().notifications += 1;
        if self.decider.kernel().is_some() {
            // It heard the doorbell.
            return;
        }
        if self.world.tenants_of(pid).any(|tenant| self.world.gpus.get(tenant.gpu).is_some_and(|gpu| gpu.contested)) {
            self.poll_watched(now);
        }
    }

    fn configure(&mut self, config: Config, now: Nanos) {
        let (was, actuator, keep) = (self.config.mode, self.config.actuator, self.config.keep);
        self.config = config;
        self.discovery.tell(DiscoveryRequest::Configure { scan: self.config.scan, variables: self.config.variables() });
        self.reapply_rules(now);
        let observes_without = self.config.actuator != ActuatorChoice::Kernel && self.config.mode == Mode::Observe;
        let dismissal = if was == Mode::Enforce && observes_without {
            Dismissal::Observing
        } else if self.config.actuator != actuator {
            Dismissal::Replaced
        } else if self.config.keep != keep && self.decider.kernel().is_some() {
            Dismissal::Renewed
        } else {
            return;
        };
        let pids: Vec<Pid> = self.world.processes.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.close_session(pid));
        self.dismiss_actuator(dismissal);
        if dismissal == Dismissal::Renewed {
            return self.kernel_waits(now);
        }
        self.sessions.forget_kind();
        self.leave_kernel(Decider::of(self.config.actuator), now);
    }

    /// Returns the actuator whose costs count.
    fn actuator_kind(&self) -> ActuatorKind {
        match self.sessions.kind() {
            Some(proto::ActuatorKind::DebugTrap | proto::ActuatorKind::Other) => ActuatorKind::DebugTrap,
            // The scheduler in the kernel makes the same switches.
            Some(proto::ActuatorKind::Combined | proto::ActuatorKind::Kernel) => ActuatorKind::Combined,
            None => self.config.expected_actuator(),
        }
    }

    /// Does what is due, and what follows from the messages taken.
    fn act(&mut self, now: Nanos) {
        if self.timers.take_due(now) {
            self.pending.members_changed();
            self.recover(now);
            self.end_holds(now);
            self.rearm_timer(now);
        }
        if self.pending.take_members_changed() {
            self.apply_changes(now);
        }
        match self.decider {
            Decider::Daemon => self.watch_and_decide(now),
            Decider::Kernel(_) => self.attend_kernel(now),
        }
        self.inform_discovery();
        if self.sessions.is_up() && self.timers.take_beat(now) {
            self.sessions.beat();
        }
        self.publisher.flush_audit(now);
        if self.pending.is_status_wanted() && self.is_informed(now) {
            self.pending.take_status_wanted();
            self.publish_status(now);
        }
    }

    /// Polls rings where that is due, and has the core decide.
    fn watch_and_decide(&mut self, now: Nanos) {
        if self.timers.is_poll_due(now) {
            self.poll_watched(now);
            self.publisher.daemon().poll.note(clock::now().since(now));
            if self.pending.take_members_changed() {
                self.apply_changes(now);
            }
            self.timers.polled(now, &self.config.watch);
        }
        self.decide(now, clock::now());
    }

    /// Tells the discovery thread which processes are stopped, and whose end matters, if that changed.
    fn inform_discovery(&mut self) {
        let stopped: Vec<Pid> = self.world.stopped_pids().into_iter().collect();
        if stopped != self.stopped {
            self.stopped.clone_from(&stopped);
            self.discovery.tell(DiscoveryRequest::Stopped(stopped));
        }
        if let Some(processes) = self.overrides.newly_tracked() {
            self.discovery.tell(DiscoveryRequest::Track(processes));
        }
    }
}

/// Takes the outcome of a call of the core. It refuses only numbers that it never gave, or that the host has removed,
/// so that an error is a mistake of the host.
fn must_succeed<T>(outcome: Result<T, gpreempt_core::Error>) -> Option<T> {
    if let Err(error) = &outcome {
        debug_assert!(false, "the core refuses: {error}");
        tracing::error!("the core refuses: {error}");
    }
    outcome.ok()
}

#[cfg(test)]
mod tests;
