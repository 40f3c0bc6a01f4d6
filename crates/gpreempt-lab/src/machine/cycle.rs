//! Cycles: the calls that stop and resume tasks, their cost and their effect.
//!
//! A cycle saves every wave of a gpu and restores those that stay or come back. Every task on the gpu loses that time.
//! One lock serialises the cycles of a gpu. Resets and rotations of an over-subscribed runlist are cycles, too.

use gpreempt_core::Nanos;

use super::queue::{Saved, block};
use super::{Machine, Notice};
use crate::outcome::TraceKind;

/// Identifies a call until its [`CycleDone`] arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// The interface through which waves are taken off the gpu. Decides cost and the place of save areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchPath {
    /// The stock debug trap. It moves the save areas of the queues it stops into host memory.
    DebugTrap,
    /// The patched call, or `UPDATE_QUEUE`: the save area stays where it is.
    Driver,
    /// A switch of hardware contexts: no runlist, no grace.
    ContextSwitch,
}

/// A cycle is over: the gpu runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleDone {
    /// The call that asked for it.
    pub ticket: Ticket,
    /// Number of the gpu.
    pub gpu: usize,
    /// How long the gpu stood still. The call took longer if it waited for another one.
    pub cost: Nanos,
}

/// The changes that a cycle makes; tasks are given by their queue on the gpu.
#[derive(Debug)]
enum CycleWork {
    Switch { stop: Vec<usize>, resume: Vec<usize>, how: SwitchPath },
    Reset { victims: Vec<usize>, lag: u32 },
    Rotate,
}

/// A call on its way to the driver, or waiting for a gpu.
#[derive(Debug)]
pub(super) struct Call {
    ticket: Ticket,
    gpu: usize,
    work: CycleWork,
}

/// The cycle in progress on a gpu.
#[derive(Debug)]
pub(super) struct Running {
    call: Call,
    pub(super) began: Nanos,
    cost: Nanos,
    after: Arrangement,
}

/// The queues that run after a cycle, and the mapped part of the runlist.
#[derive(Debug)]
struct Arrangement {
    /// Queues that are mapped and not stopped.
    runs: Vec<usize>,
    window: usize,
}

impl Machine {
    /// Stops and resumes tasks on one gpu in one cycle, `host` from now. Exactly one cycle happens, even if nothing
    /// changes; tasks without a queue there are ignored.
    pub fn switch(&mut self, gpu: usize, stop: &[usize], resume: &[usize], how: SwitchPath, host: Nanos) -> Ticket {
        let stop = self.queues_on(gpu, stop);
        let resume = self.queues_on(gpu, resume);
        self.call(gpu, CycleWork::Switch { stop, resume, how }, host)
    }

    /// Stops tasks; see [`Machine::switch`].
    pub fn stop(&mut self, gpu: usize, tasks: &[usize], how: SwitchPath, host: Nanos) -> Ticket {
        self.switch(gpu, tasks, &[], how, host)
    }

    /// Resumes tasks; see [`Machine::switch`].
    pub fn resume(&mut self, gpu: usize, tasks: &[usize], how: SwitchPath, host: Nanos) -> Ticket {
        self.switch(gpu, &[], tasks, how, host)
    }

    /// Kills the resident workgroups of `tasks` on one gpu, empties their rings and holds them. Their progress is known
    /// only `lag` kernels late: [`Machine::resubmit`] begins that far before the kernel that was killed.
    pub fn reset(&mut self, gpu: usize, tasks: &[usize], lag: u32) -> Ticket {
        let victims = self.queues_on(gpu, tasks);
        self.call(gpu, CycleWork::Reset { victims, lag }, Nanos::ZERO)
    }

    /// Returns the time that [`Machine::switch`] would take if it began now.
    #[must_use]
    pub fn switch_cost(&self, gpu: usize, stop: &[usize], resume: &[usize], how: SwitchPath) -> Nanos {
        let stop = self.queues_on(gpu, stop);
        let resume = self.queues_on(gpu, resume);
        let work = CycleWork::Switch { stop, resume, how };
        self.cost(gpu, &work, &self.arrange(gpu, &work))
    }

    pub(super) fn rotate(&mut self, gpu: usize) {
        self.call(gpu, CycleWork::Rotate, Nanos::ZERO);
    }

