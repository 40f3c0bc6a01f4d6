//! What the driver tells the engines of a process, and what they answer.

use serde::{Deserialize, Serialize};

use crate::driver::{QueueChange, SaveExtent, UnmappedQueue};

/// Something an engine has to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// A queue, which is off the device, changes.
    Queue(QueueChange),
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
    WaveState(SaveExtent),
}

/// What was taken off a gpu.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Departure {
    /// Queue by queue.
    pub(crate) queues: Vec<UnmappedQueue>,
    /// When the last wave had stopped, on the monotonic clock in nanoseconds.
    pub(crate) stopped_at: u64,
    /// When the last wave was saved.
    pub(crate) saved_at: u64,
}
