//! Modifiers of vector operations: DPP, SDWA, op_sel, signs, clamp, relative registers, float modes.
//!
//! The order is the manual's: the register index is made, the register read, the lane or part selected (DPP, SDWA,
//! op_sel), the sign modified, denormals flushed; after the operation the output modifier, clamp, and the part of the
//! destination.
//!
//! In the usual mode the handlers of `lanes` read their sources with [`arranged`] and [`arranged64`], apply [`Signs`]
//! in their loop, and write with [`finish`]: none of these depends on the operation, so each exists once. [`lane`],
//! [`wide`] and [`compare`] are the long way, for other modes and for integers that saturate.

mod dpp;
mod output;
mod sdwa;

use crate::inst::{Flow, Form, Inst};
use crate::lanes::{Compare, Lane, WideLane};
use crate::operand::{Aligned, LaneBuffer, Type, pack, write_masked};
use crate::wave::{LANES, Lanes, M0, Wave, mode};

/// Sources as the operation sees them, two halves each.
struct Sources {
    /// The value, or the low half of 64 bits.
    low: [Lanes; 3],
    /// The high half.
    high: [Lanes; 3],
}

impl Sources {
    /// A source of one lane as 64 bits.
    #[inline(always)]
    fn wide(&self, n: usize, lane: usize) -> u64 {
        u64::from(self.low[n][lane]) | u64::from(self.high[n][lane]) << 32
    }
}

/// How the sources of an operation are read.
#[derive(Clone, Copy)]
struct Reading<'a> {
    /// Types of the sources.
    types: &'a [Type],
    /// The last source is the destination.
    accumulates: bool,
    /// Denormals are flushed if the mode says so.
    flushes: bool,
}

/// Runs an operation in any mode.
pub(crate) fn lane<O: Lane>(wave: &mut Wave, inst: &Inst) -> Flow {
    let inst = &relative(wave, inst);
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
    store(wave, inst, Writing { kind: O::RESULT, keeps_high: O::KEEPS_HIGH }, &out, None);
    Flow::Next
}

/// Runs an operation on 64 bits in any mode.
pub(crate) fn wide<O: WideLane>(wave: &mut Wave, inst: &Inst) -> Flow {
    let inst = &relative(wave, inst);
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
    store(wave, inst, Writing { kind: O::RESULT, keeps_high: false }, &low, high);
    Flow::Next
}

/// Runs a comparison in any mode.
pub(crate) fn compare<O: Compare>(wave: &Wave, inst: &Inst) -> u64 {
    let inst = &relative(wave, inst);
    let sources = fetch(wave, inst, Reading { types: &O::SOURCES, accumulates: false, flushes: O::FLUSHES });
    let mut bits = [0; LANES];
    for (lane, bit) in bits.iter_mut().enumerate() {
        *bit = u8::from(O::lane(sources.wide(0, lane), sources.wide(1, lane)));
    }
    pack(&bits) & !skipped(wave, inst)
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

/// Returns the sources with all modifiers applied, and denormals flushed as the mode says.
fn fetch(wave: &Wave, inst: &Inst, how: Reading<'_>) -> Sources {
    let mut sources = Sources { low: [[0; LANES]; 3], high: [[0; LANES]; 3] };
    for (n, &kind) in how.types.iter().enumerate() {
        let accumulator = how.accumulates && n + 1 == how.types.len();
        let code = if accumulator { 256 + inst.dst } else { inst.src[n] };
        let operand = Operand { n, code, kind, accumulator };
        let mut buffers = [LaneBuffer::uninit(), LaneBuffer::uninit()];
        let (low, high) = (&mut sources.low[n], &mut sources.high[n]);
        if kind.is_64() {
            let (from_low, from_high) = source64(wave, inst, operand, &mut buffers);
            (*low, *high) = (*from_low, *from_high);
        } else {
            *low = *source(wave, inst, operand, &mut buffers[0]);
        }
        if how.flushes && output::flushes_sources(kind, wave.mode()) {
            for lane in 0..LANES {
                let value = output::flush(u64::from(low[lane]) | u64::from(high[lane]) << 32, kind);
                low[lane] = value as u32;
                high[lane] = (value >> 32) as u32;
            }
        }
    }
    sources
}

/// A source of an instruction.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    /// Its number, by which modifiers apply to it.
    pub(crate) n: usize,
    /// Operand code.
    pub(crate) code: u16,
    /// Type.
    pub(crate) kind: Type,
    /// It is the destination register: SDWA selects no part of it.
    pub(crate) accumulator: bool,
}

impl Operand {
    /// The source that the instruction names.
    #[inline(always)]
    pub(crate) fn new(inst: &Inst, n: usize, kind: Type) -> Self {
        Self { n, code: inst.src[n], kind, accumulator: false }
    }
}

/// What the sign modifiers of a source do to the word that has the sign: bits are cleared, then bits flipped.
#[derive(Clone, Copy)]
pub(crate) struct Signs {
    clear: u32,
    flip: u32,
}

impl Signs {
    /// Nothing.
    pub(crate) const NONE: Self = Self { clear: 0, flip: 0 };

