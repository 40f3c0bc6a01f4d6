//! Addresses of scalar memory instructions.

use crate::inst::Inst;
use crate::wave::Wave;

/// The two offsets of an instruction: constant and register. Each loses its two lowest bits, as the manual says of all
/// parts of an address.
struct Offsets {
    constant: i64,
    register: u32,
}

impl Offsets {
    fn of(wave: &Wave, inst: &Inst) -> Self {
        let [w, x] = inst.words;
        let (register_enabled, constant_enabled) = (w & (1 << 14) != 0, w & (1 << 17) != 0);
        // Without a constant, its field names the register, unless the second field is enabled.
        let register = match (register_enabled, constant_enabled) {
            (true, _) => Some(x >> 25),
            (false, false) => Some(x & 0x7F),
            (false, true) => None,
        };
        Self {
            constant: if constant_enabled { i64::from((x << 11) as i32 >> 11) & !3 } else { 0 },
            register: register.map_or(0, |code| wave.s[code as usize & 127] & !3),
        }
    }

    fn sum(&self) -> u64 {
        u64::from(self.register).wrapping_add_signed(self.constant)
    }
}

/// First register of the base: a pair for global addresses, four for a buffer.
fn base(inst: &Inst) -> usize {
    ((inst.words[0] & 0x3F) * 2) as usize
}

/// A place in memory and how many bytes of it exist, counted from there.
pub(super) struct Place {
    pub(super) address: u64,
    pub(super) limit: u64,
}

impl Place {
    /// Whether `length` bytes after `skipped` ones exist.
    pub(super) fn holds(&self, skipped: u64, length: u64) -> bool {
        skipped + length <= self.limit
    }
}

pub(super) type Addressing = fn(&Wave, &Inst) -> Place;

/// A 64-bit base and offsets.
pub(super) fn global(wave: &Wave, inst: &Inst) -> Place {
    let base = wave.s64(base(inst)) & !3;
    Place { address: base.wrapping_add(Offsets::of(wave, inst).sum()), limit: u64::MAX }
}

/// Like [`global`], but the register counts units of 64 bytes.
pub(super) fn scratch(wave: &Wave, inst: &Inst) -> Place {
    let base = wave.s64(base(inst)) & !3;
    let offsets = Offsets::of(wave, inst);
    let scaled = u64::from(offsets.register) * 64;
    Place { address: base.wrapping_add(scaled).wrapping_add_signed(offsets.constant), limit: u64::MAX }
}

/// A buffer resource: its base, and records of `stride` bytes (of one byte if the stride is zero). Nothing else of it
/// matters to scalar instructions.
pub(super) fn buffer(wave: &Wave, inst: &Inst) -> Place {
    let first = base(inst);
    let word = |n: usize| u64::from(wave.s[(first + n) & 127]);
    let start = (word(0) | (word(1) & 0xFFFF) << 32) & !3;
    let stride = (word(1) >> 16) & 0x3FFF;
    let size = word(2) * stride.max(1);
    let offset = Offsets::of(wave, inst).sum();
    Place { address: start.wrapping_add(offset), limit: size.saturating_sub(offset) }
}
