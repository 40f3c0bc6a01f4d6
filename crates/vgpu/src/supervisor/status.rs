//! Builds the status of the virtual gpu.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::hws::{Hws, SchedulerCounts};
use super::member::Member;
use super::{Device, Supervisor};
use crate::driver::{DriverSnapshot, Observed, ProcessKey, ProcessSnapshot};
use crate::kill_points;
use crate::protocol::{GpuStatus, PointStatus, PreemptionStatus, ProcessGpuStatus, ProcessStatus, Status, TokenStatus};

impl Supervisor {
    /// Describes the gpus and their processes as they are when the answer is sent: cycles that are under way are waited
    /// for before processes are listed, and one that has exited by then is not listed.
    pub(super) fn status(&self, device: &Device) -> Status {
        let counts: Vec<SchedulerCounts> = device.schedulers.iter().map(Hws::counts).collect();
        self.close_exited();
        let DriverSnapshot { gpus, processes, system_used_bytes } = device.driver().snapshot();
        let profile = &device.setup.profile;
        let mut status = Status {
            name: device.setup.name.as_ref().map(ToString::to_string),
            profile: profile.name.clone(),
            cus: profile.cus,
            read_index: profile.read_index,
            kernel: device.setup.kernel,
            system_used_bytes,
            ..Status::default()
        };
        for ((gpu, counts), index) in gpus.into_iter().zip(counts).zip(0..) {
            let cycles = counts.tallies.by_cause().iter();
            status.gpus.push(GpuStatus {
                gpu_id: gpu.gpu_id,
                vram_used_bytes: gpu.vram_used_bytes,
                vram_bytes: profile.vram_bytes(),
                queues: gpu.queues,
                waves: device.chip.occupancy(index),
                wave_slots: profile.simd_count() * profile.waves_per_simd,
                over_subscribed: counts.over_subscribed,
                resets: counts.resets,
                cycles: cycles.map(|(cause, cycles)| (cause.name(), *cycles)).collect(),
                preemption: self.preemption(index as usize),
            });
        }
        status.processes = processes.into_iter().map(|process| self.process_status(device, process)).collect();
        status.tokens = TokenStatus { total: device.chip.tokens(), held: device.chip.tokens_held() };
        status.process_slots = device.chip.processes();
        status.options = device.setup.options.clone();
        status.supervisor = std::process::id();
        status.holders = self.holders.load(Ordering::Relaxed);
        let point = |(point, counts): (kill_points::Point, kill_points::Counts)| {
            (point.name().to_owned(), PointStatus { passed: counts.passed, hits: counts.hits })
        };
        status.points = kill_points::counts().into_iter().map(point).collect();
        status
    }

    fn process_status(&self, device: &Device, process: ProcessSnapshot) -> ProcessStatus {
        let ProcessSnapshot { key, pasid, runtime_enabled, debugger, vram_bytes, queues } = process;
        let member = self.member(key);
        let waiting = |gpu| member.as_ref().is_some_and(|member| device.chip.is_waiting(member.channel.slot, gpu));
        let on_gpu = |(vram_bytes, gpu)| ProcessGpuStatus {
            vram_bytes,
            waves: self.waves(key, gpu),
            waiting: waiting(gpu),
            sdma_us: self.sdma_us(key, gpu),
        };
        ProcessStatus {
            pid: key.pid,
            pasid,
            runtime_enabled,
            debugger,
            gpus: vram_bytes.into_iter().zip(0..).map(on_gpu).collect(),
            queues,
            exited: member.as_ref().is_none_or(|member| member.channel.has_exited()),
            shares_cgroup: member.as_ref().is_some_and(|member| member.channel.shares_cgroup()),
            calls: member.as_ref().map(|member| member.calls()).unwrap_or_default(),
        }
    }

    /// Sums up the waves that left a gpu and came back, of all processes, those that have ended included.
    fn preemption(&self, gpu: usize) -> PreemptionStatus {
        // A process that ends moves from one to the other while both are locked, so none is missed or counted twice.
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

    /// Removes a process that is gone from the members; what it has counted stays. The caller drops it without a lock.
    pub(super) fn leave(&self, process: ProcessKey) -> Option<Arc<Member>> {
        let mut members = self.lock_members();
        let member = members.remove(&process)?;
        self.keep_counters(&member);
        Some(member)
    }

    /// Adds the counters of a process that leaves to those of processes that have ended.
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
    use std::sync::TryLockError;

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
        let process = ProcessKey::new(std::process::id(), 0);
        let channel = Arc::new(ProcessChannel::new(process, control, ours, &chip).expect("room"));
        supervisor.lock_members().insert(process, Arc::new(Member::new(channel)));
        assert_eq!(supervisor.preemption(0).saves, 7);
        std::thread::scope(|scope| {
            // No process can be added to those that are gone while this is held.
            let gone = supervisor.gone.lock().expect("not poisoned");
            scope.spawn(|| supervisor.leave(process));
            loop {
                match supervisor.members.try_lock() {
                    Ok(members) => assert!(members.contains_key(&process), "it is neither here nor there"),
                    Err(TryLockError::WouldBlock) => break,
                    Err(TryLockError::Poisoned(_)) => panic!("the lock is poisoned"),
                }
            }
            drop(gone);
        });
        assert_eq!((supervisor.preemption(0).saves, supervisor.lock_members().len()), (7, 0));
    }
}
