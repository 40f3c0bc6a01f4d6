//! Mapping and unmapping of queues by the hardware scheduler.
//!
//! A queue that is not mapped fetches no packets and runs no waves. Unmapping takes all queues off the device and saves
//! their waves; mapping brings some of them back.

use kfd_abi::Abi;
use kfd_abi::save_area::{SaveAreaHeader, WaveState};
use vgpu_isa::memory::Port;

use super::process_device::ProcessDevice;
use super::queue::{HardwareQueue, QueueId};
use super::save::{SaveArea, SaveError};
use crate::driver::{SaveExtent, UnmappedQueue};

impl ProcessDevice {
    /// Starts no further packets and workgroups; running ones may end.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// Returns whether nothing runs.
    pub(crate) fn is_drained(&self) -> bool {
        self.ready.is_empty() && self.queues.values().all(|queue| queue.handed_out == 0)
    }

    /// Takes all queues off the device. [`ProcessDevice::is_unmapped`] once workers have put back what they hold.
    pub(crate) fn unmap(&mut self) {
        let ids: Vec<_> = self.queues.keys().copied().collect();
        for id in ids {
            self.suspend(id);
        }
    }

    /// Returns whether nothing is on the device any more.
    pub(crate) fn is_unmapped(&self) -> bool {
        self.queues.values().all(|queue| queue.suspended && queue.is_off_device())
    }

    /// Resets the device: drops everything that the queues have under way and stops them for good. What workers hold
    /// ends when they put it back.
    pub(crate) fn reset(&mut self) {
        self.draining = false;
        for id in self.queue_ids() {
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            queue.stopped = true;
            queue.saved = None;
            self.take_off(id);
            let lost = self.queues.get_mut(&id).map(|queue| std::mem::take(&mut queue.parked));
            lost.into_iter().flatten().for_each(|group| self.recycle(group));
        }
    }

    /// Saves the waves of all queues, which are off the device. Queues without waves leave their save area alone, and
    /// one that has met an error keeps its waves where they are: it never runs again.
    pub(crate) fn save_all(&mut self) -> Vec<UnmappedQueue> {
        let ids: Vec<_> = self.queues.keys().copied().collect();
        ids.into_iter().map(|id| self.save_unmapped(id)).collect()
    }

    fn save_unmapped(&mut self, id: QueueId) -> UnmappedQueue {
        // Packets without waves may be under way, too.
        self.with_queue(id, HardwareQueue::rewind);
        let to_save = self.queues.get(&id).is_some_and(|queue| {
            let waves = !queue.parked.is_empty() || queue.saved.is_some();
            waves && !queue.stopped
        });
        let written = to_save && !self.is_saved(id);
        // A failure has stopped the queue and is told to the program as such.
        let saved = if to_save { self.save(id).unwrap_or_default() } else { SaveExtent::default() };
        let (read, write) = self.queues.get(&id).map_or((0, 0), HardwareQueue::pointers);
        let mut memory = Port::new(&self.space);
        let (rptr, wptr) = (memory.read_u64(read).ok(), memory.read_u64(write).ok());
        // A packet that waits for a value in memory must be tried now and then: no doorbell announces the change.
        let under_way = self.queues.get(&id).is_some_and(|queue| !queue.idle() || queue.holds_packet());
        let idle = !under_way && saved.waves == 0 && rptr.is_some() && rptr == wptr;
        // One that has met an error does nothing, whatever is in its ring.
        let idle = idle || self.stopped(id);
        UnmappedQueue { id: id.0, rptr, wptr, saved, written, idle }
    }

    /// Preempts a queue that is on the device and has waves, without an order of the driver: they are saved, their
    /// records overwritten, and everything comes back from the save area. Returns whether that was possible now.
    pub(crate) fn preempt(&mut self, id: QueueId) -> bool {
        let on_device = self.queues.get(&id).is_some_and(|queue| queue.active() && queue.spec.save_area.is_some());
        if !on_device || self.draining {
            return false;
        }
        self.suspend(id);
        let struck = self.queues.get(&id).is_some_and(|queue| queue.is_off_device() && !queue.parked.is_empty());
        // A failure has stopped the queue and is told to the program as such.
        if struck && self.save(id).is_ok() {
            self.counters.storms += 1;
        }
        self.resume(id);
        struck
    }

    /// Returns the numbers of all queues.
    pub(crate) fn queue_ids(&self) -> Vec<QueueId> {
        self.queues.keys().copied().collect()
    }

    /// Brings queues back to the device; those it does not know are skipped.
    pub(crate) fn map(&mut self, ids: &[QueueId]) {
        self.draining = false;
        for id in ids {
            self.resume(*id);
        }
    }

    /// Writes header and control stack of a queue that is off the device where a debugger looks for them, also if it
    /// has no waves; and to `address`, if there is one, as if the area began there.
    ///
    /// # Errors
    /// See [`SaveError`].
    pub(crate) fn wave_state(&mut self, id: QueueId, address: Option<u64>) -> Result<SaveExtent, SaveError> {
        let extent = self.save(id)?;
        let area = self.queues.get(&id).and_then(|queue| queue.spec.save_area);
        if let (Some(area), Some(address)) = (area, address.filter(|address| *address != 0)) {
            let mut memory = Port::new(&self.space);
            let elsewhere = SaveArea { address, ..area };
            for xcc in (0..area.xccs).filter(|_| address != area.address) {
                copy_part(&mut memory, area.part(xcc), elsewhere.part(xcc))?;
            }
        }
        Ok(extent)
    }

    /// Adds exceptions to the word that the header of a queue's save area names. Returns the event that it names, if
    /// any.
    pub(crate) fn report_exceptions(&mut self, id: QueueId, exceptions: u64) -> Option<u32> {
        let area = self.queues.get(&id)?.spec.save_area?;
        let mut memory = Port::new(&self.space);
        let mut bytes = [0; SaveAreaHeader::SIZE];
        memory.read(area.address, &mut bytes).ok()?;
        let header = SaveAreaHeader::decode(&bytes)?;
        if header.err_payload_addr != 0 {
            let before = memory.read_u64(header.err_payload_addr).ok()?;
            memory.write_u64(header.err_payload_addr, before | exceptions).ok()?;
        }
        (header.err_event_id != 0).then_some(header.err_event_id)
    }
}

/// Copies header and control stack of an XCC's part.
fn copy_part(memory: &mut Port<'_>, from: u64, to: u64) -> Result<(), SaveError> {
    let mut bytes = [0; WaveState::SIZE];
    memory.read(from, &mut bytes)?;
    memory.write(to, &bytes)?;
    let Some(header) = WaveState::decode(&bytes) else { return Ok(()) };
    let mut stack = vec![0; header.control_stack_size as usize];
    let offset = u64::from(header.control_stack_offset);
    memory.read(from.wrapping_add(offset), &mut stack)?;
    memory.write(to.wrapping_add(offset), &stack)?;
    Ok(())
}
