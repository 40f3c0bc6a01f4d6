//! The descriptors of queues, as the kernel and the hardware fill them.
//!
//! The kernel's part is that of `kfd_mqd_manager_v9.c` in Linux 6.12. What the hardware adds when it takes a queue off
//! was read from an MI308X: the registers of the slot, with marks that the kernel never writes. Words of the firmware's
//! own (indirect buffer, packet state) stay zero.

use kfd_abi::mqd;
use kfd_abi::queue::PipePriority;

use super::hardware::{Connected, Hardware, LastUnmap};
use super::process::Process;
use super::queues::Queue;
use super::runlist::doorbell_word;
use super::{Driver, ProcessKey, QueueKind};
use crate::Observed;
use crate::profile::Gfx;

const HEADER: u32 = 0xC031_0800;
const TRAP_PRESENT: u32 = 1 << 6;
const PRELOAD: u32 = 0x53 << 8 | 1;
const SAVE_WAVES: u32 = 1 << 30;
/// `COMPUTE_RESOURCE_LIMITS.FORCE_SIMD_DIST`.
const FORCE_SIMD_DIST: u32 = 1 << 23;
/// Enabled, in steps of the second size, one of them.
const QUANTUM: u32 = 1 << 8 | 1 << 4 | 1;
const DISPATCH_POINTER: u32 = 1 << 14;
const MQD_PRIVILEGED: u32 = 1 << 8;
const IB_CONTROL: u32 = 3 << 20 | 1 << 23;

const REPORT_BLOCK: u32 = 5 << 8;
const QUEUE_FULL: u32 = 1 << 14;
const PQ_EMPTY: u32 = 1 << 15;
const CLAMP: u32 = 1 << 16;
const SLOT_BASED: u32 = 2 << 25;
const NO_UPDATE_RPTR: u32 = 1 << 27;
const UNORDERED_DISPATCH: u32 = 1 << 28;

const DOORBELL_DROP: u32 = 1 << 1;
/// What the hardware adds to a slot in use.
const DOORBELL_ENABLED: u32 = 3 << 29;
const STATUS_CONNECTED: u32 = 1 << 30;
const EOP_RPTR: u32 = 1 << 30;
const EOP_WPTR: u32 = 0x7F_8000;

const SDMA_REPORT: u32 = 1 << 12 | 6 << 16;
const SDMA_DUMMY: u32 = 0xF;
const SDMA_ENABLED: u32 = 1;
const SDMA_DOORBELL_ENABLED: u32 = 1 << 28;

/// A descriptor that is being filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Descriptor(Vec<u8>);

impl Descriptor {
    pub(super) fn new(size: usize) -> Descriptor {
        Descriptor(vec![0; size])
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn get(&self, offset: usize) -> u32 {
        mqd::word(&self.0, offset).unwrap_or_default()
    }

    pub(super) fn set(&mut self, offset: usize, value: u32) {
        if let Some(room) = self.0.get_mut(offset..offset + 4) {
            room.copy_from_slice(&value.to_le_bytes());
        }
    }

    fn set_double(&mut self, offset: usize, value: u64) {
        self.set(offset, value as u32);
        self.set(offset + 4, (value >> 32) as u32);
    }

    fn add(&mut self, offset: usize, bits: u32) {
        self.set(offset, self.get(offset) | bits);
    }
}

/// The smallest power of two that is not less, as its exponent.
const fn order(value: u64) -> u32 {
    value.next_power_of_two().trailing_zeros()
}

/// Words of a queue's ring.
const fn ring_words(queue: &Queue) -> u64 {
    queue.spec.settings.ring_size / 4
}

/// Read and write index in the hardware's unit. AQL programs count packets of 16 words.
fn indices(queue: &Queue, rptr: u64, wptr: u64) -> (u64, u64) {
    let (rptr, wptr) = match queue.spec.kind {
        QueueKind::Aql => (rptr.wrapping_mul(16), wptr.wrapping_mul(16)),
        QueueKind::Pm4 | QueueKind::Sdma { .. } => (rptr, wptr),
    };
    // A compute slot counts reads modulo the ring.
    let rptr = if queue.sdma_slot().is_none() { rptr & ring_words(queue).saturating_sub(1) } else { rptr };
    (rptr, wptr)
}

impl Driver {
    /// The descriptors of a queue: one for each XCC, or the one of a copy queue.
    pub(super) fn descriptors(&self, process: &Process, queue: &Queue) -> Vec<Descriptor> {
        if queue.sdma_slot().is_some() {
            return vec![sdma_descriptor(process, queue)];
        }
        (0..self.profile.xcc).map(|xcc| self.compute_descriptor(process, queue, xcc)).collect()
    }

