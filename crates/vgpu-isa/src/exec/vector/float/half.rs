//! Half precision as part of single precision, in straight integer code that vectorises.

/// Exact value of a half precision number; NaN becomes quiet.
#[inline(always)]
pub(super) fn to_single(half: u32) -> f32 {
    // With the fields in place the exponent is off by the difference of the biases, for denormals too.
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let body = (half & 0x7FFF) << 13;
    let finite = (f32::from_bits(body) * SCALE).to_bits();
    let special = 0x7F80_0000 | body | if half & 0x3FF != 0 { 0x0040_0000 } else { 0 };
    let body = if half & 0x7C00 == 0x7C00 { special } else { finite };
    f32::from_bits(body | (half & 0x8000) << 16)
}

/// Nearest half precision number, ties to even.
#[inline(always)]
pub(super) fn from_single(value: f32) -> u32 {
    let bits = value.to_bits();
    let body = bits & 0x7FFF_FFFF;
    let normal = (body.wrapping_add(0xC800_0FFF).wrapping_add(body >> 13 & 1) >> 13).min(0x7C00);
    // The last bit of numbers between one half and one is the unit of half precision denormals.
    let small = (f32::from_bits(body) + 0.5).to_bits().wrapping_sub(0x3F00_0000);
    let nan = 0x7E00 | body >> 13 & 0x3FF;
    let finite = if body < 0x3880_0000 { small } else { normal };
    let body = if body > 0x7F80_0000 {
        nan
    } else if body >= 0x4780_0000 {
        0x7C00
    } else {
        finite
    };
    body | bits >> 16 & 0x8000
}

/// The half precision number nearest to `a * b + c`: the product is exact in single precision, and the sum is rounded
/// to odd there, which keeps what the second rounding needs.
#[inline(always)]
pub(super) fn fma(a: u32, b: u32, c: u32) -> u32 {
    let (product, c) = (to_single(a) * to_single(b), to_single(c));
    let sum = product + c;
    let c_part = sum - product;
    let lost = (product - (sum - c_part)) + (c - c_part);
    let bits = sum.to_bits();
    let toward = if (lost > 0.0) == (sum > 0.0) { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    // Infinities and NaN lose NaN, which is neither less nor greater.
    let inexact = (lost < 0.0) | (lost > 0.0);
    from_single(f32::from_bits(if inexact & (bits & 1 == 0) { toward } else { bits }))
}
