//! A debugger stops queues and lets them go on.

use kfd_abi::debug::{GRACE_PERIOD_DEFAULT, QueueStatus, ResumeQueues, SuspendQueues};
use kfd_abi::exception::ExceptionMask;
use kfd_abi::queue::MAX_QUEUES_PER_PROCESS;

use super::super::{Call, Cause, DeviceEffect, Driver, Errno, FollowUp, Mutant, ProcessKey};
use super::Memory;

/// The queues that a call lists. Each entry is marked as invalid until its queue is dealt with.
struct Listed(Vec<u32>);

impl Listed {
    fn read(count: u32, memory: Memory) -> Result<Listed, Errno> {
        if count > MAX_QUEUES_PER_PROCESS {
            return Err(Errno::EINVAL);
        }
        let bytes = memory.unwrap_or_default();
        let bytes = bytes.get(..count as usize * 4).ok_or(Errno::EFAULT)?;
        let (words, _) = bytes.as_chunks();
        Ok(Listed(words.iter().map(|word| u32::from_le_bytes(*word) | QueueStatus::INVALID).collect()))
    }

    /// First entry of a queue. One that still carries the mark of an error matches no queue.
    fn entry(&mut self, id: u32) -> Option<&mut u32> {
        self.0.iter_mut().find(|entry| **entry & !QueueStatus::INVALID == id)
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }
}

impl Driver {
    pub(super) fn suspend_queues(
        &mut self,
        target: ProcessKey,
        args: &mut SuspendQueues,
        memory: Memory,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        if args.queue_array_ptr == 0 && args.num_queues > 0 {
            return if self.has(Mutant::NullListAccepted) { Ok(0) } else { Err(Errno::EINVAL) };
        }
        let mut listed = Listed::read(args.num_queues, memory)?;
        let graced = args.grace_period != GRACE_PERIOD_DEFAULT && !self.has(Mutant::SuspendGraceLost);
        let grace = graced.then_some(args.grace_period);
        let (stops_new, again_free) = (self.has(Mutant::SuspendNewQueue), self.has(Mutant::SuspendAgainFree));
        let (in_time, keeps_mark) = (self.has(Mutant::SuspendMaskInTime), self.has(Mutant::SuspendKeepsMark));
        let sampling_ns = self.sampling_after_stop_ns;
        let process = self.process_mut(target)?;
        let newest_first = process.newest_first();
        let mut total = 0;
        for gpu in 0..process.gpus.len() as u32 {
            let mut handled = 0;
            let mut changed = false;
            let mut on_gpu = Vec::new();
            for id in &newest_first {
                let Some(queue) = process.queues.get_mut(id).filter(|queue| queue.spec.gpu == gpu) else { continue };
                let Some(entry) = listed.entry(*id) else { continue };
                on_gpu.push(*id);
                if in_time {
                    queue.exceptions = queue.exceptions.without(args.exception_mask);
                }
                let is_new = queue.exceptions.has(ExceptionMask::QUEUE_NEW) && !stops_new;
                changed |= !queue.suspended;
                if queue.suspended || !(is_new || queue.being_destroyed) {
                    queue.suspended = true;
                    *entry &= if keeps_mark { u32::MAX } else { !QueueStatus::INVALID };
                    handled += 1;
                }
            }
            // A queue that was stopped already costs a cycle all the same.
            if handled == 0 {
                continue;
            }
            if changed || !again_free {
                call.effects.device.push(DeviceEffect::Cycle { gpu, cause: Cause::Suspend, grace });
            }
            total += handled;
            for id in on_gpu {
                if let Some(queue) = process.queues.get_mut(&id) {
                    queue.exceptions = queue.exceptions.without(args.exception_mask);
                }
            }
        }
        if total > 0 {
            process.debug.samples_until_ns = call.clocks.monotonic_raw_ns.saturating_add(sampling_ns);
            call.effects.device.push(FollowUp::CopyWaveStates { process: target }.into());
        }
        call.answer(0, listed.bytes())?;
        Ok(total)
    }

    pub(super) fn resume_queues(
        &mut self,
        target: ProcessKey,
        args: &mut ResumeQueues,
        memory: Memory,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        if args.queue_array_ptr == 0 {
            return Ok(self.resume(target, None, &mut call.effects.device));
        }
        let mut listed = Listed::read(args.num_queues, memory)?;
        let total = self.resume(target, Some(&mut listed), &mut call.effects.device);
        call.answer(0, listed.bytes())?;
        Ok(total)
    }

    /// Lets all queues of a process go on.
    pub(super) fn resume_all(&mut self, target: ProcessKey, effects: &mut Vec<DeviceEffect>) {
        self.resume(target, None, effects);
    }

    /// Lets queues go on, all of them if none is listed. Answers how many were dealt with, stopped or not.
    fn resume(&mut self, target: ProcessKey, mut listed: Option<&mut Listed>, effects: &mut Vec<DeviceEffect>) -> i64 {
        let (only_stopped, free) = (self.has(Mutant::ResumeCountsStopped), self.has(Mutant::ResumeWithoutCycle));
        let Some(process) = self.processes.get_mut(&target) else { return 0 };
        let mut total = 0;
        for gpu in 0..process.gpus.len() as u32 {
            let mut handled = 0;
            for queue in process.queues.values_mut().filter(|queue| queue.spec.gpu == gpu) {
                if let Some(listed) = &mut listed {
                    let Some(entry) = listed.entry(queue.spec.id) else { continue };
                    *entry &= !QueueStatus::INVALID;
                }
                handled += i64::from(queue.suspended || !only_stopped);
                queue.suspended = false;
            }
            if handled > 0 {
                if !free {
                    effects.push(DeviceEffect::Cycle { gpu, cause: Cause::Resume, grace: None });
                }
                total += handled;
            }
        }
        if total > 0 {
            // A call may wait to destroy one of them.
            effects.push(FollowUp::Wake { process: target }.into());
        }
        total
    }
}
