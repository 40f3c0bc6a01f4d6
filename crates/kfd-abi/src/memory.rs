//! Memory: apertures, buffers, DMA buffers, and the offsets at which `/dev/kfd` is mapped.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h`, and `kfd_priv.h` for the offsets, of Linux 6.12.

/// The apertures of one gpu (`kfd_process_device_apertures`). Limits are the last address.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceApertures {
    /// Where flat addresses mean the local data share.
    pub lds_base: u64,
    /// Its last address.
    pub lds_limit: u64,
    /// Where flat addresses mean scratch.
    pub scratch_base: u64,
    /// Its last address.
    pub scratch_limit: u64,
    /// First address for buffers.
    pub gpuvm_base: u64,
    /// Last address for buffers. From 2^47 - 1 on the runtime places buffers with plain `mmap`.
    pub gpuvm_limit: u64,
    /// The gpu.
    pub gpu_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(DeviceApertures { lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit, gpu_id, pad });

/// Gpus that fit into [`GetProcessAperturesArgs`].
pub const APERTURES_MAX: usize = 7;

/// Argument of `GET_PROCESS_APERTURES` (`kfd_ioctl_get_process_apertures_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetProcessAperturesArgs {
    /// Filled, one for each gpu.
    pub process_apertures: [DeviceApertures; APERTURES_MAX],
    /// How many are filled.
    pub num_of_nodes: u32,
    /// Zero.
    pub pad: u32,
}
plain!(GetProcessAperturesArgs { process_apertures, num_of_nodes, pad } for GET_PROCESS_APERTURES);

/// Argument of `GET_PROCESS_APERTURES_NEW` (`kfd_ioctl_get_process_apertures_new_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetProcessAperturesNewArgs {
    /// Array of [`DeviceApertures`] to fill.
    pub kfd_process_device_apertures_ptr: u64,
    /// Room in it; answered with the number filled, or with the number there is when asked with 0.
    pub num_of_nodes: u32,
    /// Zero.
    pub pad: u32,
}
plain!(GetProcessAperturesNewArgs {
    kfd_process_device_apertures_ptr, num_of_nodes, pad
} for GET_PROCESS_APERTURES_NEW);

flags! {
    /// Kind and properties of a buffer. Exactly one of the first five is the kind.
    AllocFlags: u32 {
        /// Video memory.
        VRAM = 1 << 0,
        /// System memory of the driver.
        GTT = 1 << 1,
        /// System memory of the process.
        USERPTR = 1 << 2,
        /// The process's doorbells.
        DOORBELL = 1 << 3,
        /// The page of registers a process may touch: [`MMIO_HDP_MEM_FLUSH`].
        MMIO_REMAP = 1 << 4,
        /// Physically contiguous video memory.
        CONTIGUOUS = 1 << 23,
        /// Coherent with atomics of device scope.
        EXT_COHERENT = 1 << 24,
        /// Not cached.
        UNCACHED = 1 << 25,
        /// Coherent between devices.
        COHERENT = 1 << 26,
        /// Mapped twice in a row: a ring of gfx7 and gfx8.
        AQL_QUEUE_MEM = 1 << 27,
        /// No other kind instead.
        NO_SUBSTITUTE = 1 << 28,
        /// The host may map it.
        PUBLIC = 1 << 29,
        /// The gpu may execute it.
        EXECUTABLE = 1 << 30,
        /// The gpu may write it.
        WRITABLE = 1 << 31,
    }
}

impl AllocFlags {
    /// The bits of which exactly one is set.
    pub const KINDS: AllocFlags = AllocFlags(0x1F);
}

/// Argument of `ALLOC_MEMORY_OF_GPU` (`kfd_ioctl_alloc_memory_of_gpu_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocMemoryArgs {
    /// Address on every gpu that will map it.
    pub va_addr: u64,
    /// Bytes.
    pub size: u64,
    /// Names the buffer from now on, filled: see [`handle`].
    pub handle: u64,
    /// In: address in the process, for `USERPTR`. Out: offset at which the render node maps it, or `/dev/kfd` for
    /// `DOORBELL` and `MMIO_REMAP`.
    pub mmap_offset: u64,
    /// The gpu.
    pub gpu_id: u32,
    /// Kind and properties.
    pub flags: AllocFlags,
}
plain!(AllocMemoryArgs { va_addr, size, handle, mmap_offset, gpu_id, flags } for ALLOC_MEMORY_OF_GPU);

