//! Status of a running virtual gpu: `gpreempt vgpu status`, and what tests count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::options::Options;
pub use vgpu_driver::profile::ReadIndexKind;
pub use vgpu_driver::{KernelProfile, QueueKindStatus, QueueSnapshot, QueueState};

/// A virtual gpu at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The name by which processes join it.
    pub name: Option<String>,
    /// Name of the profile.
    pub profile: String,
    /// Compute units of each gpu.
    pub cus: u32,
    /// When the read index of an AQL queue passes a packet.
    pub read_index: ReadIndexKind,
    /// Whose driver it has.
    pub kernel: KernelProfile,
    /// Pid of the supervisor.
    pub supervisor: u32,
    /// Options it was started with.
    pub options: Options,
    /// Its gpus.
    pub gpus: Vec<GpuStatus>,
    /// The processes that have the driver open.
    pub processes: Vec<ProcessStatus>,
    /// Programs that keep it alive: launched on it, whether they opened the gpu or not.
    pub holders: u32,
    /// System memory in use by the gpus.
    pub system_used_bytes: u64,
    /// What all clients share for executing waves.
    pub tokens: TokenStatus,
    /// Process slots in use: places in the memory of the chip that stand for client processes.
    pub process_slots: u32,
    /// How often each named point was passed, and how often a process was killed there; empty without a page of points.
    pub points: BTreeMap<String, PointStatus>,
}

/// One gpu.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuStatus {
    /// The id by which calls name it.
    pub gpu_id: u32,
    /// Video memory in use.
    pub vram_used_bytes: u64,
    /// Video memory there is.
    pub vram_bytes: u64,
    /// Queues of all processes.
    pub queues: u32,
    /// Wave slots in use.
    pub waves: u32,
    /// Wave slots there are.
    pub wave_slots: u32,
    /// Whether the active runlist has more queues or processes than the hardware holds at once.
    pub over_subscribed: bool,
    /// Times the driver gave the gpu up and reset it.
    pub resets: u64,
    /// Unmap-and-map cycles by what caused them.
    pub cycles: BTreeMap<String, CycleStatus>,
    /// Waves that left the device and came back.
    pub preemption: PreemptionStatus,
}

/// Cycles of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleStatus {
    /// Number of cycles.
    pub count: u64,
    /// How long they took together.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// From the request until the last wave had stopped, together.
    pub stop_total_ns: u64,
    /// The longest of these.
    pub stop_max_ns: u64,
    /// What the profile's model added: for taking queues off the gpu and for bringing them back.
    pub modelled_ns: u64,
    /// Those in which a wave was saved.
    #[serde(default)]
    pub with_waves: u64,
    /// Waves that were saved.
    pub waves: u64,
    /// Bytes that were saved.
    pub bytes: u64,
    /// Bytes that were brought back from save areas, whenever they were saved.
    #[serde(default)]
    pub restored_bytes: u64,
}

/// Waves that left the device and came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptionStatus {
    /// Queues saved with at least one wave, for any reason.
    pub saves: u64,
    /// Queues restored with at least one wave.
    pub restores: u64,
    /// Those saves that the device made by itself, because of a storm.
    pub storm_saves: u64,
    /// Waves saved.
    pub waves_saved: u64,
    /// Bytes written into save areas.
    pub bytes_saved: u64,
    /// Workgroups that found room again after they had been off the device.
    pub workgroups_back: u64,
    /// Those among them that run on another compute unit or on other SIMDs than before.
    pub workgroups_moved: u64,
}

/// A process that has the driver open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its pid.
    pub pid: u32,
    /// Number of its address space.
    pub pasid: u32,
    /// Whether its runtime has offered itself to a debugger.
    pub runtime_enabled: bool,
    /// The process that debugs it through the driver.
    pub debugger: Option<u32>,
    /// What it has on each gpu, in the order of [`Status::gpus`].
    pub gpus: Vec<ProcessGpuStatus>,
    /// Its queues.
    pub queues: Vec<QueueSnapshot>,
    /// Whether the process has exited. Its entry is about to go then.
    #[serde(default)]
    pub exited: bool,
    /// Whether its executors freeze with its control group: the supervisor could not move them, or belongs to it.
    #[serde(default)]
    pub shares_cgroup: bool,
    /// Its calls that the supervisor serves at the moment, oldest first.
    #[serde(default)]
    pub calls: Vec<CallStatus>,
}

/// A call that the supervisor serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStatus {
    /// The driver's name of the call, without its prefix.
    pub name: String,
    /// How far it has come.
    pub stage: CallStage,
    /// Milliseconds since it arrived.
    pub ms: u64,
}

/// How far the supervisor has come with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStage {
    /// Another call holds the process that it is about.
    WaitingForProcess,
    /// The driver decides.
    InDriver,
    /// Its device effects are executed: cycles, queue changes, debuggers' files.
    Executing,
    /// Its answer is completed, and what a failed call must not leave behind is undone.
    Completing,
}

impl CallStage {
    /// Returns the name that tables and JSON use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CallStage::WaitingForProcess => "waiting_for_process",
            CallStage::InDriver => "in_driver",
            CallStage::Executing => "executing",
            CallStage::Completing => "completing",
        }
    }
}

/// What a process has on one gpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessGpuStatus {
    /// Video memory.
    pub vram_bytes: u64,
    /// Wave slots.
    pub waves: u32,
    /// Whether it has workgroups that wait for room.
    #[serde(default)]
    pub waiting: bool,
    /// How long its copies took.
    pub sdma_us: u64,
}

/// Execution tokens: an executor needs one to execute waves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenStatus {
    /// How many there are.
    pub total: u32,
    /// How many are held.
    pub held: u32,
}

/// One named point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointStatus {
    /// How often it was passed.
    pub passed: u64,
    /// How often a process was killed there.
    pub hits: u64,
}
