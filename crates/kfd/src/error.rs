//! Errors of the client. Each message names the operation, the process, the kernel's answer and a remedy.
//!
//! A message contains its cause, so `source()` is `None`: printing the chain would repeat it.

use std::io;
use std::path::PathBuf;

use kfd_abi::debug::{RuntimeState, TrapOp};

use crate::id::Pid;

/// A failure of the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver's device is missing or closed to this user.
    #[error("cannot open {}: {error}; {}", path.display(), open_remedy(error))]
    Open {
        /// The device.
        path: PathBuf,
        /// The kernel's answer.
        error: io::Error,
    },

    /// The driver is too old for debug sessions, or too new to be known.
    #[error("the driver's interface is {major}.{minor}, this program needs 1.{needed} or newer; update the kernel")]
    Version {
        /// Major version of the driver.
        major: u32,
        /// Minor version of the driver.
        minor: u32,
        /// Smallest minor version that is enough.
        needed: u32,
    },

    /// The driver refused a call that concerns no process.
    #[error("{operation} failed: {error}; the kernel's log may say why (`dmesg | grep -i kfd`)")]
    Call {
        /// Name of the command.
        operation: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },

    /// The driver refused an operation of a debug session.
    #[error("{} of process {pid} failed: {error}; {}", name(*operation), trap_remedy(*operation, error))]
    Trap {
        /// The operation of `DBG_TRAP`.
        operation: TrapOp,
        /// The process.
        pid: Pid,
        /// The kernel's answer.
        error: io::Error,
    },

    /// The driver has no scheduling descriptors.
    #[error("the driver cannot switch sets of queues: {error}; {}", unswitchable_remedy(error))]
    Unswitchable {
        /// The kernel's answer.
        error: io::Error,
    },

    /// The driver refused an entry of a switch.
    #[error("switching queues of process {pid} failed: {error}; {}", switch_remedy(error))]
    Switch {
        /// The process.
        pid: Pid,
        /// The entry's status.
        error: io::Error,
    },

    /// The control device of the scheduler in the kernel is missing or closed to this user.
    #[error("cannot open {}: {error}; {}", path.display(), no_kernel_scheduler_remedy(error))]
    NoKernelScheduler {
        /// The device.
        path: PathBuf,
        /// The kernel's answer.
        error: io::Error,
    },

    /// The scheduler in the kernel has another version of the interface.
    #[error(
        "the scheduler in the kernel has version {found} of its interface, this program knows {known}; update the older"
    )]
    KernelSchedulerVersion {
        /// The module's version.
        found: u32,
        /// The program's version.
        known: u32,
    },

    /// The scheduler in the kernel refused a call.
    #[error("{operation} of {about} failed: {error}; {}", kernel_scheduler_remedy(operation, error))]
    KernelScheduler {
        /// Name of the command.
        operation: &'static str,
        /// What the call concerns.
        about: String,
        /// The kernel's answer.
        error: io::Error,
    },

    /// The program has not opened the driver, or has closed it by executing another program.
    #[error("process {pid} has not opened the driver; a session would open it in its name, with this program's access")]
    NotOpen {
        /// The process.
        pid: Pid,
    },

    /// A gpu of the program cannot take part in a session.
    #[error("the runtime of process {pid} is {state:?}: another debugger holds one of its gpus, or a gpu failed")]
    Runtime {
        /// The process.
        pid: Pid,
        /// State that the driver reports.
        state: RuntimeState,
    },

    /// The kernel refused a request of the ptrace relation.
    #[error("{request} of process {pid} failed: {error}; {}", ptrace_remedy(error))]
    Ptrace {
        /// Name of the ptrace request.
        request: &'static str,
        /// The process.
        pid: Pid,
        /// The kernel's answer.
        error: io::Error,
    },

    /// The process ended, or its trace was lost.
    #[error("process {pid} is gone, or no longer traced by this program")]
    Gone {
        /// The process.
        pid: Pid,
    },

    /// More queues than the driver takes at once.
    #[error("{count} queues of process {pid} in one call; the driver takes {limit}")]
    TooManyQueues {
        /// The process.
        pid: Pid,
        /// Queues in the call.
        count: usize,
        /// Most queues of one call.
        limit: usize,
    },

    /// Memory of another process cannot be opened, read or written.
    #[error("cannot {action} memory of process {pid} at {address:#x}: {error}; {}", memory_remedy(error))]
    Memory {
        /// `read`, `write` or `open`.
        action: &'static str,
        /// The process.
        pid: Pid,
        /// First address of the access.
        address: u64,
        /// The kernel's answer.
        error: io::Error,
    },

    /// A file of the driver in sysfs cannot be read.
    #[error("cannot read {}: {error}; is the amdgpu driver loaded?", path.display())]
    Sysfs {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        error: io::Error,
    },

    /// A file of the driver in sysfs holds something else than it should.
    #[error("{} holds {text:?}, which is no number; this driver is older or newer than the program knows", path.display())]
    Number {
        /// The file.
        path: PathBuf,
        /// Contents of the file.
        text: String,
    },

    /// A file of properties in sysfs lacks one, or its value makes no sense.
    #[error("{} has no usable `{name}`; this driver is older or newer than the program knows", path.display())]
    Property {
        /// The file.
        path: PathBuf,
        /// The property.
        name: &'static str,
    },

    /// The system has no thread or pipe left for a session.
    #[error("cannot trace process {pid}: {error}; this program has too many threads or files open (`ulimit -a`)")]
    Resources {
        /// The process.
        pid: Pid,
        /// The kernel's answer.
        error: io::Error,
    },
}