/// Argument of `FREE_MEMORY_OF_GPU` (`kfd_ioctl_free_memory_of_gpu_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeMemoryArgs {
    /// The buffer.
    pub handle: u64,
}
plain!(FreeMemoryArgs { handle } for FREE_MEMORY_OF_GPU);

/// Argument of `MAP_MEMORY_TO_GPU` (`kfd_ioctl_map_memory_to_gpu_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapMemoryArgs {
    /// The buffer.
    pub handle: u64,
    /// Array of 32-bit gpu ids.
    pub device_ids_array_ptr: u64,
    /// Entries of the array.
    pub n_devices: u32,
    /// How many at the start of the array are done: 0 first; an interrupted call is repeated with what it returned.
    pub n_success: u32,
}
plain!(MapMemoryArgs { handle, device_ids_array_ptr, n_devices, n_success } for MAP_MEMORY_TO_GPU);

/// Argument of `UNMAP_MEMORY_FROM_GPU` (`kfd_ioctl_unmap_memory_from_gpu_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnmapMemoryArgs {
    /// The buffer.
    pub handle: u64,
    /// Array of 32-bit gpu ids.
    pub device_ids_array_ptr: u64,
    /// Entries of the array.
    pub n_devices: u32,
    /// How many at the start of the array are done, as in [`MapMemoryArgs`].
    pub n_success: u32,
}
plain!(UnmapMemoryArgs { handle, device_ids_array_ptr, n_devices, n_success } for UNMAP_MEMORY_FROM_GPU);

/// Argument of `AVAILABLE_MEMORY` (`kfd_ioctl_get_available_memory_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AvailableMemoryArgs {
    /// Bytes left, filled.
    pub available: u64,
    /// The gpu.
    pub gpu_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(AvailableMemoryArgs { available, gpu_id, pad } for AVAILABLE_MEMORY);

/// Argument of `GET_DMABUF_INFO` (`kfd_ioctl_get_dmabuf_info_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetDmabufInfoArgs {
    /// Bytes, filled.
    pub size: u64,
    /// Buffer for its metadata, or 0.
    pub metadata_ptr: u64,
    /// Room there; answered with the size.
    pub metadata_size: u32,
    /// The gpu it lies on, filled.
    pub gpu_id: u32,
    /// Kind and properties, filled.
    pub flags: AllocFlags,
    /// The DMA buffer.
    pub dmabuf_fd: u32,
}
plain!(GetDmabufInfoArgs { size, metadata_ptr, metadata_size, gpu_id, flags, dmabuf_fd } for GET_DMABUF_INFO);

/// Argument of `IMPORT_DMABUF` (`kfd_ioctl_import_dmabuf_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportDmabufArgs {
    /// Address on every gpu that will map it.
    pub va_addr: u64,
    /// Names the buffer from now on, filled.
    pub handle: u64,
    /// The gpu.
    pub gpu_id: u32,
    /// The DMA buffer.
    pub dmabuf_fd: u32,
}
plain!(ImportDmabufArgs { va_addr, handle, gpu_id, dmabuf_fd } for IMPORT_DMABUF);

/// Argument of `EXPORT_DMABUF` (`kfd_ioctl_export_dmabuf_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportDmabufArgs {
    /// The buffer.
    pub handle: u64,
    /// Flags of the new descriptor: `O_CLOEXEC`, `O_RDWR`.
    pub flags: u32,
    /// The DMA buffer, filled.
    pub dmabuf_fd: u32,
}
plain!(ExportDmabufArgs { handle, flags, dmabuf_fd } for EXPORT_DMABUF);

/// The handle the driver makes of a gpu and its index there. `CREATE_EVENT` takes one apart again for its event page.
#[must_use]
pub const fn handle(gpu_id: u32, index: u32) -> u64 {
    (gpu_id as u64) << 32 | index as u64
}

/// Gpu and index of a [`handle`].
#[must_use]
pub const fn handle_parts(handle: u64) -> (u32, u32) {
    ((handle >> 32) as u32, handle as u32)
}

/// Offset in the `MMIO_REMAP` page: a write makes host writes to video memory visible.
pub const MMIO_HDP_MEM_FLUSH: u32 = 0;
/// Offset in the `MMIO_REMAP` page: the same for registers.
pub const MMIO_HDP_REG_FLUSH: u32 = 4;

