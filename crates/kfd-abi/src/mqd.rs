//! The memory queue descriptor of gfx9: where in it the hardware keeps what of a queue.
//!
//! Source: `v9_structs.h` and `kfd_mqd_manager_v9.c` of Linux 6.12. Offsets are in bytes. debugfs dumps descriptors
//! (`/sys/kernel/debug/kfd/mqds`): 2048 bytes for each XCC of a compute queue, 512 for a copy queue. Pointers in it are
//! current only while the queue is off the hardware.

use crate::{PAGE_SIZE, align_up};

/// Bytes of a compute queue's descriptor.
pub const SIZE: usize = 2048;
/// Bytes of a copy queue's descriptor.
pub const SDMA_SIZE: usize = 512;

/// First word: identifies the descriptor.
pub const HEADER: usize = 0x000;
/// Whether dispatches are counted.
pub const PIPELINESTAT_ENABLE: usize = 0x02C;
/// How programs start; has the bit that says whether there is a trap handler.
pub const PGM_RSRC2: usize = 0x050;
/// Waves per SIMD and other limits.
pub const RESOURCE_LIMITS: usize = 0x058;
/// Which compute units of a shader engine may be used, by engine. On gfx942 the last four words are something else.
pub const STATIC_THREAD_MGMT: [usize; 8] = [0x05C, 0x060, 0x068, 0x06C, 0x09C, 0x0A0, 0x0A4, 0x0A8];
/// XCC that starts the next dispatch, on gfx942.
pub const CURRENT_LOGIC_XCC: usize = 0x09C;
/// Workgroups an XCC takes at once, on gfx942.
pub const TG_CHUNK_SIZE: usize = 0x0A4;
/// Time at which putting the queue on the hardware began. 64 bits, as all times here; whether firmware fills them is
/// unknown.
pub const CONNECT_START_TIME: usize = 0x160;
/// Time at which it ended.
pub const CONNECT_END_TIME: usize = 0x168;
/// Waves at that time.
pub const CONNECT_END_WAVE_COUNT: usize = 0x170;
/// Read index at that time.
pub const CONNECT_END_RPTR: usize = 0x174;
/// Write index at that time.
pub const CONNECT_END_WPTR: usize = 0x178;
/// Time at which saving the waves began.
pub const SAVE_START_TIME: usize = 0x188;
/// Time at which it ended.
pub const SAVE_END_TIME: usize = 0x190;
/// Time at which restoring them began.
pub const RESTORE_START_TIME: usize = 0x198;
/// Time at which it ended.
pub const RESTORE_END_TIME: usize = 0x1A0;
/// First of the words that are also registers of a hardware queue: address of the descriptor.
pub const MQD_BASE: usize = 0x200;
/// Whether the queue is on the hardware.
pub const ACTIVE: usize = 0x208;
/// Its address space there.
pub const VMID: usize = 0x20C;
/// Whether waves are saved when the queue is given up, and what is fetched ahead.
pub const PERSISTENT_STATE: usize = 0x210;
/// [`PipePriority`](crate::queue::PipePriority).
pub const PIPE_PRIORITY: usize = 0x214;
/// Priority within the pipe, 0 to 15.
pub const QUEUE_PRIORITY: usize = 0x218;
/// Time slice.
pub const QUANTUM: usize = 0x21C;
/// Address of the ring divided by 256: 64 bits.
pub const PQ_BASE: usize = 0x220;
/// Read index.
pub const PQ_RPTR: usize = 0x228;
/// Address the read index is reported to: 64 bits.
pub const PQ_RPTR_REPORT_ADDR: usize = 0x22C;
/// Address the write index is polled at: 64 bits.
pub const PQ_WPTR_POLL_ADDR: usize = 0x234;
/// Doorbell.
pub const PQ_DOORBELL_CONTROL: usize = 0x23C;
/// Size of the ring and more.
pub const PQ_CONTROL: usize = 0x244;
/// Indirect buffers.
pub const IB_CONTROL: usize = 0x254;
/// Asks the hardware to give the queue up.
pub const DEQUEUE_REQUEST: usize = 0x260;
/// Status for the hardware scheduler.
pub const HQ_STATUS0: usize = 0x280;
/// How the descriptor itself is used.
pub const MQD_CONTROL: usize = 0x288;
/// Address of the end-of-packet buffer divided by 256: 64 bits.
pub const EOP_BASE_ADDR: usize = 0x294;
/// Its size.
pub const EOP_CONTROL: usize = 0x29C;
/// Read index of the end-of-packet buffer.
pub const EOP_RPTR: usize = 0x2A0;
/// Write index of the end-of-packet buffer.
pub const EOP_WPTR: usize = 0x2A4;
/// Address of the context save area: 64 bits.
pub const CTX_SAVE_BASE_ADDR: usize = 0x2AC;
/// How waves are saved.
pub const CTX_SAVE_CONTROL: usize = 0x2B4;
/// Top of the control stack.
pub const CNTL_STACK_OFFSET: usize = 0x2B8;
/// Room for the control stack.
pub const CNTL_STACK_SIZE: usize = 0x2BC;
/// End of the saved waves.
pub const WG_STATE_OFFSET: usize = 0x2C0;
/// Bytes of the save area.
pub const CTX_SAVE_SIZE: usize = 0x2C4;
/// Errors.
pub const ERROR: usize = 0x2CC;
/// AQL.
pub const AQL_CONTROL: usize = 0x2D4;
/// Write index: 64 bits.
pub const PQ_WPTR: usize = 0x2D8;
/// Last of the words that are also registers.
pub const PQ_WPTR_HI: usize = 0x2DC;
/// XCC that executes PM4 packets, on gfx942.
pub const PM4_TARGET_XCC: usize = 0x384;
/// Distance of the descriptors of a queue's XCCs, on gfx942.
pub const STRIDE: usize = 0x388;
/// In the driver's own queue: doorbell of a queue that could not be preempted, or 0.
pub const QUEUE_DOORBELL_ID0: usize = 0x3C0;

