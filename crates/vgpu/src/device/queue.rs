//! Hardware queues: the settings that the driver gives them, and their progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kfd_abi::hsa::AmdQueue;
use vgpu_isa::memory::Fault;

use super::aql::Aql;
use super::context::{Context, Step};
use super::cu_mask::CuMask;
use super::dispatch::Dispatches;
use super::errors::Halt;
use super::gws::Gws;
use super::pm4::Pm4;
use super::read_index::ReadIndex;
use super::save::{SaveArea, SavedQueue};
use super::sdma::Sdma;
use super::stream::Stream;
use super::workgroup::Workgroup;
use crate::driver::profile::ReadIndexKind;

/// A queue's number in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// Format of the packets in a queue's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFormat {
    /// AQL packets; pointers count packets.
    Aql,
    /// PM4 packets; pointers count dwords.
    Pm4,
    /// Packets of the copy engine; pointers count bytes.
    Sdma,
}

/// A doorbell as the device sees it: a word that changes when it is rung. Its creator sets it to [`Doorbell::SILENT`].
#[derive(Clone, Copy, Debug)]
pub struct Doorbell {
    word: *const AtomicU64,
    number: u32,
}

// SAFETY: the word is only read, atomically, from any thread; the caller of `new` keeps it mapped.
unsafe impl Send for Doorbell {}
// SAFETY: shared references read the word atomically and change nothing.
unsafe impl Sync for Doorbell {}

impl Doorbell {
    /// Value of the word before the doorbell is first rung. Not zero, which is the first packet's number.
    pub const SILENT: u64 = u64::MAX;

    /// Makes a doorbell from a host address.
    ///
    /// # Safety
    /// `word` must be aligned and stay readable until the queue is destroyed.
    pub unsafe fn new(word: *const AtomicU64) -> Self {
        Self { word, number: 0 }
    }

    /// Sets its number among the doorbells of its process.
    #[must_use]
    pub fn numbered(self, number: u32) -> Self {
        Self { number, ..self }
    }

    /// Returns its number among the doorbells of its process, by which trap handlers name the queue.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the value written last.
    pub fn value(&self) -> u64 {
        // SAFETY: the caller of `Doorbell::new` promised an aligned, readable word.
        unsafe { (*self.word).load(Ordering::Acquire) }
    }
}

/// A queue as the driver creates it.
#[derive(Clone, Copy, Debug)]
pub struct HardwareQueueSpec {
    /// Number of the queue.
    pub id: QueueId,
    /// Format of its packets.
    pub kind: PacketFormat,
    /// Address of the ring.
    pub ring: u64,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// Address to which the read pointer is written.
    pub read_pointer: u64,
    /// Address from which the write pointer is read.
    pub write_pointer: u64,
    /// Doorbell. Without one the write pointer counts from the start.
    pub doorbell: Option<Doorbell>,
    /// Priority, 0 to 15.
    pub priority: u32,
    /// Percentage of the driver's interface: 0 stops the queue, any other value runs it.
    pub percent: u32,
    /// Area in which its waves are saved. Queues without waves need none.
    pub save_area: Option<SaveArea>,
}

/// Settings that the driver may change later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HardwareQueueUpdate {
    /// Address of the ring.
    pub(crate) ring: u64,
    /// Bytes of the ring; 0 stops the queue.
    pub(crate) ring_bytes: u64,
    /// Priority, 0 to 15.
    pub(crate) priority: u32,
    /// Percentage of the driver's interface: 0 stops the queue, any other value runs it.
    pub(crate) percent: u32,
}

/// Packet processor of a queue.
#[derive(Debug)]
enum Processor {
    Aql(Aql),
    Pm4(Stream),
    Sdma(Sdma),
}

/// A queue and everything it has under way.
#[derive(Debug)]
pub(crate) struct HardwareQueue {
    pub(crate) spec: HardwareQueueSpec,
    /// Count of queues created before, plus 1: tells queues apart that had the same number.
    pub(crate) serial: u64,
    processor: Processor,
    /// PM4 state: of the ring, or of the buffers that AQL packets jump to.
    pm4: Pm4,
    pub(crate) dispatches: Dispatches,
    /// Workgroups off the device.
    pub(crate) parked: Vec<Workgroup>,
    /// Workgroups whose waves are in the save area.
    pub(crate) saved: Option<SavedQueue>,
    /// Number of workgroups that workers hold.
    pub(crate) handed_out: usize,
    /// Whether it met an error; it then never runs again.
    pub(crate) stopped: bool,
    /// Whether it was taken off the device by request.
    pub(crate) suspended: bool,
    /// Number of the last of its workgroups that found room, counted over the device.
    pub(crate) last_place: u64,
    /// Number of the last of its workgroups that was started, counted over the device.
    pub(crate) last_start: u64,
    /// Compute units it may use; all without a mask.
    pub(crate) cu_mask: Option<CuMask>,
    /// Global wave sync of its process.
    pub(crate) gws: Arc<Gws>,
}

impl HardwareQueue {
    pub(crate) fn new(spec: HardwareQueueSpec, serial: u64, read_index: ReadIndexKind, gws: Arc<Gws>) -> Self {
        let processor = match spec.kind {
            PacketFormat::Aql => Processor::Aql(Aql::new(read_index)),
            PacketFormat::Pm4 => Processor::Pm4(Stream::ring(spec.ring, spec.ring_bytes)),
            PacketFormat::Sdma => Processor::Sdma(Sdma::new(spec.ring, spec.ring_bytes)),
        };
        Self {
            spec,
            serial,
            processor,
            pm4: Pm4::default(),
            dispatches: Dispatches::default(),
            parked: Vec::new(),
            saved: None,
            handed_out: 0,
            stopped: false,
            suspended: false,
            last_place: 0,
            last_start: 0,
            cu_mask: None,
            gws,
        }
    }

