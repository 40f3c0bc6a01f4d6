//! Vector operations as functions of one lane.
//!
//! An operation says what it does with the values of one lane; the handlers made here fetch sources, run the lanes in a
//! loop that the compiler vectorises, and write the lanes that are on. Instructions with modifiers have handlers of
//! their own, chosen when they are decoded: sources (DPP, SDWA) and results are arranged by the module `modify` before
//! and after the loop, signs are applied in it. Relative registers, other float modes and integers that saturate take a
//! longer way through that module.

use std::mem::MaybeUninit;

use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::modify::{self, Operand, Signs, Writing};
use crate::operand::{LaneBuffer, Type, pack, source, source64};
use crate::wave::{LANES, Lanes, Wave, unusual};

/// A vector operation whose result is a 32-bit (or narrower) value per lane, from sources of at most 32 bits.
pub trait Lane: 'static {
    /// Types of the sources it has; the length is their number.
    const SOURCES: &'static [Type];
    /// Type of the result.
    const RESULT: Type;
    /// The destination register is the last source (fmac and the like; `SOURCES` counts it).
    const ACCUMULATES: bool = false;
    /// A 16-bit result leaves the other half of the destination alone. Most operations clear it; those that gfx9
    /// brought (VOP3 only, with op_sel) and the half precision multiply-adds of VOP2 keep it.
    const KEEPS_HIGH: bool = false;

    /// The result of one lane in the usual mode. 16-bit sources arrive with the upper half clear; the upper half of a
    /// 16-bit result does not matter.
    fn lane(source: [u32; 3]) -> u32;

    /// The result of an integer operation with clamp: saturated where the operation knows saturation.
    #[inline(always)]
    fn clamped(source: [u32; 3]) -> u32 {
        Self::lane(source)
    }

    /// The result of one lane in any mode (the value of MODE is given). Sources have been flushed already if the mode
    /// asks for it, and the result will be; what is left is rounding.
    #[inline(always)]
    fn lane_in_mode(source: [u32; 3], _mode: u32) -> u32 {
        Self::lane(source)
    }
}

/// A vector operation with 64-bit sources or a 64-bit result. Narrow sources arrive in the low bits.
pub trait WideLane: 'static {
    /// Types of the sources it has.
    const SOURCES: &'static [Type];
    /// Type of the result.
    const RESULT: Type;
    /// The destination register is the last source.
    const ACCUMULATES: bool = false;

    /// [`WideLane::halves`] is to be used: vectors of 32 bits do it better than vectors of 64.
    const IN_HALVES: bool = false;

    /// The source that says how far to shift, which is nearly always the same in all lanes, and often zero.
    const DISTANCE: Option<usize> = None;

    /// The result of one lane in the usual mode.
    fn lane(source: [u64; 3]) -> u64;

    /// The same with low and high halves apart. The high half of a narrow source means nothing.
    #[inline(always)]
    fn halves(source: [[u32; 2]; 3]) -> [u32; 2] {
        let result = Self::lane(source.map(|[low, high]| u64::from(low) | u64::from(high) << 32));
        [result as u32, (result >> 32) as u32]
    }

    /// The result of an integer operation with clamp; see [`Lane::clamped`].
    #[inline(always)]
    fn clamped(source: [u64; 3]) -> u64 {
        Self::lane(source)
    }

    /// The result of one lane in any mode; see [`Lane::lane_in_mode`].
    #[inline(always)]
    fn lane_in_mode(source: [u64; 3], _mode: u32) -> u64 {
        Self::lane(source)
    }
}

/// A comparison: one bit per lane, written to a scalar register pair.
pub trait Compare: 'static {
    /// Type of both sources (the second source of the class operations is a 32-bit mask).
    const SOURCES: [Type; 2];
    /// Also writes EXEC.
    const EXEC: bool = false;
    /// Denormal sources are flushed if the mode says so (not by the class operations, which look at bits).
    const FLUSHES: bool = true;

    /// Returns whether the comparison holds. Narrow sources arrive in the low bits.
    fn lane(a: u64, b: u64) -> bool;
}

const ACCUMULATOR: u16 = 256;

/// Returns whether an operation has to take the long way: in a float mode or with relative registers that its handler
/// does not expect.
#[inline(always)]
fn takes_long_way(wave: &Wave, result: Type, sources: &[Type]) -> bool {
    let relevant = if result.is_float() || has_float(sources) { !0 } else { unusual::INDEXED };
    wave.unusual() & relevant != 0
}

