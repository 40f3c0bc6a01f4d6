//! How a debugger wants waves to start, trap and behave.
//!
//! Waves here start at once, trap only where their code says so, and complete every access to memory before the next
//! instruction. What asks for more is refused as on a gpu that cannot do it.

use kfd_abi::debug::{
    ClearNodeAddressWatch, LaunchMode, OverrideMode, SetFlags, SetNodeAddressWatch, SetWaveLaunchMode,
    SetWaveLaunchOverride, TrapFlags, TrapMask,
};

use super::super::{Call, Driver, Errno, ProcessKey};

/// What the driver calls the watch point that it did not find.
const NO_WATCH_POINT: u32 = u32::MAX;

impl Driver {
    /// No trap can be forced on waves, so none is forced now.
    pub(super) fn set_launch_override(
        &mut self,
        _: ProcessKey,
        args: &mut SetWaveLaunchOverride,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let requested = std::mem::replace(&mut args.support_request_mask, TrapMask::EMPTY);
        if !OverrideMode::DEFINED.contains(&args.override_mode) {
            return Err(Errno::EPERM);
        }
        if !requested.is_empty() {
            return Err(Errno::EACCES);
        }
        args.enable_mask = TrapMask::EMPTY;
        self.refresh_runlists(&mut call.effects.device);
        Ok(0)
    }

    pub(super) fn set_launch_mode(
        &mut self,
        _: ProcessKey,
        args: &mut SetWaveLaunchMode,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        // The driver keeps 8 bits.
        if LaunchMode(args.launch_mode.0 & 0xFF) != LaunchMode::NORMAL {
            return Err(Errno::EINVAL);
        }
        self.refresh_runlists(&mut call.effects.device);
        Ok(0)
    }

    /// As on a gpu all of whose watch points are taken.
    pub(super) fn set_address_watch(&mut self, args: &mut SetNodeAddressWatch) -> Result<i64, Errno> {
        self.gpu(args.gpu_id).map_err(|_| Errno::ENODEV)?;
        args.id = NO_WATCH_POINT;
        Err(Errno::ENOMEM)
    }

    /// No watch point is the caller's.
    pub(super) fn clear_address_watch(&mut self, args: &mut ClearNodeAddressWatch) -> Result<i64, Errno> {
        self.gpu(args.gpu_id).map_err(|_| Errno::ENODEV)?;
        Err(Errno::EINVAL)
    }

    pub(super) fn set_debug_flags(
        &mut self,
        target: ProcessKey,
        args: &mut SetFlags,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let flags = &mut self.process_mut(target)?.debug.flags;
        let wanted = std::mem::replace(&mut args.flags, *flags);
        if wanted.has(TrapFlags::SINGLE_ALU_OP) {
            return Err(Errno::EACCES);
        }
        *flags = wanted;
        self.refresh_runlists(&mut call.effects.device);
        Ok(0)
    }
}
