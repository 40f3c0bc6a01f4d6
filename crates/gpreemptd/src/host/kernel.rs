//! The daemon as policy host of the scheduler in the kernel.
//!
//! That scheduler watches queues, decides and switches by itself. What is left to this thread is the policy: rules,
//! levels and holds become gpus, jobs and processes of the kernel (`KernelPolicy`), sent as differences, one batch at a
//! time. What the kernel reports (`events`, `status`) becomes the state that `ps`, `log`, `stats` and the audit log
//! show, as if the actuator had answered. No ring is read here, and the core of this thread plans nothing: it answers
//! which jobs could displace which, and computes bounds.

mod events;
mod numbers;
mod status;

use std::collections::BTreeMap;

use gpreempt_core::{Activity, Nanos, Why};
use gpreempt_kernel_abi::{
    GRACE_DEFAULT, GpuArgs, GpuRecord, JobArgs, MAX_CGROUPS, ModuleMode, ModuleSettings, ModuleWatch, ProcessArgs,
    ProcessFlags, TenantFlags,
};
use gpreempt_proto::{EventKind, Mode};
use kfd::{GpuId, Grace, Pid};

use crate::actuate::{
    AbiText, ActuatorChoice, ActuatorCommand, CgroupJob, KernelPolicy, KernelStatus, PolicyChange, PolicyFailure,
};
use crate::config::{Config, WatchMethod};

use super::sessions::Loss;
use super::world::{Gpu, Process, Session, TenantKey};
use super::{Host, must_succeed};

use numbers::JobNumbers;

/// Changes sent at once: the actuator's socket has room for them.
const BATCH: usize = 128;

/// Time before a refused change is tried again.
const RETRY: Nanos = Nanos::from_secs(1);

/// Who decides what is stopped.
#[derive(Debug)]
pub(super) enum Decider {
    /// This thread: it polls rings, has the core decide, and the actuator carries its plans out.
    Daemon,
    /// The scheduler in the kernel, whose policy host this thread is.
    Kernel(Box<KernelDecider>),
}

impl Decider {
    /// Returns who decides before an actuator has said which one it is.
    pub(super) fn of(choice: ActuatorChoice) -> Decider {
        match choice {
            ActuatorChoice::Kernel => Decider::Kernel(Box::default()),
            ActuatorChoice::Auto | ActuatorChoice::DebugTrap | ActuatorChoice::Combined => Decider::Daemon,
        }
    }

    pub(super) fn kernel(&self) -> Option<&KernelDecider> {
        match self {
            Decider::Daemon => None,
            Decider::Kernel(kernel) => Some(kernel),
        }
    }

    fn kernel_mut(&mut self) -> Option<&mut KernelDecider> {
        match self {
            Decider::Daemon => None,
            Decider::Kernel(kernel) => Some(kernel),
        }
    }
}

/// What the policy host knows of the scheduler in the kernel.
#[derive(Debug, Default)]
pub(super) struct KernelDecider {
    numbers: JobNumbers,
    /// What the actuator was told.
    sent: KernelPolicy,
    under_way: Option<UnderWay>,
    /// Batches sent.
    batches: u64,
    /// The kernel has all of the policy, and nothing of an earlier daemon.
    complete: bool,
    /// Refused changes, and when they are tried again.
    again: Vec<PolicyChange>,
    again_at: Nanos,
    /// Processes that the kernel does not take, and why.
    refused: BTreeMap<Pid, String>,
    /// Since when there is no actuator, while the kernel keeps the policy.
    alone_since: Option<Nanos>,
    tenants: BTreeMap<TenantKey, TenantView>,
    gpus: BTreeMap<GpuId, GpuRecord>,
    /// Counters when this daemon first saw them.
    begun: BTreeMap<GpuId, GpuRecord>,
    question: status::Question,
    events_lost: u64,
}

/// A batch of changes whose answer has not come.
#[derive(Debug)]
struct UnderWay {
    batch: u64,
    complete: bool,
    processes: Vec<Pid>,
}

/// What the kernel says of a tenant.
#[derive(Clone, Debug, Default)]
struct TenantView {
    /// Start of its process: another may have its number.
    started: u64,
    /// What it does; absent while the kernel does not look.
    activity: Option<Activity>,
    stop: Option<Stop>,
    flags: TenantFlags,
}

