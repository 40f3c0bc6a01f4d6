//! The long way of vector operations: modifiers, DPP, SDWA, relative registers, float modes.

use crate::inst::{Flow, Form, Inst};
use crate::lanes::{Compare, Lane, WideLane};
use crate::operand::{Type, pack, write_masked};
use crate::wave::{LANES, Lanes, M0, Wave, mode};

/// Sources as the operation sees them, two halves each.
struct Sources {
    low: [Lanes; 3],
    high: [Lanes; 3],
    /// Lanes whose DPP source does not exist and that are not to be written.
    skipped: u64,
}

pub(crate) fn lane<O: Lane>(wave: &mut Wave, inst: &Inst) -> Flow {
    let sources = fetch(wave, inst, O::SOURCES, O::ACCUMULATES);
    let register_mode = wave.mode();
    let mut out = [0; LANES];
    for (lane, out) in out.iter_mut().enumerate() {
        let source = [sources.low[0][lane], sources.low[1][lane], sources.low[2][lane]];
        *out = finish(u64::from(O::lane_in_mode(source, register_mode)), O::RESULT, inst, register_mode) as u32;
    }
    store(wave, inst, O::RESULT, &out, None, sources.skipped);
    Flow::Next
}

pub(crate) fn wide<O: WideLane>(wave: &mut Wave, inst: &Inst) -> Flow {
    let sources = fetch(wave, inst, O::SOURCES, O::ACCUMULATES);
    let register_mode = wave.mode();
    let (mut low, mut high) = ([0; LANES], [0; LANES]);
    for lane in 0..LANES {
        let join = |n: usize| u64::from(sources.low[n][lane]) | u64::from(sources.high[n][lane]) << 32;
        let result = O::lane_in_mode([join(0), join(1), join(2)], register_mode);
        let result = finish(result, O::RESULT, inst, register_mode);
        low[lane] = result as u32;
        high[lane] = (result >> 32) as u32;
    }
    let high = if O::RESULT.is_64() { Some(&high) } else { None };
    store(wave, inst, O::RESULT, &low, high, sources.skipped);
    Flow::Next
}

pub(crate) fn compare<O: Compare>(wave: &mut Wave, inst: &Inst) -> u64 {
    let sources = fetch(wave, inst, &O::SOURCES, false);
    let mut bits = [0; LANES];
    for (lane, bit) in bits.iter_mut().enumerate() {
        let join = |n: usize| u64::from(sources.low[n][lane]) | u64::from(sources.high[n][lane]) << 32;
        *bit = u8::from(O::lane(join(0), join(1)));
    }
    pack(&bits) & !sources.skipped
}

/// Operand codes with relative registers (`s_set_gpr_idx_on`: M0[7:0] is added, M0[15:12] says to which operands).
pub(crate) fn relative(wave: &Wave, inst: &Inst) -> Inst {
    let mut inst = *inst;
    if wave.mode() & mode::GPR_IDX_EN == 0 {
        return inst;
    }
    let m0 = wave.s[M0];
    let index = (m0 & 0xFF) as u16;
    for (n, code) in inst.src.iter_mut().enumerate() {
        if m0 & (1 << (12 + n)) != 0 && *code >= 256 {
            *code = *code & !0xFF | (*code + index) & 0xFF;
        }
    }
    if m0 & (1 << 15) != 0 {
        inst.dst = (inst.dst + index) & 0xFF;
    }
    inst
}

fn fetch(wave: &Wave, inst: &Inst, types: &[Type], accumulates: bool) -> Sources {
    let inst = &relative(wave, inst);
    let mut sources = Sources { low: [[0; LANES]; 3], high: [[0; LANES]; 3], skipped: 0 };
    for (n, &kind) in types.iter().enumerate() {
        let last = accumulates && n + 1 == types.len();
        let code = if last { 256 + inst.dst } else { inst.src[n] };
        let (low, high) = (&mut sources.low[n], &mut sources.high[n]);
        raw(wave, inst, code, kind, low, high);
        if inst.form == Form::Dpp && n == 0 {
            sources.skipped = dpp(low, high, inst.literal, wave.exec());
        }
        if inst.form == Form::Sdwa && n < 2 && !last {
            sdwa_select(low, inst.literal >> (16 + 8 * n), kind);
        }
        if inst.form == Form::Plain
            && matches!(kind, Type::B16 | Type::F16)
            && inst.op_sel & (1 << n) != 0
            && inst.words[1] != 0
        {
            low.iter_mut().for_each(|l| *l >>= 16);
        }
        for lane in 0..LANES {
            let value = u64::from(low[lane]) | u64::from(high[lane]) << 32;
            let value = sign(value, kind, inst.abs >> n & 1 != 0, inst.neg >> n & 1 != 0);
            let value = flush_source(value, kind, wave.mode());
            low[lane] = value as u32;
            high[lane] = (value >> 32) as u32;
        }
    }
    sources
}

