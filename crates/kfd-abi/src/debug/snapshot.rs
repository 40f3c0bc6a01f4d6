//! What a snapshot lists.

use crate::exception::ExceptionMask;
use crate::queue::QueueType;
use crate::topology::{Capability, GfxVersion};

/// One queue of a snapshot (`kfd_queue_snapshot_entry`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSnapshotEntry {
    /// Exceptions raised.
    pub exception_status: ExceptionMask,
    /// The ring.
    pub ring_base_address: u64,
    /// Where the write index lies.
    pub write_pointer_address: u64,
    /// Where the read index lies.
    pub read_pointer_address: u64,
    /// Context save area.
    pub ctx_save_restore_address: u64,
    /// The queue.
    pub queue_id: u32,
    /// Its gpu.
    pub gpu_id: u32,
    /// Bytes of the ring.
    pub ring_size: u32,
    /// Kind.
    pub queue_type: QueueType,
    /// Bytes of the save area for one XCC.
    pub ctx_save_restore_area_size: u32,
    /// Zero.
    pub reserved: u32,
}
plain!(QueueSnapshotEntry {
    exception_status,
    ring_base_address,
    write_pointer_address,
    read_pointer_address,
    ctx_save_restore_address,
    queue_id,
    gpu_id,
    ring_size,
    queue_type,
    ctx_save_restore_area_size,
    reserved
});

/// One gpu of a snapshot (`kfd_dbg_device_info_entry`). Apertures as in
/// [`DeviceApertures`](crate::memory::DeviceApertures), the rest as in sysfs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceSnapshotEntry {
    /// Exceptions raised.
    pub exception_status: ExceptionMask,
    /// Local data share aperture.
    pub lds_base: u64,
    /// Its last address.
    pub lds_limit: u64,
    /// Scratch aperture.
    pub scratch_base: u64,
    /// Its last address.
    pub scratch_limit: u64,
    /// First address for buffers.
    pub gpuvm_base: u64,
    /// Last address for buffers.
    pub gpuvm_limit: u64,
    /// The gpu.
    pub gpu_id: u32,
    /// PCI bus, device and function.
    pub location_id: u32,
    /// PCI vendor.
    pub vendor_id: u32,
    /// PCI device.
    pub device_id: u32,
    /// PCI revision.
    pub revision_id: u32,
    /// PCI subsystem vendor.
    pub subsystem_vendor_id: u32,
    /// PCI subsystem device.
    pub subsystem_device_id: u32,
    /// Version of the compute firmware.
    pub fw_version: u32,
    /// Instruction set.
    pub gfx_target_version: GfxVersion,
    /// SIMDs.
    pub simd_count: u32,
    /// Waves each can hold.
    pub max_waves_per_simd: u32,
    /// Shader arrays.
    pub array_count: u32,
    /// Shader arrays of each engine.
    pub simd_arrays_per_engine: u32,
    /// XCCs.
    pub num_xcc: u32,
    /// Capabilities.
    pub capability: Capability,
    /// Properties for debuggers.
    pub debug_prop: u32,
}
plain!(DeviceSnapshotEntry {
    exception_status,
    lds_base,
    lds_limit,
    scratch_base,
    scratch_limit,
    gpuvm_base,
    gpuvm_limit,
    gpu_id,
    location_id,
    vendor_id,
    device_id,
    revision_id,
    subsystem_vendor_id,
    subsystem_device_id,
    fw_version,
    gfx_target_version,
    simd_count,
    max_waves_per_simd,
    array_count,
    simd_arrays_per_engine,
    num_xcc,
    capability,
    debug_prop
});

/// An entry of Linux 7.2. The driver writes as much of it as the caller's entries have room for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaterDeviceSnapshotEntry {
    /// What earlier drivers write.
    pub entry: DeviceSnapshotEntry,
    /// More capabilities.
    pub capability2: u32,
    /// Zero.
    pub pad: u32,
}
plain!(LaterDeviceSnapshotEntry { entry, capability2, pad });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(QueueSnapshotEntry, 64, {
            exception_status: 0, ring_base_address: 8, write_pointer_address: 16, read_pointer_address: 24,
            ctx_save_restore_address: 32, queue_id: 40, gpu_id: 44, ring_size: 48, queue_type: 52,
            ctx_save_restore_area_size: 56, reserved: 60,
        });
        layout!(DeviceSnapshotEntry, 120, { gpu_id: 56, gfx_target_version: 88, num_xcc: 108, debug_prop: 116 });
    }
}
