//! Signs, denormals, output modifier and clamp of floats.

use crate::operand::Type;
use crate::wave::{Lanes, mode};

/// Sign bit of a type.
fn sign_bit(kind: Type) -> u64 {
    match kind {
        Type::B16 | Type::F16 => 1 << 15,
        Type::B32 | Type::F32 => 1 << 31,
        Type::B64 | Type::I64 | Type::F64 => 1 << 63,
    }
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

/// What an instruction asks to be done to its result.
#[derive(Clone, Copy)]
pub(super) struct After {
    /// Output modifier: 0 none, 1 times two, 2 times four, 3 half.
    pub(super) omod: u8,
    /// To the range 0 to 1.
    pub(super) clamp: bool,
}

/// Flushing of the result, output modifier, clamp. Integers pass.
pub(super) fn finish(value: u64, kind: Type, after: After, register_mode: u32) -> u64 {
    if !kind.is_float() {
        return value;
    }
    let flushed = denormal_bits(kind, register_mode) & 2 == 0;
    let value = if flushed { flush(value, kind) } else { value };
    // The manual: the output modifier is ignored where denormal results are kept, and in IEEE mode.
    let scales = after.omod != 0 && flushed && register_mode & mode::IEEE == 0;
    let value = if scales { scale(value, kind, after.omod) } else { value };
    if after.clamp { clamp(value, kind, register_mode) } else { value }
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

/// To the range 0 to 1; NaN becomes 0 with DX10_CLAMP. The order of positive numbers is that of their bits.
#[inline(always)]
pub(super) fn clamp(value: u64, kind: Type, register_mode: u32) -> u64 {
    let (infinity, one) = match kind {
        Type::F16 => (0x7C00, 0x3C00),
        Type::F32 => (0x7F80_0000, 0x3F80_0000),
        _ => (0x7FF0_0000_0000_0000, 0x3FF0_0000_0000_0000),
    };
    let sign = sign_bit(kind);
    let nan = value & !sign > infinity;
    let clamped = if value & sign != 0 { 0 } else { value.min(one) };
    let of_nan = if register_mode & mode::DX10_CLAMP != 0 { 0 } else { value };
    if nan { of_nan } else { clamped }
}

/// The same for values of at most 32 bits.
#[inline(always)]
pub(super) fn clamp_words(lanes: &mut Lanes, kind: Type, register_mode: u32) {
    lanes.iter_mut().for_each(|lane| *lane = clamp(u64::from(*lane & kind.mask()), kind, register_mode) as u32);
}

#[cfg(test)]
mod tests {
    use super::{After, finish};
    use crate::operand::Type;
    use crate::wave::mode;

    /// Denormals flushed, IEEE off: the only mode in which the output modifier counts.
    const SCALING: u32 = mode::DX10_CLAMP;

    fn single(x: f32, omod: u8, clamp: bool, register_mode: u32) -> f32 {
        let bits = finish(u64::from(x.to_bits()), Type::F32, After { omod, clamp }, register_mode);
        f32::from_bits(u32::try_from(bits).expect("32 bits"))
    }

    #[test]
    fn the_output_modifier_scales_by_powers_of_two() {
        for (omod, factor) in [(0, 1.0), (1, 2.0), (2, 4.0), (3, 0.5)] {
            for x in [1.0, -3.25, 1e30, f32::INFINITY] {
                assert_eq!(single(x, omod, false, SCALING), x * factor);
            }
            let double = finish(5.5_f64.to_bits(), Type::F64, After { omod, clamp: false }, SCALING);
            assert_eq!(f64::from_bits(double), 5.5 * f64::from(factor));
            let half = finish(0x4400, Type::F16, After { omod, clamp: false }, SCALING);
            assert_eq!(half, [0x4400, 0x4800, 0x4C00, 0x4000][usize::from(omod)]);
        }
        assert_eq!(finish(0x7800, Type::F16, After { omod: 2, clamp: false }, SCALING), 0x7C00, "too large: infinite");
        assert_eq!(single(f32::MIN_POSITIVE, 3, false, SCALING).to_bits(), 0, "too small: flushed");
        assert_eq!(single(-0.0, 1, false, SCALING).to_bits(), 0, "minus zero becomes zero");
        assert_eq!(single(-0.0, 0, false, SCALING).to_bits(), 0x8000_0000, "but not without a modifier");
    }

    #[test]
    fn the_output_modifier_is_ignored_with_denormals_or_ieee() {
        for register_mode in [mode::USUAL, SCALING | mode::IEEE, SCALING | mode::DENORM_32] {
            assert_eq!(single(3.0, 1, false, register_mode), 3.0);
        }
        // Each precision has its own denormal bits.
        assert_eq!(single(3.0, 1, false, SCALING | mode::DENORM_64_16), 6.0);
        let double =
            finish(3.0_f64.to_bits(), Type::F64, After { omod: 1, clamp: false }, SCALING | mode::DENORM_64_16);
        assert_eq!(f64::from_bits(double), 3.0);
    }

    #[test]
    fn clamping_is_to_zero_and_one() {
        for (x, want) in [(-1.0, 0.0), (0.25, 0.25), (1.0, 1.0), (7.0, 1.0), (f32::NEG_INFINITY, 0.0)] {
            assert_eq!(single(x, 0, true, mode::USUAL), want);
        }
        assert_eq!(single(-0.0, 0, true, mode::USUAL).to_bits(), 0);
        assert_eq!(single(f32::NAN, 0, true, mode::USUAL), 0.0, "NaN is zero with DX10_CLAMP");
        assert!(single(f32::NAN, 0, true, mode::USUAL & !mode::DX10_CLAMP).is_nan());
        assert_eq!(single(0.75, 1, true, SCALING), 1.0, "after the output modifier");
        assert_eq!(finish(0x4000, Type::F16, After { omod: 0, clamp: true }, mode::USUAL), 0x3C00);
        let two = finish(2.0_f64.to_bits(), Type::F64, After { omod: 0, clamp: true }, mode::USUAL);
        assert_eq!(f64::from_bits(two), 1.0);
    }

    #[test]
    fn denormal_results_are_flushed_where_the_mode_says_so() {
        let denormals = [(Type::F16, 0x8001), (Type::F32, 0x807F_FFFF), (Type::F64, 0x800F_FFFF_FFFF_FFFF)];
        for ((kind, x), zero) in denormals.into_iter().zip([0x8000, 0x8000_0000, 1 << 63]) {
            let none = After { omod: 0, clamp: false };
            assert_eq!(finish(x, kind, none, mode::USUAL), x);
            assert_eq!(finish(x, kind, none, 0), zero);
            // Keeping sources is another bit than keeping results.
            assert_eq!(finish(x, kind, none, 0x50), zero);
            assert_eq!(finish(x, kind, none, 0xA0), x);
        }
        assert_eq!(finish(0x8001, Type::B16, After { omod: 1, clamp: true }, 0), 0x8001, "integers pass");
    }
}
