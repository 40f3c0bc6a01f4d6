//! Clocks of the kernel as durations.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Time since an unspecified start, the same in every process of the machine; does not count suspended time.
#[must_use]
pub fn monotonic() -> Duration {
    read(ClockId::CLOCK_MONOTONIC)
}

/// [`monotonic`] in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    u64::try_from(monotonic().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns how far the wall clock is ahead of [`monotonic`], in nanoseconds. It changes when the wall clock is set.
#[must_use]
pub fn wall_ahead_of_monotonic_ns() -> i128 {
    wall().as_nanos().cast_signed() - monotonic().as_nanos().cast_signed()
}

/// Processor time of the calling thread.
#[must_use]
pub fn thread_cpu() -> Duration {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Milliseconds since 1970 UTC; zero on a machine whose clock is set before that.
#[must_use]
pub fn wall_ms() -> u64 {
    u64::try_from(wall().as_millis()).unwrap_or(u64::MAX)
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Both clocks exist on every Linux; zero would only mean that nothing is ever due.
fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_do_not_go_backwards() {
        let (monotonic_before, cpu_before) = (monotonic(), thread_cpu());
        assert!(monotonic() >= monotonic_before && thread_cpu() >= cpu_before);
        assert!(monotonic() > Duration::ZERO);
    }

    #[test]
    fn the_distance_leads_from_one_clock_to_the_other() {
        let ahead = wall_ahead_of_monotonic_ns();
        let expected = i128::from(wall_ms()) * 1_000_000 - i128::from(monotonic_ns());
        // A minute: the readings are taken one after the other.
        assert!((expected - ahead).abs() < 60_000_000_000, "{expected} and {ahead}");
    }

    #[test]
    fn the_wall_clock_counts_milliseconds_since_1970() {
        // 2020 to 2200: a count of seconds or microseconds would lie outside.
        assert!((1_577_836_800_000..7_258_118_400_000).contains(&wall_ms()));
    }
}
