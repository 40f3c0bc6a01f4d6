//! Dot products.

use super::exact::{Exact, HALF, NEAREST, SINGLE, Want};
use super::form::{Form, SOME, Source, edges_16, edges_32, noise};
use crate::harness::{Case, Machine, same};
use vgpu_isa::inst::Target;

/// Name of the VOP3P form, of the VOP2 form, bits of a part, signedness.
const INTEGERS: &[(&str, Option<&str>, u32, bool)] = &[
    ("v_dot2_i32_i16", Some("v_dot2c_i32_i16"), 16, true),
    ("v_dot2_u32_u16", None, 16, false),
    ("v_dot4_i32_i8", Some("v_dot4c_i32_i8"), 8, true),
    ("v_dot4_u32_u8", None, 8, false),
    ("v_dot8_i32_i4", Some("v_dot8c_i32_i4"), 4, true),
    ("v_dot8_u32_u4", None, 4, false),
];

/// Parts that are at their limits in some lanes, so that sums overflow.
fn extremes(n: usize, lane: usize) -> u32 {
    match lane % 5 {
        0 => [0x8000_8000, 0x7FFF_7FFF, 0x8080_8080, 0x7F7F_7F7F, 0x8888_8888, !0][noise(n, lane) as usize % 6],
        1 if n >= 4 => [0x7FFF_FFFF, 0x8000_0000, !0, 0][lane / 5 % 4],
        1 => [0x8000_8000, 0x8080_8080, 0x8888_8888, !0][lane / 5 % 4],
        _ => noise(n, lane),
    }
}

fn integer_sum(a: u32, b: u32, c: u32, bits: u32, signed: bool, clamp: bool) -> u32 {
    let modulus = 1_i128 << bits;
    let part = |x: u32, n: u32| {
        let value = i128::from(x) / (1 << (bits * n)) % modulus;
        if signed && value >= modulus / 2 { value - modulus } else { value }
    };
    let start = if signed && c >= 1 << 31 { i128::from(c) - (1 << 32) } else { i128::from(c) };
    let sum = (0..32 / bits).fold(start, |sum, n| sum + part(a, n) * part(b, n));
    let sum = match (clamp, signed) {
        (false, _) => sum,
        (true, true) => sum.clamp(-(1 << 31), (1 << 31) - 1),
        (true, false) => sum.min((1 << 32) - 1),
    };
    sum.rem_euclid(1 << 32) as u32
}

fn integer_case(form: Form, bits: u32, signed: bool) -> Case {
    form.case(extremes, move |form, before, lane, got| {
        let raw = |n: usize| form.raw(before, n, lane) as u32;
        let c = if form.sources.len() > 2 { raw(2) } else { before.v(form.destination)[lane] };
        same("sum", got[0], integer_sum(raw(0), raw(1), c, bits, signed, form.clamp))
    })
}

/// Halves for the factors, singles for the sum.
fn values(n: usize, lane: usize) -> u32 {
    if n >= 4 { edges_32(n, lane) } else { edges_16(n, lane) }
}

/// Products are exact, each sum is rounded to nearest; denormal singles are zero, and denormal halves are on MI200.
fn half_sum(a: u32, b: u32, c: u32, clamp: bool, target: Target) -> Want {
    let factor = |x: u32, shift: u32| {
        let half = x >> shift & 0xFFFF;
        Exact::decode(if target == Target::Gfx90a { HALF.flush(half) } else { half }, HALF)
    };
    let product = |shift: u32| factor(a, shift).times(factor(b, shift));
    let mut sum = Want::Bits(SINGLE.flush(c));
    for shift in [0, 16] {
        let old = match sum {
            Want::Bits(bits) => bits,
            Want::Nan => 0x7FC0_0000,
        };
        sum = product(shift).plus(Exact::decode(old, SINGLE), NEAREST).round(SINGLE, NEAREST);
        if let Want::Bits(bits) = &mut sum {
            *bits = SINGLE.flush(*bits);
        }
    }
    if clamp { SINGLE.clamp(sum) } else { sum }
}

fn half_case(form: Form) -> Case {
    form.case(values, |form, before, lane, got| {
        let raw = |n: usize| {
            let flip = u32::from(form.neg_lo >> n & 1) << 15 | u32::from(form.neg_hi >> n & 1) << 31;
            form.raw(before, n, lane) as u32 ^ flip
        };
        let c = if form.sources.len() > 2 { raw(2) } else { before.v(form.destination)[lane] };
        let want = half_sum(raw(0), raw(1), c, form.clamp, before.target);
        let fine = SINGLE.matches(want, got[0]);
        if fine {
            Ok(())
        } else {
            Err(format!("{:x} {:x} {c:x} gave {:x}, expected {want:x?}", raw(0), raw(1), got[0]))
        }
    })
}

