//! Executes the device effects of a call: on executors, hardware schedulers and debuggers' files.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::Supervisor;
use super::member::Member;
use super::process_channel::ProcessChannel;
use crate::control::{Answer, Order};
use crate::driver::{Cause, DeviceEffect, Errno, FollowUp, Outcome, ProcessKey, QueueChange};

/// How long executors may take for anything but stopping waves.
const LIMIT: Duration = Duration::from_secs(10);

/// The effects of a call in the order in which they are executed.
#[derive(Default)]
struct Work {
    queue_changes: Vec<QueueChange>,
    cycles: Vec<(u32, Cause, Option<u32>)>,
    follow_ups: Vec<FollowUp>,
}

/// Executes the device effects of a call by `caller`, or of its end if it is no member any more. `file` came with the
/// call.
pub(super) fn execute(
    supervisor: &Arc<Supervisor>,
    caller: ProcessKey,
    effects: Vec<DeviceEffect>,
    mut file: Option<OwnedFd>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut work = Work::default();
    for effect in effects {
        match effect {
            DeviceEffect::Queue(change) => {
                if watch_doorbell(supervisor, caller, &change).is_err() {
                    outcome.error = Some(Errno::ENOMEM);
                }
                work.queue_changes.push(change);
            }
            DeviceEffect::Cycle { gpu, cause, grace } => work.cycles.push((gpu, cause, grace)),
            DeviceEffect::DebuggerFile { target, keep } => {
                let kept = if keep { file.take() } else { None };
                match supervisor.member(target) {
                    Some(target) => target.keep_file(kept),
                    None => supervisor.awaited.keep_file(target, kept),
                }
            }
            DeviceEffect::Then(follow_up) => work.follow_ups.push(follow_up),
        }
    }
    let member = supervisor.member(caller);
    work.run(supervisor, member.as_deref(), &mut outcome);
    outcome
}

/// Watches the doorbell of a queue from the moment the queue exists until it is gone.
fn watch_doorbell(supervisor: &Supervisor, caller: ProcessKey, change: &QueueChange) -> std::io::Result<()> {
    match change {
        QueueChange::Create(spec) => supervisor.poller.add_queue(caller, spec.id, spec.gpu, spec.doorbell)?,
        QueueChange::Destroy { id } => supervisor.poller.remove_queue(caller, *id),
        QueueChange::Update { .. } | QueueChange::SetCuMask { .. } | QueueChange::AllocateGws { .. } => {}
    }
    Ok(())
}

impl Work {
    fn run(self, supervisor: &Arc<Supervisor>, member: Option<&Member>, outcome: &mut Outcome) {
        let mut changes = self.queue_changes;
        for (gpu, cause, grace) in self.cycles {
            let Some(hws) = supervisor.hws(gpu) else { continue };
            // Queues change while nothing is on the gpu.
            let meanwhile = std::mem::take(&mut changes);
            let result = hws.cycle(supervisor, cause, grace, || change_queues(member, meanwhile, outcome));
            if let Err(errno) = result {
                outcome.failed_cycles.push((gpu, errno));
            }
        }
        change_queues(member, changes, outcome);
        for follow_up in self.follow_ups {
            follow(supervisor, member, follow_up, outcome);
        }
    }
}

/// Has the executors of a process change its queues and waits until they have. A process that is gone has none left to
/// change.
fn change_queues(member: Option<&Member>, changes: Vec<QueueChange>, outcome: &mut Outcome) {
    let Some(member) = member else { return };
    for change in changes {
        match member.channel.ask(Order::Queue(change), LIMIT) {
            Ok(Answer::Failed(errno)) => outcome.error = Some(Errno(errno)),
            Ok(Answer::Done | Answer::Unmapped(_) | Answer::WaveState(_)) => {}
            Err(_) => outcome.error = Some(Errno::ENODEV),
        }
    }
}

fn follow(supervisor: &Arc<Supervisor>, member: Option<&Member>, follow_up: FollowUp, outcome: &mut Outcome) {
    match follow_up {
        FollowUp::NotifyDebugger { target } => {
            if let Some(target) = supervisor.member(target) {
                target.notify();
            }
        }
        FollowUp::Wake { process } => {
            if let Some(member) = supervisor.member(process) {
                member.channel.control.changed();
            }
        }
        FollowUp::CopyWaveStates { process } => {
            let queues = supervisor.with_driver(|driver| driver.wave_states_copied(process));
            for id in queues {
                if let Some(member) = supervisor.member(process) {
                    // Queues that are on a gpu have none.
                    let _ = member.channel.ask(Order::WaveState { id, address: None }, LIMIT);
                }
            }
        }
        FollowUp::QueueException { process, queue, exceptions } => {
            post(supervisor, process, Order::QueueException { id: queue, exceptions: exceptions.0 });
        }
        FollowUp::EventInterrupt { process, event } => post(supervisor, process, Order::EventInterrupt { event }),
        FollowUp::MemoryException { process, gpu, fault } => {
            post(supervisor, process, Order::MemoryException { gpu, fault });
        }
        FollowUp::ReadWaveState { id, address } => {
            read_wave_state(member.map(|member| &*member.channel), id, address, outcome);
        }
    }
}

/// Posts an order that is not answered. A process that is gone needs none.
fn post(supervisor: &Supervisor, process: ProcessKey, order: Order) {
    if let Some(member) = supervisor.member(process) {
        let _ = member.channel.tell(order);
    }
}

fn read_wave_state(channel: Option<&ProcessChannel>, id: u32, address: u64, outcome: &mut Outcome) {
    match channel.map(|channel| channel.ask(Order::WaveState { id, address: Some(address) }, LIMIT)) {
        Some(Ok(Answer::WaveState(saved))) => outcome.wave_state = Some(saved),
        Some(Ok(Answer::Failed(errno))) => outcome.error = Some(Errno(errno)),
        Some(Ok(Answer::Done | Answer::Unmapped(_)) | Err(_)) | None => outcome.error = Some(Errno::ENODEV),
    }
}
