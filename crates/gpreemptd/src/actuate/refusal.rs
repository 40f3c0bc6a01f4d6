//! Classifies errors of the driver and the kernel for the daemon.

use kfd::{Error, Pid, RuntimeState};
use nix::errno::Errno;

use super::{CommandRefusal, CommandRefusalKind};
use crate::clock;

/// Builds the refusal of a command.
pub(super) fn refused(ticket: Option<u64>, pid: Pid, error: &Error) -> CommandRefusal {
    with_kind(ticket, pid, kind(error), error.to_string())
}

/// Builds the refusal of a command whose kind is known better than the driver's answer tells.
pub(super) fn with_kind(ticket: Option<u64>, pid: Pid, kind: CommandRefusalKind, message: String) -> CommandRefusal {
    CommandRefusal { ticket, pid: pid.0, kind, message, at_ns: clock::now().0 }
}

/// Returns the kind of an error.
pub(super) fn kind(error: &Error) -> CommandRefusalKind {
    if error.is_gone() || matches!(error, Error::NotOpen { .. }) {
        return CommandRefusalKind::Gone;
    }
    if error.is_busy() {
        return CommandRefusalKind::Busy;
    }
    if error.is_without_runtime() {
        return CommandRefusalKind::Runtime;
    }
    let errno = error.errno().map(Errno::from_raw);
    match (error, errno) {
        (Error::Ptrace { pid, .. }, Some(Errno::EPERM)) if is_traced(*pid) => CommandRefusalKind::Debugger,
        // A session or gpu of another debugger, or a session that another process ended.
        (Error::Trap { .. }, Some(Errno::EALREADY | Errno::EBUSY)) => CommandRefusalKind::Debugger,
        (Error::Trap { operation, .. }, Some(Errno::EPERM | Errno::EINVAL)) if operation.name() != Some("ENABLE") => {
            CommandRefusalKind::Debugger
        }
        // One of its gpus is another debugger's.
        (Error::Runtime { state: RuntimeState::ENABLED_BUSY, .. }, _) => CommandRefusalKind::Debugger,
        // Another scheduler has it; the daemon treats that as a debugger.
        (Error::Switch { .. }, Some(Errno::EBUSY)) => CommandRefusalKind::Debugger,
        (Error::Switch { .. }, Some(Errno::ETIME)) => CommandRefusalKind::Reset,
        (_, Some(Errno::EIO)) => CommandRefusalKind::Reset,
        (_, Some(Errno::EPERM | Errno::EACCES)) => CommandRefusalKind::Permission,
        _ => CommandRefusalKind::Other,
    }
}

/// Returns whether a process is traced.
fn is_traced(pid: Pid) -> bool {
    linux_host::process::tracer(pid.0).is_some()
}

#[cfg(test)]
mod tests {
    use std::io;

    use kfd::TrapOp;

    use super::*;

    fn seize(pid: Pid) -> CommandRefusalKind {
        let error = io::Error::from_raw_os_error(Errno::EPERM as i32);
        kind(&Error::Ptrace { request: "SEIZE", pid, error })
    }

    #[test]
    fn a_seizure_is_refused_by_another_debugger_or_by_the_system() {
        // No debugger traces this process.
        assert_eq!(seize(Pid(std::process::id())), CommandRefusalKind::Permission);
        assert_eq!(kind(&Error::Gone { pid: Pid(1) }), CommandRefusalKind::Gone);
    }

    #[test]
    fn entries_of_a_switch_are_refused_as_calls_of_a_session_are() {
        let refused = |errno: Errno| {
            let error = io::Error::from_raw_os_error(errno as i32);
            kind(&Error::Switch { pid: Pid(1), error })
        };
        assert_eq!(refused(Errno::ESRCH), CommandRefusalKind::Gone);
        assert_eq!(refused(Errno::EPERM), CommandRefusalKind::Permission);
        assert_eq!(refused(Errno::EBUSY), CommandRefusalKind::Debugger);
        assert_eq!(refused(Errno::EIO), CommandRefusalKind::Reset);
        assert_eq!(refused(Errno::ETIME), CommandRefusalKind::Reset);
        assert_eq!(refused(Errno::EOPNOTSUPP), CommandRefusalKind::Other);
    }

    #[test]
    fn a_gpu_of_another_debugger_is_told_from_one_that_failed() {
        let refused = |state| kind(&Error::Runtime { pid: Pid(1), state });
        assert_eq!(refused(RuntimeState::ENABLED_BUSY), CommandRefusalKind::Debugger);
        assert_eq!(refused(RuntimeState::ENABLED_ERROR), CommandRefusalKind::Other);
    }

    #[test]
    fn a_driver_without_time_is_told_from_a_gpu_of_another_debugger() {
        let refused = |operation| {
            let error = io::Error::from_raw_os_error(Errno::EBUSY as i32);
            kind(&Error::Trap { operation, pid: Pid(1), error })
        };
        assert_eq!(refused(TrapOp::ENABLE), CommandRefusalKind::Debugger);
        assert_eq!(refused(TrapOp::RESUME_QUEUES), CommandRefusalKind::Busy);
        assert_eq!(kind(&Error::NotOpen { pid: Pid(1) }), CommandRefusalKind::Gone);
    }

    #[test]
    fn a_driver_that_is_closed_to_this_user_is_a_matter_of_permission() {
        let refused = |errno: Errno| {
            let error = io::Error::from_raw_os_error(errno as i32);
            kind(&Error::Open { path: "/dev/kfd".into(), error })
        };
        assert_eq!(refused(Errno::EACCES), CommandRefusalKind::Permission);
        assert_eq!(refused(Errno::ENOENT), CommandRefusalKind::Other);
    }
}
