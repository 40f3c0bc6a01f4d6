//! Packed single precision and packed moves.

use super::exact::{Exact, SINGLE, Want};
use super::form::{Form, SOME, Source, edges_32, noise};
use crate::harness::{Case, Machine, same};
use vgpu_isa::wave::mode;

type Op = fn([Exact; 3], u32) -> Exact;

const OPS: &[(&str, usize, Op)] = &[
    ("v_pk_fma_f32", 3, |[a, b, c], rounding| a.times(b).plus(c, rounding)),
    ("v_pk_mul_f32", 2, |[a, b, _], _| a.times(b)),
    ("v_pk_add_f32", 2, |[a, b, _], rounding| a.plus(b, rounding)),
];

/// One register of a source, chosen by a bit of op_sel or op_sel_hi.
fn register(form: &Form, before: &Machine, n: usize, lane: usize, select: u8) -> u32 {
    let raw = form.raw(before, n, lane);
    if select >> n & 1 != 0 { (raw >> 32) as u32 } else { raw as u32 }
}

pub(super) fn single_result(sources: &[u32], register: u32, clamp: bool, op: Op) -> Want {
    let rounding = register & mode::ROUND_32;
    let flush = |x: u32, bit: u32| if register & bit == 0 { SINGLE.flush(x) } else { x };
    let decoded: [Exact; 3] = std::array::from_fn(|n| {
        Exact::decode(flush(sources.get(n).copied().unwrap_or(0), mode::DENORM_32_SOURCES), SINGLE)
    });
    let mut want = op(decoded, rounding).round(SINGLE, rounding);
    if let Want::Bits(bits) = &mut want {
        *bits = flush(*bits, mode::DENORM_32_RESULTS);
    }
    match want {
        _ if !clamp => want,
        Want::Nan if register & mode::DX10_CLAMP == 0 => want,
        _ => SINGLE.clamp(want),
    }
}

fn case(form: Form, op: Op) -> Case {
    form.case(edges_32, move |form, before, lane, got| {
        for (at, select, negate) in [(0, form.op_sel, form.neg_lo), (1, form.op_sel_hi, form.neg_hi)] {
            let sources: Vec<u32> = (0..form.sources.len())
                .map(|n| register(form, before, n, lane, select) ^ u32::from(negate >> n & 1) << 31)
                .collect();
            let want = single_result(&sources, form.mode, form.clamp, op);
            if !SINGLE.matches(want, got[at]) {
                return Err(format!("{sources:x?} gave {:x}, expected {want:x?}", got[at]));
            }
        }
        Ok(())
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, sources, op) in OPS {
        let form = || Form::new(name, sources, 2);
        let mut forms = vec![
            form(),
            form().with(|f| f.exec = SOME),
            form().with(|f| f.exec = 0),
            form().with(|f| f.destination = 10),
            form().with(|f| (f.destination, f.op_sel, f.op_sel_hi) = (20, 0b11, 0)),
            form().with(|f| f.op_sel = 0b10),
            form().with(|f| f.op_sel_hi = 0b01),
            form().with(|f| f.sources[0] = Source::S(4)),
            form().with(|f| (f.sources[0], f.op_sel_hi) = (Source::S(4), 0b110)),
            form().with(|f| f.sources[1] = Source::Constant("2.0", 0x4000_0000)),
            form().with(|f| (f.sources[1], f.op_sel_hi) = (Source::Constant("-0.5", 0xBF00_0000), 0b101)),
            form().with(|f| (f.neg_lo, f.neg_hi) = (0b01, 0b10)),
            form().with(|f| (f.neg_lo, f.neg_hi, f.op_sel) = (0b11, 0b01, 0b01)),
            form().with(|f| f.clamp = true),
            form().with(|f| (f.clamp, f.mode) = (true, mode::USUAL & !mode::DX10_CLAMP)),
        ];
        for register in [1, 2, 3].map(|r| mode::USUAL | r).into_iter().chain(
            [mode::DENORM_32_SOURCES, mode::DENORM_32_RESULTS, mode::DENORM_32]
                .map(|denormals| mode::USUAL & !denormals),
        ) {
            forms.push(form().with(|f| f.mode = register));
            forms.push(form().with(|f| (f.mode, f.clamp, f.exec) = (register, true, SOME)));
        }
        cases.extend(forms.into_iter().map(|form| case(form, op)));
    }
    let form = || Form::new("v_pk_mov_b32", 2, 2);
    let moves = [
        form(),
        form().with(|f| f.exec = SOME),
        form().with(|f| f.op_sel = 0b01),
        form().with(|f| f.op_sel = 0b10),
        form().with(|f| (f.op_sel, f.destination) = (0b11, 10)),
        form().with(|f| (f.op_sel, f.destination) = (0b01, 20)),
        form().with(|f| (f.sources[0], f.op_sel) = (Source::S(4), 0b01)),
        form().with(|f| f.sources[1] = Source::Constant("1.0", 0x3F80_0000)),
        form().with(|f| (f.sources[1], f.op_sel) = (Source::Constant("-3", -3_i64 as u64), 0b10)),
    ];
    cases.extend(moves.into_iter().map(|form| {
        form.case(noise, |form, before, lane, got| {
            let want: Vec<u32> = (0..2).map(|n| register(form, before, n, lane, form.op_sel)).collect();
            same("result", got.to_vec(), want)
        })
    }));
    cases
}
