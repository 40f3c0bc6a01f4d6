//! Switching sets of queues in one runlist cycle.
//!
//! Source: `include/uapi/linux/kfd_sched.h` of `kernel/patch`. No released driver has it: others answer `ENOTTY` to
//! [`OPEN`]. Every structure may grow at its end; the size of an argument is part of the request, that of an element of
//! an array is a field of the argument.

use crate::ioctl::{Argument, Command, Direction, Request};
use crate::queue::QueueType;

/// Value of [`OpenArgs::magic`] (`KFD_SCHED_MAGIC`): "KFDSCHED".
pub const MAGIC: u64 = 0x4B46_4453_4348_4544;
/// Version of the interface (`KFD_SCHED_VERSION`).
pub const VERSION: u32 = 1;

/// The context of a process that programs use unless they make others (`KFD_SCHED_CONTEXT_PRIMARY`).
pub const CONTEXT_PRIMARY: u32 = 0xFFFF;
/// All compute queues (`KFD_SCHED_ALL_QUEUES`), those included that are created later.
pub const ALL_QUEUES: u32 = u32::MAX;
/// All gpus (`KFD_SCHED_ALL_GPUS`).
pub const ALL_GPUS: u32 = 0;
/// The grace period of the hardware (`KFD_SCHED_GRACE_DEFAULT`).
pub const GRACE_DEFAULT: u32 = u32::MAX;
/// Entries of one call (`KFD_SCHED_MAX_ENTRIES`).
pub const MAX_ENTRIES: usize = 1024;

const fn command(nr: u8, size: u16, name: &'static str) -> Command {
    Command { class: Request::KFD, nr, direction: Direction::ReadWrite, size, name }
}

/// Returns a scheduling descriptor. On `/dev/kfd`.
pub const OPEN: Command = command(0xC0, 24, "SCHED_OPEN");
/// Preempts and resumes queues. On a scheduling descriptor.
pub const SWITCH: Command = command(0xC1, 48, "SCHED_SWITCH");
/// Lists queues. On a scheduling descriptor.
pub const QUERY: Command = command(0xC2, 32, "SCHED_QUERY");

/// Argument of [`OPEN`] (`kfd_sched_open_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenArgs {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`]; filled with the driver's.
    pub version: u32,
    /// Zero.
    pub flags: u32,
    /// The scheduling descriptor, filled. What it has preempted runs again when its last copy is closed.
    pub fd: i32,
    /// Filled.
    pub capabilities: u32,
}
plain!(OpenArgs { magic, version, flags, fd, capabilities });

numbers! {
    /// What an entry asks for.
    Action: u32 {
        /// Take the queues off the gpu (`KFD_SCHED_PREEMPT`).
        PREEMPT = 1,
        /// Put them back (`KFD_SCHED_RESUME`).
        RESUME = 2,
    }
}

/// Queues to preempt or to resume (`kfd_sched_entry`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// When the process started, as field 22 of `/proc/PID/stat`; zero: not compared.
    pub start_time: u64,
    /// The process.
    pub pid: i32,
    /// [`CONTEXT_PRIMARY`], or another.
    pub context_id: u32,
    /// The gpu, or [`ALL_GPUS`].
    pub gpu_id: u32,
    /// The queue, or [`ALL_QUEUES`].
    pub queue_id: u32,
    /// What to do.
    pub action: Action,
    /// Zero.
    pub flags: u32,
    /// Zero or a negative error number, filled.
    pub status: i32,
    /// Queues that changed, filled.
    pub num_changed: u32,
}
plain!(Entry { start_time, pid, context_id, gpu_id, queue_id, action, flags, status, num_changed });

/// Argument of [`SWITCH`] (`kfd_sched_switch_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchArgs {
    /// Address of an array of [`Entry`].
    pub entries_ptr: u64,
    /// Its elements, at most [`MAX_ENTRIES`].
    pub num_entries: u32,
    /// Bytes of an element.
    pub entry_size: u32,
    /// No cycle begins later than so many nanoseconds after the call; zero: no limit.
    pub timeout_ns: u64,
    /// As for `SUSPEND_QUEUES`, or [`GRACE_DEFAULT`].
    pub grace_period: u32,
    /// Zero.
    pub flags: u32,
    /// Queues that changed, filled.
    pub num_changed: u32,
    /// Cycles made, at most one for each gpu, filled.
    pub num_cycles: u32,
    /// Time from the begin of the call to the end of the last cycle, filled.
    pub duration_ns: u64,
}
plain!(SwitchArgs {
    entries_ptr,
    num_entries,
    entry_size,
    timeout_ns,
    grace_period,
    flags,
    num_changed,
    num_cycles,
    duration_ns,
});