/// Since when, why and on whose account a tenant is stopped.
#[derive(Clone, Debug)]
struct Stop {
    at: Nanos,
    why: Why,
    by: Option<String>,
}

impl KernelDecider {
    /// Returns why the kernel cannot stop a tenant.
    pub(super) fn unstoppable(&self, key: TenantKey) -> Option<String> {
        let no_room = self.tenants.get(&key).is_some_and(|view| view.flags.has(TenantFlags::NO_ROOM));
        let no_room = no_room.then(|| "the scheduler in the kernel has no room for it".to_owned());
        self.refused.get(&key.pid).cloned().or(no_room)
    }

    /// Returns whether the kernel has taken a process.
    pub(super) fn has(&self, pid: Pid) -> bool {
        let is_told = self.sent.processes.get(&pid.raw()).is_some_and(|process| process.job != 0);
        is_told && !self.refused.contains_key(&pid)
    }

    /// Returns whether a batch was sent whose answer has not come.
    #[cfg(test)]
    pub(super) fn awaits_answer(&self) -> bool {
        self.under_way.is_some()
    }

    /// Returns whether the kernel looks at what a tenant does.
    pub(super) fn watches(&self, key: TenantKey) -> bool {
        self.tenants.get(&key).is_some_and(|view| view.activity.is_some())
    }

    /// A new actuator has claimed the kernel, and has told it nothing yet.
    fn claimed(&mut self) {
        (self.sent, self.under_way, self.complete) = (KernelPolicy::default(), None, false);
        (self.again, self.alone_since) = (Vec::new(), None);
        self.question = status::Question::wanted();
    }

    /// Takes the changes that are to be sent next.
    fn next_batch(&mut self, wanted: &KernelPolicy, scanned: bool, now: Nanos) -> Option<ActuatorCommand> {
        if self.under_way.is_some() {
            return None;
        }
        if now >= self.again_at {
            let again = std::mem::take(&mut self.again);
            again.iter().for_each(|change| self.sent.forget(change));
        }
        let mut changes = self.sent.changes_to(wanted);
        // Before all processes were found, what the kernel has may be what they need.
        let complete = changes.len() <= BATCH && scanned && !self.complete;
        changes.truncate(BATCH);
        if changes.is_empty() && !complete {
            return None;
        }
        changes.iter().for_each(|change| self.sent.note(change));
        let process = |change: &PolicyChange| match change {
            PolicyChange::Process(AbiText(process)) => u32::try_from(process.pid).ok().map(Pid),
            _ => None,
        };
        self.batches += 1;
        let (batch, processes) = (self.batches, changes.iter().filter_map(process).collect());
        self.under_way = Some(UnderWay { batch, complete, processes });
        Some(ActuatorCommand::Policy { batch, changes, complete })
    }

    /// Takes the answer to a batch. Returns whether it was waited for.
    fn applied(&mut self, batch: u64) -> bool {
        let Some(done) = self.under_way.take_if(|under_way| under_way.batch == batch) else { return false };
        done.processes.iter().for_each(|pid| drop(self.refused.remove(pid)));
        if done.complete {
            self.complete = true;
            self.question = status::Question::wanted();
        }
        true
    }
}

impl Host {
    /// Tells the scheduler in the kernel what changed, and keeps its actuator running. Called after every change.
    pub(super) fn tell_policy(&mut self, now: Nanos) {
        self.release_core(now);
        self.show_stops(now);
        if !self.ensure_actuator(now) || self.sessions.actuator_pid().is_none() {
            return;
        }
        let scanned = self.publisher.daemon().scans > 0;
        let Some(wanted) = self.wanted_policy(now) else { return };
        let Some(kernel) = self.decider.kernel_mut() else { return };
        let command = kernel.next_batch(&wanted, scanned, now);
        if !kernel.again.is_empty() {
            self.timers.wake_at(kernel.again_at);
        }
        if let Some(command) = command {
            self.send(&command, now);
        }
    }

