//! Reciprocals, roots, exponentials, logarithms, sines: against host functions in double precision.

use vgpu_isa::wave::mode;

use super::exact::{F16, F32, F64, Format, NEAREST};
use super::spec::{Forms, Kind, Spec, Want};

/// A host function of a double, and whether single precision flushes denormals.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) flushes: bool,
    pub(super) f: fn(f64) -> f64,
}

/// An angle in revolutions, reduced exactly.
fn angle(x: f64) -> f64 {
    (x - x.round()) * std::f64::consts::TAU
}

pub(super) const FUNCTIONS: [Function; 7] = [
    Function { name: "exp", flushes: true, f: f64::exp2 },
    Function { name: "log", flushes: true, f: f64::log2 },
    Function { name: "rcp", flushes: true, f: f64::recip },
    Function { name: "rsq", flushes: true, f: |x| if x == 0.0 { x.recip() } else { x.sqrt().recip() } },
    Function { name: "sqrt", flushes: false, f: f64::sqrt },
    Function {
        name: "sin",
        flushes: false,
        f: |x| if (2.0 * x).fract() == 0.0 { if x == 0.0 { x } else { 0.0 } } else { angle(x).sin() },
    },
    Function { name: "cos", flushes: false, f: |x| if (2.0 * x).fract().abs() == 0.5 { 0.0 } else { angle(x).cos() } },
];

fn flushed(bits: u64, format: Format) -> u64 {
    if bits & format.infinity() == 0 { bits & format.sign() } else { bits }
}

impl Function {
    /// The result nearest to the host's.
    pub(super) fn nearest(&self, bits: u64, format: Format) -> u64 {
        if format.is_nan(bits) {
            return bits | format.quiet();
        }
        let flush = |bits| if self.flushes && format == F32 { flushed(bits, format) } else { bits };
        let result = (self.f)(format.value(flush(bits)));
        let zero_log = self.name == "log" && format.value(flush(bits)) == 0.0;
        if result.is_nan() {
            return format.invalid();
        }
        if zero_log {
            return format.sign() | format.infinity();
        }
        flush(F64.convert(result.to_bits(), format, NEAREST))
    }

    fn spec(&'static self, name: &'static str, format: Format, units: u64) -> Spec {
        let kind = Kind::Float(format);
        Spec::new(name, Forms::Short, &[kind], kind, move |[a, ..], register| {
            let want = self.nearest(a, format);
            let finite = !format.is_nan(a) && !format.is_infinite(a);
            let saturates = format == F16 && register & mode::FP16_OVFL != 0 && finite && format.is_infinite(want);
            if format.is_nan(want) || format.is_infinite(want) {
                return Want::Bits(want - u64::from(saturates));
            }
            Want::Near(want, units)
        })
    }
}

pub(super) fn specs() -> Vec<Spec> {
    const NAMES: [(usize, &str, &str); 7] = [
        (0, "v_exp_f32", "v_exp_f16"),
        (1, "v_log_f32", "v_log_f16"),
        (2, "v_rcp_f32", "v_rcp_f16"),
        (3, "v_rsq_f32", "v_rsq_f16"),
        (4, "v_sqrt_f32", "v_sqrt_f16"),
        (5, "v_sin_f32", "v_sin_f16"),
        (6, "v_cos_f32", "v_cos_f16"),
    ];
    let mut specs = Vec::new();
    for (n, single, half) in NAMES {
        specs.push(FUNCTIONS[n].spec(single, F32, 1));
        specs.push(FUNCTIONS[n].spec(half, F16, 0));
    }
    specs.push(FUNCTIONS[0].spec("v_exp_legacy_f32", F32, 1));
    specs.push(FUNCTIONS[1].spec("v_log_legacy_f32", F32, 1));
    specs.push(FUNCTIONS[2].spec("v_rcp_iflag_f32", F32, 0));
    specs.push(FUNCTIONS[2].spec("v_rcp_f64", F64, 0));
    specs.push(FUNCTIONS[3].spec("v_rsq_f64", F64, 1));
    specs.push(FUNCTIONS[4].spec("v_sqrt_f64", F64, 0));
    specs
}
