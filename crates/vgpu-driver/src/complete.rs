//! The end of a call whose device effects have been executed: what they came to changes its answer.

use kfd_abi::debug::{DbgTrapArgs, QueueStatus, ResumeQueues, TrapOp};
use kfd_abi::ioctl;
use kfd_abi::queue::{CreateQueueArgs, DestroyQueueArgs, GetQueueWaveStateArgs};

use super::{Call, DeviceEffect, Driver, Errno, ProcessKey, SaveExtent};

/// What executing the device effects of a call came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What [`FollowUp::ReadWaveState`](super::FollowUp::ReadWaveState) found.
    pub wave_state: Option<SaveExtent>,
    /// Gpus whose cycle failed, and why: the gpu hung, or is being reset.
    pub failed_cycles: Vec<(u32, Errno)>,
    /// Error of anything else, such as executors that do not answer. It becomes the result of the call.
    pub error: Option<Errno>,
}

impl Driver {
    /// Completes a call after its device effects were executed. `result` is what [`Driver::ioctl`] or [`Driver::retry`]
    /// returned. Fills the rest of the answer, undoes what a failed call must not leave behind, and returns the result
    /// of the call. Device effects that it leaves in `call` are to be executed, whatever comes of them.
    ///
    /// # Errors
    /// The error of a cycle that failed, where the real driver returns it, and [`Outcome::error`].
    pub fn complete(
        &mut self,
        caller: ProcessKey,
        nr: u32,
        call: &mut Call,
        result: Result<i64, Errno>,
        outcome: &Outcome,
    ) -> Result<i64, Errno> {
        if let Some(saved) = outcome.wave_state {
            let mut args: GetQueueWaveStateArgs = call.decode();
            (args.ctl_stack_used_size, args.save_area_used_size) = (saved.control_stack, saved.wave_state);
            call.put(&args);
        }
        let mut result = result;
        for (gpu, errno) in &outcome.failed_cycles {
            result = self.cycle_failed(caller, nr, call, result, (*gpu, *errno));
        }
        outcome.error.map_or(result, Err)
    }

    /// Changes the answer of a call whose cycle on a gpu failed. What the call changed stays changed, except that a
    /// queue that was to be created is destroyed again.
    fn cycle_failed(
        &mut self,
        caller: ProcessKey,
        nr: u32,
        call: &mut Call,
        result: Result<i64, Errno>,
        (gpu, errno): (u32, Errno),
    ) -> Result<i64, Errno> {
        if nr == u32::from(ioctl::CREATE_QUEUE.nr) && result.is_ok() {
            let args: CreateQueueArgs = call.decode();
            let mut undo = Call::new(&DestroyQueueArgs { queue_id: args.queue_id, pad: 0 });
            if self.ioctl(caller, ioctl::DESTROY_QUEUE.nr.into(), &mut undo).is_ok() {
                let is_cycle = |effect: &DeviceEffect| matches!(effect, DeviceEffect::Cycle { .. });
                call.effects.device.extend(undo.effects.device.into_iter().filter(|effect| !is_cycle(effect)));
            }
            return Err(errno);
        }
        if nr != u32::from(ioctl::DBG_TRAP.nr) {
            return Err(errno);
        }
        let args: DbgTrapArgs = call.decode();
        if !matches!(args.op, TrapOp::SUSPEND_QUEUES | TrapOp::RESUME_QUEUES) {
            // Debugging is enabled or not, whatever the hardware makes of it.
            return result;
        }
        Ok(result? - self.mark_failed_queues(&args, call, gpu))
    }

    /// Marks the queues of a suspend or resume call that are on the gpu as not handled; returns how many there are.
    fn mark_failed_queues(&self, args: &DbgTrapArgs, call: &mut Call, gpu: u32) -> i64 {
        let target = call.target.and_then(|target| self.processes.get(&target));
        let on_gpu = |id: u32| {
            let queue = target.and_then(|process| process.queues.get(&id));
            queue.is_some_and(|queue| queue.spec.gpu == gpu)
        };
        // Without a list all queues were meant.
        let all = args.get::<ResumeQueues>().is_some_and(|list| list.queue_array_ptr == 0);
        let ids = target.into_iter().filter(|_| all).flat_map(|process| process.queues.keys());
        let mut unhandled = ids.filter(|id| on_gpu(**id)).count() as i64;
        for word in call.buffers.first_mut().map_or(&mut [][..], |list| &mut list[..]).chunks_exact_mut(4) {
            let entry = QueueStatus(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            if !entry.is_invalid() && on_gpu(entry.queue_id()) {
                word.copy_from_slice(&(entry.0 | QueueStatus::ERROR).to_le_bytes());
                unhandled += 1;
            }
        }
        unhandled
    }
}
