//! What each operation of `DBG_TRAP` needs.

#[cfg(doc)]
use super::{DeviceSnapshotEntry, QueueSnapshotEntry, QueueStatus, RuntimeInfo, grace_period};
use super::{LaunchMode, OverrideMode, TrapArgs, TrapFlags, TrapMask, TrapOp, WatchMode};
use crate::exception::{ExceptionCode, ExceptionMask};

/// Structures of the operations: all are plain, each belongs to one.
macro_rules! operations {
    ($($(#[$meta:meta])* $name:ident = $op:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)*
        }
        plain!($name { $($field),* });

        impl TrapArgs for $name {
            const OP: TrapOp = TrapOp::$op;
        }
    )*};
}

operations! {
    /// Begins a session (`kfd_ioctl_dbg_trap_enable_args`).
    Enable = ENABLE {
        /// Exceptions that are reported here. They no longer reach the runtime.
        exception_mask: ExceptionMask,
        /// Where a [`RuntimeInfo`] goes.
        rinfo_ptr: u64,
        /// Room there; answered with the size.
        rinfo_size: u32,
        /// Gets one byte for each report: a pipe.
        dbg_fd: u32,
    }

    /// Ends a session; nothing is needed.
    Disable = DISABLE {}

    /// Passes exceptions on (`kfd_ioctl_dbg_trap_send_runtime_event_args`). With `PROCESS_RUNTIME` it lets a
    /// `RUNTIME_ENABLE` that waits for the debugger continue, or the next one.
    SendRuntimeEvent = SEND_RUNTIME_EVENT {
        /// Exceptions to pass on.
        exception_mask: ExceptionMask,
        /// From which gpu.
        gpu_id: u32,
        /// From which queue.
        queue_id: u32,
    }

    /// Selects the exceptions that are reported (`kfd_ioctl_dbg_trap_set_exceptions_enabled_args`).
    SetExceptionsEnabled = SET_EXCEPTIONS_ENABLED {
        /// Exceptions to report.
        exception_mask: ExceptionMask,
    }

    /// Chooses what makes new waves trap (`kfd_ioctl_dbg_trap_set_wave_launch_override_args`).
    SetWaveLaunchOverride = SET_WAVE_LAUNCH_OVERRIDE {
        /// Add to the program's own choice, or replace it.
        override_mode: OverrideMode,
        /// Causes to enable; answered with the previous choice.
        enable_mask: TrapMask,
        /// Causes that the caller asks for; answered with those that the gpu has.
        support_request_mask: TrapMask,
        /// Zero.
        pad: u32,
    }

    /// Chooses how new waves start (`kfd_ioctl_dbg_trap_set_wave_launch_mode_args`).
    SetWaveLaunchMode = SET_WAVE_LAUNCH_MODE {
        /// Whether they run, halt, or stop after each instruction.
        launch_mode: LaunchMode,
        /// Zero.
        pad: u32,
    }

    /// Takes queues off the gpu (`kfd_ioctl_dbg_trap_suspend_queues_args`). The call returns how many; the list is
    /// written back with [`QueueStatus`] in each entry.
    SuspendQueues = SUSPEND_QUEUES {
        /// Exceptions to clear. `QUEUE_NEW` is checked before: only a snapshot clears it in time.
        exception_mask: ExceptionMask,
        /// Array of 32-bit queue ids.
        queue_array_ptr: u64,
        /// How many, at most 1024.
        num_queues: u32,
        /// Time waves get to end by themselves, in 1000 GPU clocks: see [`grace_period`].
        grace_period: u32,
    }

    /// Puts queues back (`kfd_ioctl_dbg_trap_resume_queues_args`). Answers as [`SuspendQueues`] does.
    ResumeQueues = RESUME_QUEUES {
        /// Array of 32-bit queue ids; 0 means all that are suspended.
        queue_array_ptr: u64,
        /// Entries of the array.
        num_queues: u32,
        /// Zero.
        pad: u32,
    }

    /// Watches an address (`kfd_ioctl_dbg_trap_set_node_address_watch_args`).
    SetNodeAddressWatch = SET_NODE_ADDRESS_WATCH {
        /// Address to watch.
        address: u64,
        /// For which accesses.
        mode: WatchMode,
        /// Bits of the address that matter.
        mask: u32,
        /// On which gpu.
        gpu_id: u32,
        /// Its name, filled.
        id: u32,
    }

    /// Stops watching (`kfd_ioctl_dbg_trap_clear_node_address_watch_args`).
    ClearNodeAddressWatch = CLEAR_NODE_ADDRESS_WATCH {
        /// On which gpu.
        gpu_id: u32,
        /// Number of the watch point.
        id: u32,
    }

    /// Chooses behaviour of waves (`kfd_ioctl_dbg_trap_set_flags_args`).
    SetFlags = SET_FLAGS {
        /// Causes to enable; answered with the previous choice.
        flags: TrapFlags,
        /// Zero.
        pad: u32,
    }

    /// Finds raised exceptions of one queue or gpu; `EAGAIN` when there are none
    /// (`kfd_ioctl_dbg_trap_query_debug_event_args`).
    QueryDebugEvent = QUERY_DEBUG_EVENT {
        /// Those to clear; answered with those raised.
        exception_mask: ExceptionMask,
        /// Gpu that raised them, filled.
        gpu_id: u32,
        /// Queue that raised them, filled.
        queue_id: u32,
    }

    /// Learns more about an exception (`kfd_ioctl_dbg_trap_query_exception_info_args`).
    QueryExceptionInfo = QUERY_EXCEPTION_INFO {
        /// Where the answer goes: a [`MemoryException`](crate::event::MemoryException) or a [`RuntimeInfo`].
        info_ptr: u64,
        /// Room there; answered with the size.
        info_size: u32,
        /// Gpu or queue.
        source_id: u32,
        /// Exception to ask about.
        exception_code: ExceptionCode,
        /// Whether to clear it: 0 or 1.
        clear_exception: u32,
    }

    /// Lists the queues, newest first (`kfd_ioctl_dbg_trap_queue_snapshot_args`).
    GetQueueSnapshot = GET_QUEUE_SNAPSHOT {
        /// Exceptions to clear.
        exception_mask: ExceptionMask,
        /// Array of [`QueueSnapshotEntry`].
        snapshot_buf_ptr: u64,
        /// Room in it; answered with the number of queues there are, which may be more.
        num_queues: u32,
        /// Distance of the entries in bytes, not 0; answered with the bytes filled of each.
        entry_size: u32,
    }

    /// Lists the gpus (`kfd_ioctl_dbg_trap_device_snapshot_args`).
    GetDeviceSnapshot = GET_DEVICE_SNAPSHOT {
        /// Exceptions to clear.
        exception_mask: ExceptionMask,
        /// Array of [`DeviceSnapshotEntry`].
        snapshot_buf_ptr: u64,
        /// Room in it; answered with the number of gpus there are.
        num_devices: u32,
        /// As in [`GetQueueSnapshot`].
        entry_size: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(Enable, 24, { exception_mask: 0, rinfo_ptr: 8, rinfo_size: 16, dbg_fd: 20 });
        layout!(Disable, 0, {});
        layout!(SendRuntimeEvent, 16, { exception_mask: 0, gpu_id: 8, queue_id: 12 });
        layout!(SetExceptionsEnabled, 8, { exception_mask: 0 });
        layout!(SetWaveLaunchOverride, 16, { override_mode: 0, enable_mask: 4, support_request_mask: 8 });
        layout!(SetWaveLaunchMode, 8, { launch_mode: 0 });
        layout!(SuspendQueues, 24, { exception_mask: 0, queue_array_ptr: 8, num_queues: 16, grace_period: 20 });
        layout!(ResumeQueues, 16, { queue_array_ptr: 0, num_queues: 8 });
        layout!(SetNodeAddressWatch, 24, { address: 0, mode: 8, mask: 12, gpu_id: 16, id: 20 });
        layout!(ClearNodeAddressWatch, 8, { gpu_id: 0, id: 4 });
        layout!(SetFlags, 8, { flags: 0 });
        layout!(QueryDebugEvent, 16, { exception_mask: 0, gpu_id: 8, queue_id: 12 });
        layout!(QueryExceptionInfo, 24, {
            info_ptr: 0, info_size: 8, source_id: 12, exception_code: 16, clear_exception: 20,
        });
        layout!(GetQueueSnapshot, 24, { exception_mask: 0, snapshot_buf_ptr: 8, num_queues: 16, entry_size: 20 });
        layout!(GetDeviceSnapshot, 24, { exception_mask: 0, snapshot_buf_ptr: 8, num_devices: 16, entry_size: 20 });
    }
}
