//! `PROFILER`: counters and clocks, of which only the version is imitated.
//!
//! Source: `kfd_ioctl_profiler` in `kfd_chardev.c` of Linux 7.2. Counters need a capability that no process here has;
//! no gpu here has the power limit of `PTL_CONTROL`.

use kfd_abi::process::{PROFILER_VERSION, ProfilerArgs, ProfilerOp};

use super::{Call, Driver, Errno, ProcessKey};

impl Driver {
    pub(super) fn profiler(&mut self, _: ProcessKey, args: &mut ProfilerArgs, _: &mut Call) -> Result<i64, Errno> {
        match args.op {
            ProfilerOp::VERSION => {
                args.version_or_gpu = PROFILER_VERSION;
                Ok(0)
            }
            ProfilerOp::PMC => Err(Errno::EPERM),
            ProfilerOp::PTL_CONTROL => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::EINVAL),
        }
    }
}
