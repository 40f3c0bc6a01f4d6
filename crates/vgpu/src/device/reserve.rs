//! Reserves places on the device ahead of execution.
//!
//! Hardware fills the compute units with as many workgroups as fit. Here only few of them run at a time, and registers
//! are made when a workgroup first runs; but all have their places from the beginning, so a long kernel fills the
//! device and others wait for it as they would on hardware.

use std::cmp::Reverse;

use super::cu_mask::CuMask;
use super::process_device::ProcessDevice;
use super::queue::QueueId;
use super::slots::{Need, PriorityClass, SlotRequest};

/// Workgroups that find room in one go. The device's lock is held meanwhile; the rest follows with the next turn.
const BATCH: usize = 256;

impl ProcessDevice {
    /// Finds places for workgroups: those that come back to the device, then the next of each grid. The queue with the
    /// highest priority has the choice, and among equals the one that has waited longest. Tells other processes what
    /// found none.
    ///
    /// [`ProcessDevice::take`] does this; a worker that waits for a token and is woken because there is room may, too.
    pub(crate) fn fill(&mut self) {
        self.unfilled = 0;
        if self.draining {
            return self.slots.wait(None);
        }
        let mut candidates: Vec<_> = self
            .queues
            .iter()
            .filter(|(id, queue)| queue.active() && (queue.dispatches.unplaced().is_some() || self.returns(**id)))
            .map(|(id, queue)| (Reverse(queue.spec.priority), queue.last_place, *id))
            .collect();
        let mut best = None;
        for _ in 0..BATCH {
            candidates.sort_unstable();
            let Some(&(priority, _, id)) = candidates.first() else { break };
            match self.find_place(id) {
                Ok(true) => candidates[0] = (priority, self.places, id),
                Ok(false) => {
                    candidates.remove(0);
                }
                Err(need) => {
                    best.get_or_insert((id, need));
                    candidates.remove(0);
                }
            }
        }
        let best = best.and_then(|(id, need)| {
            let queue = self.queues.get(&id)?;
            Some(SlotRequest {
                need,
                class: PriorityClass::of_priority(queue.spec.priority),
                allowed: queue.cu_mask.as_ref(),
            })
        });
        self.slots.wait(best.as_ref());
    }

    fn returns(&self, id: QueueId) -> bool {
        self.returning.iter().any(|group| group.queue == id)
    }

    /// Finds a place for one workgroup of a queue. Returns whether there was one without, or what it needs if there is
    /// no room. A queue whose workgroups wait for room starts no others: what it has started fitted on the device at
    /// one time, and so into its save area.
    fn find_place(&mut self, id: QueueId) -> Result<bool, Need> {
        let Some(queue) = self.queues.get_mut(&id) else { return Ok(false) };
        let class = PriorityClass::of_priority(queue.spec.priority);
        let request = |need| SlotRequest { need, class, allowed: queue.cu_mask.as_ref() };
        let mut refused = None;
        for index in (0..self.returning.len()).filter(|&index| self.returning[index].queue == id) {
            let group = &self.returning[index];
            let need = group.launch.need(group.id);
            // Those that are alike find no room either.
            if refused == Some(need) {
                continue;
            }
            if let Some(place) = self.slots.take(&request(need)) {
                let Some(mut group) = self.returning.remove(index) else { return Ok(false) };
                self.counters.landed += 1;
                self.counters.moved += u64::from(group.land(place));
                self.ready.push_back(group);
                self.places += 1;
                queue.last_place = self.places;
                return Ok(true);
            }
            refused.get_or_insert(need);
        }
        if let Some(need) = refused {
            return Err(need);
        }
        let Some(need) = queue.dispatches.unplaced() else { return Ok(false) };
        let place = self.slots.take(&request(need)).ok_or(need)?;
        if let Some(place) = queue.dispatches.reserve(place) {
            self.slots.give(&place);
        }
        self.places += 1;
        queue.last_place = self.places;
        Ok(true)
    }

    /// Gives back the places of a queue's workgroups that have not started. They have executed nothing and return to
    /// their grids.
    pub(super) fn withdraw(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.dispatches.withdraw().for_each(|place| self.slots.give(&place));
        // It may have been this queue that waited.
        self.slots.wait(None);
    }

    /// Limits a queue to some compute units. Returns whether there is such a queue. Workgroups that run stay where they
    /// are until the queue is taken off the device. If no compute unit is left the queue waits.
    pub(crate) fn set_cu_mask(&mut self, id: QueueId, mask: Option<CuMask>) -> bool {
        self.withdraw(id);
        let Some(queue) = self.queues.get_mut(&id) else { return false };
        queue.cu_mask = mask;
        true
    }
}
