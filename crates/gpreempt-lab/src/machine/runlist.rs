//! Over-subscription: more processes than address spaces, or more queues than hardware slots.
//!
//! The driver then builds a chained runlist, newest process first, and the firmware maps one part of it after the
//! other. A stopped process keeps its place in the list, a stopped queue does not. A part stays mapped for a quantum
//! while it has work and others wait, and not at all when it has none. Which part the firmware maps after the driver
//! has rebuilt the list is not documented; the model goes on where it was.

use gpreempt_core::Nanos;

use super::Machine;
use super::event::MachineEvent;
use super::queue::block;

impl Machine {
    /// Returns the queues that run when the runlist's mapped part begins at `window`.
    pub(super) fn mapped(&self, g: usize, window: usize, stopped: impl Fn(usize) -> bool) -> Vec<usize> {
        let runlist = &self.gpus[g].runlist;
        let active = runlist.iter().filter(|&&q| !stopped(q)).count();
        if runlist.len() <= self.device.vmids && active <= self.device.hqds {
            return runlist.iter().copied().filter(|&q| !stopped(q)).collect();
        }
        let mut mapped = Vec::new();
        for &q in self.turned(g, window).take(self.device.vmids) {
            if mapped.len() == self.device.hqds {
                break;
            }
            if !stopped(q) {
                mapped.push(q);
            }
        }
        mapped
    }

    /// Returns the runlist from place `window` on, around to where it began.
    fn turned(&self, g: usize, window: usize) -> impl Iterator<Item = &usize> {
        let runlist = &self.gpus[g].runlist;
        runlist.iter().cycle().skip(window).take(runlist.len())
    }

    /// Returns where the mapped part begins after a rotation: at the next process that waits. The processes in between
    /// are mapped or idle, and the firmware skips them.
    pub(super) fn next_window(&self, g: usize) -> usize {
        let window = self.gpus[g].window;
        let steps = self.turned(g, window).position(|&q| self.waits_for_its_turn(q));
        (window + steps.unwrap_or(0)) % self.gpus[g].runlist.len().max(1)
    }

    fn waits_for_its_turn(&self, q: usize) -> bool {
        let blocked = self.queues[q].blocked;
        blocked & block::UNMAPPED != 0 && blocked & block::HELD == 0 && self.has_work(q)
    }

    /// Returns whether the queue is mapped and has something to run.
    fn uses_its_turn(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        let started = queue.head.is_some_and(|head| head.started);
        queue.runs() && (started || queue.blocked & block::HELD == 0) && self.has_work(q)
    }

    fn has_work(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        let client = &self.clients[queue.task];
        client.current.is_some() && queue.done < client.kernels_per_request
    }

    /// Returns when the firmware must rotate: never while no process waits, at once if no mapped queue has work, and
    /// otherwise at the end of the quantum.
    fn rotation_due(&self, g: usize) -> Nanos {
        let gpu = &self.gpus[g];
        if !gpu.runlist.iter().any(|&q| self.waits_for_its_turn(q)) {
            Nanos::NEVER
        } else if gpu.runlist.iter().any(|&q| self.uses_its_turn(q)) {
            gpu.rotated.plus(self.device.quantum).max(self.now)
        } else {
            self.now
        }
    }

    /// Schedules a rotation if a process needs one. It never begins within the change that requires it, because that
    /// may be the end of a cycle that another one follows.
    pub(super) fn expect_rotation(&mut self, g: usize) {
        if self.gpus[g].rotating {
            return;
        }
        let due = self.rotation_due(g);
        if due != self.gpus[g].rotation {
            self.gpus[g].rotation = due;
            self.events.schedule(due, MachineEvent::Quantum { gpu: g as u32 });
        }
    }

    /// Handles a rotation event. Returns false if it was stale.
    pub(super) fn quantum_over(&mut self, g: usize) -> bool {
        if self.gpus[g].rotation != self.now {
            return false;
        }
        self.gpus[g].rotation = Nanos::NEVER;
        if self.rotation_due(g) == self.now {
            self.gpus[g].rotating = true;
            self.rotate(g);
        } else {
            self.expect_rotation(g);
        }
        true
    }

    /// Begins the quantum of a new mapped part.
    pub(super) fn rotated(&mut self, g: usize) {
        self.gpus[g].rotating = false;
        self.gpus[g].rotated = self.now;
    }

    /// Maps the first runlist.
    pub(super) fn first_runlist(&mut self, g: usize) {
        let mapped = self.mapped(g, 0, |_| false);
        for i in 0..self.gpus[g].runlist.len() {
            let q = self.gpus[g].runlist[i];
            if !mapped.contains(&q) {
                self.queues[q].blocked |= block::UNMAPPED;
            }
        }
    }
}
