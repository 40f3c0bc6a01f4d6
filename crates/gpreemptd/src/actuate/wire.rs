//! Messages between daemon and actuator: one JSON document per line.

use gpreempt_kernel_abi::{GpuRecord, JobRecord, ModuleEvent, TenantRecord};
use gpreempt_proto::ActuatorKind;
use kfd::{GpuId, QueueType};
use serde::{Deserialize, Serialize};

use super::abi_text::AbiText;
use super::policy::PolicyChange;

/// A command of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActuatorCommand {
    /// Begin a session. Answered by [`ActuatorEvent::Attached`] or [`ActuatorEvent::Refused`].
    Attach {
        /// The process.
        pid: u32,
        /// When it started: another process may have the number meanwhile.
        started: u64,
    },
    /// End a session; everything of it runs. Not answered.
    Detach {
        /// The process.
        pid: u32,
    },
    /// Stop and resume queues: the changes of one plan, which the combined actuator makes with one call. Each is
    /// answered by [`ActuatorEvent::Done`] or [`ActuatorEvent::Refused`] with its ticket.
    Switch {
        /// What to change.
        changes: Vec<QueueChange>,
        /// Of those that are stopped, in 1,000 clocks; absent: as the hardware is set.
        grace: Option<u8>,
    },
    /// Change the policy of the scheduler in the kernel. Answered by [`ActuatorEvent::PolicyApplied`].
    Policy {
        /// Repeated in the answer.
        batch: u64,
        /// What to change, in this order.
        changes: Vec<PolicyChange>,
        /// The policy is whole now: what else the kernel has is from an earlier daemon, and is removed.
        complete: bool,
    },
    /// Describe what the scheduler in the kernel has. Answered by [`ActuatorEvent::KernelStatus`].
    Query,
    /// Have the scheduler in the kernel forget the policy and resume everything. Not answered.
    Clear,
}

/// Queues of one process on one gpu that are stopped or resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueChange {
    /// Repeated in the answer: the number of the entry that the change carries out, or zero.
    pub ticket: u64,
    /// The process.
    pub pid: u32,
    /// The gpu.
    #[serde(with = "GpuNumber")]
    pub gpu: GpuId,
    /// The queues.
    pub queues: Vec<u32>,
    /// Whether they are stopped; else they are resumed.
    pub preempt: bool,
}

/// A report of the actuator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActuatorEvent {
    /// It is ready.
    Started {
        /// Its process.
        actuator: u32,
        /// Which one serves.
        kind: ActuatorKind,
    },
    /// A session began; or, with the combined actuator, which has none, the process can be stopped.
    Attached {
        /// The process.
        pid: u32,
        /// Whether its runtime offers itself: only then can its queues be stopped.
        runtime: bool,
        /// Its queues.
        queues: Vec<TracedQueue>,
    },
    /// A queue was created or destroyed, or the runtime started or ended.
    Changed {
        /// The process.
        pid: u32,
        /// Whether its runtime offers itself.
        runtime: bool,
        /// All its queues now.
        queues: Vec<TracedQueue>,
    },
    /// A command was executed. Queues that are in neither list no longer exist.
    Done {
        /// Of the order.
        ticket: u64,
        /// The process.
        pid: u32,
        /// Queues that are now as asked.
        queues: Vec<u32>,
        /// Queues for which the gpu failed; the driver counts them as changed.
        failed: Vec<u32>,
        /// Runlist cycles that it took. Of changes made together on one gpu, one has them.
        cycles: u32,
        /// When the driver was called, in monotonic nanoseconds.
        called_ns: u64,
        /// When it answered, in monotonic nanoseconds.
        answered_ns: u64,
    },
    /// A command was not executed.
    Refused(CommandRefusal),
    /// A process ended, or is no longer traced. Its session is over.
    Ended {
        /// The process.
        pid: u32,
    },
    /// The scheduler in the kernel did, or saw, something.
    Kernel {
        /// In their order.
        events: Vec<AbiText<ModuleEvent>>,
    },
    /// The changes of a batch were made, but for these.
    PolicyApplied {
        /// Of the command.
        batch: u64,
        /// What was refused.
        failed: Vec<PolicyFailure>,
    },
    /// What the scheduler in the kernel has.
    KernelStatus(Box<KernelStatus>),
    /// Made by the daemon's end of the link: the actuator is gone and all queues run.
    Lost {
        /// In words.
        why: String,
        /// Whether the guardian ended it.
        killed: bool,
    },
}

/// A change of the policy that the scheduler in the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyFailure {
    /// The change.
    pub change: PolicyChange,
    /// Whether what it concerns is not there any more.
    pub gone: bool,
    /// The kernel's answer with the remedy.
    pub message: String,
}

/// What the scheduler in the kernel has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelStatus {
    /// Gpus with their statistics.
    pub gpus: Vec<AbiText<GpuRecord>>,
    /// Jobs.
    pub jobs: Vec<AbiText<JobRecord>>,
    /// Processes with queues, by gpu.
    pub tenants: Vec<AbiText<TenantRecord>>,
}

/// Why a command was not executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRefusal {
    /// Of the order; absent for [`ActuatorCommand::Attach`].
    pub ticket: Option<u64>,
    /// The process.
    pub pid: u32,
    /// The kind of the refusal.
    pub kind: CommandRefusalKind,
    /// The driver's answer with the remedy.
    pub message: String,
    /// When it was refused: monotonic nanoseconds.
    pub at_ns: u64,
}

/// Kinds of refusals, by what the daemon does about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandRefusalKind {
    /// The process is gone.
    Gone,
    /// Its runtime is not enabled (any more).
    Runtime,
    /// Another debugger has it.
    Debugger,
    /// The daemon's user may not do that.
    Permission,
    /// The driver has no time for the process now.
    Busy,
    /// The gpu is being reset.
    Reset,
    /// Anything else.
    Other,
}

/// A queue as the driver describes it to its tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedQueue {
    /// Its number.
    pub queue: u32,
    /// Its gpu.
    #[serde(with = "GpuNumber")]
    pub gpu: GpuId,
    /// Its kind.
    #[serde(with = "QueueTypeNumber")]
    pub kind: QueueType,
    /// Address of the ring.
    pub ring: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Address of the read index.
    pub rptr: u64,
    /// Address of the write index.
    pub wptr: u64,
}

/// A [`GpuId`] as its number.
#[derive(Serialize, Deserialize)]
#[serde(remote = "GpuId")]
struct GpuNumber(u32);

/// A [`QueueType`] as its number.
#[derive(Serialize, Deserialize)]
#[serde(remote = "QueueType")]
struct QueueTypeNumber(u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_a_flat_document_of_numbers() {
        let kind = QueueType::COMPUTE_AQL;
        let queue = TracedQueue { queue: 3, gpu: GpuId(51234), kind, ring: 4096, bytes: 1024, rptr: 8, wptr: 16 };
        let text = r#"{"queue":3,"gpu":51234,"kind":2,"ring":4096,"bytes":1024,"rptr":8,"wptr":16}"#;
        assert_eq!(serde_json::to_string(&queue).unwrap(), text);
        assert_eq!(serde_json::from_str::<TracedQueue>(text).unwrap(), queue);
    }
}
