//! The steps of a division, the bits of two over pi, and multiply-adds with a literal.

use std::rc::Rc;

use super::exact::{Exact, F16, F32, F64, Format, NEAREST, two_over_pi};
use super::spec::{B32, D, Forms, Kind, Spec, Want, rule, sample};
use crate::harness::{Case, Machine, same};
use vgpu_isa::wave::VCC;

fn sign_of(format: Format, bits: u64) -> bool {
    bits & format.sign() != 0
}

/// Special cases of a division, in the order of the manual.
fn fixup(name: &'static str, format: Format, under: Option<i64>) -> Spec {
    let kind = Kind::Float(format);
    Spec::new(name, Forms::Long, &[kind; 3], kind, move |[q, d, n], mode| {
        let tiny = Exact::new(sign_of(format, d ^ n), 1, -2299);
        let huge = Exact::new(sign_of(format, d ^ n), 1, 2000);
        let sign = (d ^ n) & format.sign();
        let (dv, nv) = (format.value(d), format.value(n));
        let exponent = |bits: u64| ((bits & format.infinity()) >> format.fraction) as i64;
        Want::Bits(if nv.is_nan() {
            n | format.quiet()
        } else if dv.is_nan() {
            d | format.quiet()
        } else if dv == 0.0 && nv == 0.0 || dv.is_infinite() && nv.is_infinite() {
            format.invalid()
        } else if dv == 0.0 || nv.is_infinite() {
            sign | format.infinity()
        } else if dv.is_infinite() || nv == 0.0 {
            sign
        } else if under.is_some_and(|limit| exponent(n) - exponent(d) < limit) {
            format.round(&tiny, rule(format, mode))
        } else if under.is_some() && q & format.infinity() == format.infinity() {
            format.round(&huge, rule(format, mode))
        } else {
            q & !format.sign() | sign
        })
    })
}

fn trig_preop() -> Spec {
    let digits = Rc::new(two_over_pi(1201));
    Spec::new("v_trig_preop_f64", Forms::Long, &[D, B32], D, move |[a, b, _], mode| {
        let exponent = a >> 52 & 0x7FF;
        let position = (b & 31) * 53 + exponent.saturating_sub(1077);
        let bits = (0..53).fold(0_u128, |bits, n| {
            bits << 1 | u128::from(digits.get((position + n) as usize).copied().unwrap_or(false))
        });
        let power = -53 - position as i32 + if exponent >= 1968 { 128 } else { 0 };
        // Beyond the table there is nothing, so the exponent does not matter.
        let value = if bits == 0 { Exact::new(false, 0, 0) } else { Exact::new(false, bits, power) };
        Want::Bits(F64.round(&value, rule(F64, mode)))
    })
    .without_modifiers()
}

pub(super) fn specs() -> Vec<Spec> {
    vec![
        fixup("v_div_fixup_f32", F32, Some(-150)),
        fixup("v_div_fixup_f64", F64, Some(-1075)),
        fixup("v_div_fixup_legacy_f16", F16, None),
        fixup("v_div_fixup_f16", F16, None).keeping_high(),
        trig_preop(),
    ]
}

/// What v_div_scale does: power for the denominator, power for the numerator, and the flag; nothing for zeros.
fn plan(format: Format, d: u64, n: u64) -> Option<(i32, i32, bool)> {
    let (dv, nv) = (format.value(d), format.value(n));
    let exponent = |bits: u64| ((bits & format.infinity()) >> format.fraction) as i32;
    let denormal = |x: f64| {
        // Rounded to the format first, as the division would.
        let bits = if format == F64 { x.to_bits() } else { u64::from((x as f32).to_bits()) };
        bits & format.infinity() == 0
    };
    let (far, tiny, by) = if format == F64 { (768, 53, 128) } else { (96, 23, 64) };
    if dv == 0.0 || nv == 0.0 {
        None
    } else if exponent(n) - exponent(d) >= far {
        Some((by, 0, true))
    } else if exponent(d) == 0 {
        Some((by, by, false))
    } else if !dv.is_infinite() && denormal(1.0 / dv) {
        Some(if denormal(nv / dv) { (-by, 0, true) } else { (-by, -by, false) })
    } else if denormal(nv / dv) {
        Some((0, by, true))
    } else if exponent(n) <= tiny {
        Some((by, by, false))
    } else {
        Some((0, 0, false))
    }
}

/// Numerators and denominators at all distances.
fn operand(format: Format, n: usize, lane: usize, batch: usize) -> u64 {
    let bits = sample(Kind::Float(format), n, lane, batch);
    if lane.is_multiple_of(2) {
        return bits;
    }
    // Exponents spread over the whole range, the fraction as it is.
    let spread = (lane as u64 * 37 + n as u64 * 91 + batch as u64 * 53) % (format.infinity() >> format.fraction);
    bits & !format.infinity() | spread << format.fraction
}

