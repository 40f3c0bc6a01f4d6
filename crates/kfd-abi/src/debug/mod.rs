//! The debugger's interface: `RUNTIME_ENABLE` on the side of the program, `DBG_TRAP` on the other.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h` of Linux 6.12, and `kfd_chardev.c` where its comments are wrong. Suspending
//! and resuming queues is two of the fifteen operations.

use crate::Union;

mod operations;
mod runtime;
mod snapshot;
mod waves;

pub use operations::{
    ClearNodeAddressWatch, Disable, Enable, GetDeviceSnapshot, GetQueueSnapshot, QueryDebugEvent, QueryExceptionInfo,
    ResumeQueues, SendRuntimeEvent, SetExceptionsEnabled, SetFlags, SetNodeAddressWatch, SetWaveLaunchMode,
    SetWaveLaunchOverride, SuspendQueues,
};
pub use runtime::{RuntimeEnableArgs, RuntimeInfo, RuntimeMode, RuntimeState};
pub use snapshot::{DeviceSnapshotEntry, LaterDeviceSnapshotEntry, QueueSnapshotEntry};
pub use waves::{LaunchMode, OverrideMode, TrapFlags, TrapMask, WatchMode};

numbers! {
    /// Operation of [`DbgTrapArgs`].
    TrapOp: u32 {
        /// Begin a session.
        ENABLE = 0,
        /// End it: everything suspended resumes.
        DISABLE = 1,
        /// Pass exceptions on to the runtime, or let it continue.
        SEND_RUNTIME_EVENT = 2,
        /// Choose the exceptions to hear of.
        SET_EXCEPTIONS_ENABLED = 3,
        /// Choose what makes new waves trap.
        SET_WAVE_LAUNCH_OVERRIDE = 4,
        /// Choose how new waves start.
        SET_WAVE_LAUNCH_MODE = 5,
        /// Take queues off the gpu, their waves saved.
        SUSPEND_QUEUES = 6,
        /// Put them back.
        RESUME_QUEUES = 7,
        /// Watch an address.
        SET_NODE_ADDRESS_WATCH = 8,
        /// Stop watching it.
        CLEAR_NODE_ADDRESS_WATCH = 9,
        /// Choose behaviour of waves.
        SET_FLAGS = 10,
        /// Find raised exceptions.
        QUERY_DEBUG_EVENT = 11,
        /// Learn more about one.
        QUERY_EXCEPTION_INFO = 12,
        /// List the queues.
        GET_QUEUE_SNAPSHOT = 13,
        /// List the gpus.
        GET_DEVICE_SNAPSHOT = 14,
    }
}

impl TrapOp {
    /// Whether the program's runtime must be enabled; `EPERM` otherwise. The header's comments leave `SET_FLAGS` out
    /// and name another errno; the code is as here.
    #[must_use]
    pub const fn needs_runtime(self) -> bool {
        self.0 >= TrapOp::SET_WAVE_LAUNCH_OVERRIDE.0 && self.0 <= TrapOp::SET_FLAGS.0
    }
}

/// Argument of `DBG_TRAP` (`kfd_ioctl_dbg_trap_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbgTrapArgs {
    /// The program, in the caller's pid namespace.
    pub pid: u32,
    /// What to do.
    pub op: TrapOp,
    /// What the operation needs: the structure whose [`TrapArgs::OP`] it is.
    pub args: Union<3>,
}
plain!(DbgTrapArgs { pid, op, args } for DBG_TRAP);

impl DbgTrapArgs {
    /// The operation that `args` belongs to, on this program.
    #[must_use]
    pub fn new<T: TrapArgs>(pid: u32, args: T) -> DbgTrapArgs {
        DbgTrapArgs { pid, op: T::OP, args: Union::of(&args) }
    }

    /// What the operation got, or after the call returned; `None` if it is another operation.
    #[must_use]
    pub fn get<T: TrapArgs>(&self) -> Option<T> {
        (self.op == T::OP).then(|| self.args.get())
    }
}

/// What one operation of [`DbgTrapArgs`] needs.
pub trait TrapArgs: crate::Abi {
    /// The operation.
    const OP: TrapOp;
}

/// Grace period: the hardware's own.
pub const GRACE_PERIOD_DEFAULT: u32 = 0xFFFF_FFFF;

/// A grace period that means what it says. The hardware field has 8 bits: 0 counts as 1, and a multiple of 256 as 0,
/// which is for ever.
#[must_use]
pub const fn grace_period(kiloclocks: u32) -> u32 {
    match kiloclocks {
        0 => 1,
        1..=255 => kiloclocks,
        GRACE_PERIOD_DEFAULT => GRACE_PERIOD_DEFAULT,
        _ => 255,
    }
}

/// An entry of the list of [`SuspendQueues`] or [`ResumeQueues`] after the call: the queue id and two bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueueStatus(pub u32);

impl QueueStatus {
    /// The gpu failed.
    pub const ERROR: u32 = 1 << 30;
    /// No such queue, or it is new, or being destroyed. The driver sets it on all entries first and clears it on those
    /// it handled.
    pub const INVALID: u32 = 1 << 31;

    /// The id without the bits. Needed before the list is used again: an id with the error bit matches nothing.
    #[must_use]
    pub const fn queue_id(self) -> u32 {
        self.0 & !(QueueStatus::ERROR | QueueStatus::INVALID)
    }

    /// Whether the gpu failed.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 & QueueStatus::ERROR != 0
    }

    /// Whether the queue was not handled.
    #[must_use]
    pub const fn is_invalid(self) -> bool {
        self.0 & QueueStatus::INVALID != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Abi;

    #[test]
    fn the_argument_is_laid_out_as_in_c() {
        layout!(DbgTrapArgs, 32, { pid: 0, op: 4, args: 8 });
    }

    #[test]
    fn an_operation_gives_back_only_its_own_arguments() {
        let resume = ResumeQueues { queue_array_ptr: 0x1000, num_queues: 3, pad: 0 };
        let call = DbgTrapArgs::new(7, resume);
        assert_eq!((call.op, call.args.0), (TrapOp::RESUME_QUEUES, [0x1000, 3, 0]));
        assert_eq!(call.get::<ResumeQueues>(), Some(resume));
        assert_eq!(call.get::<SuspendQueues>(), None);
        assert_eq!(DbgTrapArgs::new(7, Disable {}).get::<Disable>(), Some(Disable::ZERO));
    }

    #[test]
    fn seven_operations_need_the_runtime() {
        let needing = TrapOp::DEFINED.iter().filter(|op| op.needs_runtime()).map(|op| op.0);
        assert!(needing.eq(4..=10));
    }

    #[test]
    fn status_bits_leave_the_queue_id_readable() {
        let failed = QueueStatus(5 | QueueStatus::ERROR | QueueStatus::INVALID);
        assert_eq!((failed.queue_id(), failed.is_error(), failed.is_invalid()), (5, true, true));
        assert_eq!(QueueStatus(5).queue_id(), 5);
    }

    #[test]
    fn no_grace_period_becomes_endless() {
        for kiloclocks in [0, 1, 255, 256, 512, 1000, 0xFFFF_FF00] {
            assert_ne!(grace_period(kiloclocks) & 0xFF, 0, "{kiloclocks}");
        }
        assert_eq!(grace_period(GRACE_PERIOD_DEFAULT), GRACE_PERIOD_DEFAULT);
    }
}
