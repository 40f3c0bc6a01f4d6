//! Hardware registers: s_getreg and s_setreg.
//!
//! Sources: the manual's chapter on state registers, LLVM's list of names, and the kernel's trap handler for the fields
//! of GPR_ALLOC and LDS_ALLOC.

use super::{Word, ops};
use crate::inst::{Flow, Inst, Op};
use crate::operand::aperture;
use crate::wave::{Wave, mode, status};

pub(super) static OPS: &[Op] = ops!(Sopk:
    17 "s_getreg_b32" |wave, inst, _| {
        let field = Field::of(inst);
        ((read(wave, field.register) & field.mask) >> field.offset).write(wave, inst.dst);
        Flow::Next
    };
    18 "s_setreg_b32" |wave, inst, _| {
        let value = u32::read(wave, inst, inst.dst);
        write(wave, Field::of(inst), value)
    };
    20 "s_setreg_imm32_b32" |wave, inst, _| write(wave, Field::of(inst), inst.literal);
);

mod id {
    pub(super) const MODE: u32 = 1;
    pub(super) const STATUS: u32 = 2;
    pub(super) const TRAPSTS: u32 = 3;
    pub(super) const HW_ID: u32 = 4;
    pub(super) const GPR_ALLOC: u32 = 5;
    pub(super) const LDS_ALLOC: u32 = 6;
    pub(super) const SH_MEM_BASES: u32 = 15;
    pub(super) const XCC_ID: u32 = 20;
}

/// The part of a register that an instruction names.
struct Field {
    register: u32,
    offset: u32,
    /// In place, cut off at the end of the register.
    mask: u32,
}

impl Field {
    fn of(inst: &Inst) -> Self {
        let simm = inst.words[0] & 0xFFFF;
        let (offset, size) = ((simm >> 6) & 31, (simm >> 11) + 1);
        Self { register: simm & 0x3F, offset, mask: (((1_u64 << size) - 1) << offset) as u32 }
    }
}

/// A register as the program sees it. What this device has no state for reads as zero: IB_STS counts memory operations
/// in flight, of which there are none between two instructions; TBA and TMA are hidden from programs.
fn read(wave: &Wave, register: u32) -> u32 {
    match register {
        id::MODE => wave.mode(),
        id::STATUS => wave.status_register(),
        id::TRAPSTS => wave.trapsts,
        id::HW_ID => wave.hw_id,
        id::GPR_ALLOC => allocated_registers(wave),
        id::LDS_ALLOC => (wave.lds_size.div_ceil(256) & 0x1FF) << 12,
        id::SH_MEM_BASES => (aperture::PRIVATE >> 48 | aperture::SHARED >> 48 << 16) as u32,
        id::XCC_ID => wave.xcc_id,
        _ => 0,
    }
}

/// GPR_ALLOC: all vector registers in blocks of eight, architectural ones of four, scalar ones of sixteen, each less
/// one.
fn allocated_registers(wave: &Wave) -> u32 {
    let blocks = |count: u32, block: u32| count.div_ceil(block).saturating_sub(1);
    let arch = u32::from(wave.vgprs);
    let all = blocks(arch + u32::from(wave.agprs), 8) & 0x3F;
    let accumulation_offset = blocks(arch, 4) & 0x3F;
    let scalar = blocks(u32::from(wave.sgprs), 16) & 0xF;
    all << 6 | accumulation_offset << 12 | scalar << 24
}

/// Bits that s_setreg may change.
fn writable(wave: &Wave, register: u32) -> u32 {
    let privileged = wave.status & status::PRIV != 0;
    match register {
        id::MODE => !(3 << 21),
        id::STATUS if privileged => !(status::EXECZ | status::VCCZ | status::PRIV | status::VALID),
        // A program may clear and set the arithmetic exceptions it has collected.
        id::TRAPSTS if !privileged => 0x7F,
        id::TRAPSTS => !0,
        _ => 0,
    }
}

fn write(wave: &mut Wave, field: Field, value: u32) -> Flow {
    let mask = field.mask & writable(wave, field.register);
    let value = read(wave, field.register) & !mask | value << field.offset & mask;
    match field.register {
        id::MODE => {
            const READ_AT_START: u32 = mode::VSKIP | mode::DEBUG_EN;
            let before = wave.mode() & READ_AT_START;
            wave.set_mode(value);
            // A jump begins a new run of instructions, which reads the mode again.
            return if value & READ_AT_START == before { Flow::Next } else { Flow::Jump };
        }
        id::STATUS => {
            wave.scc = value & status::SCC != 0;
            wave.status = value & !(status::SCC | status::EXECZ | status::VCCZ);
        }
        id::TRAPSTS => wave.trapsts = value,
        _ => {}
    }
    Flow::Next
}
