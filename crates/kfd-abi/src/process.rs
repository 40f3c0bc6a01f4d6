//! The remaining commands of a process: version, clocks, address space, scratch, traps, page faults, tiling.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h` of Linux 6.12.

/// Major version of the interface described here.
pub const VERSION_MAJOR: u32 = 1;
/// Minor version of the interface described here.
pub const VERSION_MINOR: u32 = 17;
/// Minor version that brought `DBG_TRAP` and `RUNTIME_ENABLE`.
pub const VERSION_MINOR_DEBUGGER: u32 = 13;
/// A descriptor that is none.
pub const INVALID_FD: u32 = 0xFFFF_FFFF;

/// Argument of `GET_VERSION` (`kfd_ioctl_get_version_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetVersionArgs {
    /// Major version, filled.
    pub major_version: u32,
    /// Minor version, filled.
    pub minor_version: u32,
}
plain!(GetVersionArgs { major_version, minor_version } for GET_VERSION);

numbers! {
    /// Operation of `PROFILER`.
    ProfilerOp: u32 {
        /// Lock a gpu's performance counters; needs a capability.
        PMC = 0,
        /// Sample program counters: AMD's DKMS driver only.
        PC_SAMPLE = 1,
        /// Version of these operations.
        VERSION = 2,
        /// Let the firmware limit peak power, or not.
        PTL_CONTROL = 3,
    }
}

/// Argument of `PROFILER` (`kfd_ioctl_profiler_args`), interface version 1.23.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfilerArgs {
    /// What to do.
    pub op: ProfilerOp,
    /// [`ProfilerOp::VERSION`]: the version, filled. Otherwise the gpu.
    pub version_or_gpu: u32,
    /// Depends on the operation.
    pub first: u32,
    /// Depends on the operation.
    pub second: u32,
}
plain!(ProfilerArgs { op, version_or_gpu, first, second } for PROFILER);

/// Version of the operations of `PROFILER`.
pub const PROFILER_VERSION: u32 = 1;

/// Argument of `GET_CLOCK_COUNTERS` (`kfd_ioctl_get_clock_counters_args`). The counters are read one after the other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetClockCountersArgs {
    /// The gpu's counter, filled.
    pub gpu_clock_counter: u64,
    /// Nanoseconds of `CLOCK_MONOTONIC_RAW`, filled.
    pub cpu_clock_counter: u64,
    /// Nanoseconds of `CLOCK_BOOTTIME`, filled.
    pub system_clock_counter: u64,
    /// Frequency of that counter in Hz, filled.
    pub system_clock_freq: u64,
    /// The gpu.
    pub gpu_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(GetClockCountersArgs {
    gpu_clock_counter, cpu_clock_counter, system_clock_counter, system_clock_freq, gpu_id, pad
} for GET_CLOCK_COUNTERS);

/// Argument of `ACQUIRE_VM` (`kfd_ioctl_acquire_vm_args`). Before it, a gpu accepts neither memory nor queues.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcquireVmArgs {
    /// Render node whose address space it will be; stays open.
    pub drm_fd: u32,
    /// The gpu.
    pub gpu_id: u32,
}
plain!(AcquireVmArgs { drm_fd, gpu_id } for ACQUIRE_VM);

numbers! {
    /// Cache policy.
    CachePolicy: u32 {
        /// Coherent with the host.
        COHERENT = 0,
        /// Cached.
        NONCOHERENT = 1,
    }
}

/// Argument of `SET_MEMORY_POLICY` (`kfd_ioctl_set_memory_policy_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetMemoryPolicyArgs {
    /// Addresses with the alternate policy.
    pub alternate_aperture_base: u64,
    /// Their number.
    pub alternate_aperture_size: u64,
    /// The gpu.
    pub gpu_id: u32,
    /// Everywhere else.
    pub default_policy: CachePolicy,
    /// There.
    pub alternate_policy: CachePolicy,
    /// Zero.
    pub pad: u32,
}
plain!(SetMemoryPolicyArgs {
    alternate_aperture_base, alternate_aperture_size, gpu_id, default_policy, alternate_policy, pad
} for SET_MEMORY_POLICY);

/// Argument of `SET_SCRATCH_BACKING_VA` (`kfd_ioctl_set_scratch_backing_va_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetScratchBackingVaArgs {
    /// Where scratch memory lies.
    pub va_addr: u64,
    /// The gpu.
    pub gpu_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(SetScratchBackingVaArgs { va_addr, gpu_id, pad } for SET_SCRATCH_BACKING_VA);

/// Argument of `SET_TRAP_HANDLER` (`kfd_ioctl_set_trap_handler_args`): the second level, behind the driver's own.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetTrapHandlerArgs {
    /// Code.
    pub tba_addr: u64,
    /// Memory for it.
    pub tma_addr: u64,
    /// The gpu.
    pub gpu_id: u32,
    /// Zero.
    pub pad: u32,
}
plain!(SetTrapHandlerArgs { tba_addr, tma_addr, gpu_id, pad } for SET_TRAP_HANDLER);

/// Argument of `SET_XNACK_MODE` (`kfd_ioctl_set_xnack_mode_args`): whether page faults are retried.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetXnackModeArgs {
    /// 0 off, positive on, negative leaves it; answered with the mode.
    pub xnack_enabled: i32,
}
plain!(SetXnackModeArgs { xnack_enabled } for SET_XNACK_MODE);

/// Argument of `GET_TILE_CONFIG` (`kfd_ioctl_get_tile_config_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetTileConfigArgs {
    /// Array of 32-bit tile modes to fill.
    pub tile_config_ptr: u64,
    /// Array of 32-bit macro tile modes to fill.
    pub macro_tile_config_ptr: u64,
    /// Room in the first; answered with the number filled.
    pub num_tile_configs: u32,
    /// Room in the second; answered with the number filled.
    pub num_macro_tile_configs: u32,
    /// The gpu.
    pub gpu_id: u32,
    /// Register of the address layout, filled.
    pub gb_addr_config: u32,
    /// Memory banks, filled.
    pub num_banks: u32,
    /// Memory ranks, filled.
    pub num_ranks: u32,
}
plain!(GetTileConfigArgs {
    tile_config_ptr, macro_tile_config_ptr, num_tile_configs, num_macro_tile_configs, gpu_id, gb_addr_config, num_banks,
    num_ranks
} for GET_TILE_CONFIG);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(GetVersionArgs, 8, { major_version: 0, minor_version: 4 });
        layout!(GetClockCountersArgs, 40, {
            gpu_clock_counter: 0, cpu_clock_counter: 8, system_clock_counter: 16, system_clock_freq: 24, gpu_id: 32,
        });
        layout!(AcquireVmArgs, 8, { drm_fd: 0, gpu_id: 4 });
        layout!(SetMemoryPolicyArgs, 32, {
            alternate_aperture_size: 8, gpu_id: 16, default_policy: 20, alternate_policy: 24,
        });
        layout!(SetScratchBackingVaArgs, 16, { va_addr: 0, gpu_id: 8 });
        layout!(SetTrapHandlerArgs, 24, { tba_addr: 0, tma_addr: 8, gpu_id: 16 });
        layout!(SetXnackModeArgs, 4, { xnack_enabled: 0 });
        layout!(GetTileConfigArgs, 40, { num_tile_configs: 16, gpu_id: 24, gb_addr_config: 28, num_ranks: 36 });
    }
}