#[inline(always)]
fn lane_body<O: Lane>(wave: &mut Wave, inst: &Inst) -> Flow {
    if takes_long_way(wave, O::RESULT, O::SOURCES) {
        return modify::lane::<O>(wave, inst);
    }
    let (mut buffer_a, mut buffer_b, mut buffer_c): (LaneBuffer, LaneBuffer, LaneBuffer) =
        (MaybeUninit::uninit(), MaybeUninit::uninit(), MaybeUninit::uninit());
    let a = lane_source::<O>(wave, inst, 0, &mut buffer_a);
    let b = if O::SOURCES.len() > 1 { lane_source::<O>(wave, inst, 1, &mut buffer_b) } else { a };
    let c = if O::SOURCES.len() > 2 { lane_source::<O>(wave, inst, 2, &mut buffer_c) } else { a };
    let mut out = LaneBuffer::uninit();
    let out = results::<O>([a, b, c], [Signs::NONE; 3], &wave.v[usize::from(inst.dst & 0xFF)], &mut out);
    wave.write(inst.dst, out);
    Flow::Next
}

/// The same with modifiers.
#[inline(always)]
fn modified_lane_body<O: Lane>(wave: &mut Wave, inst: &Inst) -> Flow {
    if takes_long_way(wave, O::RESULT, O::SOURCES) || inst.clamp && !O::RESULT.is_float() {
        return modify::lane::<O>(wave, inst);
    }
    let (mut buffer_a, mut buffer_b, mut buffer_c): (LaneBuffer, LaneBuffer, LaneBuffer) =
        (MaybeUninit::uninit(), MaybeUninit::uninit(), MaybeUninit::uninit());
    let (a, signs_a) = modified_source::<O>(wave, inst, 0, &mut buffer_a);
    let (b, signs_b) = modified_source::<O>(wave, inst, 1, &mut buffer_b);
    let (c, signs_c) = modified_source::<O>(wave, inst, 2, &mut buffer_c);
    let mut out = LaneBuffer::uninit();
    let last = &wave.v[usize::from(inst.dst & 0xFF)];
    let out = results::<O>([a, b, c], [signs_a, signs_b, signs_c], last, &mut out);
    if inst.signed {
        wave.write(inst.dst, out);
    } else {
        modify::finish(wave, inst, Writing { kind: O::RESULT, keeps_high: O::KEEPS_HIGH }, out, None);
    }
    Flow::Next
}

/// A source of an instruction with modifiers, and its signs. Those it does not have are some register.
#[inline(always)]
fn modified_source<'a, O: Lane>(
    wave: &'a Wave,
    inst: &Inst,
    n: usize,
    buffer: &'a mut LaneBuffer,
) -> (&'a Lanes, Signs) {
    if n >= O::SOURCES.len() {
        return (&wave.v[0], Signs::NONE);
    }
    let accumulator = O::ACCUMULATES && n + 1 == O::SOURCES.len();
    let signs = Signs::of(inst, n, O::SOURCES[n]);
    if inst.signed {
        // The accumulator has signs together with other modifiers alone.
        return (lane_source::<O>(wave, inst, n, buffer), if accumulator { Signs::NONE } else { signs });
    }
    let code = if accumulator { ACCUMULATOR + inst.dst } else { inst.src[n] };
    (modify::arranged(wave, inst, Operand { n, code, kind: O::SOURCES[n], accumulator }, buffer), signs)
}

/// Makes the results of all lanes; `last` is what the destination holds.
#[inline(always)]
fn results<'a, O: Lane>([a, b, c]: [&Lanes; 3], signs: [Signs; 3], last: &Lanes, out: &'a mut LaneBuffer) -> &'a Lanes {
    let to = out.as_mut_ptr().cast::<u32>();
    let value = |n: usize, word: u32| signs[n].apply(word & kind_mask(O::SOURCES, n));
    for lane in 0..LANES {
        let result = O::lane([value(0, a[lane]), value(1, b[lane]), value(2, c[lane])]) & O::RESULT.mask();
        let rest = if O::KEEPS_HIGH { last[lane] & !O::RESULT.mask() } else { 0 };
        // SAFETY: `lane` is below the length of the array behind `to`.
        unsafe { to.add(lane).write(result | rest) };
    }
    // SAFETY: the loop wrote all lanes.
    unsafe { &out.assume_init_ref().0 }
}

