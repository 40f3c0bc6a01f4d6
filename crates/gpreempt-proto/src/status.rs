//! The state of gpus, jobs and tenants.

use serde::{Deserialize, Serialize};

use crate::{ActuatorKind, Mode, PolicyKind, QueueClass, Reason, State};

/// The state at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of this document: [`VERSION`](crate::VERSION).
    pub schema: u32,
    /// The daemon's process.
    pub daemon_pid: u32,
    /// The actuator's process, while there is one.
    pub actuator_pid: Option<u32>,
    /// Which actuator serves; absent while there is none.
    #[serde(default)]
    pub actuator: Option<ActuatorKind>,
    /// Whether the daemon acts.
    pub mode: Mode,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// The file of its configuration; absent if there is none.
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
    /// The driver's `gpu_id`.
    pub gpu_id: u32,
    /// Product name; empty if the driver does not give one.
    pub name: String,
    /// The policy in effect.
    pub policy: PolicyKind,
    /// The job for which the gpu is reserved.
    pub holder: Option<String>,
    /// Duration of a runlist cycle: measured, or the configured estimate before the first.
    pub cycle_us: f64,
    /// Whether the duration was measured.
    pub cycle_measured: bool,
    /// Why gpreempt leaves this gpu to the hardware at present; absent if it does not.
    pub breaker: Option<Breaker>,
    /// Whether the driver is resetting the gpu.
    pub resetting: bool,
    /// Whether the deadline jobs on this gpu together ask for more time than the gpu has: some deadlines will be
    /// missed.
    #[serde(default)]
    pub overcommitted: bool,
}

/// Why a gpu is left to the hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Breaker {
    /// The cause, for people.
    pub message: String,
    /// Seconds until gpreempt manages the gpu again.
    pub retry_in_s: f64,
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its name.
    pub job: String,
    /// Its current level.
    pub level: u8,
    /// The highest level that its owner may set.
    pub max_level: u8,
    /// Whether a user set the level.
    pub level_set: bool,
    /// The rule of the configuration that matches.
    pub rule: String,
    /// Its processes.
    pub pids: Vec<u32>,
    /// Seconds left of a hold; absent if the job is not held.
    pub held_s: Option<f64>,
    /// The bounds of its waiting and stopping times.
    pub bounds: Option<Bounds>,
}

/// Bounds of a job, computed from settings and the cycle time; estimates until a cycle was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Longest time that it waits for lower jobs, in milliseconds; absent if unbounded.
    pub inversion_ms: Option<f64>,
    /// Longest time that it stays stopped, in milliseconds; absent if unbounded.
    pub starvation_ms: Option<f64>,
}

/// All compute queues of one process on one gpu.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantStatus {
    /// PCI address of the gpu.
    pub gpu: String,
    /// The driver's `gpu_id`.
    pub gpu_id: u32,
    /// Its process.
    pub pid: u32,
    /// The number of the process in its own pid namespace; absent where it is the same.
    pub container_pid: Option<u32>,
    /// Name of the executable, shortened.
    pub command: String,
    /// The container, pod or batch job that its cgroup names; absent if the cgroup names none.
    pub container: Option<String>,
    /// The name of its user, or the number if there is no name.
    pub user: String,
    /// Its uid.
    pub uid: u32,
    /// Its job; absent while the tenant is not scheduled: no rule gives its process a level, the process or the gpu is
    /// unmanaged, or there is no room for another job.
    pub job: Option<String>,
    /// Its level; absent where `job` is.
    pub level: Option<u8>,
    /// What it does.
    pub state: State,
    /// Time in this state, in seconds.
    pub since_s: f64,
    /// Why it is stopped; absent if it is not.
    pub why: Option<Why>,
    /// Why it cannot be stopped, for people (`runtime not enabled`); absent if it can.
    pub unstoppable: Option<String>,
    /// Whether the actuator has a debug session with it, or, if it needs none, may stop it.
    pub attached: bool,
    /// Packets submitted and not yet fetched, of all its queues.
    pub pending: u64,
    /// Bytes of video memory.
    #[serde(rename = "vram_bytes")]
    pub vram: u64,
    /// How often it was stopped.
    pub preempted: u64,
    /// Total time stopped, in seconds.
    pub stopped_s: f64,
    /// Its queues.
    pub queues: Vec<QueueStatus>,
}

/// Why a tenant is stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The scheduler's reason.
    pub reason: Reason,
    /// The job that caused the stop; absent for holds, limits and the like.
    pub by: Option<String>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Its number within the process.
    pub queue: u32,
    /// What it is for.
    pub kind: QueueClass,
    /// Whether gpreempt stopped it.
    pub stopped: bool,
}
