//! Interrupts of the device about a process: messages of its trap handlers, errors of its queues, and memory accesses
//! that failed.
//!
//! As in Linux 6.12 (`kfd_set_dbg_ev_from_interrupt`): a debugger that subscribed to the exception is notified, and the
//! program learns nothing until the debugger passes it on. Otherwise an error of a queue reaches the runtime, if it is
//! enabled, through the header of the queue's save area; a failed memory access evicts the process from the gpu and
//! signals its memory events.

use kfd_abi::event::{MemoryErrorType, MemoryException, MemoryFailure};
use kfd_abi::exception::{ExceptionCode, ExceptionMask};
use serde::{Deserialize, Serialize};

use super::debug::Source;
use super::{DeviceEffect, Driver, FollowUp, ProcessKey};

/// A memory access of a gpu that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmFault {
    /// Address of the page.
    pub va: u64,
    /// Whether no memory is mapped there.
    pub not_present: bool,
    /// Whether it was a write to memory that is only readable.
    pub read_only: bool,
    /// Whether it was an instruction fetch from memory that is not executable.
    pub no_execute: bool,
}

impl VmFault {
    /// Returns the record that the events of the driver's interface carry.
    #[must_use]
    pub fn record(self, gpu_id: u32) -> MemoryException {
        let failure = MemoryFailure {
            not_present: self.not_present.into(),
            read_only: self.read_only.into(),
            no_execute: self.no_execute.into(),
            imprecise: 0,
        };
        MemoryException { failure, va: self.va, gpu_id, error_type: MemoryErrorType::NO_RAS }
    }
}

/// An interrupt of the device about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Interrupt {
    /// A queue has stopped because of an error in a packet or a wave.
    QueueError {
        /// Id of the queue.
        queue: u32,
        /// Number of the exception.
        exception: u32,
    },
    /// A trap handler asked for an interrupt.
    TrapMessage {
        /// Index of the gpu.
        gpu: u32,
        /// What it sent with it.
        payload: u32,
    },
    /// A memory access failed, and all queues of the process on the gpu have stopped.
    VmFault {
        /// Index of the gpu.
        gpu: u32,
        /// The access.
        fault: VmFault,
    },
}

impl Driver {
    /// Handles an interrupt about a process. Returns what is to be executed; nothing for a process or queue that is
    /// gone.
    pub fn interrupt(&mut self, key: ProcessKey, interrupt: Interrupt, monotonic_ns: u64) -> Vec<DeviceEffect> {
        match interrupt {
            Interrupt::QueueError { queue, exception } => self.queue_error(key, queue, ExceptionCode(exception)),
            Interrupt::TrapMessage { gpu, payload } => self.trap_message(key, gpu, payload),
            Interrupt::VmFault { gpu, fault } => self.vm_fault(key, gpu, fault, monotonic_ns),
        }
    }

    fn queue_error(&mut self, key: ProcessKey, queue: u32, exception: ExceptionCode) -> Vec<DeviceEffect> {
        let mut effects = Vec::new();
        let exceptions = exception.mask();
        let Ok(process) = self.process_mut(key) else { return effects };
        if exceptions.both(ExceptionMask::QUEUE).is_empty() || !process.queues.contains_key(&queue) {
            return effects;
        }
        let to_debugger = process.raise(key, Source::Queue(queue), exceptions, &mut effects);
        if !to_debugger && process.runtime.is_enabled() {
            effects.push(FollowUp::QueueException { process: key, queue, exceptions }.into());
        }
        effects
    }

    /// The payload names a queue by its doorbell, and exceptions. One that is of no use to debugger or runtime is the
    /// number of an event (`event_interrupt_wq_v9`).
    fn trap_message(&mut self, key: ProcessKey, gpu: u32, payload: u32) -> Vec<DeviceEffect> {
        /// Bits that the interrupt carries.
        const DATA: u32 = 0xFF_FFFF;
        const DOORBELL: u32 = 0x3FF;
        const EXCEPTIONS: u32 = 0x1FF;
        let mut effects = Vec::new();
        let Ok(process) = self.process_mut(key) else { return effects };
        let data = payload & DATA;
        let exceptions = ExceptionMask(u64::from(data >> DOORBELL.count_ones() & EXCEPTIONS));
        let mut queues = process.queues.iter();
        let queue = queues.find(|(_, queue)| queue.spec.gpu == gpu && queue.spec.doorbell == data & DOORBELL);
        let queue = queue.map(|(id, _)| *id);
        if queue.is_some_and(|queue| process.raise(key, Source::Queue(queue), exceptions, &mut effects)) {
            return effects;
        }
        match queue.filter(|_| !exceptions.is_empty() && process.runtime.is_enabled()) {
            Some(queue) => effects.push(FollowUp::QueueException { process: key, queue, exceptions }.into()),
            None => effects.push(FollowUp::EventInterrupt { process: key, event: data }.into()),
        }
        effects
    }

    fn vm_fault(&mut self, key: ProcessKey, gpu: u32, fault: VmFault, monotonic_ns: u64) -> Vec<DeviceEffect> {
        let mut effects = Vec::new();
        let index = gpu as usize;
        let Ok(process) = self.process_mut(key) else { return effects };
        let debugged = process.debug.enabled;
        let Ok(on_gpu) = process.on(index) else { return effects };
        if debugged {
            // The first one is kept until the debugger clears it.
            on_gpu.fault.get_or_insert(fault);
        }
        let violation = ExceptionMask::DEVICE_MEMORY_VIOLATION;
        if process.raise(key, Source::Gpu(index), violation, &mut effects) {
            return effects;
        }
        effects.extend(self.evict(key, gpu, monotonic_ns));
        effects.push(FollowUp::MemoryException { process: key, gpu, fault }.into());
        effects
    }
}
