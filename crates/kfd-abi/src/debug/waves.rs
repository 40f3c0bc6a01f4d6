//! How a debugger wants waves to start, trap and behave.

#[cfg(doc)]
use super::SetWaveLaunchOverride;

numbers! {
    /// Meaning of the mask of [`SetWaveLaunchOverride`].
    OverrideMode: u32 {
        /// Added to the program's.
        OR = 0,
        /// Instead of the program's.
        REPLACE = 1,
    }
}

flags! {
    /// What makes a wave trap.
    TrapMask: u32 {
        /// Invalid operation.
        FP_INVALID = 1 << 0,
        /// Denormal input.
        FP_INPUT_DENORMAL = 1 << 1,
        /// Division by zero.
        FP_DIVIDE_BY_ZERO = 1 << 2,
        /// Overflow.
        FP_OVERFLOW = 1 << 3,
        /// Underflow.
        FP_UNDERFLOW = 1 << 4,
        /// Inexact result.
        FP_INEXACT = 1 << 5,
        /// Integer division by zero.
        INT_DIVIDE_BY_ZERO = 1 << 6,
        /// A watched address.
        DBG_ADDRESS_WATCH = 1 << 7,
        /// A memory violation.
        DBG_MEMORY_VIOLATION = 1 << 8,
        /// Its start.
        TRAP_ON_WAVE_START = 1 << 30,
        /// Its end.
        TRAP_ON_WAVE_END = 1 << 31,
    }
}

numbers! {
    /// How new waves start.
    LaunchMode: u32 {
        /// Running.
        NORMAL = 0,
        /// Halted.
        HALT = 1,
        /// In single steps.
        DEBUG = 3,
    }
}

numbers! {
    /// Accesses to watch.
    WatchMode: u32 {
        /// Reads.
        READ = 0,
        /// Writes and atomics.
        NONREAD = 1,
        /// Atomics.
        ATOMIC = 2,
        /// All.
        ALL = 3,
    }
}

flags! {
    /// Behaviour of waves.
    TrapFlags: u32 {
        /// One memory operation at a time: faults are precise.
        SINGLE_MEM_OP = 1,
        /// One arithmetic operation at a time.
        SINGLE_ALU_OP = 2,
    }
}