fn raw(wave: &Wave, inst: &Inst, code: u16, kind: Type, low: &mut Lanes, high: &mut Lanes) {
    if code >= 256 {
        *low = *wave.vector(code);
        if kind.is_64() {
            *high = *wave.vector(code & !0xFF | (code + 1) & 0xFF);
        }
        return;
    }
    let value = if kind.is_64() { wave.scalar64(code, inst, kind) } else { u64::from(wave.scalar(code, inst, kind)) };
    *low = [value as u32; LANES];
    *high = [(value >> 32) as u32; LANES];
}

/// Bits of a type.
fn width(kind: Type) -> u32 {
    match kind {
        Type::B16 | Type::F16 => 16,
        Type::B32 | Type::F32 => 32,
        Type::B64 | Type::F64 => 64,
    }
}

fn sign(value: u64, kind: Type, abs: bool, neg: bool) -> u64 {
    let bit = 1_u64 << (width(kind) - 1);
    let value = if abs { value & !bit } else { value };
    if neg { value ^ bit } else { value }
}

/// Exponent and fraction masks of a float type.
fn fields(kind: Type) -> Option<(u64, u64)> {
    match kind {
        Type::F16 => Some((0x7C00, 0x3FF)),
        Type::F32 => Some((0x7F80_0000, 0x007F_FFFF)),
        Type::F64 => Some((0x7FF0_0000_0000_0000, 0x000F_FFFF_FFFF_FFFF)),
        _ => None,
    }
}

fn denormal_bits(kind: Type, register_mode: u32) -> u32 {
    if kind == Type::F32 { (register_mode & mode::DENORM_32) >> 4 } else { (register_mode & mode::DENORM_64_16) >> 6 }
}

/// Turns a denormal into a zero of its sign.
fn flush(value: u64, kind: Type) -> u64 {
    match fields(kind) {
        Some((exponent, fraction)) if value & exponent == 0 => value & !fraction,
        _ => value,
    }
}

fn flush_source(value: u64, kind: Type, register_mode: u32) -> u64 {
    if kind.is_float() && denormal_bits(kind, register_mode) & 1 == 0 { flush(value, kind) } else { value }
}

/// Output modifier, clamp, and flushing of the result.
fn finish(value: u64, kind: Type, inst: &Inst, register_mode: u32) -> u64 {
    if !kind.is_float() {
        return value;
    }
    let value = if denormal_bits(kind, register_mode) & 2 == 0 { flush(value, kind) } else { value };
    let value = if inst.omod == 0 { value } else { scale(value, kind, inst.omod) };
    if inst.clamp { clamp(value, kind, register_mode) } else { value }
}

/// Times 2, 4 or one half. The manual: the output modifier works only with denormals flushed; compilers know.
fn scale(value: u64, kind: Type, omod: u8) -> u64 {
    let factor = [1.0, 2.0, 4.0, 0.5][usize::from(omod & 3)];
    match kind {
        Type::F16 => {
            let x = half::f16::from_bits(value as u16).to_f64() * factor;
            u64::from(half::f16::from_f64(x).to_bits())
        }
        Type::F32 => u64::from((f32::from_bits(value as u32) * factor as f32).to_bits()),
        Type::F64 => (f64::from_bits(value) * factor).to_bits(),
        _ => value,
    }
}

/// To the range 0 to 1; NaN becomes 0 with DX10_CLAMP.
fn clamp(value: u64, kind: Type, register_mode: u32) -> u64 {
    let x = match kind {
        Type::F16 => half::f16::from_bits(value as u16).to_f64(),
        Type::F32 => f64::from(f32::from_bits(value as u32)),
        _ => f64::from_bits(value),
    };
    let one = match kind {
        Type::F16 => 0x3C00,
        Type::F32 => 0x3F80_0000,
        _ => 0x3FF0_0000_0000_0000,
    };
    if x.is_nan() {
        return if register_mode & mode::DX10_CLAMP != 0 { 0 } else { value };
    }
    if x <= 0.0 {
        0
    } else if x >= 1.0 {
        one
    } else {
        value
    }
}

