//! Dispatch: places workgroups in the free slots of a gpu, and ends them.
//!
//! Slots that the first queue cannot use go to the next one, as on hardware, where queues of different pipes are served
//! side by side. Nothing is reserved: small workgroups can overtake one that needs many resources at once.

use gpreempt_core::Nanos;

use super::Machine;
use super::device::Shape;
use super::event::MachineEvent;
use super::gpu::{Batch, Wanting};
use super::queue::Saved;

/// The order in which the hardware serves the queues that want slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// The queue whose head kernel was submitted first gets all it can use, then the next.
    #[default]
    Doorbell,
    /// Queues in turn, a part of the gpu each time.
    RoundRobin,
}

/// Under round robin a queue gets this part of the gpu before it is the next one's turn: fine enough to share evenly,
/// coarse enough that a full gpu is dealt out in a few steps.
const ROUND_ROBIN_PARTS: u32 = 16;

/// Workgroups that would end within this part of their time before or after others on the gpu end with them. Without it
/// a gpu that is never idle breaks up into ever smaller batches, because every kernel leaves a remainder to the next;
/// with it the error is below two percent of one workgroup's time, either way.
const SNAP_PARTS: u64 = 64;

impl Machine {
    /// Adds a queue to, or removes it from, its gpu's list of queues that want slots, according to its state.
    pub(super) fn relist(&mut self, q: usize) {
        let queue = &mut self.queues[q];
        let wants = queue.wants_slots();
        if wants == queue.listed {
            return;
        }
        queue.listed = wants;
        let g = queue.gpu;
        let wanting = &mut self.gpus[g].wanting;
        match queue.head {
            Some(head) if wants => {
                let entry = Wanting { rung: head.rung, queue: q, shape: head.shape };
                let place = wanting.partition_point(|other| other.key() < entry.key());
                wanting.insert(place, entry);
                self.touch(g);
            }
            _ => wanting.retain(|other| other.queue != q),
        }
    }

    /// Remembers that workgroups may be able to start on a gpu.
    pub(super) fn touch(&mut self, g: usize) {
        if !self.gpus[g].dirty {
            self.gpus[g].dirty = true;
            self.dirty.push(g);
        }
    }

    /// Starts the workgroups that can start on every touched gpu.
    pub(super) fn settle(&mut self) {
        while let Some(g) = self.dirty.pop() {
            self.gpus[g].dirty = false;
            if self.gpus[g].frozen() {
                continue;
            }
            if !self.gpus[g].wanting.is_empty() {
                self.dispatch(g);
            }
            self.expect_completion(g);
        }
        while let Some(task) = self.unsettled_collectives.pop() {
            self.settle_collective(task);
        }
    }

    fn dispatch(&mut self, g: usize) {
        if std::mem::take(&mut self.gpus[g].saved_wait) {
            self.place_saved_first(g);
        }
        match self.order {
            Dispatch::RoundRobin if self.gpus[g].wanting.len() > 1 => self.deal(g),
            Dispatch::RoundRobin | Dispatch::Doorbell => {
                let mut i = 0;
                while let Some(&next) = self.gpus[g].wanting.get(i) {
                    i += self.serve(g, i, next, u32::MAX).next;
                }
            }
        }
    }

    /// Restores saved workgroups before new ones start.
    fn place_saved_first(&mut self, g: usize) {
        let mut i = 0;
        while let Some(&Wanting { queue, .. }) = self.gpus[g].wanting.get(i) {
            self.place_saved(queue);
            self.relist(queue);
            self.gpus[g].saved_wait |= !self.queues[queue].saved.is_empty();
            i += usize::from(self.queues[queue].listed);
        }
    }

    /// Deals the free slots out to the queues in turn.
    fn deal(&mut self, g: usize) {
        let mut refused = 0;
        while refused < self.gpus[g].wanting.len() {
            let gpu = &self.gpus[g];
            let i = gpu.turn % gpu.wanting.len();
            let next = gpu.wanting[i];
            let part = (self.shapes[next.shape].capacity / ROUND_ROBIN_PARTS).max(1);
            let served = self.serve(g, i, next, part);
            refused = if served.any { 0 } else { refused + 1 };
            self.gpus[g].turn = i + served.next;
        }
    }

    /// Starts up to `at_most` workgroups of the queue at place `i` of the list, and takes it off when there are no
    /// more.
    fn serve(&mut self, g: usize, i: usize, entry: Wanting, at_most: u32) -> Served {
        let room = self.gpus[g].free.fit(&self.shapes[entry.shape].each, at_most);
        if room == 0 || self.place_new(entry.queue, room) == 0 {
            return Served { any: false, next: 1 };
        }
        if self.queues[entry.queue].wants_slots() {
            return Served { any: true, next: 1 };
        }
        self.gpus[g].wanting.remove(i);
        self.queues[entry.queue].listed = false;
        Served { any: true, next: 0 }
    }

    /// Starts up to `at_most` workgroups of a queue's head kernel that have not run yet; returns how many.
    fn place_new(&mut self, q: usize, at_most: u32) -> u32 {
        let queue = &mut self.queues[q];
        let Some(head) = queue.head.as_mut() else {
            return 0;
        };
        let shape = &self.shapes[head.shape];
        let count = self.gpus[queue.gpu].free.fit(&shape.each, head.undispatched.min(at_most));
        if count == 0 {
            return 0;
        }
        head.undispatched -= count;
        if !head.started {
            head.started = true;
            queue.touched = queue.touched.max(head.index + 1);
            self.figures.repeated_kernels += u64::from(head.repeated);
        }
        let left = shape.duration;
        self.put(q, Saved { count, left });
        count
    }

