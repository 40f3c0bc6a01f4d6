//! The runtime's queue and signal objects, which the packet processor reads and writes.
//!
//! Source: `hsa.h`, `amd_hsa_queue.h` and `amd_hsa_signal.h` of ROCR-Runtime c7785a6d. The driver is told the addresses
//! of two words of [`AmdQueue`]; so a program that knows a queue's read index knows where the object starts, and
//! everything else in it.

/// The part of a queue that programs see (`hsa_queue_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HsaQueue {
    /// 0 many producers, 1 one, 2 cooperative.
    pub kind: u32,
    /// Bit 0: takes kernel dispatches; bit 1: takes agent dispatches.
    pub features: u32,
    /// The ring.
    pub base_address: u64,
    /// Signal that is the doorbell.
    pub doorbell_signal: u64,
    /// Packets of the ring.
    pub size: u32,
    /// Zero.
    pub reserved1: u32,
    /// Its name in the process.
    pub id: u64,
}
plain!(HsaQueue { kind, features, base_address, doorbell_signal, size, reserved1, id });

/// A queue as the packet processor knows it (`amd_queue_t`). The runtime gives it a page of its own.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AmdQueue {
    /// The part that programs see.
    pub hsa_queue: HsaQueue,
    /// Bit 0: scratch can be taken back while it runs.
    pub caps: u32,
    /// Zero.
    pub reserved1: [u32; 3],
    /// Packets written so far: the write index.
    pub write_dispatch_id: u64,
    /// High half of the local data aperture.
    pub group_segment_aperture_base_hi: u32,
    /// High half of the scratch aperture.
    pub private_segment_aperture_base_hi: u32,
    /// Last compute unit.
    pub max_cu_id: u32,
    /// Last wave slot of a compute unit.
    pub max_wave_id: u32,
    /// For doorbells before gfx9.
    pub max_legacy_doorbell_dispatch_id_plus_1: u64,
    /// For doorbells before gfx9.
    pub legacy_doorbell_lock: u32,
    /// Zero.
    pub reserved2: [u32; 9],
    /// Packets fetched so far: the read index. Fetched is not finished.
    pub read_dispatch_id: u64,
    /// From the object's start to the read index: by it the processor finds the object.
    pub read_dispatch_id_field_base_byte_offset: u32,
    /// Scratch waves and size, for the processor.
    pub compute_tmpring_size: u32,
    /// Buffer descriptor of the scratch memory.
    pub scratch_resource_descriptor: [u32; 4],
    /// Scratch memory.
    pub scratch_backing_memory_location: u64,
    /// Its bytes.
    pub scratch_backing_memory_byte_size: u64,
    /// Scratch of a lane.
    pub scratch_wave64_lane_byte_size: u32,
    /// [`QueueProperties`].
    pub queue_properties: QueueProperties,
    /// Last packet that used scratch.
    pub scratch_last_used_index: u64,
    /// Signal by which the processor reports errors.
    pub queue_inactive_signal: u64,
    /// Zero.
    pub reserved4: [u32; 2],
    /// Last packet that used the second scratch.
    pub alt_scratch_last_used_index: u64,
    /// Second scratch memory.
    pub alt_scratch_backing_memory_location: u64,
    /// Its bytes.
    pub alt_scratch_backing_memory_byte_size: u64,
    /// Largest dispatch that may use it, x.
    pub alt_scratch_dispatch_limit_x: u32,
    /// Largest dispatch that may use it, y.
    pub alt_scratch_dispatch_limit_y: u32,
    /// Largest dispatch that may use it, z.
    pub alt_scratch_dispatch_limit_z: u32,
    /// Its share of a lane.
    pub alt_scratch_wave64_lane_byte_size: u32,
    /// Its waves and size.
    pub alt_compute_tmpring_size: u32,
    /// Zero.
    pub reserved5: u32,
}
plain!(AmdQueue {
    hsa_queue,
    caps,
    reserved1,
    write_dispatch_id,
    group_segment_aperture_base_hi,
    private_segment_aperture_base_hi,
    max_cu_id,
    max_wave_id,
    max_legacy_doorbell_dispatch_id_plus_1,
    legacy_doorbell_lock,
    reserved2,
    read_dispatch_id,
    read_dispatch_id_field_base_byte_offset,
    compute_tmpring_size,
    scratch_resource_descriptor,
    scratch_backing_memory_location,
    scratch_backing_memory_byte_size,
    scratch_wave64_lane_byte_size,
    queue_properties,
    scratch_last_used_index,
    queue_inactive_signal,
    reserved4,
    alt_scratch_last_used_index,
    alt_scratch_backing_memory_location,
    alt_scratch_backing_memory_byte_size,
    alt_scratch_dispatch_limit_x,
    alt_scratch_dispatch_limit_y,
    alt_scratch_dispatch_limit_z,
    alt_scratch_wave64_lane_byte_size,
    alt_compute_tmpring_size,
    reserved5
});