    fn compute_descriptor(&self, process: &Process, queue: &Queue, xcc: u32) -> Descriptor {
        let mut descriptor = self.initial_descriptor(process, queue, xcc);
        let hardware = &queue.hardware;
        if let Some(unmapped) = &hardware.unmapped {
            mark_in_use(&mut descriptor, unmapped.vmid);
            set_indices(&mut descriptor, queue, unmapped.rptr, unmapped.wptr);
            // The device reports the sizes of the first XCC only.
            if xcc == 0 {
                set_saved(&mut descriptor, unmapped);
            }
        }
        if let Some(connected) = hardware.connected {
            set_connected(&mut descriptor, queue, &connected);
        }
        descriptor.set(mqd::ACTIVE, hardware.place.is_some().into());
        descriptor
    }

    /// As the kernel fills it (`init_mqd_v9_4_3`, `update_mqd_v9_4_3`; `init_mqd` and `update_mqd` on gfx90a).
    fn initial_descriptor(&self, process: &Process, queue: &Queue, xcc: u32) -> Descriptor {
        let mut descriptor = Descriptor::new(mqd::SIZE);
        let (spec, hardware) = (&queue.spec, &queue.hardware);
        let is_aql = spec.kind == QueueKind::Aql;
        let stride = mqd::stride(spec.ctl_stack_size);
        let multi_xcc = self.profile.gfx == Gfx::Gfx942;

        descriptor.set(mqd::HEADER, HEADER);
        descriptor.set(mqd::PIPELINESTAT_ENABLE, 1);
        descriptor.set(mqd::PGM_RSRC2, TRAP_PRESENT);
        for offset in mqd::STATIC_THREAD_MGMT {
            descriptor.set(offset, u32::MAX);
        }
        if let Some(mask) = &hardware.cu_mask {
            let engines = if multi_xcc { 4 } else { 8 };
            for (offset, units) in mqd::STATIC_THREAD_MGMT.iter().zip(self.engine_masks(mask, xcc)).take(engines) {
                descriptor.set(*offset, units);
            }
        }
        if hardware.force_simd_dist {
            descriptor.set(mqd::RESOURCE_LIMITS, FORCE_SIMD_DIST);
        }
        if multi_xcc {
            let first = if is_aql { hardware.first_xcc } else { 0 };
            let logical = if is_aql { (first + xcc) % self.profile.xcc.max(1) } else { 0 };
            descriptor.set(mqd::CURRENT_LOGIC_XCC, logical);
            descriptor.set(mqd::TG_CHUNK_SIZE, is_aql.into());
            descriptor.set(mqd::STRIDE, stride as u32);
            if !is_aql {
                descriptor.set(mqd::PM4_TARGET_XCC, spec.settings.target_xcc);
            }
        }
        descriptor.set_double(mqd::MQD_BASE, hardware.descriptor + stride * u64::from(xcc));
        descriptor.set(mqd::PERSISTENT_STATE, PRELOAD | if spec.ctx_save == 0 { 0 } else { SAVE_WAVES });
        descriptor.set(mqd::PIPE_PRIORITY, PipePriority::of(spec.settings.priority).0);
        if self.kernel.queue_priority_in_mqd {
            descriptor.set(mqd::QUEUE_PRIORITY, spec.settings.priority);
        }
        descriptor.set(mqd::QUANTUM, QUANTUM);
        descriptor.set_double(mqd::PQ_BASE, spec.settings.ring >> 8);
        descriptor.set_double(mqd::PQ_RPTR_REPORT_ADDR, spec.rptr);
        descriptor.set_double(mqd::PQ_WPTR_POLL_ADDR, spec.wptr);
        descriptor.set(mqd::PQ_DOORBELL_CONTROL, doorbell_word(process, queue) << 2);
        descriptor.set(mqd::PQ_CONTROL, UNORDERED_DISPATCH | REPORT_BLOCK | order(ring_words(queue)).saturating_sub(1));
        descriptor.set(mqd::IB_CONTROL, IB_CONTROL);
        descriptor.set(mqd::HQ_STATUS0, DISPATCH_POINTER);
        descriptor.set(mqd::MQD_CONTROL, MQD_PRIVILEGED);
        if is_aql {
            descriptor.add(mqd::PQ_DOORBELL_CONTROL, DOORBELL_DROP);
            descriptor.add(mqd::PQ_CONTROL, SLOT_BASED | QUEUE_FULL | CLAMP);
            // Only one of several XCCs reports how far they have come.
            if !multi_xcc || xcc != 0 {
                descriptor.add(mqd::PQ_CONTROL, NO_UPDATE_RPTR);
            }
            descriptor.set(mqd::AQL_CONTROL, 1);
        }
        descriptor.set_double(mqd::EOP_BASE_ADDR, spec.eop >> 8);
        if spec.eop_size != 0 {
            descriptor.set(mqd::EOP_CONTROL, (order(spec.eop_size / 4).saturating_sub(1)).min(0xA));
        }
        if spec.ctx_save != 0 {
            let area = spec.ctx_save + u64::from(spec.ctx_save_size) * u64::from(xcc);
            descriptor.set_double(mqd::CTX_SAVE_BASE_ADDR, area);
            descriptor.set(mqd::CTX_SAVE_SIZE, spec.ctx_save_size);
            for offset in [mqd::CNTL_STACK_SIZE, mqd::CNTL_STACK_OFFSET, mqd::WG_STATE_OFFSET] {
                descriptor.set(offset, spec.ctl_stack_size);
            }
        }
        descriptor
    }

