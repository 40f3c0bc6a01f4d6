//! Holds: keep a task from running without a cycle, for mechanisms that own the submission path or the hardware's
//! contexts.

use super::Machine;
use super::queue::block;

impl Machine {
    /// Prevents a task from fetching on a gpu; a kernel that has started there runs to its end.
    pub fn hold(&mut self, task: usize, gpu: usize) {
        self.block(task, gpu, block::HELD | block::KEPT);
    }

    /// Does the same for a task whose context is not the current one; the task does not count as stopped.
    pub fn park(&mut self, task: usize, gpu: usize) {
        self.block(task, gpu, block::HELD);
    }

    /// Undoes [`Machine::hold`] and [`Machine::park`].
    pub fn release(&mut self, task: usize, gpu: usize) {
        if let Some(q) = self.queue_of(task, gpu) {
            self.set_block(q, 0, block::HELD | block::KEPT);
            self.relist(q);
            self.advance(q);
            // Without a slot it waits for one like the other queues.
            self.expect_rotation(gpu);
        }
    }

    /// Notes that a shim launches nothing for a task until [`Machine::release`]; launched kernels continue.
    pub fn withhold(&mut self, task: usize, gpu: usize) {
        self.block(task, gpu, block::KEPT);
    }

    fn block(&mut self, task: usize, gpu: usize, bits: u8) {
        if let Some(q) = self.queue_of(task, gpu) {
            self.set_block(q, bits, 0);
            self.relist(q);
            // It may have been the last task to use its slot.
            self.expect_rotation(gpu);
        }
    }
}
