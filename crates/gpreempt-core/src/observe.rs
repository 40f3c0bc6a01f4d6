//! What the host sees and tells: the input of the core.

use crate::{Nanos, Permille};

/// What a tenant is doing, as far as the host can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// No unfinished work.
    #[default]
    Idle,
    /// Unfinished work that gpu time would advance, none of it known to be executing.
    Wants,
    /// Unfinished work, and its waves are on the gpu.
    Running,
    /// The head of every queue waits for something that gpu time for this tenant does not bring (a barrier packet with an
    /// unfired dependency). Does not want.
    Blocked,
    /// The driver took the tenant off the gpu for memory reasons. Does not want.
    Evicted,
}

impl Activity {
    /// Whether gpu time would advance the tenant.
    #[must_use]
    pub const fn has_work(self) -> bool {
        matches!(self, Activity::Wants | Activity::Running)
    }
}

/// One look at a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// When the host looked. A look older than the last one taken is ignored.
    pub at: Nanos,
    /// What the tenant does. A stopped tenant with unfinished work `Wants`.
    pub activity: Activity,
    /// Since when it has (or lacks) work, as far as the host knows.
    pub since: Nanos,
    /// Share of the gpu its waves hold, if it was measured.
    pub occupancy: Option<Permille>,
    /// Compute queues the tenant has.
    pub queues: u16,
    /// How many of them are stopped. A queue born while its job is stopped shows here as a difference to `queues`.
    pub stopped_queues: u16,
}

/// How a plan entry went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// When the driver answered.
    pub at: Nanos,
    /// How long the driver took: one cycle, if the actuator spends one per call.
    pub took: Nanos,
    /// Queues of the tenant that are stopped now; `None` if the driver refused and nothing changed.
    pub stopped_queues: Option<u16>,
}
