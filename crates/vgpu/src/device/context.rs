//! The environment of packet processing.

use vgpu_isa::inst::Target;
use vgpu_isa::memory::{Fault, Port, Space};

use super::slots::Slots;
use super::{DeviceConfig, Interrupts};

/// Memory, interrupts and clock of a queue while its packets are processed.
pub(crate) struct Context<'a> {
    /// Memory of the process, as mapped now.
    pub(crate) memory: Port<'a>,
    pub(crate) interrupts: &'a dyn Interrupts,
    pub(crate) slots: &'a dyn Slots,
    pub(crate) clock: fn() -> u64,
    pub(crate) target: Target,
    /// Counts invalidations of decoded code.
    pub(crate) generation: &'a mut u64,
}

impl<'a> Context<'a> {
    /// Makes the environment of a device's packets, with its memory as mapped now.
    pub(crate) fn new(
        config: &DeviceConfig,
        interrupts: &'a dyn Interrupts,
        slots: &'a dyn Slots,
        space: &'a Space,
        generation: &'a mut u64,
    ) -> Self {
        let DeviceConfig { target, clock, .. } = *config;
        Self { memory: Port::new(space), interrupts, slots, clock, target, generation }
    }

    /// Invalidates decoded code: memory may hold other code now.
    pub(crate) fn invalidate_code(&mut self) {
        *self.generation += 1;
    }

    /// Reads 32 or, if `wide`, 64 bits.
    pub(crate) fn load(&mut self, address: u64, wide: bool) -> Result<u64, Fault> {
        if wide { self.memory.read_u64(address) } else { self.memory.read_u32(address).map(u64::from) }
    }

    /// Writes the low 32 or, if `wide`, all 64 bits.
    pub(crate) fn store(&mut self, address: u64, value: u64, wide: bool) -> Result<(), Fault> {
        if wide { self.memory.write_u64(address, value) } else { self.memory.write_u32(address, value as u32) }
    }
}

/// Result of processing the next packet of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The packet, or a part of it, was processed.
    Done,
    /// The packet waits for memory or for work under way.
    Wait,
    /// There is no packet.
    Empty,
}

/// Joins the halves of an address.
pub(crate) fn address(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Evaluates a comparison of WAIT_REG_MEM or POLL_REGMEM by its number, after masking.
pub(crate) fn compares(function: u32, value: u64, reference: u64) -> bool {
    match function & 7 {
        1 => value < reference,
        2 => value <= reference,
        3 => value == reference,
        4 => value != reference,
        5 => value >= reference,
        6 => value > reference,
        _ => true,
    }
}
