//! Clocks.

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The clock that no time server bends, in nanoseconds: the driver's idea of CPU time.
pub fn monotonic_raw_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC_RAW)
}

/// The gpu's fixed 100 MHz counter.
pub fn realtime_100mhz() -> u64 {
    monotonic_raw_ns() / 10
}

/// Time since the machine started, in nanoseconds.
pub fn boottime_ns() -> u64 {
    nanoseconds(libc::CLOCK_BOOTTIME)
}
