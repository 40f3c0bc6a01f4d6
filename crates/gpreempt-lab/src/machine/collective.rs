//! Collectives: kernels whose workgroups spin until every gpu of the task has started the same one.
//!
//! A rank takes part while its first workgroups are resident and its gpu is not frozen. If one rank leaves, by being
//! stopped or because its gpu is in a cycle, the others spin on: they occupy their slots and advance nothing. A rank
//! that has already passed the kernel no longer holds the others up; that only happens when a kernel is repeated.

use gpreempt_core::Nanos;

use super::Machine;

impl Machine {
    /// Starts or suspends the collective at the head of each of a task's queues.
    pub(super) fn settle_collective(&mut self, task: usize) {
        for i in 0..self.clients[task].queues.len() {
            let q = self.clients[task].queues[i];
            let Some(head) = self.queues[q].head else {
                continue;
            };
            if !self.shapes[head.shape].collective || head.resident == 0 {
                continue;
            }
            let goes_on = self.takes_part(q, head.index)
                && self.clients[task]
                    .queues
                    .iter()
                    .all(|&other| self.queues[other].done > head.index || self.takes_part(other, head.index));
            self.spin(q, !goes_on);
        }
    }

    fn takes_part(&self, q: usize, index: u32) -> bool {
        let queue = &self.queues[q];
        let there = queue.head.is_some_and(|head| head.index == index && head.resident > 0);
        there && !self.gpus[queue.gpu].frozen()
    }

    /// Sets whether the batches of a queue spin or advance.
    fn spin(&mut self, q: usize, spin: bool) {
        let now = self.now;
        let g = self.queues[q].gpu;
        // On a frozen gpu nothing advances anyway.
        let frozen = self.gpus[g].frozen();
        let client = &mut self.clients[self.queues[q].task];
        for batch in &mut self.gpus[g].batches {
            if batch.queue as usize != q || batch.spins() == spin {
                continue;
            }
            if spin {
                batch.left = batch.end.since(now);
                batch.end = Nanos::NEVER;
            } else {
                batch.end = now.plus(batch.left);
            }
            if !frozen {
                client.account_batch(now, !spin);
            }
        }
        self.expect_completion(g);
    }

    /// [`Machine::settle_collective`] for the tasks on a gpu that stops or starts advancing.
    pub(super) fn settle_collectives_of(&mut self, g: usize) {
        for i in 0..self.gpus[g].runlist.len() {
            let q = self.gpus[g].runlist[i];
            let collective = self.queues[q].head.is_some_and(|head| self.shapes[head.shape].collective);
            if collective {
                self.settle_collective(self.queues[q].task);
            }
        }
    }
}
