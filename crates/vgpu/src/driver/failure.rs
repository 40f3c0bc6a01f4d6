//! What becomes of a call whose cycle failed: the gpu hung, or is being reset.

use kfd_abi::debug::{DbgTrapArgs, QueueStatus, ResumeQueues, TrapOp};
use kfd_abi::ioctl;
use kfd_abi::queue::{CreateQueueArgs, DestroyQueueArgs};

use super::{Call, Driver, Effect, Errno, ProcessKey};

impl Driver {
    /// Changes the answer of a call that was accepted and whose cycle on a gpu failed. What the call changed stays
    /// changed, except that a queue that was to be made is not. Answers the result; effects are to be carried out.
    pub fn cycle_failed(
        &mut self,
        caller: ProcessKey,
        nr: u32,
        call: &mut Call,
        result: i64,
        (gpu, errno): (u32, Errno),
    ) -> i64 {
        let failed = -i64::from(errno.0);
        if nr == u32::from(ioctl::CREATE_QUEUE.nr) && result >= 0 {
            let args: CreateQueueArgs = call.decode();
            let mut undo = Call::new(&DestroyQueueArgs { queue_id: args.queue_id, pad: 0 });
            if self.ioctl(caller, ioctl::DESTROY_QUEUE.nr.into(), &mut undo).is_ok() {
                let undone = undo.effects.into_iter().filter(|effect| !matches!(effect, Effect::Cycle { .. }));
                call.effects.extend(undone);
            }
            return failed;
        }
        if nr != u32::from(ioctl::DBG_TRAP.nr) {
            return failed;
        }
        let args: DbgTrapArgs = call.decode();
        if !matches!(args.op, TrapOp::SUSPEND_QUEUES | TrapOp::RESUME_QUEUES) || result < 0 {
            // Debugging is enabled or not, whatever the hardware makes of it.
            return result;
        }
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
        result - unhandled
    }
}
