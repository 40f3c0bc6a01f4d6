//! The registers of the hardware's slots.
//!
//! Addresses of registers, and what they hold in an unused slot, were read from an MI308X.

use std::fmt::Write;

use kfd_abi::mqd;

use super::line;
use crate::hardware::Descriptors;
use crate::mqd::Descriptor;
use crate::profile::Gfx;
use crate::runlist::{Limits, PIPES, QUEUES_PER_PIPE};
use crate::{Driver, HqdPlacement, HqdSlot, Observed};

/// Address of the first register of a compute slot.
const COMPUTE_REGISTERS: u32 = 0xC914;
/// Two XCCs share a die; the dies are this far apart, and the second XCC of each this far from the first.
const DIE: u32 = 0x10_0000;
const SECOND_XCC: u32 = 0xC_0000;
/// Addresses of the first registers of the four copy engines of a die.
const SDMA_REGISTERS: [u32; 4] = [0x4E40, 0x6640, 0xE_54C0, 0xE_64C0];
/// Distance of an engine's slots.
const SDMA_SLOT: u32 = 0x160;
/// Registers of a copy slot: where each stretch begins and how long it is. The last one is shorter on gfx90a.
const SDMA_STRETCHES: [(u32, usize); 4] = [(0, 19), (0xA0, 6), (0xBC, 7), (0x100, 12)];
/// Words of a copy descriptor that are registers.
const SDMA_WORDS: usize = 42;

/// Registers of an unused compute slot: offset in a descriptor, value.
const IDLE_COMPUTE: &[(usize, u32)] = &[
    (mqd::PERSISTENT_STATE, 0x0BE0_5301),
    (mqd::PQ_CONTROL, 0x0030_8509),
    (mqd::IB_CONTROL, 0x0030_0000),
    (mqd::HQ_STATUS0, 0x4000_0000),
    (mqd::MQD_CONTROL, 0x0000_0100),
    (mqd::EOP_CONTROL, 6),
    (mqd::EOP_RPTR, 0x4000_0000),
    (mqd::EOP_WPTR, 0x007F_8000),
];

/// The driver's own queue while it has nothing to do.
const OWN_QUEUE: &[(usize, u32)] = &[
    (mqd::ACTIVE, 1),
    (mqd::PERSISTENT_STATE, 0x5300),
    (mqd::QUEUE_PRIORITY, 1),
    (mqd::QUANTUM, 0x111),
    (mqd::PQ_BASE, 0xFCC0),
    (mqd::PQ_RPTR_REPORT_ADDR, 0xFC_D800),
    (mqd::PQ_WPTR_POLL_ADDR, 0xFC_DA00),
    (mqd::PQ_DOORBELL_CONTROL, 0x6000_3000),
    (mqd::IB_CONTROL, 0x00B0_0000),
    (mqd::HQ_STATUS0, 0x4000_C440),
    (mqd::MQD_CONTROL, 0x100),
    (mqd::EOP_BASE_ADDR, 0xFCC8),
    (mqd::EOP_CONTROL, 9),
    (mqd::EOP_RPTR, 0x4000_0000),
    (mqd::EOP_WPTR, 0x03FF_8000),
];
/// Its ring's control word on the first XCC, which reports for all, and on the others.
const OWN_QUEUE_CONTROL: (u32, u32) = (0xD000_8508, 0xD800_8508);

/// Registers of a copy slot that do not depend on its queue.
const SDMA_SLOT_WORDS: &[(usize, u32)] = &[(0x1C, 0x0040_3000), (0x28, 0x100), (0x44, 4), (0x6C, 0xF), (0x78, 0x4000)];
/// Further registers of an unused copy slot.
const IDLE_SDMA: &[(usize, u32)] = &[(mqd::sdma::RB_CNTL, 0x0004_0000), (mqd::sdma::RB_RPTR_ADDR_LO, 1)];

fn filled(size: usize, words: &[(usize, u32)]) -> Descriptor {
    let mut descriptor = Descriptor::new(size);
    for (offset, value) in words {
        descriptor.set(*offset, *value);
    }
    descriptor
}