numbers! {
    /// What an offset into `/dev/kfd` maps: bits 63 and 62.
    MmapKind: u8 {
        /// The page of registers.
        MMIO = 0,
        /// Memory the driver reserves.
        RESERVED = 1,
        /// The event page.
        EVENTS = 2,
        /// The process's doorbells on one gpu.
        DOORBELL = 3,
    }
}

/// An offset into `/dev/kfd`: what, and on which gpu. Below it lies the position within.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MmapOffset(pub u64);

impl MmapOffset {
    const KIND_SHIFT: u32 = 62;
    const GPU_SHIFT: u32 = 46;
    const GPU_MASK: u64 = 0xFFFF << MmapOffset::GPU_SHIFT;

    /// Packs the two. The driver's gpu ids have 16 bits.
    #[must_use]
    pub const fn new(kind: MmapKind, gpu_id: u32) -> MmapOffset {
        let gpu = ((gpu_id as u64) << MmapOffset::GPU_SHIFT) & MmapOffset::GPU_MASK;
        MmapOffset((kind.0 as u64) << MmapOffset::KIND_SHIFT | gpu)
    }

    /// What it maps.
    #[must_use]
    pub const fn kind(self) -> MmapKind {
        MmapKind((self.0 >> MmapOffset::KIND_SHIFT) as u8)
    }

    /// On which gpu; 0 for the event page.
    #[must_use]
    pub const fn gpu_id(self) -> u32 {
        ((self.0 & MmapOffset::GPU_MASK) >> MmapOffset::GPU_SHIFT) as u32
    }

    /// Position within.
    #[must_use]
    pub const fn position(self) -> u64 {
        self.0 & ((1 << MmapOffset::GPU_SHIFT) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(DeviceApertures, 56, { gpuvm_limit: 40, gpu_id: 48 });
        layout!(GetProcessAperturesArgs, 400, { num_of_nodes: 392 });
        layout!(GetProcessAperturesNewArgs, 16, { num_of_nodes: 8 });
        layout!(AllocMemoryArgs, 40, { va_addr: 0, size: 8, handle: 16, mmap_offset: 24, gpu_id: 32, flags: 36 });
        layout!(FreeMemoryArgs, 8, { handle: 0 });
        layout!(MapMemoryArgs, 24, { device_ids_array_ptr: 8, n_devices: 16, n_success: 20 });
        layout!(UnmapMemoryArgs, 24, { device_ids_array_ptr: 8, n_devices: 16, n_success: 20 });
        layout!(AvailableMemoryArgs, 16, { available: 0, gpu_id: 8 });
        layout!(GetDmabufInfoArgs, 32, { metadata_size: 16, gpu_id: 20, flags: 24, dmabuf_fd: 28 });
        layout!(ImportDmabufArgs, 24, { handle: 8, gpu_id: 16, dmabuf_fd: 20 });
        layout!(ExportDmabufArgs, 16, { flags: 8, dmabuf_fd: 12 });
    }

    #[test]
    fn flags_print_as_names() {
        let flags = AllocFlags::VRAM | AllocFlags::WRITABLE;
        assert_eq!((flags.0, format!("{flags:?}").as_str()), (0x8000_0001, "VRAM | WRITABLE"));
        assert_eq!(format!("{:?}", AllocFlags(1 << 10 | 2)), "GTT | 0x400");
        assert_eq!(format!("{:?}", AllocFlags::EMPTY), "0x0");
        // A runtime's ordinary allocation of video memory.
        assert!(AllocFlags(0xF000_0001).has(AllocFlags::VRAM | AllocFlags::EXECUTABLE | AllocFlags::NO_SUBSTITUTE));
        assert_eq!(AllocFlags(0xF000_0001).both(AllocFlags::KINDS), AllocFlags::VRAM);
    }

    #[test]
    fn offsets_fall_into_their_parts() {
        let doorbells = MmapOffset::new(MmapKind::DOORBELL, 0xABCD);
        assert_eq!(doorbells.0, 0xEAF3_4000_0000_0000);
        assert_eq!((doorbells.kind(), doorbells.gpu_id()), (MmapKind::DOORBELL, 0xABCD));
        assert_eq!(MmapOffset(doorbells.0 | 0x1008).position(), 0x1008);
        assert_eq!(MmapOffset::new(MmapKind::EVENTS, 0).0, 0x8000_0000_0000_0000);
        assert_eq!(handle_parts(handle(0xABCD, 7)), (0xABCD, 7));
    }
}
