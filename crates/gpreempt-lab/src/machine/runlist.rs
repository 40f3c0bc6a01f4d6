//! Over-subscription: more processes than address spaces, or more queues than hardware slots.
//!
//! The driver then builds a chained runlist, newest process first, and the firmware maps one part of it after the other. A
//! stopped process keeps its place in the list, a stopped queue does not. Which part the firmware maps after the driver has
//! rebuilt the list is not documented; the model goes on where it was.

use super::Machine;
use super::event::What;
use super::queue::block;

impl Machine {
    /// The queues that run with the runlist's mapped part beginning at `window`.
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

    /// The runlist from place `window` on, around to where it began.
    fn turned(&self, g: usize, window: usize) -> impl Iterator<Item = &usize> {
        let runlist = &self.gpus[g].runlist;
        runlist.iter().cycle().skip(window).take(runlist.len())
    }

    /// Where the mapped part begins after a rotation: at the next process that waits for its turn. Those in between are
    /// mapped or idle, and the firmware does not dwell on them.
    pub(super) fn next_window(&self, g: usize) -> usize {
        let window = self.gpus[g].window;
        let steps = self.turned(g, window).position(|&q| self.waits_for_its_turn(q));
        (window + steps.unwrap_or(0)) % self.gpus[g].runlist.len().max(1)
    }

    fn waits_for_its_turn(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        queue.blocked & block::UNMAPPED != 0
            && queue.blocked & block::HELD == 0
            && queue.done < self.clients[queue.task].kernels_per_request
            && self.clients[queue.task].current.is_some()
    }

    fn anyone_waits_for_a_turn(&self, g: usize) -> bool {
        self.gpus[g].runlist.iter().any(|&q| self.waits_for_its_turn(q))
    }

    /// Schedules a rotation if somebody needs one.
    pub(super) fn expect_rotation(&mut self, g: usize) {
        if !self.gpus[g].rotating && self.anyone_waits_for_a_turn(g) {
            self.gpus[g].rotating = true;
            self.events.schedule(self.now.plus(self.device.quantum), What::Quantum { gpu: g as u32 });
        }
    }

    /// A quantum is over.
    pub(super) fn quantum_over(&mut self, g: usize) {
        self.gpus[g].rotating = false;
        if self.anyone_waits_for_a_turn(g) {
            self.rotate(g);
        }
    }

    /// Maps what the first runlist holds.
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
