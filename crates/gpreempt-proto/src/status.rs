//! How everything stands.

use serde::{Deserialize, Serialize};

/// Whether the daemon acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It reports inversions and what it would have done. Nothing is traced, nothing is stopped.
    #[default]
    Observe,
    /// It stops and resumes.
    Enforce,
}

/// Everything, at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of this document.
    pub schema: u32,
    /// The daemon's process.
    pub daemon_pid: u32,
    /// The actuator's process, while there is one.
    pub actuator_pid: Option<u32>,
    /// Whether it acts.
    pub mode: Mode,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// Where its configuration came from; absent if built in.
    pub config: Option<String>,
    /// The gpus of the machine.
    pub gpus: Vec<GpuStatus>,
    /// Jobs, highest level first.
    pub jobs: Vec<JobStatus>,
    /// Tenants, by gpu, then level from the highest.
    pub tenants: Vec<TenantStatus>,
}

/// A gpu.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuStatus {
    /// PCI address, with the partition where there are several: `0000:c1:00.0`, `0000:c1:00.0/3`.
    pub gpu: String,
    /// The driver's number for it.
    pub gpu_id: u32,
    /// Product name, if the driver tells.
    pub name: String,
    /// `priority`, `fair` or `deadline`.
    pub policy: String,
    /// The job that has it reserved.
    pub holder: Option<String>,
    /// What a cycle takes: measured, or the configured estimate before the first.
    pub cycle_us: f64,
    /// Whether that was measured.
    pub cycle_measured: bool,
    /// Whether gpreempt leaves this gpu to the hardware, and why.
    pub breaker: Option<Breaker>,
    /// Whether the driver resets it.
    pub resetting: bool,
}

/// Why a gpu is left to the hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Breaker {
    /// In words.
    pub reason: String,
    /// When it is tried again.
    pub retry_in_s: f64,
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its name.
    pub job: String,
    /// Its level now.
    pub level: u8,
    /// The highest level its owner may give it.
    pub max_level: u8,
    /// Whether the level was set by hand.
    pub level_set: bool,
    /// The rule that matched.
    pub rule: String,
    /// Its processes.
    pub pids: Vec<u32>,
    /// Seconds left of a hold by hand.
    pub held_s: Option<f64>,
    /// The bounds that hold for it, computed from settings and measured cycles.
    pub bounds: Option<Bounds>,
}

/// Bounds of a job, estimates in so far as the cycle time is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Longest it waits for lower jobs, in milliseconds.
    pub inversion_ms: Option<f64>,
    /// Longest it stays stopped, in milliseconds.
    pub starvation_ms: Option<f64>,
}

/// What a tenant does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No unfinished work.
    #[default]
    Idle,
    /// Work that waits for the gpu.
    Wants,
    /// Work on the gpu.
    Running,
    /// Waits for something that gpu time does not bring.
    Blocked,
    /// The driver took it off the gpu for memory reasons.
    Evicted,
    /// Stopped by gpreempt.
    Stopped,
    /// Nothing is known about its queues.
    Unknown,
}

/// All compute queues of one process on one gpu.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantStatus {
    /// PCI address of the gpu.
    pub gpu: String,
    /// The driver's number for it.
    pub gpu_id: u32,
    /// Its process.
    pub pid: u32,
    /// The number of the process in its own namespace, where that differs.
    pub container_pid: Option<u32>,
    /// Name of the executable, shortened.
    pub command: String,
    /// The container, pod or job of its cgroup, if recognised.
    pub container: Option<String>,
    /// Its user: the name, or the number if it has none.
    pub user: String,
    /// Its uid.
    pub uid: u32,
    /// Its job; absent for processes that no rule matches.
    pub job: Option<String>,
    /// Its level; absent for processes that no rule matches.
    pub level: Option<u8>,
    /// What it does.
    pub state: State,
    /// Since how long, in seconds.
    pub since_s: f64,
    /// Why it is stopped.
    pub why: Option<Why>,
    /// Why it cannot be stopped, if it cannot: `runtime not enabled`.
    pub unstoppable: Option<String>,
    /// Whether the actuator has a session with it.
    pub attached: bool,
    /// Packets submitted and not yet fetched, of all its queues.
    pub pending: u64,
    /// Bytes of video memory.
    #[serde(rename = "vram_bytes")]
    pub vram: u64,
    /// How often it was stopped.
    pub preempted: u64,
    /// For how long altogether, in seconds.
    pub stopped_s: f64,
    /// Its queues.
    pub queues: Vec<QueueStatus>,
}

/// Why a tenant is stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The rule of the scheduler: `higher_wants`, `slice_over`, `held`.
    pub rule: String,
    /// The job on whose account.
    pub by: Option<String>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Its number within the process, if known.
    pub queue: u32,
    /// `compute` or `sdma`.
    pub kind: String,
    /// Whether gpreempt stopped it.
    pub stopped: bool,
}
