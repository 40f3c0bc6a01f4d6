//! Contexts beside the first of a process: `CREATE_PROCESS` of Linux 7.2.
//!
//! An opening of `/dev/kfd` on which the call was made belongs to a context from then on, which has address spaces,
//! buffers, events and queues of its own, with ids of their own. It is an entry of the driver like that of a process,
//! and goes with the last copy of its descriptor. A debugger never reaches it: a pid names the first context.
//!
//! Source: `kfd_ioctl_create_process` and `kfd_release` in `kfd_chardev.c`, `create_process` in `kfd_process.c`. Here a
//! context is booked and shown, and its queues are never executed: [`Effects::keep_books`] leaves the executors out.

use super::{Call, DeviceEffect, Driver, Effects, Errno, ProcessEffect, ProcessKey};

impl Driver {
    /// Returns the process or context that an opening of the driver belongs to.
    pub(super) fn behind(&self, process: ProcessKey, opening: u64) -> ProcessKey {
        self.contexts.get(&(process, opening)).copied().unwrap_or(process)
    }

    pub(super) fn create_process(&mut self, caller: ProcessKey, call: &mut Call) -> Result<i64, Errno> {
        if caller.is_secondary() {
            return Err(Errno::EINVAL);
        }
        let number = self.process_mut(caller)?.context_ids.take().ok_or(Errno::ENOSPC)?;
        let context = ProcessKey { context: u16::try_from(number).ok(), ..caller };
        if let Err(errno) = self.open(context) {
            self.process_mut(caller)?.context_ids.put(number);
            return Err(errno);
        }
        self.contexts.insert((caller, call.opening), context);
        Ok(0)
    }

    /// Removes the context of an opening that is closed, if it has one.
    pub fn close_opening(&mut self, process: ProcessKey, opening: u64) -> Effects {
        let mut effects = Effects::default();
        let Some(context) = self.contexts.remove(&(process, opening)) else { return effects };
        self.close_entry(context, &mut effects);
        if let (Ok(first), Some(number)) = (self.process_mut(process), context.context) {
            first.context_ids.put(number.into());
        }
        effects.keep_books();
        effects
    }

    /// Removes the contexts of a process that ends.
    pub(super) fn close_contexts(&mut self, process: ProcessKey, effects: &mut Effects) {
        let openings: Vec<u64> =
            self.contexts.keys().filter(|(of, _)| *of == process).map(|(_, opening)| *opening).collect();
        for opening in openings {
            let Effects { device, share, process } = self.close_opening(process, opening);
            effects.device.extend(device);
            effects.share.extend(share);
            effects.process.extend(process);
        }
    }
}

impl Effects {
    /// Keeps what changes files and costs cycles. The rest is for executors, which know the first context alone.
    pub(super) fn keep_books(&mut self) {
        self.device.retain(|effect| matches!(effect, DeviceEffect::Cycle { .. }));
        self.process.retain(|effect| {
            matches!(
                effect,
                ProcessEffect::FreeMemory { .. }
                    | ProcessEffect::ForgetMemory { .. }
                    | ProcessEffect::ImportMemory { .. }
                    | ProcessEffect::ExportDmabuf { .. }
            )
        });
    }
}
