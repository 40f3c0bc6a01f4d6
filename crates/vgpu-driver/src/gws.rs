//! Global wave sync: barriers and semaphores that waves of all workgroups share.
//!
//! A process has all resources of a gpu, through one of its queues. On gfx942 the kernel's driver does not use the
//! hardware for it, but keeps the books: runtimes create queues for cooperative launches by this call alone.
//!
//! Source: `kfd_ioctl_alloc_queue_gws` and `pqm_set_gws` of Linux 6.12.

use kfd_abi::queue::AllocQueueGwsArgs;

use super::{Call, Cause, DeviceEffect, Driver, Errno, ProcessKey, QueueChange};

impl Driver {
    pub(super) fn alloc_queue_gws(
        &mut self,
        caller: ProcessKey,
        args: &mut AllocQueueGwsArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let resources = self.profile.gfx.num_gws();
        let process = self.process_mut(caller)?;
        let gpu = process.queues.get(&args.queue_id).ok_or(Errno::EINVAL)?.spec.gpu;
        if resources == 0 {
            return Err(Errno::ENODEV);
        }
        let wanted = args.num_gws != 0;
        args.first_gws = 0;
        let on_gpu = process.on(gpu as usize)?;
        // One queue of a process, and one that has none gives none back.
        match (wanted, on_gpu.num_gws > 0) {
            (true, true) => return Err(Errno::EBUSY),
            (false, false) => return Err(Errno::EINVAL),
            _ => {}
        }
        let count = if wanted { resources } else { 0 };
        on_gpu.num_gws = count;
        let queue = process.queues.get_mut(&args.queue_id).ok_or(Errno::EINVAL)?;
        queue.gws = wanted;
        queue.hardware.force_simd_dist = wanted;
        call.effects.device.push(QueueChange::AllocateGws { id: args.queue_id, count }.into());
        call.effects.device.push(DeviceEffect::Cycle { gpu, cause: Cause::UpdateQueue, grace: None });
        Ok(0)
    }
}
