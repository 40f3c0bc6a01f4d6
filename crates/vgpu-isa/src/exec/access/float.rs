//! Float arithmetic of atomics: always rounded to nearest even, NaNs made quiet.
//!
//! LDS follows the denormal mode of the wave (except that double precision addition never flushes); memory keeps
//! denormals, and its callers pass the usual mode.

use half::f16;

use crate::wave::mode;

const QUIET_32: u32 = 0x7FC0_0000;
const QUIET_64: u64 = 0x7FF8_0000_0000_0000;

/// The sum of two bit patterns in a format of `$bits`, by the rules of the GPU for NaNs.
macro_rules! sum {
    ($a:expr, $b:expr, $float:ty, $quiet:expr) => {{
        let (a, b) = (<$float>::from_bits($a), <$float>::from_bits($b));
        let silent = $quiet & !($quiet << 1);
        if a.is_nan() {
            a.to_bits() | silent
        } else if b.is_nan() {
            b.to_bits() | silent
        } else {
            let sum = a + b;
            if sum.is_nan() { $quiet } else { sum.to_bits() }
        }
    }};
}

fn flush_32(value: u32, keep: bool) -> u32 {
    if !keep && value & 0x7F80_0000 == 0 { value & 0x8000_0000 } else { value }
}

fn flush_64(value: u64, keep: bool) -> u64 {
    if !keep && value & 0x7FF0_0000_0000_0000 == 0 { value & 1 << 63 } else { value }
}

fn flush_16(value: u16, keep: bool) -> u16 {
    if !keep && value & 0x7C00 == 0 { value & 0x8000 } else { value }
}

/// Whether denormal sources and results are kept, in single precision.
fn keeps_32(wave_mode: u32) -> (bool, bool) {
    (wave_mode & mode::DENORM_32_SOURCES != 0, wave_mode & mode::DENORM_32_RESULTS != 0)
}

/// Whether denormal sources and results are kept, in double and half precision.
fn keeps_64_16(wave_mode: u32) -> (bool, bool) {
    (wave_mode & 0x40 != 0, wave_mode & mode::DENORM_64_16 & !0x40 != 0)
}

/// Sum in single precision.
pub(crate) fn add_32(a: u32, b: u32, wave_mode: u32) -> u32 {
    let (sources, results) = keeps_32(wave_mode);
    flush_32(sum!(flush_32(a, sources), flush_32(b, sources), f32, QUIET_32), results)
}

/// Sum in double precision.
pub(crate) fn add_64(a: u64, b: u64) -> u64 {
    sum!(a, b, f64, QUIET_64)
}

/// The source if `better(source, old)`, else what memory holds; a comparison with NaN never holds.
pub(crate) fn choose_32(old: u32, source: u32, wave_mode: u32, better: fn(&f32, &f32) -> bool) -> u32 {
    let (sources, results) = keeps_32(wave_mode);
    let (old, source) = (flush_32(old, sources), flush_32(source, sources));
    flush_32(if better(&f32::from_bits(source), &f32::from_bits(old)) { source } else { old }, results)
}

/// [`choose_32`] in double precision.
pub(crate) fn choose_64(old: u64, source: u64, wave_mode: u32, better: fn(&f64, &f64) -> bool) -> u64 {
    let (sources, results) = keeps_64_16(wave_mode);
    let (old, source) = (flush_64(old, sources), flush_64(source, sources));
    flush_64(if better(&f64::from_bits(source), &f64::from_bits(old)) { source } else { old }, results)
}

/// Applies a function to the halves of two words.
fn halves(a: u32, b: u32, apply: impl Fn(u16, u16) -> u16) -> u32 {
    let (low, high) = (apply(a as u16, b as u16), apply((a >> 16) as u16, (b >> 16) as u16));
    u32::from(low) | u32::from(high) << 16
}

/// Two sums in half precision. Single precision holds every sum of two halves well enough to be rounded again.
pub(crate) fn add_2x16(a: u32, b: u32, wave_mode: u32) -> u32 {
    let (sources, results) = keeps_64_16(wave_mode);
    halves(a, b, |a, b| {
        let (a, b) = (flush_16(a, sources), flush_16(b, sources));
        for value in [a, b] {
            if f16::from_bits(value).is_nan() {
                return value | 0x200;
            }
        }
        let sum = f16::from_bits(a).to_f32() + f16::from_bits(b).to_f32();
        if sum.is_nan() { 0x7E00 } else { flush_16(f16::from_f32(sum).to_bits(), results) }
    })
}

/// Two sums in brain float. Single precision has its exponents and thrice its digits.
pub(crate) fn add_2xb16(a: u32, b: u32) -> u32 {
    halves(a, b, |a, b| {
        let sum = sum!(u32::from(a) << 16, u32::from(b) << 16, f32, QUIET_32);
        if f32::from_bits(sum).is_nan() {
            return (sum >> 16) as u16;
        }
        // Nearest, ties to even; a carry out of the digits goes into the exponent, which is what it should do.
        ((sum + 0x7FFF + (sum >> 16 & 1)) >> 16) as u16
    })
}
