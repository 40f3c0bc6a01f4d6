//! How a debugger wants waves to start, trap and behave.
//!
//! Waves complete every access to memory before the next instruction, and no addresses are watched: a watch point is
//! refused as on a gpu all of whose watch points are taken.

use kfd_abi::debug::{
    ClearNodeAddressWatch, LaunchMode, OverrideMode, SetFlags, SetNodeAddressWatch, SetWaveLaunchMode,
    SetWaveLaunchOverride, TrapFlags, TrapMask,
};
use serde::{Deserialize, Serialize};

use super::super::{Call, Driver, Errno, ProcessKey};
use crate::profile::Gfx;

/// What the driver calls the watch point that it did not find.
const NO_WATCH_POINT: u32 = u32::MAX;

/// Traps that a debugger can force on waves of every gpu.
const SUPPORTED: TrapMask = TrapMask(0x1FF);
/// Traps that it can force on those of MI300 as well.
const SUPPORTED_GFX942: TrapMask = TrapMask(TrapMask::TRAP_ON_WAVE_START.0 | TrapMask::TRAP_ON_WAVE_END.0);

/// What a debugger wants of the waves of a process: the register of the hardware (SPI_GDBG_PER_VMID_CNTL), and the flag
/// that the driver leaves for its trap handler. Reaches the device when queues are mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WaveControl {
    /// Whether a debugger is attached and the runtime enabled.
    pub is_debugged: bool,
    /// How waves start, a [`LaunchMode`].
    pub launch_mode: u32,
    /// What makes waves trap, a [`TrapMask`].
    pub traps: u32,
    /// Whether the exceptions among them replace those of the program instead of being added.
    pub replaces_traps: bool,
}

impl WaveControl {
    /// Returns the content of the register: launch mode, TRAP_EN, EXCP_EN, EXCP_REPLACE, TRAP_ON_START, TRAP_ON_END.
    pub(crate) fn register(&self) -> u32 {
        if !self.is_debugged {
            return 0;
        }
        let bit = |set: bool, position: u32| u32::from(set) << position;
        self.launch_mode << 1
            | 1 << 3
            | self.exceptions() << 4
            | bit(self.replaces_traps, 13)
            | bit(self.traps_at_start(), 14)
            | bit(self.traps_at_end(), 15)
    }

    /// Returns whether waves start halted.
    #[must_use]
    pub fn starts_halted(&self) -> bool {
        self.launch_mode == LaunchMode::HALT.0
    }

    /// Returns whether waves start in single steps.
    #[must_use]
    pub fn starts_stepping(&self) -> bool {
        self.launch_mode == LaunchMode::DEBUG.0
    }

    /// Returns the exceptions for which waves trap, nine bits in the order of TRAPSTS.
    #[must_use]
    pub fn exceptions(&self) -> u32 {
        self.traps & SUPPORTED.0
    }

    /// Returns whether waves trap before their first instruction.
    #[must_use]
    pub fn traps_at_start(&self) -> bool {
        TrapMask(self.traps).has(TrapMask::TRAP_ON_WAVE_START)
    }

    /// Returns whether waves trap before they end.
    #[must_use]
    pub fn traps_at_end(&self) -> bool {
        TrapMask(self.traps).has(TrapMask::TRAP_ON_WAVE_END)
    }
}

impl Driver {
    pub(super) fn set_launch_override(
        &mut self,
        target: ProcessKey,
        args: &mut SetWaveLaunchOverride,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let supported = match self.profile.gfx {
            Gfx::Gfx90a => SUPPORTED,
            Gfx::Gfx942 => SUPPORTED | SUPPORTED_GFX942,
        };
        let requested = std::mem::replace(&mut args.support_request_mask, supported);
        if !OverrideMode::DEFINED.contains(&args.override_mode) {
            return Err(Errno::EPERM);
        }
        if !requested.without(supported).is_empty() {
            return Err(Errno::EACCES);
        }
        let waves = &mut self.process_mut(target)?.debug.waves;
        let previous = TrapMask(waves.traps);
        let wanted = std::mem::replace(&mut args.enable_mask, previous);
        waves.traps = wanted.both(requested).0 | previous.without(requested).0;
        waves.replaces_traps = args.override_mode == OverrideMode::REPLACE;
        self.refresh_runlists(&mut call.effects.device);
        Ok(0)
    }

    pub(super) fn set_launch_mode(
        &mut self,
        target: ProcessKey,
        args: &mut SetWaveLaunchMode,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        // The driver keeps 8 bits.
        let mode = LaunchMode(args.launch_mode.0 & 0xFF);
        if !LaunchMode::DEFINED.contains(&mode) {
            return Err(Errno::EINVAL);
        }
        self.process_mut(target)?.debug.waves.launch_mode = mode.0;
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
