//! The hardware behind the doorbells: command processor, copy engine, dispatcher, compute units.
//!
//! An [`ProcessDevice`] is all of it as far as one process on one gpu is concerned. It knows no processes, sockets or shared
//! memory: whoever owns it tells it of queues and of the address space, calls [`ProcessDevice::advance`] so that packets are
//! processed, and runs what [`ProcessDevice::take`] hands out with a [`Worker`]. Nothing here blocks. A packet that waits
//! stays where it is and is looked at again with the next `advance`; a workgroup runs for a quantum and comes back.
//! Everything that is under way stands in records (queue, dispatch, workgroup, wave), so a queue can be stopped between
//! any two instructions of its waves, saved, and continued.

mod aql;
mod atomic;
pub mod chip;
mod context;
mod cu;
mod cu_mask;
mod dispatch;
mod errors;
mod hand_out;
mod kernel;
mod kernel_launch;
mod mapping;
mod pm4;
mod pm4_dispatch;
mod pm4_memory;
mod pool;
mod process_device;
mod queue;
mod reserve;
mod save;
mod sdma;
mod signal;
mod slots;
mod stream;
mod transfer;
mod worker;
mod workgroup;

#[cfg(test)]
mod tests;

use kfd_abi::exception::ExceptionCode;
use vgpu_isa::inst::Target;
use vgpu_isa::memory::Fault;

pub use cu_mask::{CuMask, MOST_CUS};
pub use kernel_launch::KernelLaunch;
pub use process_device::{DeviceActivity, ProcessDevice};
pub use queue::{Doorbell, HardwareQueueSpec, HardwareQueueUpdate, PacketFormat, QueueId};
pub use save::{SaveArea, SaveCounters, SaveError};
pub use slots::{CuPlacement, Geometry, LocalSlots, Need, PriorityClass, SlotRequest, Slots};
pub use worker::Worker;
pub use workgroup::{WaveProgress, Workgroup, WorkgroupOutcome, WorkgroupRun, WorkgroupWave};

/// What the device tells the driver. Called with the engine's lock held: implementations post and return.
pub trait Interrupts: Send + Sync {
    /// An event was signalled by its number.
    fn event(&self, event: u32);

    /// An interrupt without a number followed a write of `value` to `address`. If that is the slot of an event, it is
    /// that event.
    fn mailbox(&self, address: u64, value: u64);

    /// A wave asked for an interrupt. The payload has the low bits of an event's number, at least eight; which event it
    /// is shows in the slots.
    fn message(&self, payload: u32) {
        self.event(payload);
    }

    /// A queue's access failed. All queues of the process have stopped.
    fn fault(&self, queue: QueueId, fault: Fault);

    /// A queue met something it cannot execute and has stopped.
    fn queue_error(&self, queue: QueueId, code: ExceptionCode, text: &str);
}

/// What an engine is made of.
#[derive(Clone, Copy, Debug)]
pub struct DeviceConfig {
    /// Instruction set.
    pub target: Target,
    /// Fixed 100 MHz counter that timestamps show.
    pub clock: fn() -> u64,
}
