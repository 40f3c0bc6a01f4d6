//! Description of a user-mode queue, and the changes to one that executors carry out.

use serde::{Deserialize, Serialize};

/// Kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QueueKind {
    /// Compute, ring of AQL packets.
    Aql,
    /// Compute, ring of PM4 packets.
    Pm4,
    /// Copies, on one SDMA engine.
    Sdma {
        /// Index of the engine; XGMI engines are counted after the ordinary ones.
        engine: u32,
    },
}

/// The settings of a queue that UPDATE_QUEUE may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// Address of the ring.
    pub ring: u64,
    /// Bytes of the ring.
    pub ring_size: u64,
    /// `queue_percentage`: 0 turns the queue off, 1 to 100 turn it on.
    pub percent: u32,
    /// Hardware priority, 0 to 15.
    pub priority: u32,
    /// XCC that executes PM4 packets.
    pub target_xcc: u32,
    /// Whether it runs: it has a ring and its percentage is not 0.
    pub active: bool,
}

/// A queue as CREATE_QUEUE made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Its id, unique within the process.
    pub id: u32,
    /// Packet format.
    pub kind: QueueKind,
    /// Index of its gpu in the profile.
    pub gpu: u32,
    /// What UPDATE_QUEUE may change.
    pub settings: QueueSettings,
    /// Address of the read index.
    pub rptr: u64,
    /// Address of the write index.
    pub wptr: u64,
    /// Position of its doorbell among those of the process on this gpu.
    pub doorbell: u32,
    /// Offset of its doorbell in the kfd file.
    pub doorbell_offset: u64,
    /// End-of-packet buffer, or 0.
    pub eop: u64,
    /// Bytes of the end-of-packet buffer.
    pub eop_size: u64,
    /// Context save area, or 0.
    pub ctx_save: u64,
    /// Bytes of the save area of one XCC, without the debugger's part.
    pub ctx_save_size: u32,
    /// Bytes of the control stack of one XCC.
    pub ctl_stack_size: u32,
}

/// A change of a queue. The executors of the owning process carry it out while the queue is off the gpu.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueChange {
    /// The queue exists from now on, off the gpu.
    Create(QueueSpec),
    /// The queue has new settings.
    Update {
        /// Id of the queue.
        id: u32,
        /// All settings, changed or not.
        settings: QueueSettings,
    },
    /// The queue is gone; its waves are dropped.
    Destroy {
        /// Id of the queue.
        id: u32,
    },
    /// The queue's waves may use these compute units only.
    SetCuMask {
        /// Id of the queue.
        id: u32,
        /// One bit per compute unit: bit i is on XCC i modulo their number.
        mask: Vec<u32>,
    },
    /// The queue's process has so many resources of global wave sync, all of them reset.
    AllocateGws {
        /// Id of the queue.
        id: u32,
        /// Resources; 0 takes them away.
        count: u32,
    },
}
