//! User-mode queues: create, change, destroy; limits.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h`, `kfd_priv.h` and `kfd_mqd_manager.c` of Linux 6.12.

#[cfg(doc)]
use crate::cwsr::SaveAreaSize;

numbers! {
    /// Kind of a queue, as calls and snapshots number it. sysfs numbers differently: [`crate::sysfs::SysfsQueueType`].
    QueueType: u32 {
        /// Compute, ring of PM4 packets.
        COMPUTE = 0,
        /// Copies.
        SDMA = 1,
        /// Compute, ring of AQL packets.
        COMPUTE_AQL = 2,
        /// Copies between gpus.
        SDMA_XGMI = 3,
        /// Copies on the engine given.
        SDMA_BY_ENG_ID = 4,
    }
}

impl QueueType {
    /// Whether it runs kernels: those are the queues that are worth stopping.
    #[must_use]
    pub const fn is_compute(self) -> bool {
        matches!(self, QueueType::COMPUTE | QueueType::COMPUTE_AQL)
    }
}

/// Largest percentage.
pub const MAX_PERCENTAGE: u32 = 100;
/// Largest priority.
pub const MAX_PRIORITY: u32 = 15;
/// Smallest ring in bytes; the driver silently makes smaller ones this large.
pub const MIN_RING_SIZE: u32 = 1024;
/// Queue ids of one process, and queues one call to suspend may list.
pub const MAX_QUEUES_PER_PROCESS: u32 = 1024;
/// Queues of one process on one gpu, where the hardware scheduler sets the limit.
pub const MAX_QUEUES_PER_GPU: u32 = 127;
/// The same on gfx942.
pub const MAX_QUEUES_PER_GPU_GFX942: u32 = 255;
/// Bits of a compute-unit mask the driver looks at.
pub const MAX_CU_MASK_BITS: u32 = 1024;
/// Bytes of a doorbell from gfx9 on.
pub const DOORBELL_SIZE: u32 = 8;
/// Bytes of a process's doorbells on one gpu from gfx9 on: one for each queue id.
pub const DOORBELL_SLICE: u32 = DOORBELL_SIZE * MAX_QUEUES_PER_PROCESS;

/// Argument of `CREATE_QUEUE` (`kfd_ioctl_create_queue_args`). 88 bytes before version 1.17: without the last two
/// fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateQueueArgs {
    /// The ring. Its buffer is exactly as large as the ring.
    pub ring_base_address: u64,
    /// Where the write index lies; its buffer is one page.
    pub write_pointer_address: u64,
    /// Where the read index lies; its buffer is one page.
    pub read_pointer_address: u64,
    /// Filled: offset at which `/dev/kfd` maps the doorbells, plus the position of this one within.
    pub doorbell_offset: u64,
    /// Bytes of the ring, a power of two.
    pub ring_size: u32,
    /// The gpu.
    pub gpu_id: u32,
    /// Kind.
    pub queue_type: QueueType,
    /// Bits 0-7: 0 is off, anything up to 100 is on. Bits 8-15: which XCC executes PM4 packets.
    pub queue_percentage: u32,
    /// 0 to 15.
    pub queue_priority: u32,
    /// Its name in this process, filled.
    pub queue_id: u32,
    /// End-of-packet buffer.
    pub eop_buffer_address: u64,
    /// Its bytes.
    pub eop_buffer_size: u64,
    /// Context save area.
    pub ctx_save_restore_address: u64,
    /// Its bytes for one XCC, without the debugger's part: at least [`SaveAreaSize::cwsr`].
    pub ctx_save_restore_size: u32,
    /// Bytes of the control stack: exactly [`SaveAreaSize::ctl_stack`].
    pub ctl_stack_size: u32,
    /// Engine, for [`QueueType::SDMA_BY_ENG_ID`].
    pub sdma_engine_id: u32,
    /// Zero. From interface version 1.22 on, bytes of metadata behind the ring: none or a power of two.
    pub pad: u32,
}
plain!(CreateQueueArgs {
    ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset, ring_size, gpu_id, queue_type,
    queue_percentage, queue_priority, queue_id, eop_buffer_address, eop_buffer_size, ctx_save_restore_address,
    ctx_save_restore_size, ctl_stack_size, sdma_engine_id, pad
} for CREATE_QUEUE);

/// Argument of `DESTROY_QUEUE` (`kfd_ioctl_destroy_queue_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestroyQueueArgs {
    /// The queue.
    pub queue_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(DestroyQueueArgs { queue_id, pad } for DESTROY_QUEUE);

