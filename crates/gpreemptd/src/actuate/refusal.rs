//! What a refusal of the driver or the kernel means to the daemon.

use std::fs;

use kfd::{Error, Pid, RuntimeState};
use nix::errno::Errno;

use super::{CommandRefusal, CommandRefusalKind};
use crate::clock;

/// The refusal of an order.
pub(super) fn refused(ticket: Option<u64>, pid: Pid, error: &Error) -> CommandRefusal {
    with_kind(ticket, pid, kind(error), error.to_string())
}

/// The refusal of an order for a reason that is known better than the driver's answer tells.
pub(super) fn with_kind(ticket: Option<u64>, pid: Pid, kind: CommandRefusalKind, message: String) -> CommandRefusal {
    CommandRefusal { ticket, pid: pid.0, kind, message, at_ns: clock::now().0 }
}

/// What to make of an error.
pub(super) fn kind(error: &Error) -> CommandRefusalKind {
    if error.is_gone() {
        return CommandRefusalKind::Gone;
    }
    if error.is_without_runtime() {
        return CommandRefusalKind::Runtime;
    }
    let errno = error.errno().map(Errno::from_raw);
    match (error, errno) {
        (Error::Ptrace { pid, .. }, Some(Errno::EPERM)) if is_traced(*pid) => CommandRefusalKind::Debugger,
        // A session of somebody else, a gpu in somebody else's use, or a session that somebody else ended.
        (Error::Trap { .. }, Some(Errno::EALREADY | Errno::EBUSY)) => CommandRefusalKind::Debugger,
        (Error::Trap { operation, .. }, Some(Errno::EPERM | Errno::EINVAL)) if operation.name() != Some("ENABLE") => {
            CommandRefusalKind::Debugger
        }
        // One of its gpus is another debugger's.
        (Error::Runtime { state: RuntimeState::ENABLED_BUSY, .. }, _) => CommandRefusalKind::Debugger,
        (_, Some(Errno::EIO)) => CommandRefusalKind::Reset,
        (_, Some(Errno::EPERM | Errno::EACCES)) => CommandRefusalKind::Permission,
        _ => CommandRefusalKind::Other,
    }
}

/// Whether somebody traces the process.
fn is_traced(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("TracerPid:")).is_some_and(|tracer| tracer.trim() != "0")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn seize(pid: Pid) -> CommandRefusalKind {
        let error = io::Error::from_raw_os_error(Errno::EPERM as i32);
        kind(&Error::Ptrace { request: "SEIZE", pid, error })
    }

    #[test]
    fn a_seizure_is_refused_by_another_debugger_or_by_the_system() {
        // Nobody traces this process.
        assert_eq!(seize(Pid(std::process::id())), CommandRefusalKind::Permission);
        assert_eq!(kind(&Error::Gone { pid: Pid(1) }), CommandRefusalKind::Gone);
    }

    #[test]
    fn a_gpu_of_another_debugger_is_told_from_one_that_failed() {
        let refused = |state| kind(&Error::Runtime { pid: Pid(1), state });
        assert_eq!(refused(RuntimeState::ENABLED_BUSY), CommandRefusalKind::Debugger);
        assert_eq!(refused(RuntimeState::ENABLED_ERROR), CommandRefusalKind::Other);
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
