//! Precedence of tasks: a task waits while a task of a higher level on a common gpu has unfinished work.

use crate::machine::Machine;
use crate::workload::Workload;

/// For each task, the tasks above and below it that use one of its gpus.
#[derive(Debug)]
pub(crate) struct Levels {
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
}

impl Levels {
    pub(crate) fn new(workload: &Workload) -> Levels {
        let tasks = &workload.tasks;
        let meet = |a: usize, b: usize| tasks[a].gpus.iter().any(|gpu| tasks[b].gpus.contains(gpu));
        let lower = |a: usize, b: usize| tasks[a].level < tasks[b].level && meet(a, b);
        let all = 0..tasks.len();
        let list = |of: &dyn Fn(usize) -> bool| all.clone().filter(|&task| of(task)).collect();
        Levels {
            above: all.clone().map(|a| list(&|b| lower(a, b))).collect(),
            below: all.clone().map(|a| list(&|b| lower(b, a))).collect(),
        }
    }

    /// Returns the tasks that must wait for `task`.
    pub(crate) fn below(&self, task: usize) -> &[usize] {
        &self.below[task]
    }

    /// Returns a task for which `task` must wait.
    pub(crate) fn waits_for(&self, machine: &Machine, task: usize) -> Option<usize> {
        let mut above = self.above[task].iter().copied();
        above.find(|&other| machine.unfinished(other))
    }

    /// Returns whether `task` must wait.
    pub(crate) fn must_wait(&self, machine: &Machine, task: usize) -> bool {
        self.waits_for(machine, task).is_some()
    }
}
