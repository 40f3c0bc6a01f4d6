//! Streams of events: there are none, and the call says so with an error that callers of the real driver have to reckon
//! with.

use kfd_abi::smi::SmiEventsArgs;

use super::{Call, Driver, Errno, ProcessKey};

impl Driver {
    pub(super) fn smi_events(&mut self, _: ProcessKey, args: &mut SmiEventsArgs, _: &mut Call) -> Result<i64, Errno> {
        self.gpu(args.gpuid)?;
        // As where the driver finds no memory for the stream.
        Err(Errno::ENOMEM)
    }
}
