//! The slow path of vector operations: modifiers, DPP, SDWA, relative registers, float modes.
//!
//! The order is the manual's: the register index is made, the register read, the lane or part selected (DPP, SDWA,
//! op_sel), the sign modified, denormals flushed; after the operation the output modifier, clamp, and the part of the
//! destination.

mod dpp;
mod output;
mod sdwa;

use crate::inst::{Flow, Form, Inst};
use crate::lanes::{Compare, Lane, WideLane};
use crate::operand::{Type, pack, write_masked};
use crate::wave::{LANES, Lanes, M0, Wave, mode};

/// Sources as the operation sees them, two halves each.
pub(crate) struct Sources {
    /// The value, or the low half of 64 bits.
    pub(crate) low: [Lanes; 3],
    /// The high half.
    pub(crate) high: [Lanes; 3],
    /// Lanes whose DPP source does not exist or that are masked off, and that are not to be written.
    pub(crate) skipped: u64,
}

impl Sources {
    /// A source of one lane as 64 bits.
    #[inline(always)]
    pub(crate) fn wide(&self, n: usize, lane: usize) -> u64 {
        u64::from(self.low[n][lane]) | u64::from(self.high[n][lane]) << 32
    }
}

/// How the sources of an operation are read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// Types of the sources.
    pub(crate) types: &'a [Type],
    /// The last source is the destination.
    pub(crate) accumulates: bool,
    /// Denormals are flushed if the mode says so.
    pub(crate) flushes: bool,
}

pub(crate) fn lane<O: Lane>(wave: &mut Wave, inst: &Inst) -> Flow {
    let sources = fetch(wave, inst, Reading { types: O::SOURCES, accumulates: O::ACCUMULATES, flushes: true });
    let register_mode = wave.mode();
    let after = output::After { omod: inst.omod, clamp: inst.clamp };
    let saturates = inst.clamp && !O::RESULT.is_float();
    let mut out = [0; LANES];
    for (lane, out) in out.iter_mut().enumerate() {
        let source = [sources.low[0][lane], sources.low[1][lane], sources.low[2][lane]];
        *out = if saturates {
            O::clamped(source) & O::RESULT.mask()
        } else {
            let result = u64::from(O::lane_in_mode(source, register_mode) & O::RESULT.mask());
            output::finish(result, O::RESULT, after, register_mode) as u32
        };
    }
    store(wave, inst, Writing { kind: O::RESULT, keeps_high: O::KEEPS_HIGH }, &out, None, sources.skipped);
    Flow::Next
}

pub(crate) fn wide<O: WideLane>(wave: &mut Wave, inst: &Inst) -> Flow {
    let sources = fetch(wave, inst, Reading { types: O::SOURCES, accumulates: O::ACCUMULATES, flushes: true });
    let register_mode = wave.mode();
    let after = output::After { omod: inst.omod, clamp: inst.clamp };
    let saturates = inst.clamp && !O::RESULT.is_float();
    let (mut low, mut high) = ([0; LANES], [0; LANES]);
    for lane in 0..LANES {
        let source = [sources.wide(0, lane), sources.wide(1, lane), sources.wide(2, lane)];
        let result = if saturates {
            O::clamped(source)
        } else {
            output::finish(O::lane_in_mode(source, register_mode), O::RESULT, after, register_mode)
        };
        low[lane] = result as u32;
        high[lane] = (result >> 32) as u32;
    }
    let high = if O::RESULT.is_64() { Some(&high) } else { None };
    store(wave, inst, Writing { kind: O::RESULT, keeps_high: false }, &low, high, sources.skipped);
    Flow::Next
}

pub(crate) fn compare<O: Compare>(wave: &mut Wave, inst: &Inst) -> u64 {
    let sources = fetch(wave, inst, Reading { types: &O::SOURCES, accumulates: false, flushes: O::FLUSHES });
    let mut bits = [0; LANES];
    for (lane, bit) in bits.iter_mut().enumerate() {
        *bit = u8::from(O::lane(sources.wide(0, lane), sources.wide(1, lane)));
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

/// Returns the sources with all modifiers applied.
pub(crate) fn fetch(wave: &Wave, inst: &Inst, how: Reading<'_>) -> Sources {
    let inst = &relative(wave, inst);
    let mut sources = Sources { low: [[0; LANES]; 3], high: [[0; LANES]; 3], skipped: 0 };
    for (n, &kind) in how.types.iter().enumerate() {
        let last = how.accumulates && n + 1 == how.types.len();
        let code = if last { 256 + inst.dst } else { inst.src[n] };
        let (low, high) = (&mut sources.low[n], &mut sources.high[n]);
        raw(wave, inst, code, kind, low, high);
        match inst.form {
            Form::Dpp if n == 0 => sources.skipped = dpp::reroute(low, high, inst.literal, wave.exec()),
            Form::Sdwa if n < 2 && !last => sdwa::select(low, inst.literal >> (16 + 8 * n)),
            Form::Plain if kind.is_16() && inst.op_sel & (1 << n) != 0 => low.iter_mut().for_each(|l| *l >>= 16),
            _ => {}
        }
        if kind.is_16() {
            low.iter_mut().for_each(|lane| *lane &= kind.mask());
        }
        // Integers have no sign modifiers: the bits mean nothing for them.
        if kind.is_float() {
            let (abs, neg) = (inst.abs >> n & 1 != 0, inst.neg >> n & 1 != 0);
            let flushed = how.flushes && output::flushes_sources(kind, wave.mode());
            if abs || neg || flushed {
                for lane in 0..LANES {
                    let value = u64::from(low[lane]) | u64::from(high[lane]) << 32;
                    let value = output::sign(value, kind, abs, neg);
                    let value = if flushed { output::flush(value, kind) } else { value };
                    low[lane] = value as u32;
                    high[lane] = (value >> 32) as u32;
                }
            }
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

/// How the result of an operation is written.
#[derive(Clone, Copy)]
pub(crate) struct Writing {
    /// Type of the result.
    pub(crate) kind: Type,
    /// Whether a 16-bit result keeps the other half; see [`Lane::KEEPS_HIGH`].
    pub(crate) keeps_high: bool,
}

/// Writes a result, its high half too if there is one, into the lanes that are on and not skipped. The upper half of a
/// 16-bit result is clear.
pub(crate) fn store(wave: &mut Wave, inst: &Inst, how: Writing, low: &Lanes, high: Option<&Lanes>, skipped: u64) {
    let inst = &relative(wave, inst);
    let exec = wave.exec() & !skipped;
    let to = &mut wave.v[usize::from(inst.dst & 0xFF)];
    match inst.form {
        Form::Sdwa => {
            let merged = sdwa::merge(to, low, inst.literal);
            write_masked(to, &merged, exec);
        }
        _ if how.kind.is_16() => {
            let (shift, keep) = match (inst.op_sel & 8 != 0, how.keeps_high) {
                (true, _) => (16, 0xFFFF),
                (false, true) => (0, 0xFFFF_0000),
                (false, false) => (0, 0),
            };
            let mut merged = [0; LANES];
            for lane in 0..LANES {
                merged[lane] = to[lane] & keep | low[lane] << shift;
            }
            write_masked(to, &merged, exec);
        }
        _ => write_masked(to, low, exec),
    }
    if let Some(high) = high {
        write_masked(&mut wave.v[usize::from(inst.dst.wrapping_add(1) & 0xFF)], high, exec);
    }
}
