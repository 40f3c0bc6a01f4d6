//! Sums, products, their fusions, whole numbers, exponents, cube coordinates.

use super::exact::{Exact, F16, F32, F64, Format, NEAREST, Rule};
use super::spec::{B16, B32, Forms, Kind, S, Spec, Want, rule};

/// NaN sources give NaN; otherwise what `f` says.
fn unless_nan(format: Format, used: &[u64], f: impl FnOnce() -> u64) -> Want {
    if used.iter().any(|&bits| format.is_nan(bits)) { Want::SourceNan } else { Want::Bits(f()) }
}

fn binary(name: &'static str, forms: Forms, format: Format, f: fn(Format, u64, u64, Rule) -> u64) -> Spec {
    let kind = Kind::Float(format);
    Spec::new(name, forms, &[kind, kind], kind, move |[a, b, _], mode| {
        unless_nan(format, &[a, b], || f(format, a, b, rule(format, mode)))
    })
}

fn ternary(name: &'static str, forms: Forms, format: Format, fused: bool) -> Spec {
    let kind = Kind::Float(format);
    Spec::new(name, forms, &[kind; 3], kind, move |[a, b, c], mode| {
        let rule = rule(format, mode);
        unless_nan(format, &[a, b, c], || {
            if fused {
                return format.fma(a, b, c, 0, rule);
            }
            let product = format.mul(a, b, rule);
            if format.is_nan(product) { product } else { format.add(product, c, rule) }
        })
    })
}

fn sub(format: Format, a: u64, b: u64, rule: Rule) -> u64 {
    format.add(a, b ^ format.sign(), rule)
}

fn legacy(format: Format, a: u64, b: u64, rule: Rule) -> u64 {
    let zero = |x: u64| x & !format.sign() == 0;
    if zero(a) || zero(b) { 0 } else { format.mul(a, b, rule) }
}

/// Whole numbers by integer arithmetic on the mantissa. The direction: toward zero, up, nearest even, down.
fn integral(format: Format, bits: u64, direction: usize) -> u64 {
    let (mantissa, exponent) = format.parts(bits);
    let negative = bits & format.sign() != 0;
    if format.is_infinite(bits) || exponent >= 0 {
        return bits;
    }
    let drop = (-exponent as u32).min(100);
    let wide = u128::from(mantissa);
    let (whole, rest, half) = (wide >> drop, wide & ((1 << drop) - 1), 1_u128 << (drop - 1));
    let up = match direction {
        0 => false,
        1 => rest != 0 && !negative,
        2 => rest > half || rest == half && whole & 1 != 0,
        _ => rest != 0 && negative,
    };
    format.round(&Exact::new(negative, whole + u128::from(up), 0), NEAREST)
}

fn whole_numbers(specs: &mut Vec<Spec>) {
    let names = [
        (F32, ["v_trunc_f32", "v_ceil_f32", "v_rndne_f32", "v_floor_f32"]),
        (F16, ["v_trunc_f16", "v_ceil_f16", "v_rndne_f16", "v_floor_f16"]),
        (F64, ["v_trunc_f64", "v_ceil_f64", "v_rndne_f64", "v_floor_f64"]),
    ];
    for (format, names) in names {
        let kind = Kind::Float(format);
        for (direction, name) in names.into_iter().enumerate() {
            specs.push(Spec::new(name, Forms::Short, &[kind], kind, move |[a, _, _], _| {
                unless_nan(format, &[a], || integral(format, a, direction))
            }));
        }
    }
    for (format, name) in [(F32, "v_fract_f32"), (F16, "v_fract_f16"), (F64, "v_fract_f64")] {
        let kind = Kind::Float(format);
        specs.push(Spec::new(name, Forms::Short, &[kind], kind, move |[a, _, _], mode| {
            unless_nan(format, &[a], || {
                if format.is_infinite(a) {
                    return format.invalid();
                }
                let part = sub(format, a, integral(format, a, 3), rule(format, mode));
                if format.value(part) == 1.0 { part - 1 } else { part }
            })
        }));
    }
}

