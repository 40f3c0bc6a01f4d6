//! Counters and distributions.

use serde::{Deserialize, Serialize};

/// A distribution of times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Half are not longer.
    pub p50_us: f64,
    /// 95 of 100 are not longer.
    pub p95_us: f64,
    /// 99 of 100 are not longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Everything counted since the daemon started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Version of this document.
    pub schema: u32,
    /// The daemon itself.
    pub daemon: DaemonStats,
    /// By gpu.
    pub gpus: Vec<GpuStats>,
}

/// The daemon itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DaemonStats {
    /// Seconds since it started.
    pub uptime_s: f64,
    /// Processor time of the daemon, all threads, in seconds.
    pub cpu_s: f64,
    /// Of that, the deciding thread.
    pub watch_cpu_s: f64,
    /// Processor time of the actuator.
    pub actuator_cpu_s: f64,
    /// Looks at rings.
    pub looks: u64,
    /// Scans of all processes and queues.
    pub scans: u64,
    /// Decisions of the core.
    pub decisions: u64,
    /// Urgent notifications.
    pub notifications: u64,
    /// Time between two looks, as it is kept now, in microseconds; absent while nothing is watched.
    pub watch_period_us: Option<f64>,
    /// How much later than asked the deciding thread woke up.
    pub wakeup: Distribution,
    /// How long a look took.
    #[serde(default)]
    pub look: Distribution,
    /// How long the core took to decide, when there was something new to decide upon.
    #[serde(default)]
    pub decision: Distribution,
    /// Starts of the actuator.
    pub actuator_starts: u64,
    /// How often the guardian had to end it.
    pub actuator_kills: u64,
}

/// A gpu.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuStats {
    /// PCI address.
    pub gpu: String,
    /// Inversions seen.
    pub inversions: u64,
    /// Inversions left alone to see what happens without us.
    pub sampled: u64,
    /// Tenants stopped.
    pub preempts: u64,
    /// Tenants resumed.
    pub resumes: u64,
    /// Stops and resumes that failed.
    pub failures: u64,
    /// Runlist cycles that calls of ours cost.
    pub cycles: u64,
    /// From the first sign of work to the look that saw it: at most the time between two looks.
    pub detection: Distribution,
    /// From that look to the order that left the daemon.
    pub plan: Distribution,
    /// From that order to the driver's answer.
    pub actuation: Actuation,
    /// How long tenants were stopped.
    pub stopped: Distribution,
    /// How long inversions lasted: until the last victim was stopped or, where the daemon only observes, until they ended by
    /// themselves.
    pub inversion: Distribution,
    /// Where the daemon only observes, an estimate of the time that stopping would have won: for how long the higher work was
    /// seen to wait, less a cycle.
    #[serde(default)]
    pub winnable: Distribution,
    /// How long bursts of protected work took, that were acted upon and that were left alone.
    pub burst_protected: Distribution,
    /// The latter.
    pub burst_sampled: Distribution,
}

/// What the driver took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Actuation {
    /// To stop.
    pub preempt: Distribution,
    /// To resume.
    pub resume: Distribution,
}