    /// Returns whether it may process packets and run waves.
    pub(crate) fn active(&self) -> bool {
        let stays_off = self.stopped || self.suspended || self.saved.is_some();
        !stays_off && self.spec.percent > 0 && self.spec.ring_bytes > 0
    }

    /// Returns whether it may not run and no worker holds a workgroup of it.
    pub(crate) fn is_off_device(&self) -> bool {
        !self.active() && self.handed_out == 0
    }

    /// Returns the addresses of its read pointer and its write pointer.
    pub(crate) fn pointers(&self) -> (u64, u64) {
        (self.spec.read_pointer, self.spec.write_pointer)
    }

    /// Returns whether nothing of it is under way.
    pub(crate) fn idle(&self) -> bool {
        self.dispatches.idle()
    }

    /// Returns whether a fetched packet is unfinished: it waits for a value in memory, or is being carried out. The
    /// pointers no longer show it.
    pub(crate) fn holds_packet(&self) -> bool {
        self.pm4.is_under_way()
            || match &self.processor {
                Processor::Aql(aql) => aql.is_under_way(),
                Processor::Pm4(_) => false,
                Processor::Sdma(sdma) => sdma.is_under_way(),
            }
    }

    /// Takes note that a dispatch has completed, which is the AQL packet of this number.
    pub(crate) fn completed(&mut self, cx: &mut Context<'_>, packet: u64) -> Result<(), Fault> {
        self.with_read_index(|index, spec| index.completed(cx, spec, packet))
    }

    /// Shows the read index of a queue that is saved.
    pub(crate) fn rewind(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        self.with_read_index(|index, spec| index.rewind(cx, spec))
    }

    /// Shows the read index of a queue that comes back to the device.
    pub(crate) fn catch_up(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        self.with_read_index(|index, spec| index.catch_up(cx, spec))
    }

    fn with_read_index(
        &mut self,
        act: impl FnOnce(&mut ReadIndex, &HardwareQueueSpec) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match &mut self.processor {
            Processor::Aql(aql) => act(&mut aql.index, &self.spec),
            Processor::Pm4(_) | Processor::Sdma(_) => Ok(()),
        }
    }

    pub(crate) fn update(&mut self, update: &HardwareQueueUpdate) {
        let HardwareQueueUpdate { ring, ring_bytes, priority, percent } = *update;
        self.spec = HardwareQueueSpec { ring, ring_bytes, priority, percent, ..self.spec };
        match &mut self.processor {
            Processor::Aql(_) => {}
            Processor::Pm4(stream) => stream.moved(ring, ring_bytes),
            Processor::Sdma(sdma) => sdma.ring.moved(ring, ring_bytes),
        }
    }

    /// Returns the address of the runtime's queue object, if the pointers lie in one.
    pub(crate) fn object(&self) -> Option<u64> {
        AmdQueue::base(self.spec.read_pointer, self.spec.write_pointer).filter(|_| self.spec.kind == PacketFormat::Aql)
    }

    /// Processes the next packet, or a part of it.
    pub(crate) fn step(&mut self, cx: &mut Context<'_>) -> Result<Step, Halt> {
        if self.spec.doorbell.is_some_and(|doorbell| doorbell.value() == Doorbell::SILENT) {
            return Ok(Step::Empty);
        }
        let object = self.object();
        match &mut self.processor {
            Processor::Aql(aql) => aql.step(cx, &self.spec, object, &mut self.pm4, &mut self.dispatches),
            Processor::Pm4(ring) => {
                follow(cx, ring, &self.spec, 1)?;
                let before = ring.at;
                let step = self.pm4.step(Some(ring), cx, &mut self.dispatches)?;
                show_progress(cx, ring, before, &self.spec, 1)?;
                Ok(step)
            }
            Processor::Sdma(sdma) => {
                follow(cx, &mut sdma.ring, &self.spec, 4)?;
                let before = sdma.ring.at;
                let step = sdma.step(cx)?;
                show_progress(cx, &sdma.ring, before, &self.spec, 4)?;
                Ok(step)
            }
        }
    }
}

/// Reads the write pointer of a ring of dwords. `unit` is the amount by which the pointers advance for a dword.
fn follow(cx: &mut Context<'_>, ring: &mut Stream, spec: &HardwareQueueSpec, unit: u64) -> Result<(), Halt> {
    let end = cx.memory.read_u64(spec.write_pointer)? / unit;
    if end.wrapping_sub(ring.at) > ring.capacity() {
        let text = format!("the write pointer is {end} where {} of {} dwords are read", ring.at, ring.capacity());
        return Err(Halt::unsupported(text));
    }
    ring.end = end;
    Ok(())
}

/// Writes the read pointer if packets were fetched.
fn show_progress(
    cx: &mut Context<'_>,
    ring: &Stream,
    before: u64,
    spec: &HardwareQueueSpec,
    unit: u64,
) -> Result<(), Halt> {
    if ring.at != before {
        cx.memory.write_u64(spec.read_pointer, ring.at.wrapping_mul(unit))?;
    }
    Ok(())
}
