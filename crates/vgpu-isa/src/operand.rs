//! Reading and writing operands by their codes.

use std::mem::MaybeUninit;

use crate::inst::Inst;
use crate::wave::{LANES, Lanes, Wave};

/// How a constant operand is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// 32-bit integer or bits.
    B32,
    /// 64-bit unsigned integer or bits: literals are zero-extended, inline integers sign-extended.
    B64,
    /// 64-bit signed integer: literals and inline integers are sign-extended.
    I64,
    /// Single precision.
    F32,
    /// Double precision: a literal is the high half.
    F64,
    /// 16-bit integer or bits: inline floats are half precision patterns.
    B16,
    /// Half precision.
    F16,
}

impl Type {
    /// Two registers a lane.
    pub const fn is_64(self) -> bool {
        matches!(self, Self::B64 | Self::I64 | Self::F64)
    }

    /// One half of a register.
    pub const fn is_16(self) -> bool {
        matches!(self, Self::B16 | Self::F16)
    }

    /// The bits of a register that belong to a value of at most 32 bits.
    pub const fn mask(self) -> u32 {
        if self.is_16() { 0xFFFF } else { !0 }
    }

    /// Sign, absolute value, clamping and output modifiers apply.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16)
    }
}

/// Inline float constants 240-248 in the three precisions.
const FLOATS: [(u32, u64, u16); 9] = [
    (0x3F00_0000, 0x3FE0_0000_0000_0000, 0x3800),
    (0xBF00_0000, 0xBFE0_0000_0000_0000, 0xB800),
    (0x3F80_0000, 0x3FF0_0000_0000_0000, 0x3C00),
    (0xBF80_0000, 0xBFF0_0000_0000_0000, 0xBC00),
    (0x4000_0000, 0x4000_0000_0000_0000, 0x4000),
    (0xC000_0000, 0xC000_0000_0000_0000, 0xC000),
    (0x4080_0000, 0x4010_0000_0000_0000, 0x4400),
    (0xC080_0000, 0xC010_0000_0000_0000, 0xC400),
    (0x3E22_F983, 0x3FC4_5F30_6DC9_C882, 0x3118),
];

/// Shared and private apertures as `src_shared_base` and the others show them (high halves of the 64-bit values).
pub mod aperture {
    /// First address of LDS seen through flat instructions.
    pub const SHARED: u64 = 1 << 48;
    /// First address of private memory seen through flat instructions.
    pub const PRIVATE: u64 = 2 << 48;
    /// Bytes of each.
    pub const SIZE: u64 = 1 << 32;
}

/// The value of a constant operand (codes 128-255), as 64 bits.
pub fn constant(code: u16, literal: u32, kind: Type) -> u64 {
    match code {
        128..=192 => u64::from(code - 128),
        193..=208 => (192 - i64::from(code)) as u64,
        // Apertures: base in the high dword; a 32-bit read takes the high dword.
        235..=238 => {
            let base = if code < 237 { aperture::SHARED } else { aperture::PRIVATE };
            let value = if code % 2 == 1 { base } else { base | (aperture::SIZE - 1) };
            if kind.is_64() { value & !0xFFFF_FFFF | if code % 2 == 1 { 0 } else { 0xFFFF_FFFF } } else { value >> 32 }
        }
        240..=248 => {
            let (single, double, half) = FLOATS[usize::from(code - 240)];
            match kind {
                Type::F64 | Type::B64 | Type::I64 => double,
                Type::F16 | Type::B16 => u64::from(half),
                Type::F32 | Type::B32 => u64::from(single),
            }
        }
        255 => match kind {
            Type::F64 => u64::from(literal) << 32,
            Type::I64 => i64::from(literal as i32) as u64,
            _ => u64::from(literal),
        },
        _ => 0,
    }
}

impl Wave {
    /// A 32-bit scalar source.
    #[inline(always)]
    pub fn scalar(&self, code: u16, inst: &Inst, kind: Type) -> u32 {
        match code {
            0..=127 => self.s[usize::from(code)],
            251 => u32::from(self.vcc() == 0),
            252 => u32::from(self.exec() == 0),
            253 => u32::from(self.scc),
            _ => constant(code, inst.literal, kind) as u32,
        }
    }

