//! Packed 16-bit integers and halves.

use super::exact::{Exact, HALF, NEAREST, Want};
use super::form::{Form, SOME, Source, edges_16, noise};
use crate::harness::Case;
use vgpu_isa::wave::mode;

/// Name, number of sources, exact result of signed (or unsigned) values, range with the clamp modifier (none if it has
/// no meaning).
type Integer = (&'static str, usize, bool, fn([i64; 3]) -> i64, Option<(i64, i64)>);

const SIGNED: Option<(i64, i64)> = Some((-32768, 32767));
const UNSIGNED: Option<(i64, i64)> = Some((0, 65535));

const INTEGERS: &[Integer] = &[
    ("v_pk_mad_i16", 3, true, |[a, b, c]| a * b + c, SIGNED),
    ("v_pk_mul_lo_u16", 2, false, |[a, b, _]| a * b, None),
    ("v_pk_add_i16", 2, true, |[a, b, _]| a + b, SIGNED),
    ("v_pk_sub_i16", 2, true, |[a, b, _]| a - b, SIGNED),
    ("v_pk_lshlrev_b16", 2, false, |[a, b, _]| b * (1 << (a % 16)), None),
    ("v_pk_lshrrev_b16", 2, false, |[a, b, _]| b / (1 << (a % 16)), None),
    ("v_pk_ashrrev_i16", 2, true, |[a, b, _]| b.div_euclid(1 << a.rem_euclid(16)), None),
    ("v_pk_max_i16", 2, true, |[a, b, _]| if a > b { a } else { b }, None),
    ("v_pk_min_i16", 2, true, |[a, b, _]| if a < b { a } else { b }, None),
    ("v_pk_mad_u16", 3, false, |[a, b, c]| a * b + c, UNSIGNED),
    ("v_pk_add_u16", 2, false, |[a, b, _]| a + b, UNSIGNED),
    ("v_pk_sub_u16", 2, false, |[a, b, _]| a - b, UNSIGNED),
    ("v_pk_max_u16", 2, false, |[a, b, _]| if a > b { a } else { b }, None),
    ("v_pk_min_u16", 2, false, |[a, b, _]| if a < b { a } else { b }, None),
];

/// The halves of the sources that make up the low or the high half of the result.
fn halves(form: &Form, before: &crate::harness::Machine, lane: usize, high: bool) -> [u32; 3] {
    let (select, negate) = if high { (form.op_sel_hi, form.neg_hi) } else { (form.op_sel, form.neg_lo) };
    std::array::from_fn(|n| {
        if n >= form.sources.len() {
            return 0;
        }
        let raw = form.raw(before, n, lane) as u32;
        let half = if select >> n & 1 != 0 { raw >> 16 } else { raw & 0xFFFF };
        half ^ u32::from(negate >> n & 1) << 15
    })
}

fn integer_case(form: Form, op: &'static Integer) -> Case {
    let &(_, _, signed, exact, range) = op;
    form.case(edges_16, move |form, before, lane, got| {
        let half = |high: bool| {
            let sources = halves(form, before, lane, high);
            let value = exact(sources.map(|x| if signed { i64::from(x as u16 as i16) } else { i64::from(x) }));
            let value = match range {
                Some((low, high)) if form.clamp => value.max(low).min(high),
                _ => value,
            };
            value.rem_euclid(65536) as u32
        };
        crate::harness::same("result", got[0], half(false) | half(true) << 16)
    })
}

/// Name, number of sources, result of halves in a mode.
type Half = (&'static str, usize, fn([u32; 3], u32) -> Want);

const HALVES: &[Half] = &[
    ("v_pk_fma_f16", 3, fma),
    ("v_pk_add_f16", 2, |[a, b, _], register| {
        let rounding = register >> 2 & 3;
        Exact::decode(a, HALF).plus(Exact::decode(b, HALF), rounding).round(HALF, rounding)
    }),
    ("v_pk_mul_f16", 2, |[a, b, _], register| {
        Exact::decode(a, HALF).times(Exact::decode(b, HALF)).round(HALF, register >> 2 & 3)
    }),
    ("v_pk_min_f16", 2, |[a, b, _], register| extreme(a, b, register, -1)),
    ("v_pk_max_f16", 2, |[a, b, _], register| extreme(a, b, register, 1)),
];

fn fma([a, b, c]: [u32; 3], register: u32) -> Want {
    let rounding = register >> 2 & 3;
    let product = Exact::decode(a, HALF).times(Exact::decode(b, HALF));
    product.plus(Exact::decode(c, HALF), rounding).round(HALF, rounding)
}

/// Minimum (-1) or maximum (1), step by step as the manual has it.
fn extreme(a: u32, b: u32, register: u32, direction: i64) -> Want {
    let ieee = register & mode::IEEE != 0;
    let signalling = |x: u32| HALF.is_nan(x) && !HALF.is_quiet_nan(x);
    for x in [a, b] {
        if ieee && signalling(x) {
            return Want::Bits(x | 0x200);
        }
    }
    if HALF.is_nan(a) {
        return Want::Bits(b);
    }
    if HALF.is_nan(b) {
        return Want::Bits(a);
    }
    // Twice the magnitude, with minus zero just below zero.
    let rank = |x: u32| if x & 0x8000 != 0 { -2 * i64::from(x & 0x7FFF) - 1 } else { 2 * i64::from(x) };
    Want::Bits(if (rank(a) - rank(b)) * direction > 0 { a } else { b })
}

fn half_case(form: Form, op: fn([u32; 3], u32) -> Want) -> Case {
    form.case(edges_16, move |form, before, lane, got| {
        for high in [false, true] {
            let sources = halves(form, before, lane, high);
            let got = if high { got[0] >> 16 } else { got[0] & 0xFFFF };
            let want = half_result(sources, form.mode, form.clamp, op);
            if !HALF.matches(want, got) {
                return Err(format!("{sources:x?} gave {got:x}, expected {want:x?}"));
            }
        }
        Ok(())
    })
}

/// Flushing, the operation, overflow, flushing, clamping.
fn half_result(sources: [u32; 3], register: u32, clamp: bool, op: fn([u32; 3], u32) -> Want) -> Want {
    let flush = |x: u32, bit: u32| if register & bit == 0 { HALF.flush(x) } else { x };
    let sources = sources.map(|x| flush(x, 0x40));
    let mut want = op(sources, register);
    if let Want::Bits(bits) = &mut want {
        let from_infinity = sources.iter().any(|x| x & 0x7FFF == 0x7C00);
        if register & mode::FP16_OVFL != 0 && *bits & 0x7FFF == 0x7C00 && !from_infinity {
            *bits -= 1;
        }
        *bits = flush(*bits, 0x80);
        // A NaN that minimum or maximum passed on clamps like any other.
        if clamp && HALF.is_nan(*bits) {
            want = Want::Nan;
        }
    }
    if clamp {
        if want == Want::Nan && register & mode::DX10_CLAMP == 0 { want } else { HALF.clamp(want) }
    } else {
        want
    }
}

/// Modes other than the usual one, for half precision.
const MODES: &[u32] = &[
    mode::USUAL | 1 << 2,
    mode::USUAL | 2 << 2,
    mode::USUAL | 3 << 2,
    mode::USUAL & !0x40,
    mode::USUAL & !0x80,
    mode::USUAL & !0xC0,
    mode::USUAL | mode::FP16_OVFL,
    mode::USUAL | mode::FP16_OVFL | 3 << 2,
    mode::USUAL & !mode::IEEE,
];

/// Forms that all packed operations have.
fn common(name: &'static str, sources: usize, one: u64) -> Vec<Form> {
    let form = || Form::new(name, sources, 1);
    let constant = |text, bits| {
        move |f: &mut Form| {
            f.sources[0] = Source::Constant(text, bits);
            f.sources[1] = Source::S(4);
        }
    };
    vec![
        form(),
        form().with(|f| f.exec = SOME),
        form().with(|f| f.exec = 0),
        form().with(|f| f.destination = 10),
        form().with(|f| (f.destination, f.exec) = (20, SOME)),
        form().with(|f| f.op_sel = 0b101 & ((1 << sources) - 1)),
        form().with(|f| f.op_sel_hi = 0b010),
        form().with(|f| (f.op_sel, f.op_sel_hi, f.exec) = (0b010, 0b101, SOME)),
        form().with(constant("1.0", one)),
        form().with(constant("1.0", one)).with(|f| f.op_sel_hi = 0b110),
        form().with(constant("-1", !0)),
        form().with(constant("64", 64)),
        form().with(|f| f.sources[1] = Source::Constant("-16", -16_i64 as u64)),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in INTEGERS {
        let &(name, sources, _, _, range) = op;
        let mut forms = common(name, sources, 0x3F80_0000);
        if range.is_some() {
            forms.push(Form::new(name, sources, 1).with(|f| f.clamp = true));
            forms.push(Form::new(name, sources, 1).with(|f| (f.clamp, f.op_sel, f.exec) = (true, 1, SOME)));
        }
        cases.extend(forms.into_iter().map(|form| integer_case(form, op)));
    }
    for &(name, sources, op) in HALVES {
        let form = || Form::new(name, sources, 1);
        let mut forms = common(name, sources, 0x3C00);
        let all = (1 << sources) - 1;
        forms.push(form().with(|f| (f.neg_lo, f.neg_hi) = (0b101 & all, 0b010)));
        forms.push(form().with(|f| (f.neg_lo, f.neg_hi, f.op_sel, f.op_sel_hi) = (0b010, 0b101 & all, 0b001, 0b110)));
        forms.push(form().with(|f| f.clamp = true));
        forms.push(form().with(|f| (f.clamp, f.neg_lo) = (true, 1)));
        forms.push(form().with(|f| (f.clamp, f.mode) = (true, mode::USUAL & !mode::DX10_CLAMP)));
        for &register in MODES {
            forms.push(form().with(|f| f.mode = register));
            forms.push(form().with(|f| (f.mode, f.clamp, f.exec) = (register, true, SOME)));
        }
        cases.extend(forms.into_iter().map(|form| half_case(form, op)));
    }
    cases.extend(accumulating());
    cases
}

/// v_pk_fmac_f16: VOP2, the destination is the third source.
fn accumulating() -> Vec<Case> {
    let form = || Form::new("v_pk_fmac_f16", 2, 1);
    let forms = [
        form(),
        form().with(|f| f.exec = SOME),
        form().with(|f| f.destination = 10),
        form().with(|f| f.mode = mode::USUAL | 3 << 2),
        form().with(|f| f.sources[0] = Source::S(4)),
        form().with(|f| f.sources[0] = Source::Constant("0xbc003c01", 0xBC00_3C01)),
        form().with(|f| f.sources[0] = Source::Constant("2.0", 0x4000)),
    ];
    let case = |form: Form| {
        form.case(edges_16, |form, before, lane, got| {
            let old = before.v(form.destination)[lane];
            for high in [false, true] {
                let shift = if high { 16 } else { 0 };
                let mut sources = halves(form, before, lane, high);
                sources[2] = old >> shift & 0xFFFF;
                let (got, want) = (got[0] >> shift & 0xFFFF, half_result(sources, form.mode, false, fma));
                if !HALF.matches(want, got) {
                    return Err(format!("{sources:x?} gave {got:x}, expected {want:x?}"));
                }
            }
            Ok(())
        })
    };
    forms.into_iter().map(case).collect()
}

#[test]
fn rounding_of_the_oracle_agrees_with_the_host() {
    for lane in 0..4096 {
        let x = noise(9, lane);
        let host = half::f16::from_f32(f32::from_bits(x));
        let want = Exact::decode(x, super::exact::SINGLE).round(HALF, NEAREST);
        assert!(HALF.matches(want, u32::from(host.to_bits())), "{x:x}: {want:x?}, {:x}", host.to_bits());
    }
}
