//! Minimum, maximum, median, by the manual's case lists.

use vgpu_isa::wave::mode;

use super::exact::{F16, F32, F64, Format};
use super::spec::{Forms, Kind, Spec, Want};

fn signalling(format: Format, bits: u64) -> bool {
    format.is_nan(bits) && bits & format.quiet() == 0
}

/// Numbers in order as integers; minus zero comes before zero.
fn key(format: Format, bits: u64) -> i128 {
    let size = i128::from(bits & !format.sign());
    if bits & format.sign() != 0 { -size - 1 } else { size }
}

fn pick(format: Format, a: u64, b: u64, ieee: bool, largest: bool) -> u64 {
    if ieee && signalling(format, a) {
        return a | format.quiet();
    }
    if ieee && signalling(format, b) {
        return b | format.quiet();
    }
    if format.is_nan(a) {
        return b;
    }
    if format.is_nan(b) || (key(format, a) > key(format, b)) == largest {
        return a;
    }
    b
}

fn spec(
    name: &'static str,
    forms: Forms,
    format: Format,
    sources: usize,
    f: fn(Format, [u64; 3], bool) -> u64,
) -> Spec {
    let kind = Kind::Float(format);
    Spec::new(name, forms, &vec![kind; sources], kind, move |source, register| {
        Want::Bits(f(format, source, register & mode::IEEE != 0))
    })
}

fn min(format: Format, [a, b, _]: [u64; 3], ieee: bool) -> u64 {
    pick(format, a, b, ieee, false)
}

fn max(format: Format, [a, b, _]: [u64; 3], ieee: bool) -> u64 {
    pick(format, a, b, ieee, true)
}

fn min3(format: Format, [a, b, c]: [u64; 3], ieee: bool) -> u64 {
    min(format, [min(format, [a, b, 0], ieee), c, 0], ieee)
}

fn max3(format: Format, [a, b, c]: [u64; 3], ieee: bool) -> u64 {
    max(format, [max(format, [a, b, 0], ieee), c, 0], ieee)
}

/// The one in the middle; NaN anywhere makes it the minimum.
fn med3(format: Format, source: [u64; 3], ieee: bool) -> u64 {
    if source.iter().any(|&bits| format.is_nan(bits)) {
        return min3(format, source, ieee);
    }
    let mut sorted = source;
    sorted.sort_by_key(|&bits| key(format, bits));
    // Zeros are equal for the hardware, so with one of each as the two largest it takes the larger of the others.
    let (largest, middle) = (sorted[2], sorted[1]);
    let zero = |bits: u64| bits & !format.sign() == 0;
    if zero(largest)
        && zero(middle)
        && largest != middle
        && source.iter().position(|&b| zero(b)) != source.iter().position(|&b| b == largest)
    {
        return largest;
    }
    middle
}

pub(super) fn specs() -> Vec<Spec> {
    use Forms::{Long, Short};
    vec![
        spec("v_min_f32", Short, F32, 2, min),
        spec("v_max_f32", Short, F32, 2, max),
        spec("v_min_f16", Short, F16, 2, min),
        spec("v_max_f16", Short, F16, 2, max),
        spec("v_min_f64", Long, F64, 2, min),
        spec("v_max_f64", Long, F64, 2, max),
        spec("v_min3_f32", Long, F32, 3, min3),
        spec("v_max3_f32", Long, F32, 3, max3),
        spec("v_med3_f32", Long, F32, 3, med3),
        spec("v_min3_f16", Long, F16, 3, min3).keeping_high(),
        spec("v_max3_f16", Long, F16, 3, max3).keeping_high(),
        spec("v_med3_f16", Long, F16, 3, med3).keeping_high(),
    ]
}
