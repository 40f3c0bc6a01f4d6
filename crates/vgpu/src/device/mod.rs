//! The hardware behind the doorbells: command processor, copy engine, dispatcher, compute units.
//!
//! A [`ProcessDevice`] is the part of it that serves one process on one gpu. It knows no processes, sockets or shared
//! memory: its owner creates queues and sets the address space, calls [`ProcessDevice::advance`] to process packets,
//! and runs what [`ProcessDevice::take`] hands out with a [`Worker`]. Nothing here blocks. A packet that waits stays
//! where it is and is tried again with the next `advance`; a workgroup runs for a quantum and comes back. Everything
//! that is under way stands in records (queue, dispatch, workgroup, wave), so a queue can be stopped between any two
//! instructions of its waves, saved, and continued.

mod aql;
mod atomic;
pub(crate) mod chip;
mod context;
mod cu;
mod cu_mask;
mod dispatch;
mod errors;
mod gws;
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
mod read_index;
mod reserve;
mod save;
mod sdma;
mod signal;
mod slots;
mod stream;
mod transfer;
mod trap;
mod worker;
mod workgroup;

#[cfg(test)]
mod tests;

use kfd_abi::exception::ExceptionCode;
use vgpu_isa::inst::Target;
use vgpu_isa::memory::Fault;

use crate::driver::profile::ReadIndexKind;

pub use cu_mask::{CuMask, MOST_CUS};
pub(crate) use errors::is_of_packet;
pub use gws::GwsWait;
pub use kernel_launch::KernelLaunch;
pub use process_device::{DeviceActivity, ProcessDevice};
pub(crate) use queue::HardwareQueueUpdate;
pub use queue::{Doorbell, HardwareQueueSpec, PacketFormat, QueueId};
pub use save::{SaveArea, SaveCounters, SaveError};
pub use slots::{CuPlacement, Geometry, LocalSlots, Need, PriorityClass, SlotRequest, Slots};
pub use trap::TrapHandler;
pub use worker::Worker;
pub use workgroup::{WaveProgress, Workgroup, WorkgroupOutcome, WorkgroupRun, WorkgroupWave};

/// Notifications of the device to the driver. Called with the device's lock held: implementations post and return.
pub trait Interrupts: Send + Sync {
    /// Reports an event that was signalled by its number.
    fn event(&self, event: u32);

    /// Reports an interrupt without an event number after a write of `value` to `address`. If that is the slot of an
    /// event, it signals that event.
    fn mailbox(&self, address: u64, value: u64);

    /// Reports an interrupt that a wave requested. The payload has the low bits of an event's number, at least eight;
    /// the slots show which event it is.
    fn message(&self, payload: u32) {
        self.event(payload);
    }

    /// Reports an interrupt that a trap handler requested. The payload names a queue by its doorbell, and exceptions.
    fn trap_message(&self, payload: u32);

    /// Reports that a wave of a queue has entered its trap handler because it cannot go on.
    fn wave_stopped(&self, queue: QueueId, text: &str);

    /// Reports a failed access of a queue. Without a debugger all queues of the process have stopped.
    fn fault(&self, queue: QueueId, fault: Fault);

    /// Reports that a queue met something it cannot execute and has stopped.
    fn queue_error(&self, queue: QueueId, code: ExceptionCode, text: &str);
}

/// Constant properties of a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceConfig {
    /// Instruction set.
    pub target: Target,
    /// Fixed 100 MHz counter that timestamps show.
    pub clock: fn() -> u64,
    /// When the read index of an AQL queue passes a packet.
    pub read_index: ReadIndexKind,
}
