//! What the supervisor says about its gpu.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::member::Member;
use super::{Device, Supervisor};
use crate::driver::{Observed, ProcessKey};
use crate::kill_points;
use crate::protocol::{PointStatus, PreemptionStatus, Status, TokenStatus};

impl Supervisor {
    /// How the gpu is now.
    pub(super) fn status(&self, device: &Device) -> Status {
        let mut status = device.driver().status();
        status.name = device.setup.name.as_ref().map(ToString::to_string);
        for (gpu, hws) in status.gpus.iter_mut().zip(&device.schedulers) {
            gpu.over_subscribed = hws.is_oversubscribed();
            gpu.resets = hws.resets();
            gpu.waves = device.chip.occupancy(hws.gpu());
            gpu.preemption = self.preemption(hws.gpu() as usize);
            gpu.cycles = hws.tallies().by_cause().iter().map(|(cause, cycles)| (cause.name(), *cycles)).collect();
        }
        let members = self.members();
        for process in &mut status.processes {
            let Some(member) = members.iter().find(|member| member.channel.process.pid == process.pid) else {
                continue;
            };
            for (gpu, index) in process.gpus.iter_mut().zip(0..) {
                gpu.waves = self.waves(member.channel.process, index);
                gpu.waiting = device.chip.is_waiting(member.channel.slot, index);
                gpu.sdma_us = self.sdma_us(member.channel.process, index);
            }
        }
        status.tokens = TokenStatus { total: device.chip.tokens(), held: device.chip.tokens_held() };
        status.seats = device.chip.processes();
        status.options = device.setup.options.clone();
        status.supervisor = std::process::id();
        status.holders = self.holders.load(Ordering::Relaxed);
        let point = |(point, counts): (kill_points::Point, kill_points::Counts)| {
            (point.name().to_owned(), PointStatus { passed: counts.passed, hits: counts.hits })
        };
        status.points = kill_points::counts().into_iter().map(point).collect();
        status
    }

    /// Waves of all processes, those that are gone included, that left a gpu and came back.
    fn preemption(&self, gpu: usize) -> PreemptionStatus {
        // Whoever leaves moves from one to the other while both are locked, so nobody is missed or counted twice.
        let members = self.lock_members();
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = gone.get(gpu).copied().unwrap_or_default();
        for member in members.values() {
            sum = sum.plus(&member.channel.control.preempted(gpu));
        }
        PreemptionStatus {
            saves: sum.saves,
            restores: sum.restores,
            storm_saves: sum.storms,
            waves_saved: sum.waves,
            bytes_saved: sum.bytes,
            workgroups_back: sum.landed,
            workgroups_moved: sum.moved,
        }
    }

    /// A process is gone; what it has counted stays.
    pub(super) fn leave(&self, process: ProcessKey) {
        let mut members = self.lock_members();
        if let Some(member) = members.remove(&process) {
            self.keep_counters(&member);
        }
    }

    /// Keeps what a process that leaves has counted.
    fn keep_counters(&self, member: &Member) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        for (gpu, sum) in gone.iter_mut().enumerate() {
            *sum = sum.plus(&member.channel.control.preempted(gpu));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, TryLockError};

    use super::super::process_channel::ProcessChannel;
    use super::*;
    use crate::control::Control;
    use crate::device::chip::Chip;
    use crate::device::{Geometry, SaveCounters};

    #[test]
    fn what_a_process_has_counted_is_never_missing_while_it_leaves() {
        let supervisor = Supervisor::new().expect("a thread");
        let chip = Arc::new(Chip::create(Geometry::cdna(8, 1), 1, 1).expect("memory").0);
        let (ours, _theirs) = UnixStream::pair().expect("sockets");
        let control = Control::new().expect("a page").0;
        control.show_preempted(0, &SaveCounters { saves: 7, ..SaveCounters::default() });
        let process = ProcessKey { pid: std::process::id(), start: 0 };
        let channel = Arc::new(ProcessChannel::new(process, control, ours, &chip).expect("room"));
        supervisor.lock_members().insert(process, Arc::new(Member::new(channel)));
        assert_eq!(supervisor.preemption(0).saves, 7);
        std::thread::scope(|scope| {
            // Nobody can be added to those that are gone while this is held.
            let gone = supervisor.gone.lock().expect("nobody panics");
            scope.spawn(|| supervisor.leave(process));
            loop {
                match supervisor.members.try_lock() {
                    Ok(members) => assert!(members.contains_key(&process), "it is neither here nor there"),
                    Err(TryLockError::WouldBlock) => break,
                    Err(TryLockError::Poisoned(_)) => panic!("nobody panics"),
                }
            }
            drop(gone);
        });
        assert_eq!((supervisor.preemption(0).saves, supervisor.lock_members().len()), (7, 0));
    }
}
