//! What the driver tells the engines of a process, and what they answer.

use serde::{Deserialize, Serialize};

use crate::driver::{QueueSettings, QueueSpec};

/// Something an engine has to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// A queue exists from now on, off the device.
    CreateQueue(QueueSpec),
    /// A queue, which is off the device, has new settings.
    UpdateQueue {
        /// The queue.
        id: u32,
        /// All settings.
        settings: QueueSettings,
    },
    /// A queue is gone, with everything it had under way.
    DestroyQueue {
        /// The queue.
        id: u32,
    },
    /// A queue may use these compute units only.
    CuMask {
        /// The queue.
        id: u32,
        /// Bit by compute unit.
        mask: Vec<u32>,
    },
    /// All queues leave the gpu, and their waves are saved. Answered when that is done.
    Unmap {
        /// Index of the gpu.
        gpu: u32,
        /// Nanoseconds that waves have to end by themselves; without it they have for ever.
        grace: Option<u64>,
    },
    /// These queues come back to the gpu.
    Map {
        /// Index of the gpu.
        gpu: u32,
        /// The queues.
        queues: Vec<u32>,
        /// Not before this time of the monotonic clock, in nanoseconds.
        not_before: u64,
    },
    /// Header and control stack of a queue off the gpu are to be in its save area.
    WaveState {
        /// The queue.
        id: u32,
        /// Where else they are to be.
        address: Option<u64>,
    },
    /// The runtime is told of exceptions of a queue, the way the header of its save area says.
    QueueException {
        /// The queue.
        id: u32,
        /// Mask.
        exceptions: u64,
    },
    /// The runtime is told that the gpu met memory it does not see.
    MemoryException {
        /// Index of the gpu.
        gpu: u32,
    },
    /// An event of the process is signalled.
    SetEvent {
        /// The event.
        id: u32,
    },
    /// The gpu was reset and what was on it is lost.
    Reset {
        /// Index of the gpu.
        gpu: u32,
    },
}

/// An order with the number by which its answer is known.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Numbered<T> {
    /// Number.
    pub(crate) number: u64,
    /// What.
    pub(crate) what: T,
}

impl Numbered<Order> {
    /// The number of orders that nobody wants an answer to.
    pub(crate) const UNANSWERED: u64 = 0;
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// It cannot be done: an error number.
    Failed(i32),
    /// The gpu is free of this process.
    Unmapped(Departure),
    /// What is in a queue's save area.
    WaveState(Saved),
}

/// What was taken off a gpu.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Departure {
    /// Queue by queue.
    pub(crate) queues: Vec<DepartedQueue>,
    /// When the last wave had stopped, on the monotonic clock in nanoseconds.
    pub(crate) stopped_at: u64,
    /// When the last wave was saved.
    pub(crate) saved_at: u64,
}

/// A queue that was taken off a gpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DepartedQueue {
    /// Its number.
    pub(crate) id: u32,
    /// Read pointer.
    pub(crate) rptr: Option<u64>,
    /// Write pointer.
    pub(crate) wptr: Option<u64>,
    /// What is in its save area.
    pub(crate) saved: Saved,
    /// Whether that was saved just now.
    pub(crate) written: bool,
    /// Whether it has nothing to do until its doorbell rings.
    pub(crate) idle: bool,
}

/// What is in a save area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// Waves.
    pub(crate) waves: u32,
    /// Bytes of all XCCs.
    pub(crate) bytes: u64,
    /// Bytes of the first XCC's control stack.
    pub(crate) control_stack: u32,
    /// Bytes of the first XCC's waves.
    pub(crate) wave_state: u32,
}

impl From<crate::device::Extent> for Saved {
    fn from(extent: crate::device::Extent) -> Self {
        let crate::device::Extent { waves, bytes, control_stack, wave_state, .. } = extent;
        Self { waves, bytes, control_stack, wave_state }
    }
}