/// Forms of VOP3P; `one` is what the constant 1.0 means.
fn forms(name: &'static str, one: u64) -> Vec<Form> {
    let form = || Form::new(name, 3, 1);
    vec![
        form(),
        form().with(|f| f.exec = SOME),
        form().with(|f| f.exec = 0),
        form().with(|f| f.destination = 10),
        form().with(|f| f.destination = 30),
        form().with(|f| f.clamp = true),
        form().with(|f| (f.clamp, f.exec) = (true, SOME)),
        form().with(|f| f.sources[0] = Source::S(4)),
        form().with(|f| f.sources[1] = Source::Constant("1.0", one)),
        form().with(|f| f.sources[2] = Source::Constant("1.0", 0x3F80_0000)),
        form().with(|f| f.sources[1] = Source::Constant("-1", !0)),
    ]
}

/// Forms of VOP2 and their VOP3 encodings.
fn accumulating(e32: &'static str, e64: &'static str, one: u64) -> Vec<Form> {
    vec![
        Form::new(e32, 2, 1),
        Form::new(e32, 2, 1).with(|f| f.exec = SOME),
        Form::new(e32, 2, 1).with(|f| f.destination = 20),
        Form::new(e32, 2, 1).with(|f| f.sources[0] = Source::S(4)),
        Form::new(e32, 2, 1).with(|f| f.sources[0] = Source::Constant("1.0", one)),
        Form::new(e32, 2, 1).with(|f| f.sources[0] = Source::Constant("0x34bc81fe", 0x34BC_81FE)),
        Form::new(e64, 2, 1),
        Form::new(e64, 2, 1).with(|f| f.exec = SOME),
        Form::new(e64, 2, 1).with(|f| f.sources[1] = Source::S(4)),
        Form::new(e64, 2, 1).with(|f| f.clamp = true),
    ]
}

/// Lanes swapped in pairs by DPP.
fn rerouted(name: &'static str, sum: fn(u32, u32, u32, Target) -> Result<u32, Want>) -> Case {
    let form =
        Form::new(name, 2, 1).with(|f| f.text = |f| f.bare() + " quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf");
    form.case(values, move |form, before: &Machine, lane, got| {
        let (a, b) = (before.v(10)[lane ^ 1], before.v(20)[lane]);
        let want = sum(a, b, before.v(form.destination)[lane], before.target);
        let fine = match want {
            Ok(bits) => bits == got[0],
            Err(want) => SINGLE.matches(want, got[0]),
        };
        if fine { Ok(()) } else { Err(format!("{a:x} {b:x} gave {:x}, expected {want:x?}", got[0])) }
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, accumulates, bits, signed) in INTEGERS {
        cases.extend(forms(name, 0x3F80_0000).into_iter().map(|form| integer_case(form, bits, signed)));
        if let Some(short) = accumulates {
            let long: &'static str = match bits {
                16 => "v_dot2c_i32_i16_e64",
                8 => "v_dot4c_i32_i8_e64",
                _ => "v_dot8c_i32_i4_e64",
            };
            let forms = accumulating(short, long, 0x3F80_0000);
            cases.extend(forms.into_iter().map(|form| integer_case(form, bits, signed)));
        }
    }
    cases.extend(forms("v_dot2_f32_f16", 0x3C00).into_iter().map(half_case));
    cases.push(half_case(Form::new("v_dot2_f32_f16", 3, 1).with(|f| (f.neg_lo, f.neg_hi) = (0b01, 0b10))));
    cases.push(half_case(Form::new("v_dot2_f32_f16", 3, 1).with(|f| f.mode &= !0xF0)));
    cases.extend(accumulating("v_dot2c_f32_f16", "v_dot2c_f32_f16_e64", 0x3C00).into_iter().map(half_case));
    cases.push(rerouted("v_dot2c_f32_f16", |a, b, c, target| Err(half_sum(a, b, c, false, target))));
    cases.push(rerouted("v_dot2c_i32_i16", |a, b, c, _| Ok(integer_sum(a, b, c, 16, true, false))));
    cases.push(rerouted("v_dot4c_i32_i8", |a, b, c, _| Ok(integer_sum(a, b, c, 8, true, false))));
    cases.push(rerouted("v_dot8c_i32_i4", |a, b, c, _| Ok(integer_sum(a, b, c, 4, true, false))));
    cases
}
