//! The read index of an AQL queue: which packets the program sees as passed, and may write over.
//!
//! Which of the three kinds a device has is a property of its profile ([`ReadIndexKind`] names the sources). A packet's
//! header becomes invalid before the index passes it, and not later: from then on the slot is the program's. So it
//! stays until the packet retires where the index waits for that, as a debugger that reads the packets of running waves
//! expects, and is gone once the packet is fetched where the index does not wait. A rewind does not bring it back.

use std::collections::BTreeSet;

use kfd_abi::aql::{PACKET_SIZE, PacketType};
use vgpu_isa::memory::Fault;

use super::context::Context;
use super::queue::HardwareQueueSpec;
use crate::driver::profile::ReadIndexKind;

/// The packets that were fetched, and the index that shows it.
#[derive(Clone, Debug)]
pub(crate) struct ReadIndex {
    kind: ReadIndexKind,
    /// Number of the packet to fetch next.
    next: u64,
    /// Value that the program sees.
    shown: u64,
    /// Packets that were fetched and have not completed.
    unfinished: BTreeSet<u64>,
}

/// Returns the address of a packet's slot.
pub(crate) fn slot(spec: &HardwareQueueSpec, packet: u64) -> u64 {
    spec.ring.wrapping_add(packet % packets(spec) * PACKET_SIZE as u64)
}

/// Returns the number of slots of a ring.
fn packets(spec: &HardwareQueueSpec) -> u64 {
    (spec.ring_bytes / PACKET_SIZE as u64).max(1)
}

impl ReadIndex {
    pub(crate) fn new(kind: ReadIndexKind) -> Self {
        Self { kind, next: 0, shown: 0, unfinished: BTreeSet::new() }
    }

    /// Returns the number of the packet to fetch next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether the next packet has a slot of its own: not one that the index has not passed.
    pub(crate) fn may_fetch(&self, spec: &HardwareQueueSpec) -> bool {
        self.next - self.shown < packets(spec)
    }

    /// Takes note that the next packet was read from its slot.
    pub(crate) fn fetched(&mut self, cx: &mut Context<'_>, spec: &HardwareQueueSpec) -> Result<(), Fault> {
        self.unfinished.insert(self.next);
        self.next += 1;
        if self.kind == ReadIndexKind::Retire {
            return Ok(());
        }
        self.pass(cx, spec, self.next)
    }

    /// Takes note that a packet has completed.
    pub(crate) fn completed(
        &mut self,
        cx: &mut Context<'_>,
        spec: &HardwareQueueSpec,
        packet: u64,
    ) -> Result<(), Fault> {
        self.unfinished.remove(&packet);
        if self.kind == ReadIndexKind::Retire { self.pass(cx, spec, self.oldest()) } else { Ok(()) }
    }

    /// Goes back to the oldest packet that has not completed, if the index does that while the queue is saved. No
    /// further than the ring reaches: what lies before has lost its slot, and programs compute the room in a ring from
    /// the distance of the indices.
    pub(crate) fn rewind(&mut self, cx: &mut Context<'_>, spec: &HardwareQueueSpec) -> Result<(), Fault> {
        if self.kind != ReadIndexKind::FetchRewoundAtSave || self.unfinished.is_empty() {
            return Ok(());
        }
        let written = cx.memory.read_u64(spec.write_pointer)?;
        let in_ring = written.saturating_sub(packets(spec));
        self.show(cx, spec, self.oldest().max(in_ring).min(self.next))
    }

    /// Takes a rewind back: the queue comes back to the device.
    pub(crate) fn catch_up(&mut self, cx: &mut Context<'_>, spec: &HardwareQueueSpec) -> Result<(), Fault> {
        if self.kind == ReadIndexKind::Retire { Ok(()) } else { self.show(cx, spec, self.next) }
    }

    /// Returns the oldest packet that has not completed, or else the next.
    fn oldest(&self) -> u64 {
        self.unfinished.first().copied().unwrap_or(self.next)
    }

    /// Gives the slots of all packets before `end` to the program.
    fn pass(&mut self, cx: &mut Context<'_>, spec: &HardwareQueueSpec, end: u64) -> Result<(), Fault> {
        for packet in self.shown..end {
            cx.memory.write(slot(spec, packet), &u16::from(PacketType::INVALID.0).to_le_bytes())?;
        }
        self.show(cx, spec, end)
    }

    fn show(&mut self, cx: &mut Context<'_>, spec: &HardwareQueueSpec, index: u64) -> Result<(), Fault> {
        if self.shown != index {
            cx.memory.write_u64(spec.read_pointer, index)?;
            self.shown = index;
        }
        Ok(())
    }
}
