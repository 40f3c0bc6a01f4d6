//! Orders of the driver to the executors of a process, and their answers.

use serde::{Deserialize, Serialize};

use crate::driver::{QueueChange, SaveExtent, UnmappedQueue, VmFault, WaveControl};

/// An order to the executors of a process.
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
        /// Ids of the queues.
        queues: Vec<u32>,
        /// What a debugger wants of their waves.
        waves: WaveControl,
        /// Not before this time of the monotonic clock, in nanoseconds.
        not_before: u64,
    },
    /// Header and control stack of a queue off the gpu are to be in its save area.
    WaveState {
        /// Id of the queue.
        id: u32,
        /// Where else they are to be.
        address: Option<u64>,
    },
    /// Exceptions of a queue are reported to the runtime as the header of its save area says.
    QueueException {
        /// Id of the queue.
        id: u32,
        /// Exceptions to add, a mask.
        exceptions: u64,
    },
    /// An interrupt of the gpu signals an event.
    EventInterrupt {
        /// Number of the event; 0 if the slots tell which one it is.
        event: u32,
    },
    /// A memory violation of the gpu is reported to the runtime.
    MemoryException {
        /// Index of the gpu.
        gpu: u32,
        /// The access that failed.
        fault: VmFault,
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
    /// Number of the order, unique within the process; [`Numbered::UNANSWERED`] for those without an answer.
    pub(crate) number: u64,
    /// The order or the answer.
    pub(crate) what: T,
}

impl Numbered<Order> {
    /// The number of orders that are not answered.
    pub(crate) const UNANSWERED: u64 = 0;
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The order is carried out.
    Done,
    /// The order cannot be carried out: an error number.
    Failed(i32),
    /// No queue of this process is on the gpu any more.
    Unmapped(Departure),
    /// How much of a queue's save area is in use.
    WaveState(SaveExtent),
}

/// The queues of a process that were taken off a gpu.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Departure {
    /// All queues of the process on the gpu.
    pub(crate) queues: Vec<UnmappedQueue>,
    /// When the last wave had stopped, on the monotonic clock in nanoseconds.
    pub(crate) stopped_at: u64,
    /// When the last wave was saved.
    pub(crate) saved_at: u64,
}
