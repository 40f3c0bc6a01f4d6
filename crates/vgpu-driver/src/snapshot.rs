//! Snapshot of the driver's books: gpus, processes and queues at one moment.

use kfd_abi::debug::RuntimeState;
use serde::{Deserialize, Serialize};

use super::process::Process;
use super::queues::Queue;
use super::{Driver, ProcessKey, QueueKind};

/// The driver's books at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverSnapshot {
    /// Gpus, in the order of the profile.
    pub gpus: Vec<GpuSnapshot>,
    /// Processes that have the driver open, without the contexts that they made beside their first.
    pub processes: Vec<ProcessSnapshot>,
    /// Bytes of system memory in use by the gpus.
    pub system_used_bytes: u64,
}

/// A gpu at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuSnapshot {
    /// The id by which calls name it.
    pub gpu_id: u32,
    /// Bytes of video memory in use.
    pub vram_used_bytes: u64,
    /// Queues of all processes.
    pub queues: u32,
}

/// A process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSnapshot {
    /// The process.
    pub key: ProcessKey,
    /// Number of its address space.
    pub pasid: u32,
    /// Whether its runtime has offered itself to a debugger.
    pub runtime_enabled: bool,
    /// Pid of the process that debugs it through the driver.
    pub debugger: Option<u32>,
    /// Bytes of video memory on each gpu.
    pub vram_bytes: Vec<u64>,
    /// Its queues.
    pub queues: Vec<QueueSnapshot>,
}

/// A queue at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSnapshot {
    /// Its id within the process.
    pub id: u32,
    /// Index of its gpu.
    pub gpu: u32,
    /// Packet format.
    pub kind: QueueKindStatus,
    /// Whether it may run.
    pub state: QueueState,
    /// Hardware priority, 0 to 15.
    pub priority: u32,
}

/// Packet format of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueKindStatus {
    /// Compute, AQL packets.
    Aql,
    /// Compute, PM4 packets.
    Pm4,
    /// Copies.
    Sdma,
}

/// Whether a queue may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// It is in the runlist.
    Mapped,
    /// A debugger stopped it.
    Suspended,
    /// The driver took it off, because of its process's memory or of a reset.
    Evicted,
    /// Its owner turned it off, or has not given it a ring.
    Off,
}

impl QueueState {
    /// Returns the name that tables and JSON use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            QueueState::Mapped => "mapped",
            QueueState::Suspended => "suspended",
            QueueState::Evicted => "evicted",
            QueueState::Off => "off",
        }
    }
}

impl Driver {
    /// Returns the driver's books.
    #[must_use]
    pub fn snapshot(&self) -> DriverSnapshot {
        let gpu = |state: &super::GpuState| GpuSnapshot {
            gpu_id: state.gpu.gpu_id,
            vram_used_bytes: state.vram_used,
            queues: state.queues,
        };
        let first = self.processes.iter().filter(|(key, _)| !key.is_secondary());
        DriverSnapshot {
            gpus: self.gpus.iter().map(gpu).collect(),
            processes: first.map(|(key, process)| process_snapshot(*key, process)).collect(),
            system_used_bytes: self.system_used,
        }
    }
}

fn process_snapshot(key: ProcessKey, process: &Process) -> ProcessSnapshot {
    ProcessSnapshot {
        key,
        pasid: process.pasid,
        runtime_enabled: process.runtime.state == RuntimeState::ENABLED,
        debugger: process.debug.debugger.map(|key| key.pid),
        vram_bytes: process.gpus.iter().map(|gpu| gpu.vram_usage).collect(),
        queues: process.queues.values().map(|queue| queue_snapshot(process, queue)).collect(),
    }
}

fn queue_snapshot(process: &Process, queue: &Queue) -> QueueSnapshot {
    let kind = match queue.spec.kind {
        QueueKind::Aql => QueueKindStatus::Aql,
        QueueKind::Pm4 => QueueKindStatus::Pm4,
        QueueKind::Sdma { .. } => QueueKindStatus::Sdma,
    };
    let evicted = process.gpus.get(queue.spec.gpu as usize).is_some_and(|gpu| gpu.evicted > 0);
    let state = match queue.spec.settings.active {
        false => QueueState::Off,
        true if queue.suspended => QueueState::Suspended,
        true if evicted => QueueState::Evicted,
        true => QueueState::Mapped,
    };
    QueueSnapshot { id: queue.spec.id, gpu: queue.spec.gpu, kind, state, priority: queue.spec.settings.priority }
}