fn scale_case(format: Format, asm: String, of_numerator: bool, batch: usize, sdst: usize) -> Case {
    let wide = format == F64;
    let setup = move |machine: &mut Machine| {
        for (n, at) in [(0, 24), (1, 28)] {
            for lane in 0..64 {
                let bits = operand(format, n, lane, batch);
                machine.wave.v[at][lane] = bits as u32;
                if wide {
                    machine.wave.v[at + 1][lane] = (bits >> 32) as u32;
                }
            }
        }
        machine.wave.set_exec(0xFFFF_FFFF_0FFF_FFFF);
    };
    Case::new(asm, setup, move |before, after| {
        let read = |m: &Machine, at: usize, lane: usize| if wide { m.v64(at, lane) } else { m.v(at)[lane].into() };
        let mut mask = 0;
        for lane in 0..64 {
            if before.wave.exec() >> lane & 1 == 0 {
                same("inactive lane", read(after, 10, lane), read(before, 10, lane))?;
                continue;
            }
            let (d, n) = (read(before, 24, lane), read(before, 28, lane));
            let source = if of_numerator { n } else { d };
            let plan = plan(format, d, n);
            let equal = format.value(d) == format.value(n);
            let want = match plan {
                None => format.invalid(),
                Some(_) if format.is_nan(source) => source | format.quiet(),
                Some((for_d, for_n, _)) => {
                    let by = if of_numerator { for_n } else { for_d };
                    // Equal sources cannot be told apart: whichever is scaled, both are.
                    let by = if equal { if for_d != 0 { for_d } else { for_n } } else { by };
                    if format.is_infinite(source) {
                        source
                    } else {
                        let (mantissa, exponent) = format.parts(source);
                        let value = Exact::new(source & format.sign() != 0, mantissa.into(), exponent + by);
                        format.round(&value, NEAREST)
                    }
                }
            };
            same(&format!("lane {lane} of {n:x} by {d:x}"), read(after, 10, lane), want)?;
            mask |= u64::from(plan.is_some_and(|p| p.2)) << lane;
        }
        same("scalar destination", after.wave.s64(sdst), mask)
    })
}

fn fmas_case(format: Format, batch: usize) -> Case {
    let wide = format == F64;
    let asm = if wide {
        "v_div_fmas_f64 v[10:11], v[20:21], v[24:25], v[28:29]"
    } else {
        "v_div_fmas_f32 v10, v20, v24, v28"
    };
    let setup = move |machine: &mut Machine| {
        for (n, at) in [20, 24, 28].into_iter().enumerate() {
            for lane in 0..64 {
                let bits = sample(Kind::Float(format), n, lane, batch);
                machine.wave.v[at][lane] = bits as u32;
                if wide {
                    machine.wave.v[at + 1][lane] = (bits >> 32) as u32;
                }
            }
        }
        machine.wave.set_s64(VCC, 0x0F0F_F0F0_3333_5555);
        machine.wave.set_exec(0xFFFF_0FFF_FFFF_FFFF);
    };
    Case::new(asm, setup, move |before, after| {
        let read = |m: &Machine, at: usize, lane: usize| if wide { m.v64(at, lane) } else { m.v(at)[lane].into() };
        same("EXEC", after.wave.exec(), before.wave.exec())?;
        (0..64).try_for_each(|lane| {
            let got = read(after, 10, lane);
            if before.wave.exec() >> lane & 1 == 0 {
                return same("inactive lane", got, read(before, 10, lane));
            }
            let source = [20, 24, 28].map(|at| read(before, at, lane));
            if source.iter().any(|&bits| format.is_nan(bits)) {
                return same("NaN", format.is_nan(got) && got & format.quiet() != 0, true);
            }
            let power = if format.value(source[2]).abs() >= 2.0 { 1 } else { -1 } * if wide { 128 } else { 64 };
            let scale = if before.wave.vcc() >> lane & 1 != 0 { power } else { 0 };
            let want = format.fma(source[0], source[1], source[2], scale, NEAREST);
            same(&format!("lane {lane} of {source:x?} by {scale}"), got, want)
        })
    })
}

/// Multiply-adds whose factor or addend is in the instruction.
fn literal_cases() -> Vec<Case> {
    let make = |asm: &str, format: Format, addend: bool, fused: bool| {
        let setup = move |m: &mut Machine| {
            m.set_v(20, |lane| sample(Kind::Float(format), 0, lane, 2) as u32);
            m.set_v(24, |lane| sample(Kind::Float(format), 1, lane, 2) as u32);
        };
        Case::new(asm, setup, move |before, after| {
            (0..64).try_for_each(|lane| {
                let mask = (1_u64 << format.total) - 1;
                let literal = 0x3F9D_3DB6 & mask;
                let (a, b) = (u64::from(before.v(20)[lane]) & mask, u64::from(before.v(24)[lane]) & mask);
                let (factor, added) = if addend { (b, literal) } else { (literal, b) };
                let got = u64::from(after.v(10)[lane]);
                if format.is_nan(a) || format.is_nan(b) {
                    return same("NaN", format.is_nan(got) && got & format.quiet() != 0, true);
                }
                let want = if fused {
                    format.fma(a, factor, added, 0, NEAREST)
                } else {
                    let product = format.mul(a, factor, NEAREST);
                    if format.is_nan(product) { product } else { format.add(product, added, NEAREST) }
                };
                same(&format!("lane {lane} of {a:x} and {b:x}"), got, want)
            })
        })
    };
    vec![
        make("v_fmamk_f32 v10, v20, 0x3f9d3db6, v24", F32, false, true),
        make("v_fmaak_f32 v10, v20, v24, 0x3f9d3db6", F32, true, true),
        make("v_madmk_f16 v10, v20, 0x3db6, v24", F16, false, false),
        make("v_madak_f16 v10, v20, v24, 0x3db6", F16, true, false),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = literal_cases();
    for batch in 0..8 {
        let single = |what: &str, sdst: &str| format!("v_div_scale_f32 v10, {sdst}, {what}, v24, v28");
        cases.push(scale_case(F32, single("v24", "vcc"), false, batch, 106));
        cases.push(scale_case(F32, single("v28", "s[4:5]"), true, batch, 4));
        let double = |what: &str, sdst: &str| format!("v_div_scale_f64 v[10:11], {sdst}, {what}, v[24:25], v[28:29]");
        cases.push(scale_case(F64, double("v[24:25]", "s[4:5]"), false, batch, 4));
        cases.push(scale_case(F64, double("v[28:29]", "vcc"), true, batch, 106));
        cases.push(fmas_case(F32, batch));
        cases.push(fmas_case(F64, batch));
    }
    cases
}
