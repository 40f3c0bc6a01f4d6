//! The actuator over the driver's debug interface: every target has a session, and a thread of its own that calls the
//! driver.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use kfd::{Error, Grace, Pid};

use super::refusal::refused;
use super::target::{Action, Common, Target};
use super::{ActuatorCommand, ActuatorEvent};

/// The targets, as the main thread has them. Nothing here waits.
#[derive(Debug)]
pub(super) struct DebugTrap {
    common: Arc<Common>,
    targets: HashMap<u32, Target>,
    /// Threads of sessions that are being ended.
    leaving: HashMap<u32, JoinHandle<()>>,
}

impl DebugTrap {
    pub(super) fn new(common: Arc<Common>) -> DebugTrap {
        DebugTrap { common, targets: HashMap::new(), leaving: HashMap::new() }
    }

    pub(super) fn obey(&mut self, order: ActuatorCommand) {
        match order {
            ActuatorCommand::Attach { pid, started } => self.attach(pid, started),
            ActuatorCommand::Detach { pid } => self.detach(pid),
            ActuatorCommand::Switch { changes, grace } => {
                let grace = grace.map_or(Grace::HARDWARE, Grace::kiloclocks);
                for change in changes {
                    let action = if change.preempt { Action::Suspend(grace) } else { Action::Resume };
                    self.order(change.ticket, change.pid, &change.queues, action);
                }
            }
            // Of the scheduler in the kernel.
            ActuatorCommand::Policy { .. } | ActuatorCommand::Query | ActuatorCommand::Clear => {}
        }
    }

    fn attach(&mut self, pid: u32, started: u64) {
        match self.targets.get(&pid) {
            Some(target) if target.started == started && !target.is_over() => return target.describe(),
            Some(_) => self.detach(pid),
            None => {}
        }
        match Target::attach(&self.common, Pid(pid), started, self.leaving.remove(&pid)) {
            Ok(target) => drop(self.targets.insert(pid, target)),
            Err(error) => self.common.tell(&ActuatorEvent::Refused(refused(None, Pid(pid), &error))),
        }
    }

    fn detach(&mut self, pid: u32) {
        if let Some(thread) = self.targets.remove(&pid).and_then(Target::detach) {
            self.leaving.insert(pid, thread);
        }
    }

    fn order(&self, ticket: u64, pid: u32, queues: &[u32], action: Action) {
        match self.targets.get(&pid) {
            Some(target) => target.order(ticket, queues, action),
            None => {
                let gone = Error::Gone { pid: Pid(pid) };
                self.common.tell(&ActuatorEvent::Refused(refused(Some(ticket), Pid(pid), &gone)));
            }
        }
    }

    /// Forgets targets that ended, stops tracing processes where the driver does not require it, and lets processes
    /// destroy queues that were reset.
    pub(super) fn sweep(&mut self) {
        let ended: Vec<u32> = self.targets.iter().filter(|(_, target)| target.is_over()).map(|(pid, _)| *pid).collect();
        ended.into_iter().for_each(|pid| self.detach(pid));
        self.targets.values_mut().for_each(Target::stop_tracing);
        self.targets.values().for_each(Target::release_reset);
        self.leaving.retain(|_, thread| !thread.is_finished());
    }

    /// Ends all sessions at once: everything runs when the threads have ended.
    pub(super) fn close(mut self) -> Vec<JoinHandle<()>> {
        let all: Vec<u32> = self.targets.keys().copied().collect();
        all.into_iter().for_each(|pid| self.detach(pid));
        self.leaving.into_values().collect()
    }
}
