//! The program's side: its runtime offers itself to a debugger.

#[cfg(doc)]
use super::Enable;

numbers! {
    /// Whether the program's runtime has offered itself (`kfd_dbg_runtime_state`).
    RuntimeState: u32 {
        /// No: its queues cannot be suspended.
        DISABLED = 0,
        /// Yes.
        ENABLED = 1,
        /// Yes, but another debugger holds a gpu.
        ENABLED_BUSY = 2,
        /// Yes, but the gpu failed.
        ENABLED_ERROR = 3,
    }
}

/// Answer of [`Enable`] (`kfd_runtime_info`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// What the runtime gave.
    pub r_debug: u64,
    /// Whether it is there.
    pub runtime_state: RuntimeState,
    /// Whether trap temporaries are set up: 0 or 1.
    pub ttmp_setup: u32,
}
plain!(RuntimeInfo { r_debug, runtime_state, ttmp_setup });

flags! {
    /// Mode of [`RuntimeEnableArgs`].
    RuntimeMode: u32 {
        /// Enable. Without it the call disables, which some runtimes do by accident.
        ENABLE = 1,
        /// Set up trap temporaries.
        TTMP_SAVE = 2,
    }
}

/// Argument of `RUNTIME_ENABLE` (`kfd_ioctl_runtime_enable_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeEnableArgs {
    /// Address of the runtime's list of loaded code, for the debugger.
    pub r_debug: u64,
    /// What to do.
    pub mode_mask: RuntimeMode,
    /// Meant for what the driver supports; Linux 6.12 leaves it alone.
    pub capabilities_mask: u32,
}
plain!(RuntimeEnableArgs { r_debug, mode_mask, capabilities_mask } for RUNTIME_ENABLE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(RuntimeInfo, 16, { r_debug: 0, runtime_state: 8, ttmp_setup: 12 });
        layout!(RuntimeEnableArgs, 16, { r_debug: 0, mode_mask: 8, capabilities_mask: 12 });
    }
}