flags! {
    /// State of a queue.
    QueueFlags: u32 {
        /// In the runlist.
        ACTIVE = 1 << 0,
        /// Preempted by a scheduling descriptor.
        PREEMPTED = 1 << 1,
        /// By the one that asks.
        BY_ME = 1 << 2,
        /// Evicted.
        EVICTED = 1 << 3,
        /// Suspended by a debugger.
        SUSPENDED = 1 << 4,
        /// Reset: it stays off the gpu.
        RESET = 1 << 5,
        /// Uses global wave sync.
        GWS = 1 << 6,
        /// Waits to be destroyed.
        DESTROYED = 1 << 7,
        /// New queues of its process on its gpu are preempted from the begin.
        BORN_PREEMPTED = 1 << 8,
    }
}

/// A queue and its state (`kfd_sched_queue`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// When its process started, as in [`Entry`].
    pub start_time: u64,
    /// Its process.
    pub pid: i32,
    /// Context of the process.
    pub context_id: u32,
    /// Its gpu.
    pub gpu_id: u32,
    /// Its number within its context.
    pub queue_id: u32,
    /// Its kind.
    pub queue_type: QueueType,
    /// Zero for PM4, one for AQL.
    pub format: u32,
    /// Address of the ring.
    pub ring_base: u64,
    /// Its bytes.
    pub ring_size: u64,
    /// Address of the read index.
    pub read_pointer: u64,
    /// Address of the write index.
    pub write_pointer: u64,
    /// Address of the save area, or zero.
    pub save_area: u64,
    /// Its bytes.
    pub save_area_size: u32,
    /// Place of its doorbell, in dwords.
    pub doorbell_offset: u32,
    /// Pending exceptions.
    pub exception_status: u64,
    /// 0 to 15.
    pub priority: u32,
    /// 0 to 100; 0: inactive.
    pub percent: u32,
    /// Its state.
    pub flags: QueueFlags,
    /// Zero.
    pub reserved: u32,
}
plain!(Queue {
    start_time,
    pid,
    context_id,
    gpu_id,
    queue_id,
    queue_type,
    format,
    ring_base,
    ring_size,
    read_pointer,
    write_pointer,
    save_area,
    save_area_size,
    doorbell_offset,
    exception_status,
    priority,
    percent,
    flags,
    reserved,
});

/// Argument of [`QUERY`] (`kfd_sched_query_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryArgs {
    /// Address of an array of [`Queue`].
    pub queues_ptr: u64,
    /// Elements that fit; filled with those written.
    pub num_queues: u32,
    /// Bytes of an element.
    pub queue_size: u32,
    /// Queues that there are, filled.
    pub num_found: u32,
    /// Only queues of this process; zero: of all.
    pub pid: i32,
    /// Only queues on this gpu, or [`ALL_GPUS`].
    pub gpu_id: u32,
    /// Zero.
    pub flags: u32,
}
plain!(QueryArgs { queues_ptr, num_queues, queue_size, num_found, pid, gpu_id, flags });

macro_rules! argument {
    ($name:ident, $command:ident) => {
        impl Argument for $name {
            const COMMAND: Command = $command;
        }

        const _: () = assert!($command.size as usize == size_of::<$name>(), "as large as the command says");
    };
}
argument!(OpenArgs, OPEN);
argument!(SwitchArgs, SWITCH);
argument!(QueryArgs, QUERY);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_header() {
        let requests = [OPEN, SWITCH, QUERY].map(|command| command.request().0);
        assert_eq!(requests, [0xC018_4BC0, 0xC030_4BC1, 0xC020_4BC2]);
        assert_eq!(MAGIC.to_be_bytes(), *b"KFDSCHED");
    }

    #[test]
    fn structures_lie_as_in_the_header() {
        layout!(OpenArgs, 24, { magic: 0, version: 8, flags: 12, fd: 16, capabilities: 20 });
        layout!(Entry, 40, {
            start_time: 0, pid: 8, context_id: 12, gpu_id: 16, queue_id: 20, action: 24, flags: 28, status: 32,
            num_changed: 36,
        });
        layout!(SwitchArgs, 48, {
            entries_ptr: 0, num_entries: 8, entry_size: 12, timeout_ns: 16, grace_period: 24, flags: 28,
            num_changed: 32, num_cycles: 36, duration_ns: 40,
        });
        layout!(Queue, 104, {
            start_time: 0, pid: 8, context_id: 12, gpu_id: 16, queue_id: 20, queue_type: 24, format: 28, ring_base: 32,
            ring_size: 40, read_pointer: 48, write_pointer: 56, save_area: 64, save_area_size: 72,
            doorbell_offset: 76, exception_status: 80, priority: 88, percent: 92, flags: 96, reserved: 100,
        });
        layout!(QueryArgs, 32, {
            queues_ptr: 0, num_queues: 8, queue_size: 12, num_found: 16, pid: 20, gpu_id: 24, flags: 28,
        });
    }
}
