//! Counters and distributions.

use serde::{Deserialize, Serialize};

use crate::ActuatorKind;

/// A distribution of times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Counters and distributions since the daemon started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Version of this document.
    pub schema: u32,
    /// The daemon itself.
    pub daemon: DaemonStats,
    /// By gpu.
    pub gpus: Vec<GpuStats>,
}

/// Counters of the daemon itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DaemonStats {
    /// Seconds since it started.
    pub uptime_s: f64,
    /// Processor time of the daemon, all threads, in seconds.
    pub cpu_s: f64,
    /// Processor time of the deciding thread, part of `cpu_s`, in seconds.
    pub watch_cpu_s: f64,
    /// Processor time of the actuator, in seconds.
    pub actuator_cpu_s: f64,
    /// Polls of the rings.
    pub polls: u64,
    /// Scans of all processes and queues.
    pub scans: u64,
    /// Decisions of the core.
    pub decisions: u64,
    /// Urgent notifications.
    pub notifications: u64,
    /// Present time between two polls of the rings, in microseconds; absent while no ring is polled.
    pub watch_period_us: Option<f64>,
    /// Delay of the deciding thread's wake-ups behind their timers.
    pub wakeup: Distribution,
    /// Duration of a poll.
    #[serde(default)]
    pub poll: Distribution,
    /// Duration of a decision of the core with new observations.
    #[serde(default)]
    pub decision: Distribution,
    /// Which actuator served last; absent before the first.
    #[serde(default)]
    pub actuator: Option<ActuatorKind>,
    /// Starts of the actuator.
    pub actuator_starts: u64,
    /// Actuators that the guardian killed.
    pub actuator_kills: u64,
}

/// Counters of a gpu.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuStats {
    /// PCI address.
    pub gpu: String,
    /// Inversions seen.
    pub inversions: u64,
    /// Control bursts: inversions that the daemon did not end, to measure the latency without gpreempt.
    pub control_bursts: u64,
    /// Tenants stopped.
    pub preempts: u64,
    /// Tenants resumed.
    pub resumes: u64,
    /// Stops and resumes that failed.
    pub failures: u64,
    /// Runlist cycles caused by the daemon's calls.
    pub cycles: u64,
    /// From the first sign of work to the poll that saw it: at most the time between two polls.
    pub detection: Distribution,
    /// From that poll to the command that left the daemon.
    pub plan: Distribution,
    /// From that command to the driver's answer.
    pub actuation: Actuation,
    /// Time that tenants were stopped.
    pub stopped: Distribution,
    /// How long inversions lasted: until the last victim was stopped or, where the daemon only observes, until they
    /// ended by themselves.
    pub inversion: Distribution,
    /// Where the daemon only observes, an estimate of the time that stopping would have won: for how long the higher
    /// work was seen to wait, less a cycle.
    #[serde(default)]
    pub winnable: Distribution,
    /// Duration of bursts of protected work that the daemon acted upon.
    pub burst_protected: Distribution,
    /// Duration of control bursts.
    pub burst_control: Distribution,
}

/// Time that the driver took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Actuation {
    /// To stop.
    pub preempt: Distribution,
    /// To resume.
    pub resume: Distribution,
}