fn exponents(specs: &mut Vec<Spec>) {
    let names = [
        (F32, "v_frexp_mant_f32", "v_frexp_exp_i32_f32", B32),
        (F16, "v_frexp_mant_f16", "v_frexp_exp_i16_f16", B16),
        (F64, "v_frexp_mant_f64", "v_frexp_exp_i32_f64", B32),
    ];
    for (format, mant, exp, integer) in names {
        let kind = Kind::Float(format);
        specs.push(Spec::new(mant, Forms::Short, &[kind], kind, move |[a, _, _], _| {
            unless_nan(format, &[a], || {
                let (mantissa, _) = format.parts(a);
                if format.is_infinite(a) || mantissa == 0 {
                    return a;
                }
                let length = 64 - mantissa.leading_zeros() as i32;
                format.round(&Exact::new(a & format.sign() != 0, mantissa.into(), -length), NEAREST)
            })
        }));
        specs.push(Spec::new(exp, Forms::Short, &[kind], integer, move |[a, _, _], _| {
            let (mantissa, exponent) = format.parts(a);
            let special = format.is_nan(a) || format.is_infinite(a) || mantissa == 0;
            let length = 64 - mantissa.leading_zeros() as i32;
            Want::Bits(if special { 0 } else { i64::from(exponent + length) as u64 })
        }));
    }
    let ldexp = |name, forms, format: Format, power: Kind| {
        let kind = Kind::Float(format);
        Spec::new(name, forms, &[kind, power], kind, move |[a, b, _], mode| {
            let by = if power == B16 { i64::from(b as i16) } else { i64::from(b as i32) }.clamp(-2200, 2200);
            unless_nan(format, &[a], || {
                if format.is_infinite(a) {
                    return a;
                }
                let (mantissa, exponent) = format.parts(a);
                // Far below the smallest number only that it is not zero counts.
                let exponent = (exponent + by as i32).max(-2250);
                format.round(&Exact::new(a & format.sign() != 0, mantissa.into(), exponent), rule(format, mode))
            })
        })
    };
    specs.push(ldexp("v_ldexp_f32", Forms::Long, F32, B32));
    specs.push(ldexp("v_ldexp_f16", Forms::Short, F16, B16));
    specs.push(ldexp("v_ldexp_f64", Forms::Long, F64, B32));
}

fn cube(specs: &mut Vec<Spec>) {
    let mut add = |name, f: fn(f32, f32, f32, usize) -> f32| {
        specs.push(Spec::new(name, Forms::Long, &[S, S, S], S, move |source, _| {
            let [x, y, z] = source.map(|bits| f32::from_bits(bits as u32));
            let axis = if z.abs() >= x.abs() && z.abs() >= y.abs() {
                2
            } else if y.abs() >= x.abs() {
                1
            } else {
                0
            };
            Want::Bits(f(x, y, z, axis).to_bits().into())
        }));
    };
    add("v_cubeid_f32", |x, y, z, axis| (2 * axis) as f32 + f32::from(u8::from([x, y, z][axis] < 0.0)));
    add("v_cubesc_f32", |x, _, z, axis| match axis {
        2 => {
            if z < 0.0 {
                -x
            } else {
                x
            }
        }
        1 => x,
        _ => {
            if x < 0.0 {
                z
            } else {
                -z
            }
        }
    });
    add("v_cubetc_f32", |_, y, z, axis| match axis {
        1 => {
            if y < 0.0 {
                -z
            } else {
                z
            }
        }
        _ => -y,
    });
    add("v_cubema_f32", |x, y, z, axis| 2.0 * [x, y, z][axis]);
}

pub(super) fn specs() -> Vec<Spec> {
    use Forms::{Long, Short};
    let mut specs = vec![
        binary("v_add_f32", Short, F32, Format::add),
        binary("v_sub_f32", Short, F32, sub),
        binary("v_subrev_f32", Short, F32, |f, a, b, r| sub(f, b, a, r)),
        binary("v_mul_f32", Short, F32, Format::mul),
        Spec::new("v_mul_legacy_f32", Long, &[S, S], S, |[a, b, _], mode| {
            let zero = |x: u64| x & !F32.sign() == 0;
            if zero(a) || zero(b) {
                return Want::Bits(0);
            }
            unless_nan(F32, &[a, b], || legacy(F32, a, b, rule(F32, mode)))
        }),
        binary("v_add_f16", Short, F16, Format::add),
        binary("v_sub_f16", Short, F16, sub),
        binary("v_subrev_f16", Short, F16, |f, a, b, r| sub(f, b, a, r)),
        binary("v_mul_f16", Short, F16, Format::mul),
        binary("v_add_f64", Long, F64, Format::add),
        binary("v_mul_f64", Long, F64, Format::mul),
        ternary("v_fma_f32", Long, F32, true),
        ternary("v_fma_f64", Long, F64, true),
        ternary("v_fma_f16", Long, F16, true).keeping_high(),
        ternary("v_mad_f16", Long, F16, false).keeping_high(),
        ternary("v_fma_legacy_f16", Long, F16, true),
        ternary("v_mad_legacy_f16", Long, F16, false),
        ternary("v_fmac_f32", Short, F32, true).accumulating(),
        ternary("v_fmac_f64", Short, F64, true).accumulating(),
        ternary("v_mac_f16", Short, F16, false).accumulating(),
    ];
    whole_numbers(&mut specs);
    exponents(&mut specs);
    cube(&mut specs);
    specs
}
