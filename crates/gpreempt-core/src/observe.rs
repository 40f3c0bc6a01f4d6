//! Observations and reports: the input of the core.

use crate::{Nanos, Permille};

/// What a tenant does, as far as the host can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// No unfinished work.
    #[default]
    Idle,
    /// Has unfinished work that gpu time would advance; none of it is known to execute.
    Wants,
    /// Has unfinished work, and its waves are on the gpu.
    Running,
    /// The head of every queue waits for an event that gpu time for this tenant does not bring about (a barrier packet
    /// with an unsatisfied dependency). Does not want the gpu.
    Blocked,
    /// The driver evicted the tenant's queues because memory is short. Does not want the gpu.
    Evicted,
}

impl Activity {
    /// Returns whether gpu time would advance the tenant.
    #[must_use]
    pub const fn has_work(self) -> bool {
        matches!(self, Activity::Wants | Activity::Running)
    }
}

/// One observation of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// When it was made. An observation older than the last one is ignored.
    pub at: Nanos,
    /// What the tenant does. A stopped tenant with unfinished work is `Wants`.
    pub activity: Activity,
    /// Since when the tenant has, or has no, work, as far as the host knows.
    pub since: Nanos,
    /// Share of the gpu that its waves occupy; `None` if not measured.
    pub occupancy: Option<Permille>,
    /// Number of the tenant's compute queues.
    pub queues: u16,
    /// Number of those that are stopped. Below `queues` if a queue was created while the job was stopped.
    pub stopped_queues: u16,
}

impl Observation {
    /// No observation yet: a tenant without queues that does nothing.
    pub const NONE: Observation = Observation {
        at: Nanos::ZERO,
        activity: Activity::Idle,
        since: Nanos::ZERO,
        occupancy: None,
        queues: 0,
        stopped_queues: 0,
    };
}

impl Default for Observation {
    fn default() -> Self {
        Observation::NONE
    }
}

/// The result of a plan entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// When the driver answered.
    pub at: Nanos,
    /// How long the driver took for the `cycles`.
    pub took: Nanos,
    /// Runlist cycles that the call spent. `None` if the host cannot tell: then the cost function is believed, and
    /// `took` is the time of one cycle. Of entries that one call executes on a gpu, one has the cycles and the others
    /// have zero.
    pub cycles: Option<u32>,
    /// Number of the tenant's queues that are stopped now; `None` if the driver refused and nothing changed.
    pub stopped_queues: Option<u16>,
}
