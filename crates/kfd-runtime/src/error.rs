//! Errors of the runtime. Each message names the cause and, where there is one, a remedy.

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
        /// The index asked for.
        index: usize,
        /// Gpus of this machine.
        count: usize,
    },

    /// The driver refused a call.
    #[error("{operation} failed: {source}; {advice}")]
    Call {
        /// Name of the command or mapping.
        operation: &'static str,
        /// The driver's answer.
        source: io::Error,
        /// Remedy.
        advice: &'static str,
    },

    /// An access to a buffer that reaches beyond it.
    #[error("bytes {offset}..{} lie outside a buffer of {size} bytes", offset.saturating_add(*length))]
    OutOfBounds {
        /// First byte.
        offset: usize,
        /// Bytes of the access.
        length: usize,
        /// Bytes of the buffer.
        size: usize,
    },

    /// The file is not a program for this gpu.
    #[error(transparent)]
    CodeObject(#[from] CodeObjectError),

    /// The gpu touched memory it must not.
    #[error("the gpu faulted at {address}: {reason}")]
    MemoryFault {
        /// Address of the access.
        address: GpuAddr,
        /// Why the access failed.
        reason: &'static str,
    },

    /// The gpu was reset.
    #[error("gpu {gpu_id} was reset; what ran on it is lost, start again")]
    Reset {
        /// Id of the gpu in the topology.
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
        /// Time waited.
        limit: Duration,
    },

    /// More was submitted at once than the ring holds.
    #[error("the ring of {size} entries is full and does not empty")]
    RingFull {
        /// Entries of the ring.
        size: u64,
    },

    /// A kernel needs more than there is.
    #[error("the kernel asks for {asked} bytes of {what}, the gpu has {limit}")]
    TooLarge {
        /// Scratch or local memory.
        what: &'static str,
        /// Bytes that the kernel needs.
        asked: u64,
        /// Bytes that the gpu has.
        limit: u64,
    },
}

/// Result of the runtime's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