    /// Has the core of this thread know its members, for bounds, and plan nothing.
    fn release_core(&mut self, now: Nanos) {
        for tenant in self.world.tenants.values_mut().filter(|tenant| tenant.stoppable) {
            tenant.stoppable = false;
            if let Some(id) = tenant.core {
                must_succeed(self.core.set_stoppable(id, false));
            }
        }
        let kind = self.actuator_kind();
        // Nothing can be stopped, so there is nothing to carry out.
        self.core.decide(now, &kind);
        self.timers.set_core_wake(Nanos::NEVER);
        self.timers.set_polling(false, now, &self.config.watch);
    }

    /// Returns the policy that follows from rules, levels, holds and the state of processes and gpus.
    fn wanted_policy(&mut self, now: Nanos) -> Option<KernelPolicy> {
        let Host { decider, world, config, .. } = self;
        let kernel = decider.kernel_mut()?;
        kernel.numbers.keep_only(&world.jobs);
        let mut wanted = KernelPolicy { settings: Some(settings(config)), ..KernelPolicy::default() };
        for gpu in world.gpus.iter().filter(|gpu| gpu.present) {
            wanted.gpus.insert(gpu.about.id.0, gpu_args(gpu));
        }
        for (name, job) in &world.jobs {
            let number = kernel.numbers.number(name);
            let hold_until_ns = job.held_until.map_or(0, |until| until.0);
            let args = JobArgs { job: number, hold_until_ns, params: job.effective().into(), ..JobArgs::SIZED };
            wanted.jobs.insert(number, args);
        }
        for (pid, process) in &world.processes {
            // A process belongs to one job, whichever of its gpus are managed.
            let Some(name) = world.tenants_of(*pid).find_map(|tenant| tenant.job.as_deref()) else { continue };
            let number = kernel.numbers.number(name);
            wanted.processes.insert(pid.raw(), process_args(*pid, process, number, now));
            // New processes there have their level before they are found.
            if let Some(path) = process.whole_cgroup.as_ref().filter(|_| wanted.cgroups.len() < MAX_CGROUPS) {
                wanted.cgroups.insert(path.clone(), CgroupJob { job: number, stoppable: true });
            }
        }
        let is_in = |process: &Process| {
            wanted.cgroups.keys().any(|path| {
                let below = process.identity.cgroup.strip_prefix(path.as_str());
                below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
            })
        };
        let jobless = |pid: &Pid| !wanted.processes.contains_key(&pid.raw());
        let exempt: Vec<ProcessArgs> = world
            .processes
            .iter()
            .filter(|(pid, process)| jobless(pid) && is_in(process))
            .map(|(pid, process)| ProcessArgs { flags: ProcessFlags::EMPTY, ..process_args(*pid, process, 0, now) })
            .collect();
        wanted.processes.extend(exempt.into_iter().map(|process| (process.pid, process)));
        let is_known = |pid: i32| u32::try_from(pid).is_ok_and(|pid| world.processes.contains_key(&Pid(pid)));
        kernel.sent.processes.retain(|pid, process| process.job != 0 || is_known(*pid));
        Some(wanted)
    }

    /// Takes the answer to a batch of changes; what was refused is tried again later.
    pub(super) fn policy_applied(&mut self, batch: u64, failed: Vec<PolicyFailure>, now: Nanos) {
        let Some(kernel) = self.decider.kernel_mut() else { return };
        if !kernel.applied(batch) {
            return;
        }
        let mut untold = Vec::new();
        for PolicyFailure { change, gone, message } in failed {
            if gone {
                // Its end is told by itself.
                continue;
            }
            if let PolicyChange::Cgroup { path, .. } = &change {
                // Its processes have their job as soon as they are found.
                tracing::debug!("control group {path}: {message}");
                continue;
            }
            if let PolicyChange::Process(AbiText(process)) = &change {
                let pid = Pid(u32::try_from(process.pid).unwrap_or_default());
                if kernel.refused.insert(pid, message.clone()).is_none() {
                    untold.push((pid, message));
                }
            } else {
                tracing::warn!("{message}");
            }
            kernel.again.push(change);
            kernel.again_at = now.plus(RETRY);
        }
        for (pid, message) in untold {
            if let Some(key) = self.world.tenants_of(pid).map(|tenant| tenant.key).next() {
                self.note(key, EventKind::Failed { action: gpreempt_proto::Action::Attach, message });
            }
        }
        self.pending.members_changed();
    }