    fn queues_on(&self, gpu: usize, tasks: &[usize]) -> Vec<usize> {
        tasks.iter().filter_map(|&task| self.queue_of(task, gpu)).collect()
    }

    fn call(&mut self, gpu: usize, work: CycleWork, host: Nanos) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let call = Call { ticket, gpu, work };
        if host == Nanos::ZERO {
            self.take_lock(call);
        } else {
            self.events.schedule(self.now.plus(host), super::event::MachineEvent::Call { ticket });
            self.calls.insert(ticket, call);
        }
        ticket
    }

    /// Handles a call that reaches the driver.
    pub(super) fn call_arrives(&mut self, ticket: Ticket) {
        if let Some(call) = self.calls.remove(&ticket) {
            self.take_lock(call);
        }
    }

    fn take_lock(&mut self, call: Call) {
        let gpu = &mut self.gpus[call.gpu];
        if gpu.frozen() {
            gpu.waiting.push_back(call);
        } else {
            self.begin_cycle(call);
        }
    }

    fn begin_cycle(&mut self, call: Call) {
        let g = call.gpu;
        let after = self.arrange(g, &call.work);
        let cost = self.cost(g, &call.work, &after);
        for i in 0..self.gpus[g].runlist.len() {
            let q = self.gpus[g].runlist[i];
            self.close_span(q);
        }
        self.account_frozen(g, true);
        self.gpus[g].next_end = Nanos::NEVER;
        self.gpus[g].cycle = Some(Running { call, began: self.now, cost, after });
        self.events.schedule(self.now.plus(cost), super::event::MachineEvent::CycleEnd { gpu: g as u32 });
        self.settle_collectives_of(g);
    }

    /// Returns the queues that run after `work`.
    fn arrange(&self, g: usize, work: &CycleWork) -> Arrangement {
        let stopped = |q: usize| self.queues[q].blocked & block::STOPPED != 0;
        let window = self.gpus[g].window;
        let (window, runs) = match work {
            CycleWork::Switch { stop, resume, .. } => {
                let stopped = |q: usize| stop.contains(&q) || (stopped(q) && !resume.contains(&q));
                (window, self.mapped(g, window, stopped))
            }
            CycleWork::Reset { .. } => (window, self.mapped(g, window, stopped)),
            CycleWork::Rotate => {
                let window = self.next_window(g);
                (window, self.mapped(g, window, stopped))
            }
        };
        Arrangement { runs, window }
    }

    /// Returns the time of `work`: firmware and grace period, and the transfer of the waves that are saved and
    /// restored.
    fn cost(&self, g: usize, work: &CycleWork, after: &Arrangement) -> Nanos {
        let (fixed, all) = match work {
            CycleWork::Reset { .. } => return self.device.reset,
            CycleWork::Switch { how: SwitchPath::ContextSwitch, .. } => (self.device.firmware, true),
            CycleWork::Switch { .. } => (self.device.firmware.plus(self.device.grace), true),
            CycleWork::Rotate => (self.device.firmware, false),
        };
        let mut moved = [0_u64; 2];
        let mut free = self.gpus[g].free;
        for batch in &self.gpus[g].batches {
            let queue = &self.queues[batch.queue as usize];
            let shape = &self.shapes[batch.shape as usize];
            let bytes = shape.save_bytes * u64::from(batch.count);
            let stays = after.runs.contains(&(batch.queue as usize));
            if !stays {
                free.give(&shape.each, batch.count);
            }
            let times = match (all, stays) {
                (true, true) => 2,
                (_, false) => 1,
                (false, true) => 0,
            };
            moved[usize::from(queue.save_in_host)] += bytes * times;
        }
        for &q in &after.runs {
            let queue = &self.queues[q];
            let Some(head) = queue.head else { continue };
            let shape = &self.shapes[head.shape];
            for saved in queue.saved.iter().rev() {
                let count = free.fit(&shape.each, saved.count);
                free.take(&shape.each, count);
                moved[usize::from(queue.save_in_host)] += shape.save_bytes * u64::from(count);
            }
        }
        let [vram, host] = moved;
        fixed.plus(self.device.transfer(vram, false)).plus(self.device.transfer(host, true))
    }

    /// Ends the cycle in progress: its changes take effect and the gpu runs again.
    pub(super) fn end_cycle(&mut self, g: usize) {
        let Some(Running { call, began, cost, after }) = self.gpus[g].cycle.take() else {
            return;
        };
        self.figures.cycles += 1;
        self.figures.cycle_time = self.figures.cycle_time.plus(cost);
        self.record(began, cost, None, g, TraceKind::Cycle);
        self.carry_out(g, &call.work, began);
        self.gpus[g].window = after.window;
        for i in 0..self.gpus[g].runlist.len() {
            let q = self.gpus[g].runlist[i];
            let runs = after.runs.contains(&q);
            if runs || self.queues[q].blocked & block::STOPPED != 0 {
                self.queues[q].blocked &= !block::UNMAPPED;
            } else {
                self.queues[q].blocked |= block::UNMAPPED;
            }
            if !runs {
                self.unload(q, began);
            }
        }
        for batch in &mut self.gpus[g].batches {
            if !batch.spins() {
                batch.end = batch.end.plus(cost);
            }
            self.queues[batch.queue as usize].span.get_or_insert(self.now);
        }
        self.account_frozen(g, false);
        for &q in &after.runs {
            self.place_saved(q);
            self.gpus[g].saved_wait |= !self.queues[q].saved.is_empty();
        }
        for i in 0..self.gpus[g].runlist.len() {
            let q = self.gpus[g].runlist[i];
            self.relist(q);
            self.advance(q);
        }
        self.touch(g);
        self.settle_collectives_of(g);
        self.expect_rotation(g);
        let (ticket, gpu) = (call.ticket, g);
        self.notices.push_back(Notice::CycleDone(CycleDone { ticket, gpu, cost }));
        if let Some(next) = self.gpus[g].waiting.pop_front() {
            // The runlist is up again before the next call takes it down.
            self.settle();
            self.begin_cycle(next);
        }
    }

    fn carry_out(&mut self, gpu: usize, work: &CycleWork, began: Nanos) {
        match work {
            CycleWork::Switch { stop, resume, how } => {
                for &q in resume {
                    self.set_block(q, 0, block::STOPPED);
                }
                for &q in stop {
                    self.set_block(q, block::STOPPED, 0);
                    self.queues[q].save_in_host |= *how == SwitchPath::DebugTrap;
                }
            }
            CycleWork::Reset { victims, lag } => {
                for &q in victims {
                    self.kill(q, *lag, began);
                }
            }
            CycleWork::Rotate => self.rotated(gpu),
        }
    }

    /// Moves the resident workgroups of a queue into its save area; `clock` is when the gpu stopped advancing.
    fn unload(&mut self, q: usize, clock: Nanos) {
        for (count, left) in self.take_off(q, clock) {
            self.queues[q].saved.push(Saved { count, left });
        }
        self.relist(q);
    }

    /// Discards a queue's head kernel and the contents of its ring.
    fn kill(&mut self, q: usize, lag: u32, clock: Nanos) {
        self.take_off(q, clock);
        let queue = &mut self.queues[q];
        let client = &self.clients[queue.task];
        if client.current.is_none() || queue.done == client.kernels_per_request {
            // It finished before the reset.
            self.set_block(q, block::HELD | block::KEPT, 0);
            return;
        }
        queue.saved.clear();
        let reached = queue.head.take().map_or(queue.next, |head| head.index);
        queue.next = reached.saturating_sub(lag);
        queue.flush(self.now, self.device.submit);
        queue.cleared = true;
        self.relist(q);
        self.set_block(q, block::HELD | block::KEPT, 0);
    }

    /// Takes a queue's batches off its gpu and returns their workgroups and the time those still need.
    fn take_off(&mut self, q: usize, clock: Nanos) -> Vec<(u32, Nanos)> {
        let g = self.queues[q].gpu;
        let mut taken = Vec::new();
        let mut i = 0;
        while let Some(&batch) = self.gpus[g].batches.get(i) {
            if batch.queue as usize != q {
                i += 1;
                continue;
            }
            self.gpus[g].batches.swap_remove(i);
            let left = batch.left_at(clock);
            self.retire(g, batch, left);
            taken.push((batch.count, left));
        }
        taken
    }
}
