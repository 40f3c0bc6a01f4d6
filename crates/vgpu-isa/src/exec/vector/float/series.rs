//! Exponential, logarithm, sine and cosine as polynomials in double precision.
//!
//! The error before the one rounding at the end is below 2^-33 of the result, so results are the nearest single
//! precision number except where two are almost equally near. Plain operations only: the lanes of a loop vectorise, and
//! every CPU gives the same bits.

/// Adding and subtracting it leaves the nearest whole number of anything up to 2^51.
const WHOLE: f64 = 6_755_399_441_055_744.0;

/// The value of a polynomial, highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[0];
    let mut n = 1;
    while n < N {
        sum = sum * x + coefficients[n];
        n += 1;
    }
    sum
}

/// `2^x`.
#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    use std::f64::consts::LN_2;
    // Further out single precision knows only zero and infinity.
    let near = x.clamp(-400.0, 400.0);
    let shifted = near + WHOLE;
    let whole = shifted - WHOLE;
    let y = (near - whole) * LN_2;
    let fraction = polynomial(
        y,
        [
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ],
    );
    // The low bits of the shifted number are the whole part; they go to the exponent. NaN has no whole part to add.
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    if x.is_nan() { x } else { fraction * scale }
}

/// The binary logarithm of a positive finite number that is normal in double precision.
#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    const ROOT_HALF: u64 = 0x3FE6_A09E_667F_3BCD;
    let bits = x.to_bits();
    // The exponent that leaves a significand between the roots of one half and of two.
    let above = bits.wrapping_sub(ROOT_HALF);
    let exponent = (above as i64 >> 52) as i32;
    let significand = f64::from_bits((above & ((1 << 52) - 1)).wrapping_add(ROOT_HALF));
    let s = (significand - 1.0) / (significand + 1.0);
    let odd = polynomial(
        s * s,
        [1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0],
    );
    f64::from(exponent) + s * odd * (2.0 * std::f64::consts::LOG2_E)
}

/// The part of a number of revolutions that is left after whole ones, at most one half.
#[inline(always)]
fn turn(x: f64) -> f64 {
    let whole = (x + WHOLE) - WHOLE;
    // Single precision numbers this large are whole.
    let whole = if x.abs() < 1e15 { whole } else { x };
    x - whole
}

/// Sine of at most a quarter revolution.
#[inline(always)]
fn quarter(turns: f64) -> f64 {
    let x = turns * std::f64::consts::TAU;
    let even = polynomial(
        x * x,
        [
            1.0 / 355_687_428_096_000.0,
            -1.0 / 1_307_674_368_000.0,
            1.0 / 6_227_020_800.0,
            -1.0 / 39_916_800.0,
            1.0 / 362_880.0,
            -1.0 / 5040.0,
            1.0 / 120.0,
            -1.0 / 6.0,
            1.0,
        ],
    );
    x * even
}

/// Sine of a number of revolutions.
#[inline(always)]
pub(super) fn sin(x: f64) -> f64 {
    let t = turn(x);
    let folded = if t.abs() > 0.25 { 0.5_f64.copysign(t) - t } else { t };
    quarter(folded)
}

/// Cosine of a number of revolutions.
#[inline(always)]
pub(super) fn cos(x: f64) -> f64 {
    quarter(0.25 - turn(x).abs())
}