    /// Which compute units of each engine of an XCC a mask allows (`mqd_symmetrically_map_cu_mask`): its bits go round
    /// the XCCs first, then the engines, then the units of an engine.
    fn engine_masks(&self, mask: &[u32], xcc: u32) -> [u32; 8] {
        let bits = (mask.len() as u32 * 32).min(self.profile.cus);
        let mut masks = [0; 8];
        let mut bit = xcc;
        for unit in 0..16 {
            for (engine, units) in self.profile.engine_cus().enumerate() {
                if units <= unit {
                    continue;
                }
                let set = mask.get(bit as usize / 32).is_some_and(|word| word >> (bit % 32) & 1 == 1);
                if let (true, Some(engine)) = (set, masks.get_mut(engine)) {
                    *engine |= 1 << unit;
                }
                bit += self.profile.xcc.max(1);
                if bit >= bits {
                    return masks;
                }
            }
        }
        masks
    }

    /// The registers of the slot that a queue on the hardware has, as a descriptor: what was saved last, with the
    /// indices of this moment if they can be read, or else those of when it was put there.
    pub(super) fn live_descriptor(
        &self,
        key: ProcessKey,
        process: &Process,
        queue: &Queue,
        xcc: u32,
        observed: &dyn Observed,
    ) -> Descriptor {
        let last = queue.hardware.last_indices();
        let rptr = observed.read(key, queue.spec.rptr).unwrap_or(last.0);
        let wptr = observed.read(key, queue.spec.wptr).unwrap_or(last.1);
        if queue.sdma_slot().is_some() {
            let mut descriptor = sdma_descriptor(process, queue);
            descriptor.add(mqd::sdma::RB_CNTL, SDMA_ENABLED);
            descriptor.add(mqd::sdma::DOORBELL, SDMA_DOORBELL_ENABLED);
            set_sdma_indices(&mut descriptor, rptr, wptr);
            return descriptor;
        }
        let mut descriptor = self.compute_descriptor(process, queue, xcc);
        mark_in_use(&mut descriptor, queue.hardware.place.map_or(0, |place| place.vmid));
        set_indices(&mut descriptor, queue, rptr, wptr);
        descriptor
    }
}

impl Hardware {
    /// Read and write index as far as the driver was told.
    fn last_indices(&self) -> (u64, u64) {
        let connected = self.connected.map_or((0, 0), |connected| (connected.rptr, connected.wptr));
        let unmapped = self.unmapped.map_or((0, 0), |unmapped| (unmapped.rptr, unmapped.wptr));
        // Indices only grow.
        (connected.0.max(unmapped.0), connected.1.max(unmapped.1))
    }
}

/// The marks of a slot in use.
fn mark_in_use(descriptor: &mut Descriptor, vmid: u32) {
    // The address space of the ring, and that of indirect buffers.
    descriptor.set(mqd::VMID, vmid | vmid << 8);
    descriptor.add(mqd::PQ_DOORBELL_CONTROL, DOORBELL_ENABLED);
    descriptor.add(mqd::HQ_STATUS0, STATUS_CONNECTED);
    descriptor.set(mqd::EOP_RPTR, EOP_RPTR);
    descriptor.set(mqd::EOP_WPTR, EOP_WPTR);
}

fn set_indices(descriptor: &mut Descriptor, queue: &Queue, rptr: u64, wptr: u64) {
    let empty = rptr == wptr;
    let (rptr, wptr) = indices(queue, rptr, wptr);
    descriptor.set(mqd::PQ_RPTR, rptr as u32);
    descriptor.set_double(mqd::PQ_WPTR, wptr);
    let control = descriptor.get(mqd::PQ_CONTROL) & !PQ_EMPTY;
    descriptor.set(mqd::PQ_CONTROL, control | if empty { PQ_EMPTY } else { 0 });
}

/// The control stack grows down from its end, the waves up from there. Without waves the times stay as they are, as
/// they were seen to do on an MI308X.
fn set_saved(descriptor: &mut Descriptor, unmapped: &LastUnmap) {
    let saved = unmapped.saved;
    if saved.control_stack == 0 && saved.wave_state == 0 {
        return;
    }
    let stack = descriptor.get(mqd::CNTL_STACK_SIZE);
    descriptor.set(mqd::CNTL_STACK_OFFSET, stack.saturating_sub(saved.control_stack));
    descriptor.set(mqd::WG_STATE_OFFSET, stack.saturating_add(saved.wave_state));
    descriptor.set_double(mqd::SAVE_START_TIME, unmapped.save.start);
    descriptor.set_double(mqd::SAVE_END_TIME, unmapped.save.end);
}

/// Queues that never had a packet have no times.
fn set_connected(descriptor: &mut Descriptor, queue: &Queue, connected: &Connected) {
    let (rptr, wptr) = queue.hardware.last_indices();
    if wptr != 0 {
        let (rptr, wptr) = indices(queue, rptr, wptr);
        descriptor.set_double(mqd::CONNECT_START_TIME, connected.connect.start);
        descriptor.set_double(mqd::CONNECT_END_TIME, connected.connect.end);
        descriptor.set(mqd::CONNECT_END_WAVE_COUNT, connected.waves);
        descriptor.set(mqd::CONNECT_END_RPTR, rptr as u32);
        descriptor.set(mqd::CONNECT_END_WPTR, wptr as u32);
    }
    if let Some(restore) = connected.restore {
        descriptor.set_double(mqd::RESTORE_START_TIME, restore.start);
        descriptor.set_double(mqd::RESTORE_END_TIME, restore.end);
    }
}

/// As the kernel fills it (`update_mqd_sdma`), with the indices of when it was taken off.
fn sdma_descriptor(process: &Process, queue: &Queue) -> Descriptor {
    let mut descriptor = Descriptor::new(mqd::SDMA_SIZE);
    let (engine, slot) = queue.sdma_slot().unwrap_or_default();
    let spec = &queue.spec;
    descriptor.set(mqd::sdma::RB_CNTL, SDMA_REPORT | order(ring_words(queue)) << 1);
    descriptor.set_double(mqd::sdma::RB_BASE, spec.settings.ring >> 8);
    descriptor.set(mqd::sdma::RB_RPTR_ADDR_HI, (spec.rptr >> 32) as u32);
    descriptor.set(mqd::sdma::RB_RPTR_ADDR_LO, spec.rptr as u32);
    descriptor.set(mqd::sdma::DOORBELL_OFFSET, doorbell_word(process, queue) << 2);
    descriptor.set(mqd::sdma::DUMMY, SDMA_DUMMY);
    descriptor.set(mqd::sdma::ENGINE_ID, engine);
    descriptor.set(mqd::sdma::QUEUE_ID, slot);
    if let Some(unmapped) = &queue.hardware.unmapped {
        set_sdma_indices(&mut descriptor, unmapped.rptr, unmapped.wptr);
    }
    descriptor
}

fn set_sdma_indices(descriptor: &mut Descriptor, rptr: u64, wptr: u64) {
    descriptor.set_double(mqd::sdma::RB_RPTR, rptr);
    descriptor.set_double(mqd::sdma::RB_WPTR, wptr);
}
