//! Carrying out what the driver decided, as far as it is not the calling process's own business.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::Supervisor;
use super::member::Member;
use crate::control::{Answer, Order};
use crate::driver::{Cause, Effect, Errno, ProcessKey};

/// How long engines may take for anything but stopping waves.
const LIMIT: Duration = Duration::from_secs(10);

/// What came of a call's effects.
#[derive(Default)]
pub(super) struct Carried {
    /// What the calling process has to do itself.
    pub(super) left: Vec<Effect>,
    /// Sizes of control stack and wave state, if the call asked for them.
    pub(super) wave_state: Option<(u32, u32)>,
    /// Gpus whose cycle failed, and why.
    pub(super) failed: Vec<(u32, Errno)>,
    /// What else went wrong.
    pub(super) error: Option<Errno>,
}

/// What a call asks of queues and gpus.
#[derive(Default)]
struct Work {
    orders: Vec<Order>,
    cycles: Vec<(u32, Cause, Option<u32>)>,
    afterwards: Vec<Effect>,
}

/// Carries out effects of a call by `caller`, or of its end if it is no member any more. `file` came with the call.
pub(super) fn carry_out(
    supervisor: &Arc<Supervisor>,
    caller: ProcessKey,
    effects: Vec<Effect>,
    mut file: Option<OwnedFd>,
) -> Carried {
    let mut carried = Carried::default();
    let member = supervisor.member(caller);
    let mut work = Work::default();
    for effect in effects {
        match effect {
            Effect::CreateQueue(spec) => {
                // Doorbells are watched from the moment the queue exists.
                let watched = supervisor.poller.add_queue(caller, spec.id, spec.gpu, spec.doorbell);
                if watched.is_err() {
                    carried.error = Some(Errno::ENOMEM);
                }
                work.orders.push(Order::CreateQueue(spec));
            }
            Effect::UpdateQueue { id, settings } => work.orders.push(Order::UpdateQueue { id, settings }),
            Effect::DestroyQueue { id } => {
                supervisor.poller.remove_queue(caller, id);
                work.orders.push(Order::DestroyQueue { id });
            }
            Effect::CuMask { id, mask } => work.orders.push(Order::CuMask { id, mask }),
            Effect::Cycle { gpu, cause, grace } => work.cycles.push((gpu, cause, grace)),
            Effect::DebuggerFile { target, keep } => {
                if let Some(target) = supervisor.member(target) {
                    target.keep_file(if keep { file.take() } else { None });
                }
            }
            Effect::NotifyDebugger { .. }
            | Effect::Wake { .. }
            | Effect::CopyWaveStates { .. }
            | Effect::QueueException { .. }
            | Effect::MemoryException { .. }
            | Effect::ReadWaveState { .. } => work.afterwards.push(effect),
            effect => carried.left.push(effect),
        }
    }
    work.run(supervisor, member.as_deref(), &mut carried);
    carried
}

impl Work {
    fn run(self, supervisor: &Arc<Supervisor>, member: Option<&Member>, carried: &mut Carried) {
        let mut orders = self.orders;
        for (gpu, cause, grace) in self.cycles {
            let Some(hws) = supervisor.hws(gpu) else { continue };
            // Queues change while nothing is on the gpu.
            let meanwhile = std::mem::take(&mut orders);
            let result = hws.cycle(supervisor, cause, grace, || tell(member, meanwhile, carried));
            if let Err(errno) = result {
                carried.failed.push((gpu, errno));
            }
        }
        tell(member, orders, carried);
        for effect in self.afterwards {
            afterwards(supervisor, member, &effect, carried);
        }
    }
}

/// Gives orders to the engines of a process and waits until they are carried out. Those of a process that is gone have
/// nothing left to carry out.
fn tell(member: Option<&Member>, orders: Vec<Order>, carried: &mut Carried) {
    let Some(member) = member else { return };
    for order in orders {
        match member.seat.ask(order, LIMIT) {
            Ok(Answer::Failed(errno)) => carried.error = Some(Errno(errno)),
            Ok(_) => {}
            Err(_) => carried.error = Some(Errno(libc::ENODEV)),
        }
    }
}

fn afterwards(supervisor: &Arc<Supervisor>, member: Option<&Member>, effect: &Effect, carried: &mut Carried) {
    let seat = |process| supervisor.member(process).map(|member| Arc::clone(&member.seat));
    match *effect {
        Effect::NotifyDebugger { target } => {
            if let Some(target) = supervisor.member(target) {
                target.notify();
            }
        }
        Effect::Wake { process } => {
            if let Some(seat) = seat(process) {
                seat.control.changed();
            }
        }
        Effect::CopyWaveStates { process } => {
            let queues = supervisor.with_driver(|driver| driver.wave_states_copied(process));
            for id in queues {
                if let Some(seat) = seat(process) {
                    // Queues that are on a gpu have none.
                    let _ = seat.ask(Order::WaveState { id, address: None }, LIMIT);
                }
            }
        }
        Effect::QueueException { process, queue, exceptions } => {
            if let Some(seat) = seat(process) {
                let _ = seat.tell(Order::QueueException { id: queue, exceptions: exceptions.0 });
            }
        }
        Effect::MemoryException { process, gpu } => {
            if let Some(seat) = seat(process) {
                let _ = seat.tell(Order::MemoryException { gpu });
            }
        }
        Effect::ReadWaveState { id, address } => {
            let asked = member.map(|member| member.seat.ask(Order::WaveState { id, address: Some(address) }, LIMIT));
            match asked {
                Some(Ok(Answer::WaveState(saved))) => {
                    carried.wave_state = Some((saved.control_stack, saved.wave_state));
                }
                Some(Ok(Answer::Failed(errno))) => carried.error = Some(Errno(errno)),
                _ => carried.error = Some(Errno(libc::ENODEV)),
            }
        }
        _ => {}
    }
}
