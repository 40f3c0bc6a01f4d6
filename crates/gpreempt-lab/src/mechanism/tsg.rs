//! Time-slice groups, after GPreempt (ATC 2025) on NVIDIA: the hardware's own rotation is the preemption.
//!
//! There are two groups per gpu: the highest level and all other tasks. Lower tasks get a slice so short that waiting
//! for its end is acceptable; the upper group's slice is longer than its work. The hardware switches groups when a
//! slice ends or the current group has no work, and saves and restores contexts. It does not switch to a group without
//! work, so that a task alone pays nothing.

use gpreempt_core::Nanos;

use super::{Mechanism, MechanismSpec};
use crate::machine::{CycleDone, Machine, SwitchPath, Ticket};
use crate::workload::Workload;

pub(super) const SPEC: MechanismSpec = MechanismSpec {
    name: "tsg",
    about: "time-slice groups (GPreempt on NVIDIA): short slices for the lower tasks, long ones for the upper",
    assumes: &[
        "the lower tasks' slice is 200 us: published as an example (GPreempt, ATC 2025); its code sets 1 us",
        "the upper tasks' slice is 1 s: published (the same code)",
        "a switch of contexts knows no grace period: estimate",
    ],
    build: |_, workload| Box::new(Tsg { gpus: (0..workload.gpus).map(|gpu| Groups::new(workload, gpu)).collect() }),
};

/// The lower group's slice: the paper's example. The published code sets 1 us.
const LOWER_SLICE: Nanos = Nanos::from_micros(200);
/// The upper group's slice, as in the published code.
const UPPER_SLICE: Nanos = Nanos::from_secs(1);

struct Tsg {
    gpus: Vec<Groups>,
}

/// The two groups of one gpu.
struct Groups {
    gpu: usize,
    lower: Vec<usize>,
    upper: Vec<usize>,
    upper_runs: bool,
    slice_began: Nanos,
    switching: Option<Ticket>,
    /// Token of the timer that is not stale.
    slice_ends: Nanos,
}

impl Groups {
    fn new(workload: &Workload, gpu: usize) -> Groups {
        let level = |task: usize| workload.tasks[task].level;
        let here = (0..workload.tasks.len()).filter(|&task| workload.tasks[task].gpus.contains(&gpu));
        let top = here.clone().map(level).max();
        let (upper, lower) = here.partition(|&task| Some(level(task)) == top);
        Groups {
            gpu,
            lower,
            upper,
            upper_runs: false,
            slice_began: Nanos::ZERO,
            switching: None,
            slice_ends: Nanos::NEVER,
        }
    }

    fn has_work(&self, machine: &Machine, group: &[usize]) -> bool {
        group.iter().any(|&task| self.task_has_work(machine, task))
    }

    fn task_has_work(&self, machine: &Machine, task: usize) -> bool {
        machine.view(task, self.gpu).is_some_and(|queue| queue.unfinished)
    }

    /// Does what the hardware would do: continues, waits for the end of the slice, or switches.
    fn reconsider(&mut self, machine: &mut Machine) {
        let (current, other, slice) = if self.upper_runs {
            (&self.upper, &self.lower, UPPER_SLICE)
        } else {
            (&self.lower, &self.upper, LOWER_SLICE)
        };
        if self.switching.is_some() || !self.has_work(machine, other) {
            return;
        }
        if !self.has_work(machine, current) {
            self.switch(machine);
            return;
        }
        // Slices follow each other without a gap while no other group has work.
        let gone = machine.now().since(self.slice_began);
        let end = self.slice_began.plus(slice.times(gone.0.div_ceil(slice.0).max(1)));
        if end == machine.now() {
            self.switch(machine);
        } else if end != self.slice_ends {
            self.slice_ends = end;
            machine.set_timer(end, self.gpu as u64);
        }
    }

    fn switch(&mut self, machine: &mut Machine) {
        let (leaving, entering) = if self.upper_runs { (&self.upper, &self.lower) } else { (&self.lower, &self.upper) };
        let (stop, idle): (Vec<usize>, Vec<usize>) =
            leaving.iter().partition(|&&task| self.task_has_work(machine, task));
        let stopped = |task: &usize| machine.view(*task, self.gpu).is_some_and(|queue| queue.stopped);
        let resume: Vec<usize> = entering.iter().copied().filter(stopped).collect();
        for task in idle {
            self.set_aside(machine, task);
        }
        self.slice_ends = Nanos::NEVER;
        if stop.is_empty() && resume.is_empty() {
            self.switched(machine);
        } else {
            self.switching = Some(machine.switch(self.gpu, &stop, &resume, SwitchPath::ContextSwitch, Nanos::ZERO));
        }
    }

    /// Makes the other group the current one.
    fn switched(&mut self, machine: &mut Machine) {
        self.switching = None;
        self.upper_runs = !self.upper_runs;
        self.slice_began = machine.now();
        let current = if self.upper_runs { &self.upper } else { &self.lower };
        for &task in current {
            machine.release(task, self.gpu);
        }
        self.reconsider(machine);
    }

    /// A task without a context on the gpu must not start anything while the other group is the current one.
    fn set_aside(&self, machine: &mut Machine, task: usize) {
        if self.upper.contains(&task) {
            machine.park(task, self.gpu);
        } else {
            machine.hold(task, self.gpu);
        }
    }
}

impl Mechanism for Tsg {
    fn start(&mut self, machine: &mut Machine) {
        for groups in &self.gpus {
            // On a gpu with one level there is one group, and nothing to wait for.
            if groups.lower.is_empty() {
                continue;
            }
            for &task in &groups.upper {
                machine.park(task, groups.gpu);
            }
        }
    }

    fn submitted(&mut self, machine: &mut Machine, task: usize) {
        for &gpu in machine.gpus_of(task).iter() {
            self.gpus[gpu].reconsider(machine);
        }
    }

    fn drained(&mut self, machine: &mut Machine, task: usize) {
        self.submitted(machine, task);
    }

    fn timer(&mut self, machine: &mut Machine, token: u64) {
        let Some(groups) = self.gpus.get_mut(token as usize) else {
            return;
        };
        if groups.slice_ends == machine.now() {
            groups.slice_ends = Nanos::NEVER;
            groups.reconsider(machine);
        }
    }

    fn cycle_done(&mut self, machine: &mut Machine, done: CycleDone) {
        let groups = &mut self.gpus[done.gpu];
        if groups.switching == Some(done.ticket) {
            groups.switched(machine);
        }
    }
}
