//! Element types of the inputs.

use super::super::float::{flush_single, from_half};
use crate::wave::{LANES, Lanes};

/// Registers that an input can have at most.
pub(super) const REGISTERS: usize = 4;

/// How the elements of an input are stored.
pub(super) trait Format: 'static {
    /// What the multiplication works with.
    type Value: Copy + Default;
    /// Bits of an element.
    const BITS: usize;

    /// One element of every lane.
    fn element(registers: &[Lanes; REGISTERS], n: usize) -> [Self::Value; LANES];

    /// Changes the registers as MODE asks: only single precision does that.
    #[inline(always)]
    fn prepare(_registers: &mut [Lanes; REGISTERS], _flushes: bool) {}
}

/// Formats with elements of at most 32 bits that become singles or integers.
macro_rules! narrow {
    ($($(#[$doc:meta])* $name:ident, $bits:literal, $value:ty, |$x:ident| $convert:expr;)*) => {
        $($(#[$doc])*
        pub(super) struct $name;

        impl Format for $name {
            type Value = $value;
            const BITS: usize = $bits;

            #[inline(always)]
            fn element(registers: &[Lanes; REGISTERS], n: usize) -> [$value; LANES] {
                let register = &registers[n * $bits / 32 % REGISTERS];
                let shift = n * $bits % 32;
                let mut out = [<$value>::default(); LANES];
                for lane in 0..LANES {
                    let $x = register[lane] >> shift;
                    out[lane] = $convert;
                }
                out
            }
        })*
    };
}

narrow! {
    /// Single precision cut to 10 bits of fraction, not rounded (ROCm/rocm-libraries pull request 9176, MMA-Sim).
    Xf32, 32, f32, |x| f32::from_bits(x & 0xFFFF_E000);
    /// Half precision.
    F16, 16, f32, |x| from_half(x & 0xFFFF);
    /// The upper half of single precision.
    Bf16, 16, f32, |x| f32::from_bits(x << 16);
    /// Half precision on MI200: denormals are zero, and zero has no sign.
    F16Normal, 16, f32, |x| if x & 0x7C00 == 0 { 0.0 } else { from_half(x & 0xFFFF) };
    /// The upper half of single precision on MI200: likewise.
    Bf16Normal, 16, f32, |x| if x & 0x7F80 == 0 { 0.0 } else { f32::from_bits(x << 16) };
    /// Four bits of exponent with bias 8, three of fraction; no infinities, one NaN, one zero.
    Fp8, 8, f32, |x| from_quarter::<20, 8>(x & 0xFF);
    /// Five bits of exponent with bias 16, two of fraction; no infinities, one NaN, one zero.
    Bf8, 8, f32, |x| from_quarter::<21, 16>(x & 0xFF);
    /// Signed bytes.
    I8, 8, i32, |x| i32::from(x as i8);
}

/// An 8-bit float whose fraction ends at bit `SHIFT` of a single, with this bias.
#[inline(always)]
fn from_quarter<const SHIFT: u32, const BIAS: u32>(byte: u32) -> f32 {
    let scale = f32::from_bits((127 + 127 - BIAS) << 23);
    let magnitude = f32::from_bits((byte & 0x7F) << SHIFT) * scale;
    let signed = f32::from_bits(magnitude.to_bits() | (byte & 0x80) << 24);
    if byte == 0x80 { f32::NAN } else { signed }
}

/// Single precision. The only format that obeys the denormal mode.
pub(super) struct F32;

impl Format for F32 {
    type Value = f32;
    const BITS: usize = 32;

    #[inline(always)]
    fn element(registers: &[Lanes; REGISTERS], n: usize) -> [f32; LANES] {
        registers[n % REGISTERS].map(f32::from_bits)
    }

    #[inline(always)]
    fn prepare(registers: &mut [Lanes; REGISTERS], flushes: bool) {
        if flushes {
            registers[0] = registers[0].map(flush_single);
        }
    }
}

/// Double precision.
pub(super) struct F64;

impl Format for F64 {
    type Value = f64;
    const BITS: usize = 64;

    #[inline(always)]
    fn element(registers: &[Lanes; REGISTERS], _n: usize) -> [f64; LANES] {
        let mut out = [0.0; LANES];
        for lane in 0..LANES {
            out[lane] = f64::from_bits(u64::from(registers[0][lane]) | u64::from(registers[1][lane]) << 32);
        }
        out
    }
}
