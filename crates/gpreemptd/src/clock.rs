//! The one clock: monotonic, the same in every process of a machine.

use gpreempt_core::Nanos;

/// Returns the present instant.
#[must_use]
pub fn now() -> Nanos {
    Nanos::from(linux_host::clock::monotonic())
}
