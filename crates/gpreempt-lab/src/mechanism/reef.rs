//! Reset and resubmit, after REEF (OSDI 2022): kill the running kernels and run them again later.
//!
//! The scheduler is on the submission path, so it knows of an online request at once. It empties the rings of the lower
//! tasks, resets the compute units, and submits the rest of the killed requests again when the online work is done.
//! Their progress is known from a record that the kernels write, and that record lags: some finished kernels run twice,
//! besides the killed one. Only correct for kernels that may run twice, and for one gpu: the model also lets a rank
//! repeat a collective that the others have passed, where a real one would hang.

use super::levels::Levels;
use super::{Mechanism, MechanismSpec};
use crate::machine::{CycleDone, Machine, Ticket};

pub(super) const SPEC: MechanismSpec = MechanismSpec {
    name: "reef",
    about: "reset and resubmit (REEF): running kernels are killed and executed again later",
    assumes: &[
        "two finished kernels are not in the progress record yet when the reset comes, and run again: estimate",
        "the scheduler hears of a request at once, because it is on the submission path: published (OSDI 2022)",
    ],
    build: |_, workload| {
        Box::new(Reef {
            levels: Levels::new(workload),
            victims: workload.tasks.iter().map(|_| Victim::default()).collect(),
            resets: Vec::new(),
        })
    },
};

/// Finished kernels the progress record does not show yet: an estimate.
const LAG: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Victim {
    evicted: bool,
    /// Resets that have not happened yet.
    resets: usize,
}

struct Reef {
    levels: Levels,
    victims: Vec<Victim>,
    /// Resets in progress and their victims.
    resets: Vec<(Ticket, Vec<usize>)>,
}

impl Reef {
    fn evict(&mut self, machine: &mut Machine, victims: &[usize]) {
        for gpu in 0..machine.gpus() {
            let mut here = victims.to_vec();
            here.retain(|&task| machine.view(task, gpu).is_some());
            if here.is_empty() {
                continue;
            }
            let ticket = machine.reset(gpu, &here, LAG);
            for &task in &here {
                self.victims[task].evicted = true;
                self.victims[task].resets += 1;
            }
            self.resets.push((ticket, here));
        }
    }

    /// Submits the rest of a victim's request again once no task above it has work.
    fn reconsider(&mut self, machine: &mut Machine, task: usize) {
        let victim = &mut self.victims[task];
        if victim.evicted && victim.resets == 0 && !self.levels.must_wait(machine, task) {
            victim.evicted = false;
            machine.resubmit(task, machine.now());
        }
    }
}

impl Mechanism for Reef {
    fn submitted(&mut self, machine: &mut Machine, task: usize) {
        if self.levels.must_wait(machine, task) {
            // The request stays in the scheduler's own queue.
            self.victims[task].evicted = true;
            for &gpu in machine.gpus_of(task).iter() {
                machine.hold(task, gpu);
            }
        }
        let mut victims = self.levels.below(task).to_vec();
        victims.retain(|&lower| machine.unfinished(lower) && !self.victims[lower].evicted);
        if !victims.is_empty() {
            machine.detected(task, machine.gpus_of(task)[0]);
            self.evict(machine, &victims);
        }
    }

    fn drained(&mut self, machine: &mut Machine, task: usize) {
        for lower in self.levels.below(task).to_vec() {
            self.reconsider(machine, lower);
        }
    }

    fn cycle_done(&mut self, machine: &mut Machine, done: CycleDone) {
        let Some(place) = self.resets.iter().position(|(ticket, _)| *ticket == done.ticket) else {
            return;
        };
        let (_, killed) = self.resets.swap_remove(place);
        for task in killed {
            self.victims[task].resets -= 1;
            self.reconsider(machine, task);
        }
    }
}