/// Argument of `UPDATE_QUEUE` (`kfd_ioctl_update_queue_args`). Every field takes effect: a caller that wants to change
/// one passes the others as they are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateQueueArgs {
    /// The ring.
    pub ring_base_address: u64,
    /// The queue.
    pub queue_id: u32,
    /// Bytes of the ring.
    pub ring_size: u32,
    /// As in [`CreateQueueArgs`].
    pub queue_percentage: u32,
    /// 0 to 15.
    pub queue_priority: u32,
}
plain!(UpdateQueueArgs { ring_base_address, queue_id, ring_size, queue_percentage, queue_priority } for UPDATE_QUEUE);

/// Argument of `SET_CU_MASK` (`kfd_ioctl_set_cu_mask_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCuMaskArgs {
    /// The queue.
    pub queue_id: u32,
    /// Bits of the mask, a multiple of 32.
    pub num_cu_mask: u32,
    /// The mask, 32-bit words. Bit i is on XCC i modulo their number, then goes round engines, then compute units.
    pub cu_mask_ptr: u64,
}
plain!(SetCuMaskArgs { queue_id, num_cu_mask, cu_mask_ptr } for SET_CU_MASK);

/// Argument of `GET_QUEUE_WAVE_STATE` (`kfd_ioctl_get_queue_wave_state_args`). Only for an inactive queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetQueueWaveStateArgs {
    /// Where header and control stack go, one part for each XCC at the distance of the save area's.
    pub ctl_stack_address: u64,
    /// Bytes of control stack in use on the first XCC, filled.
    pub ctl_stack_used_size: u32,
    /// Bytes of wave state in use on the first XCC, filled.
    pub save_area_used_size: u32,
    /// The queue.
    pub queue_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(GetQueueWaveStateArgs {
    ctl_stack_address, ctl_stack_used_size, save_area_used_size, queue_id, pad
} for GET_QUEUE_WAVE_STATE);

/// Argument of `ALLOC_QUEUE_GWS` (`kfd_ioctl_alloc_queue_gws_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocQueueGwsArgs {
    /// The queue.
    pub queue_id: u32,
    /// How many; 0 gives them back.
    pub num_gws: u32,
    /// The first, filled.
    pub first_gws: u32,
    /// Zero.
    pub pad: u32,
}
plain!(AllocQueueGwsArgs { queue_id, num_gws, first_gws, pad } for ALLOC_QUEUE_GWS);

numbers! {
    /// The three classes in which the hardware orders queues. Within one, the 4-bit priority orders those of one pipe.
    /// Neither preempts running waves.
    PipePriority: u32 {
        /// Priorities 0 to 6.
        LOW = 0,
        /// Priorities 7 to 10.
        MEDIUM = 1,
        /// Priorities 11 to 15.
        HIGH = 2,
    }
}

impl PipePriority {
    /// The class of a queue priority, 0 to 15.
    #[must_use]
    pub const fn of(queue_priority: u32) -> PipePriority {
        match queue_priority {
            0..=6 => PipePriority::LOW,
            7..=10 => PipePriority::MEDIUM,
            _ => PipePriority::HIGH,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(CreateQueueArgs, 96, {
            ring_base_address: 0, write_pointer_address: 8, read_pointer_address: 16, doorbell_offset: 24,
            ring_size: 32,
            gpu_id: 36, queue_type: 40, queue_percentage: 44, queue_priority: 48, queue_id: 52, eop_buffer_address: 56,
            eop_buffer_size: 64, ctx_save_restore_address: 72, ctx_save_restore_size: 80, ctl_stack_size: 84,
            sdma_engine_id: 88, pad: 92,
        });
        layout!(DestroyQueueArgs, 8, { queue_id: 0 });
        layout!(UpdateQueueArgs, 24, {
            ring_base_address: 0, queue_id: 8, ring_size: 12, queue_percentage: 16, queue_priority: 20,
        });
        layout!(SetCuMaskArgs, 16, { queue_id: 0, num_cu_mask: 4, cu_mask_ptr: 8 });
        layout!(GetQueueWaveStateArgs, 24, {
            ctl_stack_address: 0, ctl_stack_used_size: 8, save_area_used_size: 12, queue_id: 16,
        });
        layout!(AllocQueueGwsArgs, 16, { queue_id: 0, num_gws: 4, first_gws: 8 });
        assert_eq!(DOORBELL_SLICE, 8192);
    }

    #[test]
    fn sixteen_priorities_are_three_classes() {
        let classes = [0, 6, 7, 10, 11, 15].map(|priority| PipePriority::of(priority).0);
        assert_eq!(classes, [0, 0, 1, 1, 2, 2]);
    }
}
