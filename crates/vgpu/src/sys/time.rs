//! Clocks.
//!
//! Through libc and not `rustix`: waves read the clock, so it must come from the vdso, which libc has found long
//! before; `rustix` would search for it on first use, in whichever process and thread that happens to be. No hook of
//! ours replaces `clock_gettime`, and it leaves `errno` alone for clocks that exist.

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec, which lives through the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns `CLOCK_MONOTONIC_RAW` in nanoseconds: the driver's CPU clock counter, which no time server adjusts.
pub fn monotonic_raw_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC_RAW)
}

/// Returns the fixed 100 MHz counter of the gpu, in ticks.
pub fn realtime_100mhz() -> u64 {
    monotonic_raw_ns() / 10
}

/// Returns the time since the machine started, in nanoseconds: the driver's system clock counter.
pub(crate) fn boottime_ns() -> u64 {
    nanoseconds(libc::CLOCK_BOOTTIME)
}
