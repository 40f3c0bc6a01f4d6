//! How far the approximations are from the nearest number, over many or all single precision numbers.

use vgpu_isa::wave::Wave;

use super::sequences::{assembled, execute};
use super::transcendental::{FUNCTIONS, Function};

/// The host's result in single precision, by the host's own conversions: there are many.
fn nearest(function: &Function, source: u32) -> u32 {
    let flush = |x: f32| if function.flushes && x.is_subnormal() { 0.0_f32.copysign(x) } else { x };
    let x = flush(f32::from_bits(source));
    if x.is_nan() {
        return source | 0x0040_0000;
    }
    let result = (function.f)(f64::from(x));
    if result.is_nan() { 0xFFC0_0000 } else { flush(result as f32).to_bits() }
}

/// Largest distance in units in the last place over every `step`th number, and how many results are not the nearest.
fn measure(function: usize, step: u64) -> (u32, u64) {
    let function = &FUNCTIONS[function];
    let program = assembled(&[format!("v_{}_f32_e32 v10, v20", function.name).as_str()]);
    let mut wave = Wave::new();
    let (mut worst, mut wrong) = (0, 0);
    let mut at = 0_u64;
    while at < 1 << 32 {
        for lane in 0..64 {
            wave.v[20][lane] = (at + lane as u64 * step) as u32;
        }
        execute(&program, &mut wave);
        for lane in 0..64 {
            let (source, got) = (wave.v[20][lane], wave.v[10][lane]);
            let want = nearest(function, source);
            if got != want {
                wrong += 1;
                let both_finite = f32::from_bits(got).is_finite() && f32::from_bits(want).is_finite();
                assert!(both_finite, "{} of {source:x} gave {got:x}, expected {want:x}", function.name);
                worst = worst.max(got.abs_diff(want));
            }
        }
        at += 64 * step;
    }
    (worst, wrong)
}

#[test]
fn approximations_are_within_one_unit() {
    // With VGPU_EXHAUSTIVE every number is tried, which takes minutes for each function in a release build.
    let step = if std::env::var_os("VGPU_EXHAUSTIVE").is_some() { 1 } else { 65_521 };
    for (n, function) in FUNCTIONS.iter().enumerate() {
        let (worst, wrong) = measure(n, step);
        println!("{}: at most {worst} units, {wrong} results not the nearest", function.name);
        assert!(worst <= 1, "{}: {worst} units", function.name);
    }
}