    /// A 64-bit scalar source.
    #[inline(always)]
    pub fn scalar64(&self, code: u16, inst: &Inst, kind: Type) -> u64 {
        match code {
            0..=127 => self.s64(usize::from(code)),
            251..=253 => u64::from(self.scalar(code, inst, kind)),
            _ => constant(code, inst.literal, kind),
        }
    }

    /// A register of a vector source: architectural (256-511) or accumulation (512-767).
    #[inline(always)]
    pub fn vector(&self, code: u16) -> &Lanes {
        let index = usize::from(code & 0xFF);
        if code < 512 { &self.v[index] } else { &self.a[index] }
    }

    /// Writes the lanes of a vector register that are on.
    #[inline(always)]
    pub fn write(&mut self, dst: u16, value: &Lanes) {
        let exec = self.exec();
        let to = &mut self.v[usize::from(dst & 0xFF)];
        write_masked(to, value, exec);
    }

    /// Writes a 64-bit result into a pair of vector registers.
    #[inline(always)]
    pub fn write64(&mut self, dst: u16, low: &Lanes, high: &Lanes) {
        self.write(dst, low);
        self.write(dst.wrapping_add(1), high);
    }
}

/// Writes the lanes named by `exec`.
#[inline(always)]
pub fn write_masked(to: &mut Lanes, value: &Lanes, exec: u64) {
    if exec == !0 {
        *to = *value;
        return;
    }
    let on = spread(exec);
    for lane in 0..LANES {
        to[lane] = value[lane] & on[lane] | to[lane] & !on[lane];
    }
}

/// For each byte of a lane mask eight words, all ones for lanes that are on: faster than shifts lane by lane.
static MASKS: [[u32; 8]; 256] = {
    let mut masks = [[0; 8]; 256];
    let mut at = 0;
    while at < 256 * 8 {
        masks[at / 8][at % 8] = if (at / 8) >> (at % 8) & 1 != 0 { !0 } else { 0 };
        at += 1;
    }
    masks
};

/// Returns a word for each lane: all ones if it is on in `exec`, else zero.
#[inline(always)]
pub fn spread(exec: u64) -> Lanes {
    let mut lanes = [0; LANES];
    for (eight, byte) in exec.to_le_bytes().into_iter().enumerate() {
        lanes[eight * 8..eight * 8 + 8].copy_from_slice(&MASKS[usize::from(byte)]);
    }
    lanes
}

/// Buffer for the lanes of a source that is not a register as it stands.
pub type LaneBuffer = MaybeUninit<Aligned<Lanes>>;

/// Something on the boundary of a cache line, so that no vector load or store crosses one.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Aligned<T>(pub T);

/// The lanes of a 32-bit source without modifiers: the register itself, or a scalar in every lane.
#[inline(always)]
pub fn source<'a>(wave: &'a Wave, inst: &Inst, code: u16, kind: Type, buffer: &'a mut LaneBuffer) -> &'a Lanes {
    if code >= 256 {
        return wave.vector(code);
    }
    &buffer.write(Aligned([wave.scalar(code, inst, kind); LANES])).0
}

/// The lanes of a 64-bit source without modifiers: low and high halves.
#[inline(always)]
pub fn source64<'a>(
    wave: &'a Wave,
    inst: &Inst,
    code: u16,
    kind: Type,
    buffers: &'a mut [LaneBuffer; 2],
) -> (&'a Lanes, &'a Lanes) {
    if code >= 256 {
        // The register after the last is the first again, in the same file.
        let next = code & !0xFF | (code + 1) & 0xFF;
        return (wave.vector(code), wave.vector(next));
    }
    let value = wave.scalar64(code, inst, kind);
    let [low, high] = buffers;
    (&low.write(Aligned([value as u32; LANES])).0, &high.write(Aligned([(value >> 32) as u32; LANES])).0)
}

/// Packs one bit for each lane.
#[inline(always)]
pub fn pack(bits: &[u8; LANES]) -> u64 {
    let mut mask = 0;
    for (index, eight) in bits.chunks_exact(8).enumerate() {
        let bytes =
            u64::from_le_bytes([eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7]]);
        // Each byte is 0 or 1: the product gathers bit 0 of byte i in bit 56 + i.
        mask |= (bytes.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (index * 8);
    }
    mask
}