/// Reroutes lanes; returns the lanes that must not be written.
fn dpp(low: &mut Lanes, high: &mut Lanes, control: u32, exec: u64) -> u64 {
    let (from_low, from_high) = (*low, *high);
    let select = (control >> 8) & 0x1FF;
    let bound_control = control & (1 << 19) != 0;
    let (bank_mask, row_mask) = ((control >> 24) & 0xF, (control >> 28) & 0xF);
    let mut skipped = 0;
    for lane in 0..LANES {
        let enabled = row_mask >> (lane / 16) & 1 != 0 && bank_mask >> (lane % 16 / 4) & 1 != 0;
        let source = dpp_source(select, lane);
        match source.filter(|&from| exec >> from & 1 != 0) {
            _ if !enabled => skipped |= 1 << lane,
            Some(from) => {
                low[lane] = from_low[from];
                high[lane] = from_high[from];
            }
            // The manual: with bound_ctrl an invalid source reads as zero, otherwise the lane is not written.
            None if bound_control => {
                low[lane] = 0;
                high[lane] = 0;
            }
            None => skipped |= 1 << lane,
        }
    }
    skipped
}

/// The lane that `lane` takes its value from, if there is one.
fn dpp_source(select: u32, lane: usize) -> Option<usize> {
    let (row, within) = (lane & !15, lane % 16);
    let count = (select & 0xF) as usize;
    match select {
        0x000..=0x0FF => Some(lane & !3 | (select as usize >> (2 * (lane % 4))) & 3),
        0x101..=0x10F => (within + count < 16).then(|| lane + count),
        0x111..=0x11F => (within >= count).then(|| lane - count),
        0x121..=0x12F => Some(row | (within + 16 - count) % 16),
        0x130 => (lane < 63).then(|| lane + 1),
        0x134 => Some((lane + 1) % 64),
        0x138 => (lane > 0).then(|| lane - 1),
        0x13C => Some((lane + 63) % 64),
        0x140 => Some(row | (15 - within)),
        0x141 => Some(lane & !7 | (7 - lane % 8)),
        0x142 => (lane >= 16).then(|| row - 1),
        0x143 => (lane >= 32).then_some(31),
        // row_newbcast (gfx90a and later): one lane of the row for all of it.
        0x150..=0x15F => Some(row | count),
        _ => None,
    }
}

/// Picks a byte or word of the source; bit 3 of `control` asks for sign extension.
fn sdwa_select(lanes: &mut Lanes, control: u32, _kind: Type) {
    let extend = control & 8 != 0;
    for lane in lanes.iter_mut() {
        *lane = match control & 7 {
            n @ 0..=3 if extend => i32::from((*lane >> (8 * n)) as i8) as u32,
            n @ 0..=3 => (*lane >> (8 * n)) & 0xFF,
            n @ (4 | 5) if extend => i32::from((*lane >> (16 * (n - 4))) as i16) as u32,
            n @ (4 | 5) => (*lane >> (16 * (n - 4))) & 0xFFFF,
            _ => *lane,
        };
    }
}

fn store(wave: &mut Wave, inst: &Inst, kind: Type, low: &Lanes, high: Option<&Lanes>, skipped: u64) {
    let inst = &relative(wave, inst);
    let exec = wave.exec() & !skipped;
    let to = &mut wave.v[usize::from(inst.dst & 0xFF)];
    let half_result = matches!(kind, Type::B16 | Type::F16);
    match inst.form {
        Form::Sdwa => {
            let merged = sdwa_merge(to, low, inst.literal);
            write_masked(to, &merged, exec);
        }
        // op_sel of the destination writes one half and keeps the other.
        Form::Plain if half_result && inst.words[1] != 0 => {
            let mut merged = *low;
            for lane in 0..LANES {
                merged[lane] = if inst.op_sel & 8 != 0 {
                    to[lane] & 0xFFFF | low[lane] << 16
                } else {
                    to[lane] & 0xFFFF_0000 | low[lane] & 0xFFFF
                };
            }
            write_masked(to, &merged, exec);
        }
        _ => write_masked(to, low, exec),
    }
    if let Some(high) = high {
        write_masked(&mut wave.v[usize::from(inst.dst.wrapping_add(1) & 0xFF)], high, exec);
    }
}

/// The destination select of SDWA: which part is written and what happens to the rest.
fn sdwa_merge(old: &Lanes, new: &Lanes, control: u32) -> Lanes {
    let (select, unused) = ((control >> 8) & 7, (control >> 11) & 3);
    let (shift, bits) = match select {
        n @ 0..=3 => (8 * n, 8),
        n @ (4 | 5) => (16 * (n - 4), 16),
        _ => return *new,
    };
    let mask = ((1_u32 << bits) - 1) << shift;
    let mut merged = [0; LANES];
    for lane in 0..LANES {
        let value = (new[lane] << shift) & mask;
        let rest = match unused {
            0 => 0,
            // Sign extension fills the bits above; those below are zero.
            1 if value >> (shift + bits - 1) & 1 != 0 => !mask & !((1_u32 << shift) - 1),
            1 => 0,
            _ => old[lane] & !mask,
        };
        merged[lane] = value | rest;
    }
    merged
}
