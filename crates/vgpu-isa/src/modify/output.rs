//! Signs, denormals, output modifier and clamp of floats.

use crate::inst::Inst;
use crate::operand::Type;
use crate::wave::mode;

/// Sign bit of a type.
fn sign_bit(kind: Type) -> u64 {
    match kind {
        Type::B16 | Type::F16 => 1 << 15,
        Type::B32 | Type::F32 => 1 << 31,
        Type::B64 | Type::I64 | Type::F64 => 1 << 63,
    }
}

/// Absolute value, then negation, as the bits ask.
pub(super) fn sign(value: u64, kind: Type, abs: bool, neg: bool) -> u64 {
    let bit = sign_bit(kind);
    let value = if abs { value & !bit } else { value };
    if neg { value ^ bit } else { value }
}

/// Exponent and fraction masks of a float type.
fn fields(kind: Type) -> Option<(u64, u64)> {
    match kind {
        Type::F16 => Some((0x7C00, 0x3FF)),
        Type::F32 => Some((0x7F80_0000, 0x007F_FFFF)),
        Type::F64 => Some((0x7FF0_0000_0000_0000, 0x000F_FFFF_FFFF_FFFF)),
        _ => None,
    }
}

/// Bit 0 keeps denormal sources, bit 1 keeps denormal results.
fn denormal_bits(kind: Type, register_mode: u32) -> u32 {
    if kind == Type::F32 { (register_mode & mode::DENORM_32) >> 4 } else { (register_mode & mode::DENORM_64_16) >> 6 }
}

/// Turns a denormal into a zero of its sign.
pub(super) fn flush(value: u64, kind: Type) -> u64 {
    match fields(kind) {
        Some((exponent, fraction)) if value & exponent == 0 => value & !fraction,
        _ => value,
    }
}

/// Whether the mode flushes denormal sources of this type.
pub(super) fn flushes_sources(kind: Type, register_mode: u32) -> bool {
    kind.is_float() && denormal_bits(kind, register_mode) & 1 == 0
}

/// Flushing of the result, output modifier, clamp. Integers pass.
pub(super) fn finish(value: u64, kind: Type, inst: &Inst, register_mode: u32) -> u64 {
    if !kind.is_float() {
        return value;
    }
    let flushed = denormal_bits(kind, register_mode) & 2 == 0;
    let value = if flushed { flush(value, kind) } else { value };
    // The manual: the output modifier is ignored where denormal results are kept, and in IEEE mode.
    let scales = inst.omod != 0 && flushed && register_mode & mode::IEEE == 0;
    let value = if scales { scale(value, kind, inst.omod) } else { value };
    if inst.clamp { clamp(value, kind, register_mode) } else { value }
}

/// Times 2, 4 or one half, denormals flushed. Minus zero becomes zero: the manual's exception to IEEE.
fn scale(value: u64, kind: Type, omod: u8) -> u64 {
    let factor = [1.0, 2.0, 4.0, 0.5][usize::from(omod & 3)];
    let scaled = match kind {
        Type::F16 => {
            let x = half::f16::from_bits(value as u16).to_f64() * factor;
            u64::from(half::f16::from_f64(x).to_bits())
        }
        Type::F32 => u64::from((f32::from_bits(value as u32) * factor as f32).to_bits()),
        Type::F64 => (f64::from_bits(value) * factor).to_bits(),
        _ => value,
    };
    let flushed = flush(scaled, kind);
    if flushed == sign_bit(kind) { 0 } else { flushed }
}

/// To the range 0 to 1; NaN becomes 0 with DX10_CLAMP.
fn clamp(value: u64, kind: Type, register_mode: u32) -> u64 {
    let (x, one) = match kind {
        Type::F16 => (half::f16::from_bits(value as u16).to_f64(), 0x3C00),
        Type::F32 => (f64::from(f32::from_bits(value as u32)), 0x3F80_0000),
        _ => (f64::from_bits(value), 0x3FF0_0000_0000_0000),
    };
    if x.is_nan() {
        return if register_mode & mode::DX10_CLAMP != 0 { 0 } else { value };
    }
    if x <= 0.0 {
        0
    } else if x >= 1.0 {
        one
    } else {
        value
    }
}
