//! Handles interrupts that executors raise, in the order in which the poller notices them: the work queue of the
//! driver's interrupt handler.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::Supervisor;
use super::execute::execute;
use crate::driver::ProcessKey;
use crate::sys;

/// Handles the interrupts of the processes that `interrupted` names, until its sender is gone.
pub(super) fn serve(supervisor: &Arc<Supervisor>, interrupted: &Receiver<ProcessKey>) {
    while let Ok(process) = interrupted.recv() {
        let Some(member) = supervisor.member(process) else { continue };
        while let Some(interrupt) = member.channel.take_interrupt() {
            // As in the kernel, where the handler takes the lock that calls of the process hold.
            let _busy = member.busy();
            let now = sys::monotonic_raw_ns();
            let effects = supervisor.with_driver(|driver| driver.interrupt(process, interrupt, now));
            execute(supervisor, process, effects, None);
        }
    }
}
