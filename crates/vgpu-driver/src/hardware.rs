//! The hardware's side of a queue: its slot, and what the hardware left in the queue's descriptor when it was unmapped.
//!
//! The hardware scheduler reports to the driver through [`Driver::mapped`] and [`Driver::unmapped`]. Times are values
//! of the gpu's clock counter; indices are as the program sees them in its memory.

use kfd_abi::mqd;
use serde::{Deserialize, Serialize};

use super::ids::Space;
use super::queues::Queue;
use super::runlist::{HqdPlacement, HqdSlot};
use super::{Cause, DeviceEffect, Driver, ProcessKey};
use crate::profile::Profile;

/// Where the descriptors of the driver's own queue and of the copy queues begin in the gpus' view of system memory.
const FIXED_DESCRIPTORS: u64 = 0x6E_3000;
/// Where those of compute queues may lie.
const DESCRIPTORS: std::ops::Range<u64> = 0x80_0000..1 << 36;

/// A period, in values of the gpu's clock counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Begin.
    pub start: u64,
    /// End.
    pub end: u64,
}

/// How much of a queue's save area is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaveExtent {
    /// Waves that have not ended, of all XCCs.
    pub waves: u32,
    /// Bytes of wave state and control stacks, of all XCCs.
    pub bytes: u64,
    /// Bytes of the control stack of the first XCC.
    pub control_stack: u32,
    /// Bytes of the waves of the first XCC.
    pub wave_state: u32,
}

/// A queue after the device put it on the hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connected {
    /// How long it took.
    pub connect: Span,
    /// How long it took to restore its waves, if it had any.
    pub restore: Option<Span>,
    /// Waves it has now, of all XCCs.
    pub waves: u32,
    /// Read index now, or 0 if it is not known.
    pub rptr: u64,
    /// Write index now, or 0 if it is not known.
    pub wptr: u64,
}

/// A queue after the device took it off the hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmappedQueue {
    /// Id of the queue.
    pub id: u32,
    /// Read index, if it can be read.
    pub rptr: Option<u64>,
    /// Write index, if it can be read.
    pub wptr: Option<u64>,
    /// What its save area holds.
    pub saved: SaveExtent,
    /// Whether that was saved just now. What an earlier stop left there costs nothing this time.
    pub written: bool,
    /// Whether it has nothing to do until its doorbell rings.
    pub idle: bool,
}

/// What the hardware left in a queue's descriptor the last time it took the queue off.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastUnmap {
    /// Read index, 0 if it could not be read.
    pub(super) rptr: u64,
    /// Write index, 0 if it could not be read.
    pub(super) wptr: u64,
    /// How much of the save area was in use.
    pub(super) saved: SaveExtent,
    /// How long saving took.
    pub(super) save: Span,
    /// Address space the queue had.
    pub(super) vmid: u32,
}

/// The hardware's side of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Hardware {
    /// Address of its descriptors.
    pub(super) descriptor: u64,
    /// Bytes of them that are its own to give back.
    owned: u64,
    /// XCC that its first descriptor stands for.
    pub(super) first_xcc: u32,
    /// Which compute units it may use, once that was said.
    pub(super) cu_mask: Option<Vec<u32>>,
    /// Waves of a workgroup go to SIMDs in turn: set with global wave sync.
    pub(super) force_simd_dist: bool,
    /// Its save area is in host memory.
    saves_to_host: bool,
    /// Where it is, if it is on the hardware.
    pub(super) place: Option<HqdPlacement>,
    /// The last time it was put there.
    pub(super) connected: Option<Connected>,
    /// The last time it was taken off.
    pub(super) unmapped: Option<LastUnmap>,
}

/// Allocates the descriptors of a gpu's queues.
#[derive(Debug)]
pub(super) struct Descriptors {
    space: Space,
    compute_queues: u32,
    xccs: u32,
    sdma_queues_per_engine: u32,
}

impl Descriptors {
    pub(super) fn new(profile: &Profile) -> Descriptors {
        Descriptors {
            space: Space::new(DESCRIPTORS),
            compute_queues: 0,
            xccs: profile.xcc,
            sdma_queues_per_engine: profile.sdma_queues_per_engine,
        }
    }

    /// Address of the descriptor of the driver's own queue on an XCC.
    pub(super) fn own_queue(xcc: u32) -> u64 {
        FIXED_DESCRIPTORS + u64::from(xcc) * mqd::SIZE as u64
    }

    /// For a new compute queue.
    pub(super) fn compute(&mut self, ctl_stack_size: u32) -> Hardware {
        let owned = mqd::stride(ctl_stack_size) * u64::from(self.xccs);
        let first_xcc = self.compute_queues % self.xccs.max(1);
        self.compute_queues = self.compute_queues.wrapping_add(1);
        // There is room for many times the queues a gpu may have.
        let descriptor = self.space.take(owned).unwrap_or_default();
        Hardware { descriptor, owned, first_xcc, ..Hardware::default() }
    }

    /// For a new copy queue: its slot has its descriptor.
    pub(super) fn sdma(&self, engine: u32, queue: u32) -> Hardware {
        let slot = u64::from(engine) * u64::from(self.sdma_queues_per_engine) + u64::from(queue);
        let descriptor = Descriptors::own_queue(self.xccs) + slot * mqd::SDMA_SIZE as u64;
        Hardware { descriptor, ..Hardware::default() }
    }