    /// Those of a source. Integers have none: the bits mean nothing for them.
    #[inline(always)]
    pub(crate) fn of(inst: &Inst, n: usize, kind: Type) -> Self {
        let sign = match kind {
            Type::F16 => 1 << 15,
            Type::F32 | Type::F64 => 1 << 31,
            Type::B16 | Type::B32 | Type::B64 | Type::I64 => 0,
        };
        let bit = |field: u8| if field >> n & 1 != 0 { sign } else { 0 };
        Self { clear: bit(inst.abs), flip: bit(inst.neg) }
    }

    #[inline(always)]
    pub(crate) fn apply(self, word: u32) -> u32 {
        word & !self.clear ^ self.flip
    }

    /// Applies them to all lanes, of whose words the bits of `mask` count.
    #[inline(always)]
    fn register<'a>(self, lanes: &Lanes, mask: u32, to: &'a mut LaneBuffer) -> &'a Lanes {
        &to.write(Aligned(lanes.map(|word| self.apply(word & mask)))).0
    }
}

/// A part of a register that stands for the whole: moved up until it loses its neighbours, and down again.
#[derive(Clone, Copy)]
struct Part {
    left: u32,
    right: u32,
    /// The sign bit of the part if it is extended, or zero.
    sign: u32,
}

impl Part {
    /// The part that the modifiers of a source select; nothing for the whole.
    #[inline(always)]
    fn of(inst: &Inst, Operand { n, kind, accumulator, .. }: Operand) -> Option<Self> {
        match inst.form {
            Form::Sdwa if n < 2 && !accumulator => sdwa::select(inst.literal >> (16 + 8 * n)),
            Form::Plain if kind.is_16() && inst.op_sel & (1 << n) != 0 => Some(Self { left: 0, right: 16, sign: 0 }),
            _ => None,
        }
    }

    #[inline(always)]
    fn apply(self, word: u32) -> u32 {
        ((word << self.left >> self.right) ^ self.sign).wrapping_sub(self.sign)
    }
}

/// Returns the control word if the lanes of this source are moved.
#[inline(always)]
fn route(inst: &Inst, n: usize) -> Option<u32> {
    (inst.form == Form::Dpp && n == 0).then_some(inst.literal)
}