impl AmdQueue {
    /// Offset of the write index: what the driver is told as the write pointer's address.
    pub const WRITE_INDEX: u64 = core::mem::offset_of!(AmdQueue, write_dispatch_id) as u64;
    /// Offset of the read index: what the driver is told as the read pointer's address.
    pub const READ_INDEX: u64 = core::mem::offset_of!(AmdQueue, read_dispatch_id) as u64;

    /// Where the object starts, from the two addresses the driver was told; `None` if they are not those of an AQL
    /// queue of this runtime.
    #[must_use]
    pub const fn base(read_pointer_address: u64, write_pointer_address: u64) -> Option<u64> {
        let Some(base) = read_pointer_address.checked_sub(AmdQueue::READ_INDEX) else { return None };
        let same = match base.checked_add(AmdQueue::WRITE_INDEX) {
            Some(address) => address == write_pointer_address,
            None => false,
        };
        if same && base.is_multiple_of(64) { Some(base) } else { None }
    }
}

flags! {
    /// Properties of an [`AmdQueue`].
    QueueProperties: u32 {
        /// Waves run with the trap handler.
        ENABLE_TRAP_HANDLER = 1 << 0,
        /// Addresses have 64 bits.
        IS_PTR64 = 1 << 1,
        /// The trap handler gets debug registers.
        ENABLE_TRAP_HANDLER_DEBUG_SGPRS = 1 << 2,
        /// Start and end times are written to completion signals.
        ENABLE_PROFILING = 1 << 3,
        /// Scratch is for one dispatch only.
        USE_SCRATCH_ONCE = 1 << 4,
    }
}

numbers! {
    /// Kind of an [`AmdSignal`].
    SignalKind: i64 {
        /// No signal.
        INVALID = 0,
        /// A value.
        USER = 1,
        /// A doorbell.
        DOORBELL = -1,
        /// A doorbell before gfx9.
        LEGACY_DOORBELL = -2,
    }
}

/// A signal (`amd_signal_t`); handles in packets are its address.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AmdSignal {
    /// Kind.
    pub kind: SignalKind,
    /// Its value; for a doorbell the address to write to.
    pub value: i64,
    /// Where the event id is written when the value changes, or 0.
    pub event_mailbox_ptr: u64,
    /// What is written there, and the event then raised.
    pub event_id: u32,
    /// Zero.
    pub reserved1: u32,
    /// When the packet started, in GPU clocks, if profiling.
    pub start_ts: u64,
    /// When it ended.
    pub end_ts: u64,
    /// For a doorbell, the queue.
    pub queue_ptr: u64,
    /// Zero.
    pub reserved3: [u32; 2],
}
plain!(AmdSignal { kind, value, event_mailbox_ptr, event_id, reserved1, start_ts, end_ts, queue_ptr, reserved3 });

impl AmdSignal {
    /// Offset of the value.
    pub const VALUE: u64 = core::mem::offset_of!(AmdSignal, value) as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_laid_out_as_in_c() {
        layout!(HsaQueue, 40, { base_address: 8, doorbell_signal: 16, size: 24, id: 32 });
        layout!(AmdQueue, 256, {
            hsa_queue: 0, caps: 40, write_dispatch_id: 0x38, group_segment_aperture_base_hi: 64, max_cu_id: 72,
            max_wave_id: 76, max_legacy_doorbell_dispatch_id_plus_1: 80, legacy_doorbell_lock: 88,
            read_dispatch_id: 0x80,
            read_dispatch_id_field_base_byte_offset: 136, compute_tmpring_size: 140, scratch_resource_descriptor: 144,
            scratch_backing_memory_location: 160, scratch_backing_memory_byte_size: 168,
            scratch_wave64_lane_byte_size: 176, queue_properties: 180, scratch_last_used_index: 184,
            queue_inactive_signal: 192, alt_scratch_last_used_index: 208, alt_compute_tmpring_size: 248,
        });
        layout!(AmdSignal, 64, {
            kind: 0, value: 8, event_mailbox_ptr: 16, event_id: 24, start_ts: 32, end_ts: 40, queue_ptr: 48,
        });
        assert_eq!((align_of::<AmdQueue>(), align_of::<AmdSignal>()), (64, 64));
    }

    #[test]
    fn the_object_is_found_from_the_two_addresses() {
        assert_eq!(AmdQueue::base(0x7000_0080, 0x7000_0038), Some(0x7000_0000));
        // Pointers of a PM4 or copy queue lie elsewhere.
        assert_eq!(AmdQueue::base(0x7000_0080, 0x7000_0088), None);
        assert_eq!(AmdQueue::base(0x7000_0090, 0x7000_0048), None);
        assert_eq!(AmdQueue::base(0x10, 0), None);
    }
}
