//! The combined actuator: one descriptor of a patched driver stops and resumes queues of all targets, those of one
//! command in one cycle. No process is traced and there are no sessions: a target is a pid with its start time.
//!
//! One thread calls the driver, in the order of the commands. The descriptor is its own: when this process ends, the
//! driver resumes everything.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use kfd::{
    CONTEXT_PRIMARY, Error, GpuId, Grace, Pid, QueueFlags, QueueId, SwitchAction, SwitchEntry, SwitchQueue, Switched,
    Switcher,
};
use nix::errno::Errno;

use super::refusal::refused;
use super::reports::Reports;
use super::{ActuatorCommand, ActuatorEvent, QueueChange, TracedQueue};
use crate::clock;

/// The driver's calls, so that tests can take its place.
pub(super) trait SwitchCalls: Send + 'static {
    /// As [`Switcher::switch`].
    fn switch(&self, entries: &[SwitchEntry], grace: Grace) -> kfd::Result<Switched>;
    /// As [`Switcher::queues`].
    fn queues(&self, pid: Pid) -> kfd::Result<Vec<SwitchQueue>>;
}

impl SwitchCalls for Switcher {
    fn switch(&self, entries: &[SwitchEntry], grace: Grace) -> kfd::Result<Switched> {
        Switcher::switch(self, entries, grace)
    }

    fn queues(&self, pid: Pid) -> kfd::Result<Vec<SwitchQueue>> {
        Switcher::queues(self, pid)
    }
}

/// The thread that calls the driver, as the main thread has it. Nothing here waits.
#[derive(Debug)]
pub(super) struct Combined {
    commands: Sender<ActuatorCommand>,
    thread: JoinHandle<()>,
}

impl Combined {
    /// Starts the thread.
    pub(super) fn start(calls: impl SwitchCalls, reports: Arc<Reports>) -> io::Result<Combined> {
        let (commands, received) = mpsc::channel();
        let serve = move || {
            // What it got changes nothing here.
            let _ = crate::os::priority::raise();
            SwitchThread { calls, reports, targets: HashMap::new() }.serve(&received);
        };
        let thread = thread::Builder::new().name("switch".to_owned()).spawn(serve)?;
        Ok(Combined { commands, thread })
    }

    /// Executes a command after those before it.
    pub(super) fn obey(&self, command: ActuatorCommand) {
        // The thread ends after this handle; a panic of it ends the process.
        let _ = self.commands.send(command);
    }

    /// Ends the thread, and with it the descriptor: everything runs then.
    pub(super) fn close(self) -> JoinHandle<()> {
        self.thread
    }
}

struct SwitchThread<C> {
    calls: C,
    reports: Arc<Reports>,
    /// Start times of the targets.
    targets: HashMap<u32, u64>,
}

impl<C: SwitchCalls> SwitchThread<C> {
    fn serve(mut self, commands: &Receiver<ActuatorCommand>) {
        for command in commands {
            match command {
                ActuatorCommand::Attach { pid, started } => self.attach(Pid(pid), started),
                ActuatorCommand::Detach { pid } => self.detach(Pid(pid)),
                ActuatorCommand::Switch { changes, grace } => {
                    self.switch(&changes, grace.map_or(Grace::HARDWARE, Grace::kiloclocks));
                }
                // Of the scheduler in the kernel.
                ActuatorCommand::Policy { .. } | ActuatorCommand::Query | ActuatorCommand::Clear => {}
            }
        }
    }

    /// Takes a process for a target, after the driver has said that its queues can be switched; tells its queues. A
    /// process that is a target is only described again.
    fn attach(&mut self, pid: Pid, started: u64) {
        let known = self.targets.get(&pid.0) == Some(&started);
        // What cannot be resumed cannot be stopped either, and resuming what runs takes no cycle.
        let allowed = if known { Ok(()) } else { self.resume_all(pid, started) };
        match allowed.and_then(|()| self.calls.queues(pid)) {
            Ok(queues) => {
                self.targets.insert(pid.0, started);
                let queues =
                    queues.iter().filter(|queue| queue.start_time == started && is_first(queue) && is_present(queue));
                let queues = queues.map(described).collect();
                self.reports.tell(&ActuatorEvent::Attached { pid: pid.0, runtime: true, queues });
            }
            Err(error) => self.reports.tell(&ActuatorEvent::Refused(refused(None, pid, &error))),
        }
    }

    fn detach(&mut self, pid: Pid) {
        if let Some(started) = self.targets.remove(&pid.0) {
            // It fails if the process ended, and then there is nothing to resume.
            let _ = self.resume_all(pid, started);
        }
    }

