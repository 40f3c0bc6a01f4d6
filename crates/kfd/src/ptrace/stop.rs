//! What a stop of a tracee means and how it is answered.

use super::End;
use crate::sys::Change;

/// Why the program stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// A signal is about to be delivered.
    Signal(i32),
    /// Job control stops the whole program.
    Group,
    /// The tracer asked for it, or job control lets the program continue.
    Trap,
}

impl Stop {
    /// The signal that must not get lost when the program continues.
    pub(super) fn signal(self) -> i32 {
        match self {
            Stop::Signal(signal) => signal,
            Stop::Group | Stop::Trap => 0,
        }
    }
}

/// What a change of a tracee is: a stop or its end.
pub(super) fn classify(change: Change) -> Result<Stop, End> {
    let Change { code, status } = change;
    match code {
        libc::CLD_EXITED => return Err(End::Exited(status)),
        libc::CLD_KILLED | libc::CLD_DUMPED => return Err(End::Killed(status)),
        _ => {}
    }
    let (signal, event) = (status & 0x7f, status >> 8);
    Ok(match (event, signal) {
        (0, signal) => Stop::Signal(signal),
        (libc::PTRACE_EVENT_STOP, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => Stop::Group,
        _ => Stop::Trap,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trapped(status: i32) -> Result<Stop, End> {
        classify(Change { code: libc::CLD_TRAPPED, status })
    }

    #[test]
    fn a_signal_on_its_way_is_told_from_a_stop_by_job_control() {
        assert_eq!(trapped(libc::SIGUSR1), Ok(Stop::Signal(libc::SIGUSR1)));
        assert_eq!(trapped(libc::SIGSTOP), Ok(Stop::Signal(libc::SIGSTOP)));
        assert_eq!(trapped(libc::PTRACE_EVENT_STOP << 8 | libc::SIGSTOP), Ok(Stop::Group));
        assert_eq!(trapped(libc::PTRACE_EVENT_STOP << 8 | libc::SIGTSTP), Ok(Stop::Group));
        assert_eq!(trapped(libc::PTRACE_EVENT_STOP << 8 | libc::SIGTRAP), Ok(Stop::Trap));
        assert_eq!(trapped(libc::PTRACE_EVENT_EXEC << 8 | libc::SIGTRAP), Ok(Stop::Trap));
    }

    #[test]
    fn only_a_signal_on_its_way_is_passed_on() {
        assert_eq!(Stop::Signal(libc::SIGTERM).signal(), libc::SIGTERM);
        assert_eq!((Stop::Group.signal(), Stop::Trap.signal()), (0, 0));
    }

    #[test]
    fn an_end_keeps_code_or_signal() {
        assert_eq!(classify(Change { code: libc::CLD_EXITED, status: 7 }), Err(End::Exited(7)));
        assert_eq!(classify(Change { code: libc::CLD_KILLED, status: 9 }), Err(End::Killed(9)));
        assert_eq!(classify(Change { code: libc::CLD_DUMPED, status: 11 }), Err(End::Killed(11)));
    }
}
