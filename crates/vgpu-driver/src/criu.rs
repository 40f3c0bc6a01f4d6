//! Checkpoints: the checks that come before anything is done. There are none; the calls say so with an error that the
//! real driver gives in a situation a caller has to reckon with.

use kfd_abi::criu::CriuArgs;

use super::{Call, Driver, Errno, ProcessKey};

impl Driver {
    pub(super) fn criu_op(&mut self, _: ProcessKey, _: &mut CriuArgs, call: &mut Call) -> Result<i64, Errno> {
        if !call.checkpoint_restore {
            return Err(Errno::EACCES);
        }
        // Pausing fails as for a process that has no gpu; the other operations need one that is paused.
        Err(Errno::EINVAL)
    }
}