    /// Takes back the descriptors of a queue.
    pub(super) fn put(&mut self, hardware: &Hardware) {
        if hardware.owned != 0 && hardware.descriptor != 0 {
            self.space.put(hardware.descriptor, hardware.owned);
        }
    }
}

/// A process in the books of one gpu's scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scheduling {
    /// Number of the queue with which it came to the scheduler.
    pub(super) registered: u64,
    evicted_at_ns: u64,
    evicted_ns: u64,
}

impl Scheduling {
    /// How long its queues had to stay off the gpu, without the time that has not ended yet.
    pub(super) const fn evicted_ms(self) -> u64 {
        self.evicted_ns / 1_000_000
    }
}

impl Driver {
    /// Records that a queue is on the hardware. Queues that no longer exist are ignored.
    pub fn mapped(&mut self, process: ProcessKey, queue: u32, place: HqdPlacement, connected: Connected) {
        if let Some(hardware) = self.hardware(process, queue) {
            hardware.place = Some(place);
            hardware.connected = Some(connected);
        }
    }

    /// Records that a queue is off the hardware and how long saving its waves took. Queues that no longer exist are
    /// ignored, and the descriptor of one that was off before keeps the marks of when it left.
    pub fn unmapped(&mut self, process: ProcessKey, queue: &UnmappedQueue, save: Span) {
        if let Some(hardware) = self.hardware(process, queue.id)
            && let Some(place) = hardware.place.take()
        {
            let UnmappedQueue { rptr, wptr, saved, .. } = *queue;
            let (rptr, wptr) = (rptr.unwrap_or(0), wptr.unwrap_or(0));
            hardware.unmapped = Some(LastUnmap { rptr, wptr, saved, save, vmid: place.vmid });
        }
    }

    /// Records a reset of the gpu: what was on it is lost, and processes that have an address space there stay off it.
    pub fn reset(&mut self, gpu: u32, monotonic_ns: u64) {
        let keys: Vec<_> = self.processes.keys().copied().collect();
        for key in keys {
            // Nothing is on the gpu, so nothing has to be taken off it.
            let _ = self.evict(key, gpu, monotonic_ns);
            let queues = self.processes.get_mut(&key).map(|process| process.queues.values_mut());
            for queue in queues.into_iter().flatten().filter(|queue| queue.spec.gpu == gpu) {
                queue.hardware.place = None;
            }
        }
    }

    /// Records that the processor wrote to the save areas of a process's queues: those in shared virtual memory move to
    /// host memory by that and stay there. Returns the suspended compute queues.
    pub fn wave_states_copied(&mut self, process: ProcessKey) -> Vec<u32> {
        let Some(process) = self.processes.get_mut(&process) else { return Vec::new() };
        let shared: Vec<u32> = process
            .queues
            .values()
            .filter(|queue| queue.spec.ctx_save != 0 && process.svm.contains(queue.spec.ctx_save))
            .map(|queue| queue.spec.id)
            .collect();
        for id in shared {
            if let Some(queue) = process.queues.get_mut(&id) {
                queue.hardware.saves_to_host = true;
            }
        }
        let off = |queue: &&Queue| queue.queue_type.is_compute() && queue.suspended;
        process.queues.values().filter(off).map(|queue| queue.spec.id).collect()
    }

    /// Whether a queue's waves are saved to host memory; `None` if there is no such queue.
    #[must_use]
    pub fn saves_to_host(&self, process: ProcessKey, queue: u32) -> Option<bool> {
        Some(self.processes.get(&process)?.queues.get(&queue)?.hardware.saves_to_host)
    }

    /// Where a queue is, if it is on the hardware.
    #[must_use]
    pub fn place(&self, process: ProcessKey, queue: u32) -> Option<HqdPlacement> {
        self.processes.get(&process)?.queues.get(&queue)?.hardware.place
    }

    fn hardware(&mut self, process: ProcessKey, queue: u32) -> Option<&mut Hardware> {
        Some(&mut self.processes.get_mut(&process)?.queues.get_mut(&queue)?.hardware)
    }

    /// Evicts the queues of a process from a gpu until [`Driver::restore`] was called as often. Returns the cycle that
    /// is to be executed.
    pub fn evict(&mut self, process: ProcessKey, gpu: u32, monotonic_ns: u64) -> Option<DeviceEffect> {
        let on = self.processes.get_mut(&process)?.gpus.get_mut(gpu as usize)?;
        on.vm?;
        on.evicted += 1;
        if on.evicted > 1 {
            return None;
        }
        on.scheduling.evicted_at_ns = monotonic_ns;
        Some(DeviceEffect::Cycle { gpu, cause: Cause::Evict, grace: None })
    }

    /// Takes back one eviction. Returns the cycle that is to be executed.
    pub fn restore(&mut self, process: ProcessKey, gpu: u32, monotonic_ns: u64) -> Option<DeviceEffect> {
        let on = self.processes.get_mut(&process)?.gpus.get_mut(gpu as usize)?;
        on.evicted = on.evicted.checked_sub(1)?;
        if on.evicted > 0 {
            return None;
        }
        let scheduling = &mut on.scheduling;
        scheduling.evicted_ns += monotonic_ns.saturating_sub(scheduling.evicted_at_ns);
        Some(DeviceEffect::Cycle { gpu, cause: Cause::Restore, grace: None })
    }
}

impl HqdSlot {
    /// Whether it is one of a compute pipe.
    #[must_use]
    pub const fn is_compute(self) -> bool {
        matches!(self, HqdSlot::Compute { .. })
    }
}
