//! What an operator can set, for each job and for each gpu. Everything may change at any time.

use crate::{Level, Nanos, Permille};

/// How long a waiting job holds still before a cycle is spent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Always this long; zero acts on the first look.
    Fixed(Nanos),
    /// As long as a cycle costs, when the job's bursts have lately ended by themselves within that time; otherwise zero.
    /// Waiting never costs more than acting would have.
    Adaptive {
        /// Never wait longer than this.
        max: Nanos,
    },
}

impl Patience {
    /// The longest it can be.
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
    /// Who goes first.
    pub level: Level,
    /// How long the job waits before lower ones are stopped for it.
    pub patience: Patience,
    /// Exempt time: a resumed job is not stopped again for this long. Short means quicker protection of others, long means
    /// fewer cycles.
    pub min_run: Nanos,
    /// After being stopped this long the job runs for at least [`JobParams::turn`], whatever wants.
    pub max_stop: Nanos,
    /// Ageing: every `age_step` of being stopped makes up for one level of distance to the job that caused it. Zero turns
    /// ageing off; `max_stop` still holds.
    pub age_step: Nanos,
    /// The share of time this job may keep others stopped, over [`JobParams::STOP_WINDOW`].
    pub stop_share: Permille,
    /// Fair policy: weight among jobs in what requests leave over.
    pub weight: u16,
    /// Fair policy: share of the gpu guaranteed while the job has work.
    pub request: Permille,
    /// Fair policy: share of the gpu never exceeded, even if the gpu is otherwise idle.
    pub limit: Permille,
    /// Deadline policy: time between releases; zero means best effort.
    pub period: Nanos,
    /// Deadline policy: time from release to deadline; zero means the period.
    pub deadline: Nanos,
    /// Deadline policy: gpu time per release; a job that uses more is put back by a period. Zero means unknown.
    pub runtime: Nanos,
}

impl JobParams {
    /// Window over which `stop_share` is kept.
    pub const STOP_WINDOW: Nanos = Nanos::from_secs(1);
    /// Window over which `limit` is kept.
    pub const LIMIT_WINDOW: Nanos = Nanos::from_millis(100);
    /// Shortest turn of an aged job: with `min_run` zero it must still get somewhere.
    pub const SHORTEST_TURN: Nanos = Nanos::from_millis(1);

    /// How long an aged job runs undisturbed.
    #[must_use]
    pub fn turn(&self) -> Nanos {
        self.min_run.max(JobParams::SHORTEST_TURN)
    }

    /// Run time that a full limit account holds.
    #[must_use]
    pub fn limit_capacity(&self) -> Nanos {
        JobParams::LIMIT_WINDOW.permille(self.limit.get() as u64)
    }

    /// Whether the deadline policy sees a deadline here.
    #[must_use]
    pub const fn has_deadline(&self) -> bool {
        self.period.0 > 0
    }

    /// Time from release to deadline.
    #[must_use]
    pub const fn relative_deadline(&self) -> Nanos {
        if self.deadline.0 > 0 { self.deadline } else { self.period }
    }
}

impl Default for JobParams {
    fn default() -> Self {
        JobParams {
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
        }
    }
}

/// Which policy orders the jobs of a gpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Strict levels; equal levels coexist, or take turns if `slice` is set.
    #[default]
    Priority,
    /// Weighted shares with request and limit.
    Fair,
    /// Earliest deadline first; best effort below.
    Deadline,
}

/// Settings of a gpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuParams {
    /// Who orders its jobs. A job on several gpus is ranked by the policy of the first.
    pub policy: PolicyKind,
    /// Length of a turn: within one level (priority policy; zero lets equals coexist) or of one share (fair policy; zero
    /// means [`GpuParams::FAIR_SLICE`]).
    pub slice: Nanos,
    /// Cycles the gpu may spend per second; zero means no limit.
    pub cycles_per_second: u32,
    /// Cycles it may save up and spend at once.
    pub cycle_burst: u32,
    /// Longest time a gpu stays reserved after the higher job stopped wanting.
    pub linger_max: Nanos,
    /// Victims that hold at most this share of the gpu are left running while stopping them costs more than it frees.
    pub small: Permille,
    /// Weigh, while the higher job is running, what leaving the lower ones costs it (they hold part of the gpu) against what
    /// stopping them would (a cycle for each): where stopping costs more they are spared, as small ones are. It needs
    /// measured occupancy of all that work there.
    pub weigh: bool,
    /// What one cycle takes before any was measured.
    pub cycle_estimate: Nanos,
    /// A plan entry without a report for this long counts as lost and is decided anew.
    pub report_timeout: Nanos,
}

impl GpuParams {
    /// What a slice of zero means under the fair policy, which cannot do without.
    pub const FAIR_SLICE: Nanos = Nanos::from_millis(10);

    /// The length of a turn; zero if equals coexist.
    #[must_use]
    pub fn turn_length(&self) -> Nanos {
        let fair = self.policy == PolicyKind::Fair && self.slice == Nanos::ZERO;
        if fair { GpuParams::FAIR_SLICE } else { self.slice }
    }

    /// Whether lower jobs may be spared for what they hold.
    #[must_use]
    pub fn spares(&self) -> bool {
        self.small > Permille::NONE || self.weigh
    }
}

impl Default for GpuParams {
    fn default() -> Self {
        GpuParams {
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
        }
    }
}