/// A source of an instruction without modifiers.
#[inline(always)]
fn lane_source<'a, O: Lane>(wave: &'a Wave, inst: &Inst, n: usize, buffer: &'a mut LaneBuffer) -> &'a Lanes {
    if O::ACCUMULATES && n + 1 == O::SOURCES.len() {
        return &wave.v[usize::from(inst.dst & 0xFF)];
    }
    source(wave, inst, inst.src[n], O::SOURCES[n], buffer)
}

/// Returns the significant bits of a source.
const fn kind_mask(types: &[Type], n: usize) -> u32 {
    if n < types.len() { types[n].mask() } else { !0 }
}

const fn has_float(types: &[Type]) -> bool {
    let mut i = 0;
    while i < types.len() {
        if types[i].is_float() {
            return true;
        }
        i += 1;
    }
    false
}

#[inline(always)]
fn wide_body<O: WideLane>(wave: &mut Wave, inst: &Inst) -> Flow {
    if takes_long_way(wave, O::RESULT, O::SOURCES) {
        return modify::wide::<O>(wave, inst);
    }
    let mut buffers: [[LaneBuffer; 2]; 3] = [const { [MaybeUninit::uninit(), MaybeUninit::uninit()] }; 3];
    let uniform = Uniform::of::<O>(wave, inst);
    let sources = wide_sources::<O, true>(wave, inst, uniform, &mut buffers);
    let (mut low, mut high) = (LaneBuffer::uninit(), LaneBuffer::uninit());
    let (low, high) = match uniform {
        // The compiler makes a loop of its own of each, without shifts of the first two.
        Uniform { distance: Some(0), first: Some(first) } => {
            wide_results::<O>(sources, Uniform { distance: Some(0), first: Some(first) }, &mut low, &mut high)
        }
        Uniform { distance: Some(0), .. } => {
            wide_results::<O>(sources, Uniform { distance: Some(0), first: None }, &mut low, &mut high)
        }
        Uniform { distance: Some(distance), .. } => {
            wide_results::<O>(sources, Uniform { distance: Some(distance), first: None }, &mut low, &mut high)
        }
        Uniform { distance: None, .. } => wide_results::<O>(sources, Uniform::default(), &mut low, &mut high),
    };
    if O::RESULT.is_64() {
        wave.write64(inst.dst, low, high);
    } else {
        wave.write(inst.dst, low);
    }
    Flow::Next
}

/// What is the same in all lanes: the sources that it stands for are not looked at.
#[derive(Clone, Copy, Default)]
struct Uniform {
    /// The distance of a shift.
    distance: Option<u32>,
    /// Halves of a first source of 64 bits, if the second is a distance of zero: the scalar base of addresses.
    first: Option<[u32; 2]>,
}

impl Uniform {
    #[inline(always)]
    fn of<O: WideLane>(wave: &Wave, inst: &Inst) -> Self {
        let distance = O::DISTANCE.map(|n| inst.src[n]).filter(|code| *code < 256);
        let distance = distance.map(|code| wave.scalar(code, inst, Type::B32));
        let is_base = O::DISTANCE == Some(1) && distance == Some(0) && inst.src[0] < 256;
        let first = is_base.then(|| wave.scalar64(inst.src[0], inst, O::SOURCES[0]));
        Self { distance, first: first.map(|value| [value as u32, (value >> 32) as u32]) }
    }

    /// Returns whether the lanes of a source are not looked at.
    #[inline(always)]
    fn stands_for<O: WideLane>(self, n: usize) -> bool {
        O::DISTANCE == Some(n) && self.distance.is_some() || n == 0 && self.first.is_some()
    }
}

/// The same with modifiers.
#[inline(always)]
fn modified_wide_body<O: WideLane>(wave: &mut Wave, inst: &Inst) -> Flow {
    if takes_long_way(wave, O::RESULT, O::SOURCES) || inst.clamp && !O::RESULT.is_float() {
        return modify::wide::<O>(wave, inst);
    }
    let mut buffers: [[LaneBuffer; 2]; 3] = [const { [MaybeUninit::uninit(), MaybeUninit::uninit()] }; 3];
    let (mut low, mut high) = (LaneBuffer::uninit(), LaneBuffer::uninit());
    let sources = wide_sources::<O, false>(wave, inst, Uniform::default(), &mut buffers);
    let (low, high) = wide_results::<O>(sources, Uniform::default(), &mut low, &mut high);
    let how = Writing { kind: O::RESULT, keeps_high: false };
    modify::finish(wave, inst, how, low, O::RESULT.is_64().then_some(high));
    Flow::Next
}