    fn resume_all(&self, pid: Pid, started: u64) -> kfd::Result<()> {
        let all = SwitchEntry { pid, started, queue: None, action: SwitchAction::Resume };
        match self.calls.switch(&[all], Grace::HARDWARE)?.results.first() {
            Some(Err(errno)) => Err(failure(pid, *errno)),
            _ => Ok(()),
        }
    }

    /// Applies all changes with one call and answers each.
    fn switch(&self, changes: &[QueueChange], grace: Grace) {
        let mut entries = Vec::new();
        for change in changes {
            if let Some(&started) = self.targets.get(&change.pid) {
                entries.extend(change.queues.iter().map(|&queue| SwitchEntry {
                    pid: Pid(change.pid),
                    started,
                    queue: Some(QueueId(queue)),
                    action: if change.preempt { SwitchAction::Preempt } else { SwitchAction::Resume },
                }));
            }
        }
        let called_ns = clock::now().0;
        let outcome = if entries.is_empty() { Ok(Switched::default()) } else { self.calls.switch(&entries, grace) };
        let answered_ns = clock::now().0;
        let switched = match outcome {
            Ok(switched) => switched,
            Err(error) => {
                for change in changes {
                    let refusal = refused(Some(change.ticket), Pid(change.pid), &error);
                    self.reports.tell(&ActuatorEvent::Refused(refusal));
                }
                return;
            }
        };
        let mut results = switched.results.into_iter();
        let (mut cycles, mut switched_gpus) = (switched.cycles, HashSet::new());
        for change in changes {
            let known = self.targets.contains_key(&change.pid);
            let results: Vec<Result<u32, i32>> =
                if known { results.by_ref().take(change.queues.len()).collect() } else { Vec::new() };
            let answer = if known { self.sorted(change, &results) } else { Err(Error::Gone { pid: Pid(change.pid) }) };
            match answer {
                Ok(queues) => {
                    // A gpu had one cycle at most, whatever number of its tenants changed: the first of them has it.
                    let changed = results.iter().any(|result| result.is_ok_and(|changed| changed > 0));
                    let counted = u32::from(changed && cycles > 0 && switched_gpus.insert(change.gpu));
                    cycles -= counted;
                    self.reports.tell(&ActuatorEvent::Done {
                        ticket: change.ticket,
                        pid: change.pid,
                        queues,
                        failed: Vec::new(),
                        cycles: counted,
                        called_ns,
                        answered_ns,
                    });
                }
                Err(error) => {
                    let refusal = refused(Some(change.ticket), Pid(change.pid), &error);
                    self.reports.tell(&ActuatorEvent::Refused(refusal));
                }
            }
        }
    }

    /// Returns the queues that are now as asked. Queues that are gone, being destroyed or reset are left out; any other
    /// failure is that of the change.
    fn sorted(&self, change: &QueueChange, results: &[Result<u32, i32>]) -> kfd::Result<Vec<u32>> {
        let mut done = Vec::new();
        let mut states = None;
        for (&queue, result) in change.queues.iter().zip(results) {
            let Err(errno) = *result else {
                done.push(queue);
                continue;
            };
            let present = match Errno::from_raw(errno) {
                Errno::ENOENT => false,
                Errno::EBUSY | Errno::EIO => {
                    // The driver has one number for a queue that is leaving and for one that another scheduler has, and
                    // one for a queue that was reset and for a gpu that is being reset.
                    let states = match &mut states {
                        Some(states) => states,
                        None => states.insert(self.calls.queues(Pid(change.pid))?),
                    };
                    states.iter().any(|state| state.queue_id == queue && is_first(state) && is_present(state))
                }
                _ => true,
            };
            if present {
                return Err(failure(Pid(change.pid), errno));
            }
        }
        Ok(done)
    }
}

fn failure(pid: Pid, errno: i32) -> Error {
    Error::Switch { pid, error: io::Error::from_raw_os_error(errno) }
}

/// Whether a queue is one of the first context of its process: changes name those alone.
fn is_first(queue: &SwitchQueue) -> bool {
    queue.context_id == CONTEXT_PRIMARY
}

/// Whether a queue can come to run.
fn is_present(queue: &SwitchQueue) -> bool {
    queue.flags.both(QueueFlags::DESTROYED | QueueFlags::RESET).is_empty()
}

fn described(queue: &SwitchQueue) -> TracedQueue {
    TracedQueue {
        queue: queue.queue_id,
        gpu: GpuId(queue.gpu_id),
        kind: queue.queue_type,
        ring: queue.ring_base,
        bytes: queue.ring_size,
        rptr: queue.read_pointer,
        wptr: queue.write_pointer,
    }
}

#[cfg(test)]
mod tests;