impl Error {
    /// Returns the kernel's error number, if the failure is an answer of the kernel.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Open { error, .. }
            | Error::Call { error, .. }
            | Error::Trap { error, .. }
            | Error::Unswitchable { error }
            | Error::Switch { error, .. }
            | Error::NoKernelScheduler { error, .. }
            | Error::KernelScheduler { error, .. }
            | Error::Ptrace { error, .. }
            | Error::Memory { error, .. }
            | Error::Sysfs { error, .. }
            | Error::Resources { error, .. } => error.raw_os_error(),
            Error::Version { .. }
            | Error::KernelSchedulerVersion { .. }
            | Error::Runtime { .. }
            | Error::NotOpen { .. }
            | Error::Gone { .. }
            | Error::TooManyQueues { .. }
            | Error::Number { .. }
            | Error::Property { .. } => None,
        }
    }

    /// Returns whether the call failed because the process ended before or during it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Gone { .. }) || self.errno() == Some(libc::ESRCH)
    }

    /// Returns whether the driver has no time for a session's call now: AMD's DKMS driver while the process samples
    /// program counters.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Trap { operation, error, .. }
            if *operation != TrapOp::ENABLE && error.raw_os_error() == Some(libc::EBUSY))
    }

    /// Returns whether the scheduler in the kernel has another policy host.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        matches!(self, Error::KernelScheduler { operation: "CLAIM", error, .. }
            if error.raw_os_error() == Some(libc::EBUSY))
    }

    /// Returns whether the driver refused because the process's runtime has not offered itself to debuggers, or has
    /// ended. A session that another debugger took over is refused with the same number.
    #[must_use]
    pub fn is_without_runtime(&self) -> bool {
        matches!(self, Error::Trap { operation, error, .. }
            if operation.needs_runtime() && error.raw_os_error() == Some(libc::EPERM))
    }

    /// Returns whether the driver refused because the session is no longer this program's: another debugger took it
    /// over, or, for some drivers, the calling thread does not trace the process.
    #[must_use]
    pub fn is_taken_over(&self) -> bool {
        matches!(self, Error::Trap { operation, error, .. }
            if !operation.needs_runtime() && error.raw_os_error() == Some(libc::EPERM))
    }
}

/// Result of the client's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn name(operation: TrapOp) -> &'static str {
    operation.name().unwrap_or("DBG_TRAP")
}

fn open_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "load the amdgpu driver (`modprobe amdgpu`)",
        io::ErrorKind::PermissionDenied => {
            "join the group that owns it (`usermod -aG render $USER`, then log in again)"
        }
        _ => "look for amdgpu in the kernel's log (`dmesg`)",
    }
}

/// The driver checks in a fixed order and uses few error numbers: the same number means different things for different
/// operations.
fn trap_remedy(operation: TrapOp, error: &io::Error) -> &'static str {
    match (error.raw_os_error(), operation) {
        (Some(libc::EBADF), TrapOp::ENABLE) => {
            "the pipe is closed, or the driver was opened before this process was forked: open it in this process"
        }
        (Some(libc::EBADF), _) => "the driver was opened before this process was forked: open it in this process",
        (Some(libc::ESRCH), _) => "it ended, or does not use a gpu yet",
        (Some(libc::EPERM), operation) if operation.needs_runtime() => {
            "its runtime has not offered itself to debuggers (ROCm older than 6, or a program without ROCr), or another \
             debugger took the session over"
        }
        (Some(libc::EPERM), _) => "the calling thread does not trace it, or another debugger took the session over",
        (Some(libc::EALREADY), _) => "another debugger has a session with it; end that one (rocgdb?)",
        (Some(libc::EINVAL), TrapOp::ENABLE) => "the driver runs without its scheduler (amdgpu.sched_policy=2)",
        (Some(libc::EINVAL), _) => "no session is enabled for it",
        (Some(libc::EBUSY), _) => "the gpu is in use by another debugger, by profiling, or by global wave sync",
        (Some(libc::ENODEV), _) => "one of its gpus is too old for debug sessions",
        (Some(libc::EIO), _) => "the gpu is being reset; its processes have to be started again",
        _ => "the kernel's log may say why (`dmesg | grep -i kfd`)",
    }
}

fn unswitchable_remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOTTY) => "it needs the patch of kernel/patch (docs/kernel.md says how to build it)",
        Some(libc::EPROTONOSUPPORT) => "driver and program have different versions of the interface: update the older",
        Some(libc::EMFILE | libc::ENFILE) => "this program, or the system, has too many files open (`ulimit -n`)",
        _ => "the kernel's log may say why (`dmesg | grep -i kfd`)",
    }
}

