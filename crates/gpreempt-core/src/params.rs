//! Settings of the operator, for each job and for each gpu. All of them may change at any time.

use crate::plan::Reason;
use crate::policy;
use crate::{Level, Nanos, Permille};

/// How long a job waits before the core spends a cycle on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Always this long; zero acts on the first observation.
    Fixed(Nanos),
    /// As long as a cycle takes if the job's recent bursts ended by themselves within that time; otherwise zero.
    /// Waiting never costs more than acting would have.
    Adaptive {
        /// Upper limit of the wait.
        max: Nanos,
    },
}

impl Patience {
    /// Returns the longest possible wait.
    #[must_use]
    pub const fn longest(self) -> Nanos {
        match self {
            Patience::Fixed(time) => time,
            Patience::Adaptive { max } => max,
        }
    }
}

/// Settings of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobParams {
    /// Software priority; the higher level goes first.
    pub level: Level,
    /// How long the job waits before lower jobs are stopped for it.
    pub patience: Patience,
    /// Exempt time: a resumed job is not stopped again for this long. A shorter time protects other jobs sooner, a
    /// longer time spends fewer cycles.
    pub min_run: Nanos,
    /// Longest stop: a job stopped for this long runs for [`JobParams::turn`], whichever jobs want its gpus.
    pub max_stop: Nanos,
    /// Ageing: every `age_step` of being stopped makes up for one level of distance to the job that caused the stop.
    /// Zero turns ageing off; `max_stop` still applies.
    pub age_step: Nanos,
    /// Share of [`JobParams::STOP_WINDOW`] during which the job may keep others stopped.
    pub stop_share: Permille,
    /// Fair policy: weight of the job in the time that requests leave over.
    pub weight: u16,
    /// Fair policy: guaranteed share of the gpu while the job has work.
    pub request: Permille,
    /// Fair policy: share of the gpu that the job never exceeds, even if the gpu is otherwise idle.
    pub limit: Permille,
    /// Deadline policy: time between releases; zero means best effort.
    pub period: Nanos,
    /// Deadline policy: time from release to deadline; zero means the period.
    pub deadline: Nanos,
    /// Deadline policy: gpu time per release; a job that uses more is postponed by a period. Zero means unknown.
    pub runtime: Nanos,
}

impl JobParams {
    /// The settings of an operator who sets nothing.
    pub const DEFAULT: JobParams = JobParams {
        level: Level::MIN,
        patience: Patience::Adaptive { max: Nanos::from_micros(500) },
        min_run: Nanos::from_millis(1),
        max_stop: Nanos::from_secs(10),
        age_step: Nanos::ZERO,
        stop_share: Permille::ALL,
        weight: 100,
        request: Permille::NONE,
        limit: Permille::ALL,
        period: Nanos::ZERO,
        deadline: Nanos::ZERO,
        runtime: Nanos::ZERO,
    };
    /// Window over which `stop_share` is measured.
    pub const STOP_WINDOW: Nanos = Nanos::from_secs(1);
    /// Window over which `limit` is measured.
    pub const LIMIT_WINDOW: Nanos = Nanos::from_millis(100);
    /// Shortest turn of an aged job: it must make progress even with a `min_run` of zero.
    pub const SHORTEST_TURN: Nanos = Nanos::from_millis(1);

    /// Returns how long an aged job runs without being stopped.
    #[must_use]
    pub fn turn(&self) -> Nanos {
        self.min_run.max(JobParams::SHORTEST_TURN)
    }

    /// Returns the run time of a full limit account.
    #[must_use]
    pub fn limit_capacity(&self) -> Nanos {
        JobParams::LIMIT_WINDOW.permille(self.limit.get() as u64)
    }

    /// Returns whether the job has a deadline under the deadline policy.
    #[must_use]
    pub const fn has_deadline(&self) -> bool {
        self.period.0 > 0
    }

    /// Returns the time from release to deadline.
    #[must_use]
    pub const fn relative_deadline(&self) -> Nanos {
        if self.deadline.0 > 0 { self.deadline } else { self.period }
    }
}

impl Default for JobParams {
    fn default() -> Self {
        JobParams::DEFAULT
    }
}

