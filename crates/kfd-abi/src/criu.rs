//! Checkpoint and restore. `PROCESS_INFO` evicts all queues of a process, `UNPAUSE` brings them back.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h` of Linux 6.12. Needs `CAP_CHECKPOINT_RESTORE` or `CAP_SYS_ADMIN`; the only
//! command that a tracer may issue on a descriptor of the process it traces.

numbers! {
    /// Operation of [`CriuArgs`].
    CriuOp: u32 {
        /// Pause the process and count what it has. Twice in a row it stays paused after one `UNPAUSE`.
        PROCESS_INFO = 0,
        /// Copy it out.
        CHECKPOINT = 1,
        /// Let it run.
        UNPAUSE = 2,
        /// Copy it in.
        RESTORE = 3,
        /// Start what was copied in.
        RESUME = 4,
    }
}

/// Argument of `CRIU_OP` (`kfd_ioctl_criu_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CriuArgs {
    /// Array of [`CriuDeviceBucket`].
    pub devices: u64,
    /// Array of [`CriuBoBucket`].
    pub bos: u64,
    /// The driver's own data.
    pub priv_data: u64,
    /// Its bytes.
    pub priv_data_size: u64,
    /// Gpus.
    pub num_devices: u32,
    /// Buffers.
    pub num_bos: u32,
    /// Other objects.
    pub num_objects: u32,
    /// The process.
    pub pid: u32,
    /// What to do.
    pub op: CriuOp,
    /// Padding of the C structure.
    pub pad: u32,
}
plain!(CriuArgs {
    devices, bos, priv_data, priv_data_size, num_devices, num_bos, num_objects, pid, op, pad
} for CRIU_OP);

/// A gpu of a checkpoint (`kfd_criu_device_bucket`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CriuDeviceBucket {
    /// The id the process knows.
    pub user_gpu_id: u32,
    /// The id it has on this machine.
    pub actual_gpu_id: u32,
    /// Its render node.
    pub drm_fd: u32,
    /// Zero.
    pub pad: u32,
}
plain!(CriuDeviceBucket { user_gpu_id, actual_gpu_id, drm_fd, pad });

/// A buffer of a checkpoint (`kfd_criu_bo_bucket`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CriuBoBucket {
    /// Address on the gpu.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Offset at which it was mapped.
    pub offset: u64,
    /// Offset at which it is mapped now.
    pub restored_offset: u64,
    /// The gpu, by the id the process knows.
    pub gpu_id: u32,
    /// Kind and properties.
    pub alloc_flags: crate::memory::AllocFlags,
    /// A DMA buffer to read its contents.
    pub dmabuf_fd: u32,
    /// Zero.
    pub pad: u32,
}
plain!(CriuBoBucket { addr, size, offset, restored_offset, gpu_id, alloc_flags, dmabuf_fd, pad });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(CriuArgs, 56, { num_devices: 32, num_bos: 36, num_objects: 40, pid: 44, op: 48 });
        layout!(CriuDeviceBucket, 16, { user_gpu_id: 0, actual_gpu_id: 4, drm_fd: 8 });
        layout!(CriuBoBucket, 48, { addr: 0, restored_offset: 24, gpu_id: 32, alloc_flags: 36, dmabuf_fd: 40 });
    }
}
