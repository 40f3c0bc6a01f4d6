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
    /// Counters of the scheduler in the kernel; absent where the daemon decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelStats>,
}

/// Counters of the scheduler in the kernel, on one gpu, since the daemon became its policy host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelStats {
    /// Switches: calls of the driver that stop and resume.
    pub switches: u64,
    /// Times that its worker woke.
    pub wakeups: u64,
    /// Because of an armed doorbell.
    pub wakeups_doorbell: u64,
    /// Because of a completion interrupt.
    pub wakeups_completed: u64,
    /// Because queues came, went or were evicted.
    pub wakeups_queues: u64,
    /// Because a period was over.
    pub wakeups_period: u64,
    /// Because the net was due.
    pub wakeups_net: u64,
    /// Because the core had asked for it.
    pub wakeups_core: u64,
    /// Bursts of tenants with armed doorbells that the net saw first.
    pub missed_by_doorbell: u64,
    /// Tenants looked at.
    pub looks: u64,
    /// Queues looked at.
    pub look_queues: u64,
    /// Looks that met memory which was not there.
    pub away: u64,
    /// Times doorbells were armed.
    pub armed: u64,
    /// Times that failed.
    pub arm_failed: u64,
    /// Times the watchdog resumed everything.
    pub watchdog: u64,
    /// Events that the daemon did not read in time, of all gpus.
    pub events_lost: u64,
    /// Duration of a decision. Quantiles are upper ends of buckets, powers of two of a microsecond.
    pub decision: Distribution,
    /// Duration of a look at all tenants that were looked at; quantiles as those of `decision`.
    pub look: Distribution,
}

/// Time that the driver took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Actuation {
    /// To stop.
    pub preempt: Distribution,
    /// To resume.
    pub resume: Distribution,
}
