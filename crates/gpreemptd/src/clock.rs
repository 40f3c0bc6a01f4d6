//! The one clock: monotonic, the same in every process of a machine.

use gpreempt_core::Nanos;
use nix::time::{ClockId, clock_gettime};

/// Now.
#[must_use]
pub fn now() -> Nanos {
    // The clock exists on every Linux; zero would only mean that nothing is ever due.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Nanos::ZERO, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec()).unwrap_or(0);
        Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    })
}