fn switch_remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ESRCH) => "it ended, or does not use a gpu yet",
        Some(libc::EPERM) => "processes of others need CAP_SYS_NICE or CAP_SYS_ADMIN, outside of user namespaces",
        Some(libc::EBUSY) => "another scheduler has stopped it; end that one",
        Some(libc::EOPNOTSUPP) => "its gpu has no hardware scheduler (amdgpu.sched_policy=2)",
        Some(libc::EIO | libc::ETIME) => "the gpu is being reset; its processes have to be started again",
        _ => "the kernel's log may say why (`dmesg | grep -i kfd`)",
    }
}

fn no_kernel_scheduler_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "load the scheduler in the kernel (`modprobe gpreempt`), which needs the patch of kernel/patch in the driver"
        }
        io::ErrorKind::PermissionDenied => "run the daemon as root",
        _ => "the kernel's log may say why (`dmesg | grep -i gpreempt`)",
    }
}

fn kernel_scheduler_remedy(operation: &str, error: &io::Error) -> &'static str {
    match (error.raw_os_error(), operation) {
        (Some(libc::EBUSY), "CLAIM") => "another daemon is its policy host; end it",
        (Some(libc::EPERM | libc::EACCES), _) => {
            "this needs CAP_SYS_NICE or CAP_SYS_ADMIN, outside of user namespaces, and to be its policy host"
        }
        (Some(libc::ESRCH), "SET_PROCESS") => "it ended",
        (Some(libc::E2BIG), _) => "the module is older than this program: update it",
        (Some(libc::ENOSPC | libc::ENOMEM), _) => "it has no room for more",
        (Some(libc::ENOTTY), "VERSION") => "this is not the scheduler in the kernel",
        (Some(libc::EINVAL), _) => "the module does not know a value of it: it is of another release than this program",
        (Some(libc::ENODEV), _) => "the gpu, or the driver, is gone",
        _ => "the kernel's log may say why (`dmesg | grep -i gpreempt`)",
    }
}

fn ptrace_remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "another debugger traces it (see TracerPid in its /proc status), it belongs to another user, or \
             kernel.yama.ptrace_scope forbids it"
        }
        Some(libc::ESRCH) => "it ended",
        _ => "the kernel may be built without ptrace, or a sandbox forbids it",
    }
}

fn memory_remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EIO) => "nothing is mapped there",
        Some(libc::ENOENT | libc::ESRCH) => "it ended",
        Some(libc::EACCES | libc::EPERM) => "it belongs to another user, or kernel.yama.ptrace_scope forbids it",
        _ if error.kind() == io::ErrorKind::UnexpectedEof => "it ended",
        _ => "it may have ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trap(operation: TrapOp, errno: i32) -> String {
        Error::Trap { operation, pid: Pid(4711), error: io::Error::from_raw_os_error(errno) }.to_string()
    }

    #[test]
    fn a_refusal_names_operation_process_reason_and_remedy() {
        let said = trap(TrapOp::SUSPEND_QUEUES, libc::EPERM);
        assert!(said.starts_with("SUSPEND_QUEUES of process 4711 failed: "), "{said}");
        assert!(said.contains("os error 1") && said.contains("runtime has not offered"), "{said}");
    }

    #[test]
    fn the_same_number_means_another_thing_for_another_operation() {
        assert_ne!(
            trap(TrapOp::ENABLE, libc::EPERM).split("; ").nth(1),
            trap(TrapOp::SUSPEND_QUEUES, libc::EPERM).split("; ").nth(1)
        );
        assert!(trap(TrapOp::ENABLE, libc::EINVAL).contains("sched_policy"));
        assert!(trap(TrapOp::GET_QUEUE_SNAPSHOT, libc::EINVAL).contains("no session"));
        assert!(trap(TrapOp::GET_QUEUE_SNAPSHOT, libc::EPERM).contains("does not trace"));
        assert!(trap(TrapOp(99), libc::EINVAL).starts_with("DBG_TRAP of"));
    }

    #[test]
    fn an_ended_process_is_told_from_a_refusal() {
        let ended =
            Error::Trap { operation: TrapOp::DISABLE, pid: Pid(1), error: io::Error::from_raw_os_error(libc::ESRCH) };
        assert!(ended.is_gone() && Error::Gone { pid: Pid(1) }.is_gone());
        let refused = Error::Ptrace { request: "SEIZE", pid: Pid(1), error: io::Error::from_raw_os_error(libc::EPERM) };
        assert!(!refused.is_gone() && !refused.is_without_runtime());
        let unready =
            |operation| Error::Trap { operation, pid: Pid(1), error: io::Error::from_raw_os_error(libc::EPERM) };
        assert!(unready(TrapOp::SUSPEND_QUEUES).is_without_runtime());
        assert!(!unready(TrapOp::ENABLE).is_without_runtime());
        assert!(unready(TrapOp::GET_QUEUE_SNAPSHOT).is_taken_over());
        assert!(!unready(TrapOp::SUSPEND_QUEUES).is_taken_over());
        assert!(refused.to_string().contains("ptrace_scope"), "{refused}");
    }
}