/// Compiles a function once for any CPU and once for one with wide vectors, and chooses when it is called. The
/// handlers, which know their CPU, call these rarely enough.
macro_rules! for_cpu {
    ($(#[$doc:meta])* $name:ident<$life:lifetime>($($arg:ident: $type:ty),*) -> $result:ty { $body:ident }) => {
        $(#[$doc])*
        #[inline(never)]
        pub(crate) fn $name<$life>($($arg: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                fn wide<$life>($($arg: $type),*) -> $result {
                    $body($($arg),*)
                }
                if crate::table::is_wide() {
                    // SAFETY: the CPU has what the function was compiled for.
                    return unsafe { wide($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}

for_cpu! {
    /// The lanes of a source of at most 32 bits, moved and selected; signs are still to be applied.
    arranged<'a>(wave: &'a Wave, inst: &Inst, operand: Operand, buffer: &'a mut LaneBuffer) -> &'a Lanes {
        arranged_body
    }
}

for_cpu! {
    /// The lanes of a 64-bit source, moved and selected: low and high halves, of which the high ones have the sign.
    arranged64<'a>(wave: &'a Wave, inst: &Inst, operand: Operand, buffers: &'a mut [LaneBuffer; 2])
        -> (&'a Lanes, &'a Lanes) { arranged64_body }
}

for_cpu! {
    /// The lanes of a source of at most 32 bits with its modifiers applied; denormals stay.
    source<'a>(wave: &'a Wave, inst: &Inst, operand: Operand, buffer: &'a mut LaneBuffer) -> &'a Lanes { source_body }
}

for_cpu! {
    /// The lanes of a 64-bit source with its modifiers applied, low and high halves; denormals stay.
    source64<'a>(wave: &'a Wave, inst: &Inst, operand: Operand, buffers: &'a mut [LaneBuffer; 2])
        -> (&'a Lanes, &'a Lanes) { source64_body }
}

for_cpu! {
    /// Writes a result, its high half too if there is one, into the lanes that are on and not skipped. What else a
    /// 16-bit result has in its upper half does not count.
    store<'a>(wave: &mut Wave, inst: &Inst, how: Writing, low: &'a Lanes, high: Option<&'a Lanes>) -> () { store_body }
}

for_cpu! {
    /// Clamps results that were made in the usual mode if they are floats and the instruction asks for it, and writes
    /// them. The output modifier does nothing in this mode.
    finish<'a>(wave: &mut Wave, inst: &Inst, how: Writing, low: &'a Lanes, high: Option<&'a Lanes>) -> () { finish_body }
}

#[inline(always)]
fn arranged_body<'a>(wave: &'a Wave, inst: &Inst, operand: Operand, buffer: &'a mut LaneBuffer) -> &'a Lanes {
    let Operand { n, code, kind, .. } = operand;
    let part = Part::of(inst, operand);
    if code < 256 {
        let word = wave.scalar(code, inst, kind);
        return &buffer.write(Aligned([part.map_or(word, |part| part.apply(word)); LANES])).0;
    }
    let register = wave.vector(code);
    match (route(inst, n), part) {
        (Some(control), _) => dpp::reroute(register, control, wave.exec(), buffer),
        (None, Some(part)) => &buffer.write(Aligned(register.map(|word| part.apply(word)))).0,
        (None, None) => register,
    }
}

#[inline(always)]
fn arranged64_body<'a>(
    wave: &'a Wave,
    inst: &Inst,
    operand: Operand,
    [low, high]: &'a mut [LaneBuffer; 2],
) -> (&'a Lanes, &'a Lanes) {
    let Operand { n, code, kind, .. } = operand;
    // SDWA selects among the low halves alone.
    if code < 256 {
        let value = wave.scalar64(code, inst, kind);
        let word = Part::of(inst, operand).map_or(value as u32, |part| part.apply(value as u32));
        return (&low.write(Aligned([word; LANES])).0, &high.write(Aligned([(value >> 32) as u32; LANES])).0);
    }
    let register = wave.vector(code & !0xFF | (code + 1) & 0xFF);
    let moved = match route(inst, n) {
        Some(control) => dpp::reroute(register, control, wave.exec(), high),
        None => register,
    };
    (arranged_body(wave, inst, operand, low), moved)
}

#[inline(always)]
fn source_body<'a>(wave: &'a Wave, inst: &Inst, operand: Operand, buffer: &'a mut LaneBuffer) -> &'a Lanes {
    let mut arranged = LaneBuffer::uninit();
    let lanes = arranged_body(wave, inst, operand, &mut arranged);
    Signs::of(inst, operand.n, operand.kind).register(lanes, operand.kind.mask(), buffer)
}

#[inline(always)]
fn source64_body<'a>(
    wave: &'a Wave,
    inst: &Inst,
    operand: Operand,
    [to_low, to_high]: &'a mut [LaneBuffer; 2],
) -> (&'a Lanes, &'a Lanes) {
    let mut arranged = [LaneBuffer::uninit(), LaneBuffer::uninit()];
    let (low, high) = arranged64_body(wave, inst, operand, &mut arranged);
    let signs = Signs::of(inst, operand.n, operand.kind);
    (&to_low.write(Aligned(*low)).0, signs.register(high, !0, to_high))
}

/// Returns the lanes that an instruction does not write although they are on: their DPP source does not exist, or they
/// are masked off.
#[inline(always)]
pub(crate) fn skipped(wave: &Wave, inst: &Inst) -> u64 {
    if inst.form == Form::Dpp { dpp::skipped(inst.literal, wave.exec()) } else { 0 }
}

/// How the result of an operation is written.
#[derive(Clone, Copy)]
pub(crate) struct Writing {
    /// Type of the result.
    pub(crate) kind: Type,
    /// Whether a 16-bit result keeps the other half; see [`Lane::KEEPS_HIGH`].
    pub(crate) keeps_high: bool,
}

impl Writing {
    /// A result of 32 bits without further ado.
    pub(crate) const WORD: Self = Self { kind: Type::B32, keeps_high: false };
}

#[inline(always)]
fn finish_body(wave: &mut Wave, inst: &Inst, how: Writing, low: &Lanes, high: Option<&Lanes>) {
    if !(inst.clamp && how.kind.is_float()) {
        return store_body(wave, inst, how, low, high);
    }
    let register_mode = wave.mode();
    let (mut clamped, mut clamped_high) = (*low, [0; LANES]);
    match high {
        Some(high) => {
            for lane in 0..LANES {
                let value = u64::from(low[lane]) | u64::from(high[lane]) << 32;
                let value = output::clamp(value, how.kind, register_mode);
                (clamped[lane], clamped_high[lane]) = (value as u32, (value >> 32) as u32);
            }
        }
        None => output::clamp_words(&mut clamped, how.kind, register_mode),
    }
    store_body(wave, inst, how, &clamped, high.map(|_| &clamped_high));
}

#[inline(always)]
fn store_body(wave: &mut Wave, inst: &Inst, how: Writing, low: &Lanes, high: Option<&Lanes>) {
    let exec = wave.exec() & !skipped(wave, inst);
    let to = &mut wave.v[usize::from(inst.dst & 0xFF)];
    match inst.form {
        Form::Sdwa => sdwa::merge(to, low, how.kind.mask(), inst.literal, exec),
        _ if how.kind.is_16() => {
            let (shift, keep) = match (inst.op_sel & 8 != 0, how.keeps_high) {
                (true, _) => (16, 0xFFFF),
                (false, true) => (0, 0xFFFF_0000),
                (false, false) => (0, 0),
            };
            let mut merged = [0; LANES];
            for lane in 0..LANES {
                merged[lane] = to[lane] & keep | (low[lane] & 0xFFFF) << shift;
            }
            write_masked(to, &merged, exec);
        }
        _ => write_masked(to, low, exec),
    }
    if let Some(high) = high {
        write_masked(&mut wave.v[usize::from(inst.dst.wrapping_add(1) & 0xFF)], high, exec);
    }
}