    /// Restores the saved workgroups of a queue that fit.
    pub(super) fn place_saved(&mut self, q: usize) {
        while let Some(mut saved) = self.queues[q].saved.pop() {
            let queue = &self.queues[q];
            let Some(head) = queue.head else {
                return;
            };
            let count = self.gpus[queue.gpu].free.fit(&self.shapes[head.shape].each, saved.count);
            if count > 0 {
                let left = saved.left;
                self.put(q, Saved { count, left });
            }
            saved.count -= count;
            if saved.count > 0 {
                self.queues[q].saved.push(saved);
                return;
            }
        }
    }

    /// Places workgroups that fit.
    fn put(&mut self, q: usize, Saved { count, left }: Saved) {
        let queue = &mut self.queues[q];
        let Some(head) = queue.head.as_mut() else {
            return;
        };
        head.resident += count;
        queue.span.get_or_insert(self.now);
        let shape = &self.shapes[head.shape];
        let gpu = &mut self.gpus[queue.gpu];
        gpu.free.take(&shape.each, count);
        let mut batch =
            Batch { queue: q as u32, count, shape: head.shape as u32, end: self.now.plus(left), left, needed: left };
        if shape.collective {
            // Its workgroups spin until all gpus have started it.
            batch.end = Nanos::NEVER;
            self.unsettled_collectives.push(queue.task);
        } else if let Some(other) = nearest(&mut gpu.batches, &batch) {
            batch.end = other.end;
            batch.needed = other.end.since(self.now);
            if other.queue == batch.queue {
                // One batch from now on; the progress of the other so far is accounted.
                let ran = other.needed.since(batch.needed);
                let client = &mut self.clients[queue.task];
                client.busy = client.busy.plus(share_of_gpu(ran, other.count, shape));
                other.needed = batch.needed;
                other.count += count;
                return;
            }
        }
        if !batch.spins() {
            self.clients[queue.task].account_batch(self.now, true);
        }
        gpu.batches.push(batch);
    }

    /// Schedules the event for the end of the earliest batch.
    pub(super) fn expect_completion(&mut self, g: usize) {
        let gpu = &mut self.gpus[g];
        if gpu.frozen() {
            return;
        }
        let end = gpu.earliest_end();
        if end != gpu.next_end {
            gpu.next_end = end;
            self.events.schedule(end, MachineEvent::Completion { gpu: g as u32 });
        }
    }

    /// Ends the batches that are due. Returns whether the event was the one expected.
    pub(super) fn complete(&mut self, g: usize) -> bool {
        if self.gpus[g].next_end != self.now || self.gpus[g].frozen() {
            return false;
        }
        self.gpus[g].next_end = Nanos::NEVER;
        let mut i = 0;
        while let Some(&batch) = self.gpus[g].batches.get(i) {
            if batch.end > self.now {
                i += 1;
                continue;
            }
            self.gpus[g].batches.swap_remove(i);
            self.retire(g, batch, Nanos::ZERO);
            let q = batch.queue as usize;
            let queue = &self.queues[q];
            self.clients[queue.task].account_batch(self.now, false);
            let finished =
                queue.head.is_some_and(|head| head.resident == 0 && head.undispatched == 0 && queue.saved.is_empty());
            if finished {
                self.kernel_finished(q);
            }
        }
        self.touch(g);
        true
    }

    /// Frees the slots of a batch that was taken off its gpu with `left` still to do, and accounts its progress.
    pub(super) fn retire(&mut self, g: usize, batch: Batch, left: Nanos) {
        let shape = &self.shapes[batch.shape as usize];
        self.gpus[g].free.give(&shape.each, batch.count);
        let queue = &mut self.queues[batch.queue as usize];
        if let Some(head) = queue.head.as_mut() {
            head.resident -= batch.count;
        }
        // Workgroups that were saved in between count what they did in several parts.
        let busy = share_of_gpu(batch.needed.since(left), batch.count, shape);
        let client = &mut self.clients[queue.task];
        client.busy = client.busy.plus(busy);
    }
}

/// The result of a queue's turn.
struct Served {
    any: bool,
    /// How much further the next queue is in the list: it moves up when this one leaves.
    next: usize,
}

/// Returns the batch whose end is nearest to that of `new`, if one is near enough; of two, the one of the same queue.
fn nearest<'a>(batches: &'a mut [Batch], new: &Batch) -> Option<&'a mut Batch> {
    let mut nearest = None;
    let mut distance = new.needed.0 / SNAP_PARTS + 1;
    for batch in batches {
        let off = batch.end.0.abs_diff(new.end.0);
        if off < distance || (off == distance && nearest.is_some() && batch.queue == new.queue) {
            distance = off;
            nearest = Some(batch);
        }
    }
    nearest
}

/// Returns the progress of `count` workgroups in a time, as time of the whole gpu.
fn share_of_gpu(time: Nanos, count: u32, shape: &Shape) -> Nanos {
    Nanos(time.times(u64::from(count)).0 / u64::from(shape.capacity))
}