/// A source of an operation on 64 bits: low and high halves, the low half twice for narrow ones, and its signs.
#[derive(Clone, Copy)]
struct Pair<'a> {
    low: &'a Lanes,
    high: &'a Lanes,
    kind: Type,
    signs: Signs,
}

impl Pair<'_> {
    /// Low and high half of a lane. The high half of a narrow source means nothing.
    #[inline(always)]
    fn halves(&self, lane: usize) -> [u32; 2] {
        if self.kind.is_64() {
            [self.low[lane], self.signs.apply(self.high[lane])]
        } else {
            let low = self.signs.apply(self.low[lane] & self.kind.mask());
            [low, low]
        }
    }

    /// The value of a lane.
    #[inline(always)]
    fn value(&self, lane: usize) -> u64 {
        let [low, high] = self.halves(lane);
        u64::from(low) | if self.kind.is_64() { u64::from(high) << 32 } else { 0 }
    }
}

/// Makes the results of all lanes of both halves.
#[inline(always)]
fn wide_results<'a, O: WideLane>(
    [a, b, c]: [Pair<'_>; 3],
    uniform: Uniform,
    low: &'a mut LaneBuffer,
    high: &'a mut LaneBuffer,
) -> (&'a Lanes, &'a Lanes) {
    let (to_low, to_high) = (low.as_mut_ptr().cast::<u32>(), high.as_mut_ptr().cast::<u32>());
    for lane in 0..LANES {
        let halves = if O::IN_HALVES {
            let mut sources = [a.halves(lane), b.halves(lane), c.halves(lane)];
            sources[0] = uniform.first.unwrap_or(sources[0]);
            if let (Some(n), Some(distance)) = (O::DISTANCE, uniform.distance) {
                sources[n][0] = distance;
            }
            O::halves(sources)
        } else {
            let result = O::lane([a.value(lane), b.value(lane), c.value(lane)]);
            [result as u32, (result >> 32) as u32]
        };
        // SAFETY: `lane` is below the length of the arrays behind both.
        unsafe {
            to_low.add(lane).write(halves[0]);
            to_high.add(lane).write(halves[1]);
        }
    }
    // SAFETY: the loop wrote all lanes of both.
    unsafe { (&low.assume_init_ref().0, &high.assume_init_ref().0) }
}

/// All sources of an operation.
#[inline(always)]
fn wide_sources<'a, O: WideLane, const PLAIN: bool>(
    wave: &'a Wave,
    inst: &Inst,
    uniform: Uniform,
    [buffer_a, buffer_b, buffer_c]: &'a mut [[LaneBuffer; 2]; 3],
) -> [Pair<'a>; 3] {
    let operand = |n: usize| {
        let accumulator = O::ACCUMULATES && n + 1 == O::SOURCES.len();
        let code = if accumulator || uniform.stands_for::<O>(n) { ACCUMULATOR + inst.dst } else { inst.src[n] };
        Operand { n, code, kind: O::SOURCES[n], accumulator }
    };
    let a = wide_source::<PLAIN>(wave, inst, operand(0), buffer_a);
    let b = if O::SOURCES.len() > 1 { wide_source::<PLAIN>(wave, inst, operand(1), buffer_b) } else { a };
    let c = if O::SOURCES.len() > 2 { wide_source::<PLAIN>(wave, inst, operand(2), buffer_c) } else { a };
    [a, b, c]
}

/// A source of an instruction without modifiers or with any.
#[inline(always)]
fn wide_source<'a, const PLAIN: bool>(
    wave: &'a Wave,
    inst: &Inst,
    operand: Operand,
    buffers: &'a mut [LaneBuffer; 2],
) -> Pair<'a> {
    let Operand { n, code, kind, .. } = operand;
    let signs = if PLAIN { Signs::NONE } else { Signs::of(inst, n, kind) };
    let (low, high) = match (PLAIN, kind.is_64()) {
        (true, true) => source64(wave, inst, code, kind, buffers),
        (false, true) => modify::arranged64(wave, inst, operand, buffers),
        (_, false) => {
            let [buffer, _] = buffers;
            let low = if PLAIN {
                source(wave, inst, code, kind, buffer)
            } else {
                modify::arranged(wave, inst, operand, buffer)
            };
            (low, low)
        }
    };
    Pair { low, high, kind, signs }
}

