//! The one clock: monotonic, the same in every process of a machine.

use std::time::Duration;

use gpreempt_core::Nanos;

/// Returns the present instant.
#[must_use]
pub fn now() -> Nanos {
    nanos(linux_host::clock::monotonic())
}

/// Converts a duration; centuries saturate.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
