//! The ways of naming a place in memory.

use crate::harness::{MEMORY, Machine};

/// What the base is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// A 64-bit address.
    Global,
    /// A 64-bit address; register offsets count 64 bytes.
    Scratch,
    /// A buffer resource.
    Buffer,
}

/// Register pair or four of the base.
const FIRST: usize = 16;
/// Where the base points to, in bytes from the start of memory.
const START: i64 = 0x1000;

/// One way of giving the offset, and what goes into the registers it names.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Assembler text after the base.
    pub(super) offset: &'static str,
    constant: i64,
    register: Option<(usize, u32)>,
    /// Added to the base: addresses are whole dwords whatever the base says.
    stray: i64,
}

const fn form(offset: &'static str, constant: i64, register: Option<(usize, u32)>) -> Form {
    Form { offset, constant, register, stray: 0 }
}

pub(super) const FORMS: &[Form] = &[
    form("0x0", 0, None),
    form("0x40", 0x40, None),
    form("0xffc", 0xFFC, None),
    form("s50", 0, Some((50, 0x24))),
    form("m0", 0, Some((124, 0x28))),
    form("vcc_hi", 0, Some((107, 0x30))),
    // Both: the form that is easy to overlook.
    form("s50 offset:0x0", 0, Some((50, 0x24))),
    form("s50 offset:0x104", 0x104, Some((50, 0x24))),
    form("m0 offset:0x8", 8, Some((124, 0x10))),
    // The two lowest bits of every part count for nothing.
    Form { stray: 3, ..form("s50 offset:0x103", 0x100, Some((50, 0x27))) },
    Form { stray: 2, ..form("0x42", 0x40, None) },
    Form { stray: 1, ..form("s50", 0, Some((50, 0x13))) },
];

/// Forms with a negative constant, which buffers do not have.
pub(super) const NEGATIVE: &[Form] =
    &[form("-0x10", -0x10, None), form("s50 offset:-0x8", -8, Some((50, 0x24))), form("-0xffc", -0xFFC, None)];

impl Form {
    /// Text of base and offset.
    pub(super) fn text(self, base: Base) -> String {
        let last = if base == Base::Buffer { FIRST + 3 } else { FIRST + 1 };
        format!("s[{FIRST}:{last}], {}", self.offset)
    }

    /// Writes the registers of base and offset.
    pub(super) fn prepare(self, m: &mut Machine, base: Base) {
        let address = MEMORY.wrapping_add_signed(START + self.stray);
        m.wave.s[FIRST] = address as u32;
        m.wave.s[FIRST + 1] = (address >> 32) as u32;
        if base == Base::Buffer {
            // Stride 0x30 with flags above it that do not matter; records up to 0xC000 bytes.
            m.wave.s[FIRST + 1] |= 0xC030 << 16;
            m.wave.s[FIRST + 2] = 0x400;
            m.wave.s[FIRST + 3] = 0xFFFF_FFFF;
        }
        if let Some((register, value)) = self.register {
            m.wave.s[register] = value;
        }
    }

    /// Where the access goes, in bytes from the start of memory.
    pub(super) fn place(self, base: Base) -> usize {
        let scale = if base == Base::Scratch { 64 } else { 1 };
        let register = self.register.map_or(0, |(_, value)| i64::from(value) / 4 * 4);
        (START + self.constant + register * scale) as usize
    }
}

/// A buffer resource at `START` of `records` records.
pub(super) fn buffer(m: &mut Machine, stride: u32, records: u32) {
    let address = MEMORY.wrapping_add_signed(START);
    m.wave.s[FIRST] = address as u32;
    m.wave.s[FIRST + 1] = (address >> 32) as u32 | stride << 16;
    m.wave.s[FIRST + 2] = records;
    m.wave.s[FIRST + 3] = 0;
}

/// The start of buffers made by [`buffer`], in bytes from the start of memory.
pub(super) const BUFFER: usize = START as usize;

/// A 64-bit base at any address.
pub(super) fn base(m: &mut Machine, address: u64) {
    m.wave.s[FIRST] = address as u32;
    m.wave.s[FIRST + 1] = (address >> 32) as u32;
}