#[inline(always)]
fn compare_body<O: Compare>(wave: &mut Wave, inst: &Inst) -> Flow {
    let mask = comparison::<O, true>(wave, inst);
    set_mask::<O>(wave, inst, mask)
}

/// The same with modifiers.
#[inline(always)]
fn modified_compare_body<O: Compare>(wave: &mut Wave, inst: &Inst) -> Flow {
    let mask = comparison::<O, false>(wave, inst) & !modify::skipped(wave, inst);
    set_mask::<O>(wave, inst, mask)
}

/// The bits of all lanes.
#[inline(always)]
fn comparison<O: Compare, const PLAIN: bool>(wave: &Wave, inst: &Inst) -> u64 {
    let (first, second) = (Operand::new(inst, 0, O::SOURCES[0]), Operand::new(inst, 1, O::SOURCES[1]));
    if takes_long_way(wave, Type::B32, &O::SOURCES) {
        return modify::compare::<O>(wave, inst);
    }
    let mut buffers: [[LaneBuffer; 2]; 2] = [const { [MaybeUninit::uninit(), MaybeUninit::uninit()] }; 2];
    let [buffer_a, buffer_b] = &mut buffers;
    let a = wide_source::<PLAIN>(wave, inst, first, buffer_a);
    let b = wide_source::<PLAIN>(wave, inst, second, buffer_b);
    let mut bits = [0_u8; LANES];
    for lane in 0..LANES {
        bits[lane] = u8::from(O::lane(a.value(lane), b.value(lane)));
    }
    pack(&bits)
}

/// Writes the result of a comparison. Lanes that are off give zero.
#[inline(always)]
fn set_mask<O: Compare>(wave: &mut Wave, inst: &Inst, mask: u64) -> Flow {
    let mask = mask & wave.exec();
    wave.set_s64(usize::from(inst.sdst), mask);
    if O::EXEC {
        wave.set_exec(mask);
    }
    Flow::Next
}

/// The two compilations of a handler body: for any CPU, and for one with wide vectors.
macro_rules! handlers {
    ($portable:ident, $wide:ident, $body:ident, $bound:ident) => {
        fn $portable<O: $bound>(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
            $body::<O>(wave, inst)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        fn $wide<O: $bound>(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
            $body::<O>(wave, inst)
        }

        #[cfg(not(target_arch = "x86_64"))]
        fn $wide<O: $bound>(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Flow {
            $portable::<O>(wave, inst, env)
        }
    };
}

pub(crate) use handlers;

handlers!(lane_portable, lane_wide, lane_body, Lane);
handlers!(modified_lane_portable, modified_lane_wide, modified_lane_body, Lane);
handlers!(wide_portable, wide_wide, wide_body, WideLane);
handlers!(modified_wide_portable, modified_wide_wide, modified_wide_body, WideLane);
handlers!(compare_portable, compare_wide, compare_body, Compare);
handlers!(modified_compare_portable, modified_compare_wide, modified_compare_body, Compare);

/// An operation made of a [`Lane`].
pub const fn lane<O: Lane>(encoding: Encoding, opcode: u16, name: &'static str) -> Op {
    Op {
        wide: lane_wide::<O>,
        modified: Some([modified_lane_portable::<O>, modified_lane_wide::<O>]),
        ..Op::new(encoding, opcode, name, lane_portable::<O>)
    }
}

/// An operation made of a [`WideLane`].
pub const fn wide<O: WideLane>(encoding: Encoding, opcode: u16, name: &'static str) -> Op {
    Op {
        wide: wide_wide::<O>,
        modified: Some([modified_wide_portable::<O>, modified_wide_wide::<O>]),
        ..Op::new(encoding, opcode, name, wide_portable::<O>)
    }
}

/// A comparison (VOPC; its VOP3 form comes with it).
pub const fn compare<O: Compare>(opcode: u16, name: &'static str) -> Op {
    Op {
        wide: compare_wide::<O>,
        modified: Some([modified_compare_portable::<O>, modified_compare_wide::<O>]),
        ..Op::new(Encoding::Vopc, opcode, name, compare_portable::<O>)
    }
}