/// The policy that orders the jobs of a gpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Strict levels; equal levels coexist, or take turns if `slice` is set.
    #[default]
    Priority,
    /// Weighted shares with request and limit.
    Fair,
    /// Earliest deadline first; jobs without a deadline by level, below.
    Deadline,
}

impl PolicyKind {
    /// All policies.
    pub const ALL: [PolicyKind; 3] = [PolicyKind::Priority, PolicyKind::Fair, PolicyKind::Deadline];

    /// Returns the name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Priority => "priority",
            PolicyKind::Fair => "fair",
            PolicyKind::Deadline => "deadline",
        }
    }

    /// Returns whether the policy reads [`JobParams::weight`], [`JobParams::request`] and [`JobParams::limit`].
    #[must_use]
    pub fn has_shares(self) -> bool {
        policy::of(self).shares_time()
    }

    /// Returns whether the policy reads [`JobParams::period`], [`JobParams::deadline`] and [`JobParams::runtime`].
    #[must_use]
    pub fn has_deadlines(self) -> bool {
        policy::of(self).has_deadlines()
    }
}

/// Settings of a gpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuParams {
    /// The policy that orders its jobs. A job on several gpus is ranked by the policy of the first.
    pub policy: PolicyKind,
    /// Length of a turn. Priority policy: turns within one level; zero lets jobs of one level run together. Fair
    /// policy: turns between shares; zero means [`GpuParams::FAIR_SLICE`].
    pub slice: Nanos,
    /// Runlist cycles the gpu may spend per second; zero means no limit.
    pub cycles_per_second: u32,
    /// Cycles that may accumulate and be spent at once.
    pub cycle_burst: u32,
    /// Longest time for which the gpu stays reserved after the higher job stopped wanting it.
    pub linger_max: Nanos,
    /// Victims that occupy at most this share of the gpu are not stopped while stopping them costs more than it frees.
    pub small: Permille,
    /// While the higher job runs, compare what the lower jobs cost it (they occupy part of the gpu) with what stopping
    /// them would cost (a cycle for each). Where stopping costs more they are spared, as small victims are. Needs the
    /// measured occupancy of every tenant that has work on the gpu.
    pub weigh: bool,
    /// Assumed time of a cycle until one was measured.
    pub cycle_estimate: Nanos,
    /// A plan entry without a report for this long counts as lost and is decided again.
    pub report_timeout: Nanos,
}

impl GpuParams {
    /// The settings of an operator who sets nothing.
    pub const DEFAULT: GpuParams = GpuParams {
        policy: PolicyKind::Priority,
        slice: Nanos::ZERO,
        cycles_per_second: 0,
        cycle_burst: 64,
        linger_max: Nanos::from_millis(2),
        small: Permille::new(50),
        weigh: true,
        cycle_estimate: Nanos::from_micros(200),
        // The driver gives up on a preemption after 9 s (queue_preemption_timeout_ms, Linux 6.12).
        report_timeout: Nanos::from_secs(10),
    };
    /// The slice of the fair policy, which needs one, when `slice` is zero.
    pub const FAIR_SLICE: Nanos = Nanos::from_millis(10);

    /// Returns the length of a turn; zero if jobs of one level run together.
    #[must_use]
    pub fn turn_length(&self) -> Nanos {
        if self.slice == Nanos::ZERO { policy::of(self.policy).default_slice() } else { self.slice }
    }

    /// Returns the reason for which the policy could ever stop a job with the settings `lower` for one with the
    /// settings `upper`; `None` if it never would. Depends on settings only, not on what the jobs do.
    #[must_use]
    pub fn could_displace(&self, upper: &JobParams, lower: &JobParams) -> Option<Reason> {
        policy::of(self.policy).displaces(upper, lower, self)
    }

    /// Returns whether the policy could ever stop a job with these settings although no other job wants the gpu.
    #[must_use]
    pub fn could_throttle(&self, job: &JobParams) -> bool {
        policy::of(self.policy).throttles(job)
    }

    /// Returns whether victims may be spared because of what they occupy.
    #[must_use]
    pub fn spares(&self) -> bool {
        self.small > Permille::NONE || self.weigh
    }
}

impl Default for GpuParams {
    fn default() -> Self {
        GpuParams::DEFAULT
    }
}
