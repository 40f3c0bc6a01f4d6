//! Debugger, checkpoint and event-stream calls: the checks that come before anything is done.
//!
//! None of the three can be used yet; each says so with an error that the real driver gives in a situation a caller has
//! to reckon with. The checks stand in the driver's order, so what follows them can be added behind.

use kfd_abi::criu::CriuArgs;
use kfd_abi::debug::DbgTrapArgs;
use kfd_abi::smi::SmiEventsArgs;

use super::{Call, Driver, Errno, ProcessKey};

impl Driver {
    pub(super) fn dbg_trap(
        &mut self,
        caller: ProcessKey,
        args: &mut DbgTrapArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let target = self.processes.keys().find(|key| key.pid == args.pid).ok_or(Errno::ESRCH)?;
        if *target != caller && !call.traces_target {
            return Err(Errno::EPERM);
        }
        // Enabling fails as where the hardware scheduler is off. Every other operation needs a process that is being
        // debugged, and there is none.
        Err(Errno::EINVAL)
    }

    pub(super) fn criu_op(&mut self, _: ProcessKey, _: &mut CriuArgs, call: &mut Call) -> Result<i64, Errno> {
        if !call.checkpoint_restore {
            return Err(Errno::EACCES);
        }
        // Pausing fails as for a process that has no gpu; the other operations need one that is paused.
        Err(Errno::EINVAL)
    }

    pub(super) fn smi_events(&mut self, _: ProcessKey, args: &mut SmiEventsArgs, _: &mut Call) -> Result<i64, Errno> {
        self.gpu(args.gpuid)?;
        // As where the driver finds no memory for the stream.
        Err(Errno::ENOMEM)
    }
}