/// A copy queue's descriptor: words that are also registers of an engine's slot, then which slot it is.
pub mod sdma {
    /// Size of the ring and more.
    pub const RB_CNTL: usize = 0x000;
    /// Address of the ring divided by 256: 64 bits.
    pub const RB_BASE: usize = 0x004;
    /// Read index in bytes: 64 bits.
    pub const RB_RPTR: usize = 0x00C;
    /// Write index in bytes: 64 bits.
    pub const RB_WPTR: usize = 0x014;
    /// Upper half of the address the read index is reported to.
    pub const RB_RPTR_ADDR_HI: usize = 0x020;
    /// Lower half.
    pub const RB_RPTR_ADDR_LO: usize = 0x024;
    /// Doorbell.
    pub const DOORBELL: usize = 0x048;
    /// Position of the doorbell.
    pub const DOORBELL_OFFSET: usize = 0x058;
    /// A constant.
    pub const DUMMY: usize = 0x06C;
    /// Engine.
    pub const ENGINE_ID: usize = 0x1F8;
    /// Slot.
    pub const QUEUE_ID: usize = 0x1FC;
}

/// Distance of the descriptors of a compute queue's XCCs: the control stack lies a page behind each.
#[must_use]
pub const fn stride(ctl_stack_size: u32) -> u64 {
    align_up(ctl_stack_size as u64, PAGE_SIZE as u64) + PAGE_SIZE as u64
}

/// Index of a descriptor's word among the registers that `/sys/kernel/debug/kfd/hqds` lists for a hardware queue;
/// `None` for words that are no registers.
#[must_use]
pub const fn register_index(offset: usize) -> Option<usize> {
    if offset < MQD_BASE || offset > PQ_WPTR_HI { None } else { Some((offset - MQD_BASE) / 4) }
}

/// The 32-bit word at `offset` of a descriptor.
#[must_use]
pub fn word(descriptor: &[u8], offset: usize) -> Option<u32> {
    crate::Abi::decode(descriptor.get(offset..)?)
}

/// The 64-bit value at `offset` of a descriptor: addresses, times, the write index. Not aligned.
#[must_use]
pub fn double(descriptor: &[u8], offset: usize) -> Option<u64> {
    crate::Abi::decode(descriptor.get(offset..)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn registers_have_their_place_in_the_dump() {
        let indices = [ACTIVE, VMID, PIPE_PRIORITY, PQ_BASE, PQ_RPTR, PQ_DOORBELL_CONTROL, PQ_WPTR, PQ_WPTR_HI];
        assert_eq!(indices.map(|offset| register_index(offset).unwrap()), [2, 3, 5, 8, 10, 15, 54, 55]);
        assert_eq!((register_index(SAVE_END_TIME), register_index(STRIDE)), (None, None));
    }

    #[test]
    fn descriptors_of_an_mi300_are_four_pages_apart() {
        assert_eq!(stride(12288), 16384);
    }

    #[test]
    fn values_are_read_where_they_lie() {
        let mut descriptor = vec![0; SIZE];
        descriptor[PQ_RPTR_REPORT_ADDR..][..8].copy_from_slice(&0x7F00_0000_0080_u64.to_le_bytes());
        assert_eq!(double(&descriptor, PQ_RPTR_REPORT_ADDR), Some(0x7F00_0000_0080));
        assert_eq!(word(&descriptor, PQ_RPTR_REPORT_ADDR + 4), Some(0x7F00));
        assert_eq!((word(&descriptor, SIZE - 3), double(&descriptor, SIZE)), (None, None));
    }
}
