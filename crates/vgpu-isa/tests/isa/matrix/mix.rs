//! Fused multiply and add of singles and halves mixed.

use super::exact::{Exact, HALF, SINGLE, Want};
use super::form::{Form, SOME, Source, edges_16, edges_32};
use crate::harness::Case;
use vgpu_isa::wave::mode;

/// Halves look best with values that make sense in half precision, singles with singles: some lanes of each.
fn values(n: usize, lane: usize) -> u32 {
    if lane.is_multiple_of(3) { edges_16(n, lane) } else { edges_32(n, lane) }
}

/// These instructions have signs at the operands: neg_lo is negation, neg_hi the absolute value.
fn text(form: &Form) -> String {
    let mut text = format!("{} {}", form.name, form.operand(Source::V(form.destination)));
    for (n, &source) in form.sources.iter().enumerate() {
        let operand = form.operand(source);
        let operand = if form.neg_hi >> n & 1 != 0 { format!("|{operand}|") } else { operand };
        text += &format!(", {}{operand}", if form.neg_lo >> n & 1 != 0 { "-" } else { "" });
    }
    if form.op_sel != 0 {
        text += &form.list("op_sel", form.op_sel);
    }
    if form.op_sel_hi != 0 {
        text += &form.list("op_sel_hi", form.op_sel_hi);
    }
    if form.clamp {
        text += " clamp";
    }
    text
}

/// A source as a single; conversion from half precision is exact.
fn source(form: &Form, raw: u32, n: usize) -> u32 {
    let flush = |bits: u32, format: super::exact::Format, bit: u32| {
        if form.mode & bit == 0 { format.flush(bits) } else { bits }
    };
    let single = if form.op_sel_hi >> n & 1 == 0 {
        flush(raw, SINGLE, mode::DENORM_32_SOURCES)
    } else {
        let half = if form.op_sel >> n & 1 != 0 { raw >> 16 } else { raw & 0xFFFF };
        let half = flush(half, HALF, 0x40);
        match Exact::decode(half, HALF).round(SINGLE, 0) {
            Want::Bits(bits) => bits,
            Want::Nan => 0x7FC0_0000,
        }
    };
    let single = if form.neg_hi >> n & 1 != 0 { single & 0x7FFF_FFFF } else { single };
    single ^ u32::from(form.neg_lo >> n & 1) << 31
}

fn expected(form: &Form, raw: [u32; 3], half: bool) -> Want {
    let sources: [Exact; 3] = std::array::from_fn(|n| Exact::decode(source(form, raw[n], n), SINGLE));
    let [a, b, c] = sources;
    let rounding = form.mode & 3;
    let mut want = a.times(b).plus(c, rounding).round(SINGLE, rounding);
    if let Want::Bits(bits) = &mut want
        && form.mode & mode::DENORM_32_RESULTS == 0
    {
        *bits = SINGLE.flush(*bits);
    }
    if half && let Want::Bits(single) = want {
        want = Exact::decode(single, SINGLE).round(HALF, form.mode >> 2 & 3);
        if let Want::Bits(bits) = &mut want {
            let overflow = *bits & 0x7FFF == 0x7C00 && single & 0x7FFF_FFFF != 0x7F80_0000;
            if overflow && form.mode & mode::FP16_OVFL != 0 {
                *bits -= 1;
            }
            if form.mode & 0x80 == 0 {
                *bits = HALF.flush(*bits);
            }
        }
    }
    let format = if half { HALF } else { SINGLE };
    if form.clamp { format.clamp(want) } else { want }
}

fn case(form: Form, high: Option<bool>) -> Case {
    form.case(values, move |form, before, lane, got| {
        let raw: [u32; 3] = std::array::from_fn(|n| form.raw(before, n, lane) as u32);
        let want = expected(form, raw, high.is_some());
        let old = before.v(form.destination)[lane];
        let fine = match high {
            None => SINGLE.matches(want, got[0]),
            Some(false) => HALF.matches(want, got[0] & 0xFFFF) && got[0] >> 16 == old >> 16,
            Some(true) => HALF.matches(want, got[0] >> 16) && got[0] & 0xFFFF == old & 0xFFFF,
        };
        if fine { Ok(()) } else { Err(format!("{raw:x?} on {old:x} gave {:x}, expected {want:x?}", got[0])) }
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, high) in [("v_fma_mix_f32", None), ("v_fma_mixlo_f16", Some(false)), ("v_fma_mixhi_f16", Some(true))] {
        let form = || Form::new(name, 3, 1).with(|f| (f.op_sel_hi, f.text) = (0, text));
        let mut forms = vec![
            form(),
            form().with(|f| f.exec = SOME),
            form().with(|f| (f.destination, f.exec) = (30, SOME)),
            form().with(|f| f.op_sel_hi = 0b111),
            form().with(|f| (f.op_sel, f.op_sel_hi) = (0b101, 0b111)),
            form().with(|f| (f.op_sel, f.op_sel_hi) = (0b010, 0b011)),
            form().with(|f| (f.op_sel, f.op_sel_hi) = (0b100, 0b100)),
            form().with(|f| f.neg_lo = 0b101),
            form().with(|f| f.neg_hi = 0b111),
            form().with(|f| (f.neg_lo, f.neg_hi, f.op_sel_hi) = (0b011, 0b110, 0b101)),
            form().with(|f| f.clamp = true),
            form().with(|f| (f.clamp, f.op_sel_hi, f.destination) = (true, 0b111, 10)),
            form().with(|f| f.sources[0] = Source::S(4)),
            form().with(|f| (f.sources[0], f.op_sel, f.op_sel_hi) = (Source::S(4), 1, 1)),
            form().with(|f| f.sources[1] = Source::Constant("1.0", 0x3F80_0000)),
        ];
        for register in [1, 2, 3, 4, 8, 12, mode::FP16_OVFL]
            .map(|bits| mode::USUAL | bits)
            .into_iter()
            .chain([0x10, 0x20, 0x40, 0x80, 0xF0].map(|bits| mode::USUAL & !bits))
        {
            forms.push(form().with(|f| (f.mode, f.op_sel_hi) = (register, 0b010)));
        }
        cases.extend(forms.into_iter().map(|form| case(form, high)));
    }
    cases
}
