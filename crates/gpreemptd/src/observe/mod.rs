//! What a tenant is doing, from what lies in its memory: indices, head packets, completion signals.

use gpreempt_core::{Activity, Nanos};

/// One look at a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// What it does.
    pub activity: Activity,
    /// Since when it has, or lacks, work, as far as known.
    pub since: Nanos,
    /// Packets not yet fetched.
    pub pending: u64,
    /// Whether only a sample of the occupancy can tell if it still runs.
    pub unsure: bool,
}
