//! What can go wrong between a program and its gpu, in words for whoever runs it.

use std::io;
use std::time::Duration;

use crate::code_object::CodeObjectError;
use crate::memory::GpuAddr;

/// A failure of the runtime.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver or its topology cannot be used.
    #[error(transparent)]
    Driver(#[from] kfd::Error),

    /// The topology names no gpu that may be used.
    #[error("there is no gpu: the topology lists none this user may open; `ls -l /dev/dri` shows the render nodes")]
    NoGpu,

    /// The gpu asked for is not there.
    #[error("there is no gpu {index}: this machine has {count}, counted from 0")]
    UnknownGpu {
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },

    /// The driver refused a call.
    #[error("{operation} failed: {source}; {advice}")]
    Call {
        /// Which call, for what.
        operation: &'static str,
        /// The driver's answer.
        source: io::Error,
        /// What to do about it.
        advice: &'static str,
    },

    /// An access to a buffer that reaches beyond it.
    #[error("bytes {offset}..{} lie outside a buffer of {size} bytes", offset.saturating_add(*length))]
    OutOfBounds {
        /// First byte.
        offset: usize,
        /// How many.
        length: usize,
        /// What there is.
        size: usize,
    },

    /// The file is not a program for this gpu.
    #[error(transparent)]
    CodeObject(#[from] CodeObjectError),

    /// The gpu touched memory it must not.
    #[error("the gpu faulted at {address}: {reason}")]
    MemoryFault {
        /// Where.
        address: GpuAddr,
        /// What was wrong with it.
        reason: &'static str,
    },

    /// The gpu was reset.
    #[error("gpu {gpu_id} was reset; what ran on it is lost, start again")]
    Reset {
        /// Its id in the topology.
        gpu_id: u32,
    },

    /// The queue stopped by itself.
    #[error("the queue stopped with error {code:#x}: the gpu refused a packet or an instruction")]
    Queue {
        /// Bits as the packet processor or the driver reported them.
        code: u64,
    },

    /// Nothing came back in time.
    #[error("no answer from the gpu within {} s; the kernel may still run, or the gpu hangs", limit.as_secs_f64())]
    Timeout {
        /// How long was waited.
        limit: Duration,
    },

    /// More was submitted at once than the ring holds.
    #[error("the ring of {size} entries is full and does not empty")]
    RingFull {
        /// Its entries.
        size: u64,
    },

    /// A kernel needs more than there is.
    #[error("the kernel asks for {asked} bytes of {what}, the gpu has {limit}")]
    TooLarge {
        /// Scratch or local memory.
        what: &'static str,
        /// How much it wants.
        asked: u64,
        /// How much there is.
        limit: u64,
    },
}

/// Result of the runtime's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
