//! XSched (OSDI 2025): a shim holds commands back on the host and launches a few at a time.
//!
//! Every task submits to a software queue. A worker launches its commands, at most [`THRESHOLD`] in flight; when those
//! are out it waits for a batch of [`BATCH`] to complete, wakes up and launches as many again. That is progressive
//! launching: it bounds what a suspend has to wait for, and its wake-ups are the cost of the shim for a task that is
//! alone.
//!
//! A suspend stops the worker. The level says what else it does: 1 lets the commands in flight run, 2 discards those
//! that have not started, 3 also interrupts the one that runs. Level 3 is the published one for GV100: a trap ends the
//! kernel, which is therefore executed again. The policy is XSched's default, the highest priority first.

use gpreempt_core::Nanos;

use super::levels::Levels;
use super::{Mechanism, MechanismSpec};
use crate::machine::{CycleDone, Machine, Ticket, micros};
use crate::profile::Profile;
use crate::workload::Workload;

/// Assumptions of all levels.
const LAUNCHING: &str =
    "at most 8 commands are in flight, and 4 complete between two launches: published (XSched artifact, OSDI 2025)";
/// Assumption of the upper levels.
const NOT_ON_AMD: &str = "works as on GV100: published; on AMD XSched has level 1 only";

pub(super) const LEVEL_1: MechanismSpec = MechanismSpec {
    name: "xsched-lv1",
    about: "XSched level 1: the shim stops launching, commands in flight run to their end",
    assumes: &[LAUNCHING],
    build: |profile, workload| Box::new(XSched::new(profile, workload, 1)),
};

pub(super) const LEVEL_2: MechanismSpec = MechanismSpec {
    name: "xsched-lv2",
    about: "XSched level 2: commands in flight are held back, the running kernel runs to its end",
    assumes: &[LAUNCHING, NOT_ON_AMD],
    build: |profile, workload| Box::new(XSched::new(profile, workload, 2)),
};

pub(super) const LEVEL_3: MechanismSpec = MechanismSpec {
    name: "xsched-lv3",
    about: "XSched level 3: the running kernel is ended and executed again later",
    assumes: &[LAUNCHING, NOT_ON_AMD],
    build: |profile, workload| Box::new(XSched::new(profile, workload, 3)),
};

/// Commands in flight at most.
pub(crate) const THRESHOLD: u32 = 8;
/// Commands between two synchronisations.
pub(crate) const BATCH: u32 = 4;

/// Timer tokens: the scheduler decides, or (from this number on) the worker of a task launches.
pub(crate) const DECIDE: u64 = 0;
const LAUNCH: u64 = 1;

/// Software queue of one task.
#[derive(Clone, Copy, Debug, Default)]
struct XQueue {
    suspended: bool,
    /// Whether the worker is about to launch.
    waking: bool,
    /// Interrupts that have not happened yet.
    interrupts: usize,
    /// Whether it was resumed while an interrupt was in progress.
    resume_after: bool,
}

/// The shim and its scheduler.
#[derive(Debug)]
pub(crate) struct XSched {
    level: u8,
    levels: Levels,
    queues: Vec<XQueue>,
    interrupts: Vec<(Ticket, usize)>,
    wakeup: Nanos,
    submit: Nanos,
}

impl XSched {
    pub(crate) fn new(profile: &Profile, workload: &Workload, level: u8) -> XSched {
        XSched {
            level,
            levels: Levels::new(workload),
            queues: workload.tasks.iter().map(|_| XQueue::default()).collect(),
            interrupts: Vec::new(),
            wakeup: micros(&profile.host.wakeup_us),
            submit: micros(&profile.host.submit_us),
        }
    }

    /// Stops launching for a task and, as the level allows, what was launched.
    pub(crate) fn suspend(&mut self, machine: &mut Machine, task: usize) {
        self.queues[task].resume_after = false;
        if std::mem::replace(&mut self.queues[task].suspended, true) {
            return;
        }
        for &gpu in machine.gpus_of(task).iter() {
            if self.level == 1 {
                machine.withhold(task, gpu);
                continue;
            }
            machine.hold(task, gpu);
            let running = machine.view(task, gpu).is_some_and(|queue| queue.resident > 0);
            if self.level == 3 && running {
                self.interrupts.push((machine.reset(gpu, &[task], 0), task));
                self.queues[task].interrupts += 1;
            }
        }
    }

