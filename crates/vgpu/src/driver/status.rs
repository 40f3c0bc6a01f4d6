//! The driver's books, for whoever wants to look at all of them at once.

use kfd_abi::debug::RuntimeState;

use super::process::Process;
use super::queues::Queue;
use super::{Driver, ProcessKey, QueueKind};
use crate::protocol::{GpuStatus, ProcessGpuStatus, ProcessStatus, QueueKindStatus, QueueState, QueueStatus, Status};

impl Driver {
    /// What the driver knows of processes, queues and memory. The rest is left at nothing, for those who know it.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            profile: self.profile.name.clone(),
            cus: self.profile.cus,
            gpus: self.gpus_status(),
            processes: self.processes.iter().map(|(key, process)| process_status(*key, process)).collect(),
            system_used_bytes: self.system_used,
            ..Status::default()
        }
    }

    fn gpus_status(&self) -> Vec<GpuStatus> {
        let gpu = |state: &super::GpuState| GpuStatus {
            gpu_id: state.gpu.gpu_id,
            vram_used_bytes: state.vram_used,
            vram_bytes: self.profile.vram_bytes(),
            queues: state.queues,
            wave_slots: self.profile.simd_count() * self.profile.waves_per_simd,
            ..GpuStatus::default()
        };
        self.gpus.iter().map(gpu).collect()
    }
}

fn process_status(key: ProcessKey, process: &Process) -> ProcessStatus {
    let on_gpu = |gpu: &super::process::ProcessGpu| ProcessGpuStatus {
        vram_bytes: gpu.vram_usage,
        ..ProcessGpuStatus::default()
    };
    ProcessStatus {
        pid: key.pid,
        pasid: process.pasid,
        runtime_enabled: process.runtime.state == RuntimeState::ENABLED,
        debugger: process.debug.debugger.map(|key| key.pid),
        gpus: process.gpus.iter().map(on_gpu).collect(),
        queues: process.queues.values().map(|queue| queue_status(process, queue)).collect(),
        ..ProcessStatus::default()
    }
}

fn queue_status(process: &Process, queue: &Queue) -> QueueStatus {
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
    QueueStatus { id: queue.spec.id, gpu: queue.spec.gpu, kind, state, priority: queue.spec.settings.priority }
}
