//! Signals that guardian and actuator leave to the daemon.

use nix::sys::signal::{SigSet, Signal};

/// Signals that a terminal or a service manager sends to all processes at once. The daemon handles them: it resumes all
/// queues first, and then these processes end by themselves.
const LEFT_TO_THE_DAEMON: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Keeps signals that are meant for the daemon from ending or stopping this process. To be called before other threads
/// are started, which inherit it.
pub(super) fn leave_signals_to_the_daemon() {
    let set: SigSet = LEFT_TO_THE_DAEMON.into_iter().collect();
    if let Err(error) = set.thread_block() {
        tracing::warn!(%error, "cannot block signals: Ctrl-C may end this process before the daemon");
    }
}