    /// An actuator has become the policy host: the kernel decides from now on.
    pub(super) fn kernel_claimed(&mut self, now: Nanos) {
        if self.decider.kernel().is_none() {
            self.decider = Decider::Kernel(Box::default());
            // Asked for before it was known that there are none.
            self.world.processes.values_mut().for_each(|process| process.session = Session::None);
        }
        if let Some(kernel) = self.decider.kernel_mut() {
            kernel.claimed();
        }
        self.ask_kernel(now);
        self.pending.members_changed();
    }

    /// The kernel decides no more, and everything runs: the daemon decides from now on, or waits for the kernel again.
    pub(super) fn leave_kernel(&mut self, next: Decider, now: Nanos) {
        self.decider = next;
        self.everything_runs(now);
        self.pending.members_changed();
    }

    fn everything_runs(&mut self, now: Nanos) {
        if let Some(kernel) = self.decider.kernel_mut() {
            kernel.tenants.clear();
        }
        let pids: Vec<Pid> = self.world.processes.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.all_run(pid, now));
    }

    /// The actuator is gone; the kernel goes on deciding for as long as it keeps the policy.
    pub(super) fn kernel_alone(&mut self, loss: &Loss, now: Nanos) {
        let (why, kept) = (&loss.why, self.config.keep.as_secs_f64());
        tracing::warn!("the actuator ended: {why}; the scheduler in the kernel keeps the policy for {kept} s");
        self.note_daemon(EventKind::Actuator {
            message: format!("lost: {why}; the kernel keeps the policy for {kept} s"),
        });
        self.kernel_waits(now);
    }

    /// The actuator was dismissed so that another goes on in its place.
    pub(super) fn kernel_waits(&mut self, now: Nanos) {
        if let Some(kernel) = self.decider.kernel_mut() {
            kernel.under_way = None;
            kernel.alone_since.get_or_insert(now);
        }
        self.timers.wake_at(now.plus(Nanos::from(self.config.keep)));
        self.pending.members_changed();
    }

    /// Does what is due: after the time for which the kernel keeps the policy without an actuator, everything runs.
    pub(super) fn attend_kernel(&mut self, now: Nanos) {
        let keep = Nanos::from(self.config.keep);
        let Some(kernel) = self.decider.kernel_mut() else { return };
        if kernel.alone_since.is_some_and(|since| now.since(since) >= keep) {
            kernel.alone_since = None;
            self.everything_runs(now);
        }
        if self.decider.kernel().is_some_and(|kernel| kernel.question.is_wanted()) {
            self.ask_kernel(now);
        }
    }

    /// Returns when the kernel resumes everything for lack of an actuator, if it has none.
    pub(super) fn kernel_forgets_at(&self) -> Option<Nanos> {
        let since = self.decider.kernel()?.alone_since?;
        Some(since.plus(Nanos::from(self.config.keep)))
    }
}

fn settings(config: &Config) -> ModuleSettings {
    let number = |value: u128| u32::try_from(value).unwrap_or(u32::MAX);
    ModuleSettings {
        mode: if config.mode == Mode::Enforce { ModuleMode::ENFORCE } else { ModuleMode::OBSERVE },
        watch: match config.watch.method {
            WatchMethod::Doorbell => ModuleWatch::DOORBELL,
            WatchMethod::Poll => ModuleWatch::POLL,
        },
        period_us: number(config.watch.kernel_period.as_micros()),
        net_ms: number(config.watch.net.as_millis()),
        grace: config.grace_kiloclocks.map_or(GRACE_DEFAULT, |grace| Grace::kiloclocks(grace).raw()),
        ..ModuleSettings::SIZED
    }
}

fn gpu_args(gpu: &Gpu) -> GpuArgs {
    let managed = gpu.managed && gpu.breaker.open().is_none();
    GpuArgs { gpu_id: gpu.about.id.0, managed: u32::from(managed), params: gpu.params.into(), ..GpuArgs::SIZED }
}

fn process_args(pid: Pid, process: &Process, job: u64, now: Nanos) -> ProcessArgs {
    let stoppable = now >= process.leaving_until && process.contexts == 0;
    let flags = if stoppable { ProcessFlags::STOPPABLE } else { ProcessFlags::EMPTY };
    ProcessArgs { pid: pid.raw(), start_time: process.identity.started, job, flags, ..ProcessArgs::SIZED }
}