    /// Launches again, beginning with the commands that a suspend discarded.
    pub(crate) fn resume(&mut self, machine: &mut Machine, task: usize) {
        if self.queues[task].interrupts > 0 {
            self.queues[task].resume_after = true;
            return;
        }
        if !std::mem::replace(&mut self.queues[task].suspended, false) {
            return;
        }
        if self.level == 1 {
            for &gpu in machine.gpus_of(task).iter() {
                machine.release(task, gpu);
            }
        } else {
            machine.resubmit(task, machine.now().plus(self.submit));
        }
        self.wake_worker(machine, task);
    }

    /// Returns whether a suspended task has nothing left on the hardware that would still run.
    pub(crate) fn is_off(&self, machine: &Machine, task: usize) -> bool {
        let progress = machine.progress(task);
        let empty = !machine.unfinished(task) || progress.launched == progress.completed;
        let idle = |&gpu: &usize| machine.view(task, gpu).is_none_or(|queue| queue.resident == 0);
        self.queues[task].interrupts == 0
            && if self.level == 1 { empty } else { machine.gpus_of(task).iter().all(idle) }
    }

    /// Wakes the worker if it may launch: when nothing is in flight, or when a batch of commands has completed.
    fn wake_worker(&mut self, machine: &mut Machine, task: usize) {
        let queue = &mut self.queues[task];
        if !queue.suspended && !queue.waking && room(machine, task) >= BATCH {
            queue.waking = true;
            machine.set_timer(machine.now().plus(self.wakeup), LAUNCH + task as u64);
        }
    }

    fn launch(&mut self, machine: &mut Machine, task: usize) {
        self.queues[task].waking = false;
        if !self.queues[task].suspended {
            let count = room(machine, task);
            machine.launch(task, count, machine.now().plus(self.submit));
        }
    }

    /// Suspends the tasks that must wait and resumes the others.
    fn decide(&mut self, machine: &mut Machine) {
        for task in 0..machine.tasks() {
            match self.levels.waits_for(machine, task) {
                Some(upper) if machine.unfinished(task) => {
                    if !self.queues[task].suspended {
                        machine.detected(upper, machine.gpus_of(upper)[0]);
                    }
                    self.suspend(machine, task);
                }
                None if self.queues[task].suspended => self.resume(machine, task),
                _ => {}
            }
        }
    }

    /// Wakes the scheduler, which is another thread or process and acts after its wake-up time.
    fn tell_scheduler(&self, machine: &mut Machine) {
        machine.set_timer(machine.now().plus(self.wakeup), DECIDE);
    }
}

/// Returns how many commands may be launched. The log of those in flight only shrinks by whole batches, but a request's
/// last commands do not wait for others to fill theirs.
fn room(machine: &Machine, task: usize) -> u32 {
    let progress = machine.progress(task);
    let in_flight = progress.launched - progress.completed;
    let left = progress.kernels - progress.launched;
    if left == 0 {
        return 0;
    }
    THRESHOLD.saturating_sub(in_flight)
}

impl Mechanism for XSched {
    fn wants_kernels(&self) -> bool {
        true
    }

    fn start(&mut self, machine: &mut Machine) {
        for task in 0..machine.tasks() {
            machine.intercept(task);
        }
    }

    fn submitted(&mut self, machine: &mut Machine, task: usize) {
        // The scheduler goes first: a task that must wait is suspended before its worker wakes.
        self.tell_scheduler(machine);
        self.wake_worker(machine, task);
    }

    fn drained(&mut self, machine: &mut Machine, _task: usize) {
        self.tell_scheduler(machine);
    }

    fn kernel_done(&mut self, machine: &mut Machine, task: usize, _gpu: usize) {
        self.wake_worker(machine, task);
    }

    fn timer(&mut self, machine: &mut Machine, token: u64) {
        match token.checked_sub(LAUNCH) {
            Some(task) => self.launch(machine, task as usize),
            None => self.decide(machine),
        }
    }

    fn cycle_done(&mut self, machine: &mut Machine, done: CycleDone) {
        let Some(place) = self.interrupts.iter().position(|(ticket, _)| *ticket == done.ticket) else {
            return;
        };
        let (_, task) = self.interrupts.swap_remove(place);
        self.queues[task].interrupts -= 1;
        if self.queues[task].interrupts == 0 && std::mem::take(&mut self.queues[task].resume_after) {
            self.resume(machine, task);
        }
    }
}