impl Driver {
    pub(super) fn hqds(&self, text: &mut String, gpu: u32, observed: &dyn Observed) {
        let limits = Limits::of(&self.profile, gpu);
        let kernel_slots = QUEUES_PER_PIPE - limits.compute_queues.div_ceil(PIPES);
        let first_xcc = if self.profile.partitions { gpu * self.profile.xcc } else { 0 };
        for xcc in 0..self.profile.xcc {
            let inst = first_xcc + xcc;
            line(text, format_args!("   Inst {inst}, HIQ on MEC 2 Pipe 0 Queue 0"));
            compute_registers(text, inst, &self.own_queue(gpu, xcc));
            for pipe in 0..PIPES {
                for queue in kernel_slots..QUEUES_PER_PIPE {
                    line(text, format_args!(" Inst {inst},  CP Pipe {pipe}, Queue {queue}"));
                    let slot = HqdSlot::Compute { pipe, queue };
                    let held = self.held(gpu, slot, xcc, observed);
                    compute_registers(text, inst, &held.unwrap_or_else(|| filled(mqd::SIZE, IDLE_COMPUTE)));
                }
            }
        }
        self.sdma_slots(text, gpu, observed);
    }

    fn own_queue(&self, gpu: u32, xcc: u32) -> Descriptor {
        let mut descriptor = filled(mqd::SIZE, OWN_QUEUE);
        descriptor.set(mqd::MQD_BASE, Descriptors::own_queue(xcc) as u32);
        let control = if xcc == 0 { OWN_QUEUE_CONTROL.0 } else { OWN_QUEUE_CONTROL.1 };
        descriptor.set(mqd::PQ_CONTROL, control);
        let pointer = self.gpus.get(gpu as usize).map_or(0, |state| state.own_queue.pointer());
        descriptor.set(mqd::PQ_RPTR, pointer);
        descriptor.set(mqd::PQ_WPTR, pointer);
        descriptor
    }

    fn sdma_slots(&self, text: &mut String, gpu: u32, observed: &dyn Observed) {
        let engines = self.profile.sdma_engines + self.profile.sdma_xgmi_engines;
        let first = if self.profile.partitions { gpu * engines } else { 0 };
        for engine in 0..engines {
            for queue in 0..self.profile.sdma_queues_per_engine {
                line(text, format_args!("  SDMA Engine {}, RLC {queue}", first + engine));
                let held = self.held(gpu, HqdSlot::Sdma { engine, queue }, 0, observed);
                let mut registers = held.unwrap_or_else(|| filled(mqd::SDMA_SIZE, IDLE_SDMA));
                for (offset, value) in SDMA_SLOT_WORDS {
                    registers.set(*offset, *value);
                }
                self.sdma_registers(text, first + engine, queue, &registers);
            }
        }
    }

    /// The registers of a slot that a queue has.
    fn held(&self, gpu: u32, slot: HqdSlot, xcc: u32, observed: &dyn Observed) -> Option<Descriptor> {
        let holds = |place: HqdPlacement| place.slot == slot;
        let (key, process, queue) =
            self.queues_on(gpu).find(|(_, _, queue)| queue.hardware.place.is_some_and(holds))?;
        Some(self.live_descriptor(key, process, queue, xcc, observed))
    }

    fn sdma_registers(&self, text: &mut String, engine: u32, slot: u32, registers: &Descriptor) {
        let per_die = SDMA_REGISTERS.len() as u32;
        let base = engine / per_die * DIE + SDMA_REGISTERS[(engine % per_die) as usize] + slot * SDMA_SLOT;
        let mut words: Vec<u32> = (0..SDMA_WORDS).map(|word| registers.get(word * 4)).collect();
        let mut stretches = SDMA_STRETCHES;
        if self.profile.gfx == Gfx::Gfx942 {
            // Two registers more than the descriptor has words for, before the last one.
            words.splice(SDMA_WORDS - 1..SDMA_WORDS - 1, [0, 0]);
        } else {
            stretches[3].1 = 10;
        }
        let mut words = words.into_iter();
        for (start, count) in stretches {
            let stretch: Vec<u32> = words.by_ref().take(count).collect();
            rows(text, base + start, &stretch);
        }
    }
}

fn compute_registers(text: &mut String, inst: u32, registers: &Descriptor) {
    let base = COMPUTE_REGISTERS + inst / 2 * DIE + inst % 2 * SECOND_XCC;
    let words: Vec<u32> = (mqd::MQD_BASE..=mqd::PQ_WPTR_HI).step_by(4).map(|offset| registers.get(offset)).collect();
    rows(text, base, &words);
}

/// Registers that follow each other, eight in a line, each line with its address.
fn rows(text: &mut String, base: u32, words: &[u32]) {
    for (at, row) in words.chunks(8).enumerate() {
        let _ = write!(text, "    {:08x}:", base as usize + at * 32);
        for word in row {
            let _ = write!(text, " {word:08x}");
        }
        text.push('\n');
    }
}
