//! Vector operations as functions of one lane.
//!
//! An operation says what it does with the values of one lane; the handlers made here fetch sources, run the lanes in a
//! loop that the compiler vectorises, and write the lanes that are on. Sources with modifiers (DPP, SDWA, negation) and
//! results with modifiers are arranged by the module `modify` before and after that loop; relative registers, other
//! float modes and integers that saturate take a longer way through it.

use std::mem::MaybeUninit;

use crate::inst::{Encoding, Env, Flow, Inst, Op, Target};
use crate::modify::{self, Operand, Writing};
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
/// does not expect, or because it saturates.
#[inline(always)]
fn takes_long_way(wave: &Wave, inst: &Inst, has_floats: bool, result: Type) -> bool {
    let relevant = if has_floats { !0 } else { unusual::INDEXED };
    wave.unusual() & relevant != 0 || !inst.plain && inst.clamp && !result.is_float()
}

#[inline(always)]
fn lane_body<O: Lane>(wave: &mut Wave, inst: &Inst) -> Flow {
    if takes_long_way(wave, inst, O::RESULT.is_float() || has_float(O::SOURCES), O::RESULT) {
        return modify::lane::<O>(wave, inst);
    }
    let (mut buffer_a, mut buffer_b, mut buffer_c): (LaneBuffer, LaneBuffer, LaneBuffer) =
        (MaybeUninit::uninit(), MaybeUninit::uninit(), MaybeUninit::uninit());
    // The loop twice: only where the compiler sees what the sources are do the results stay in machine registers.
    if inst.plain {
        let a = lane_source::<O>(wave, inst, 0, &mut buffer_a);
        let b = if O::SOURCES.len() > 1 { lane_source::<O>(wave, inst, 1, &mut buffer_b) } else { a };
        let c = if O::SOURCES.len() > 2 { lane_source::<O>(wave, inst, 2, &mut buffer_c) } else { a };
        let mut out = LaneBuffer::uninit();
        let out = results::<O>([a, b, c], &wave.v[usize::from(inst.dst & 0xFF)], &mut out);
        wave.write(inst.dst, out);
    } else {
        let buffers = [&mut buffer_a, &mut buffer_b, &mut buffer_c];
        let sources = modify::sources(wave, inst, O::SOURCES, O::ACCUMULATES, buffers);
        let mut out = LaneBuffer::uninit();
        let out = results::<O>(sources, &wave.v[usize::from(inst.dst & 0xFF)], &mut out);
        if has_float(O::SOURCES) && inst.signed {
            wave.write(inst.dst, out);
        } else {
            modify::finish(wave, inst, Writing { kind: O::RESULT, keeps_high: O::KEEPS_HIGH }, out, None);
        }
    }
    Flow::Next
}

/// Makes the results of all lanes; `last` is what the destination holds.
#[inline(always)]
fn results<'a, O: Lane>([a, b, c]: [&Lanes; 3], last: &Lanes, out: &'a mut LaneBuffer) -> &'a Lanes {
    let to = out.as_mut_ptr().cast::<u32>();
    let mask = [kind_mask(O::SOURCES, 0), kind_mask(O::SOURCES, 1), kind_mask(O::SOURCES, 2)];
    for lane in 0..LANES {
        let result = O::lane([a[lane] & mask[0], b[lane] & mask[1], c[lane] & mask[2]]) & O::RESULT.mask();
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
    if takes_long_way(wave, inst, O::RESULT.is_float() || has_float(O::SOURCES), O::RESULT) {
        return modify::wide::<O>(wave, inst);
    }
    let mut buffers: [[LaneBuffer; 2]; 3] = [const { [MaybeUninit::uninit(), MaybeUninit::uninit()] }; 3];
    if !inst.plain {
        let (mut low, mut high) = (LaneBuffer::uninit(), LaneBuffer::uninit());
        let sources = wide_sources::<O, false>(wave, inst, false, &mut buffers);
        let (low, high) = wide_results::<O>(sources, None, &mut low, &mut high);
        let how = Writing { kind: O::RESULT, keeps_high: false };
        modify::finish(wave, inst, how, low, O::RESULT.is_64().then_some(high));
        return Flow::Next;
    }
    let distance = O::DISTANCE.map(|n| inst.src[n]).filter(|code| *code < 256);
    let distance = distance.map(|code| wave.scalar(code, inst, Type::B32));
    let sources = wide_sources::<O, true>(wave, inst, distance.is_some(), &mut buffers);
    let (mut low, mut high) = (LaneBuffer::uninit(), LaneBuffer::uninit());
    let (low, high) = match distance {
        // The compiler makes a loop without shifts of the first.
        Some(0) => wide_results::<O>(sources, Some(0), &mut low, &mut high),
        distance => wide_results::<O>(sources, distance, &mut low, &mut high),
    };
    if O::RESULT.is_64() {
        wave.write64(inst.dst, low, high);
    } else {
        wave.write(inst.dst, low);
    }
    Flow::Next
}

/// Makes the results of all lanes; `distance` is that of all, if they have the same.
#[inline(always)]
fn wide_results<'a, O: WideLane>(
    [a, b, c]: [(&Lanes, &Lanes); 3],
    distance: Option<u32>,
    low: &'a mut LaneBuffer,
    high: &'a mut LaneBuffer,
) -> (&'a Lanes, &'a Lanes) {
    let (to_low, to_high) = (low.as_mut_ptr().cast::<u32>(), high.as_mut_ptr().cast::<u32>());
    let join = |(low, high): (&Lanes, &Lanes), lane: usize, n: usize| {
        if n < O::SOURCES.len() && O::SOURCES[n].is_64() {
            u64::from(low[lane]) | u64::from(high[lane]) << 32
        } else {
            u64::from(low[lane] & kind_mask(O::SOURCES, n))
        }
    };
    for lane in 0..LANES {
        let halves = if O::IN_HALVES {
            let half = |(low, high): (&Lanes, &Lanes)| [low[lane], high[lane]];
            let mut sources = [half(a), half(b), half(c)];
            if let (Some(n), Some(distance)) = (O::DISTANCE, distance) {
                sources[n][0] = distance;
            }
            O::halves(sources)
        } else {
            let result = O::lane([join(a, lane, 0), join(b, lane, 1), join(c, lane, 2)]);
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

/// All sources of an operation. If its distance is known, the lanes of that are not looked at.
#[inline(always)]
fn wide_sources<'a, O: WideLane, const PLAIN: bool>(
    wave: &'a Wave,
    inst: &Inst,
    is_distance_known: bool,
    [buffer_a, buffer_b, buffer_c]: &'a mut [[LaneBuffer; 2]; 3],
) -> [(&'a Lanes, &'a Lanes); 3] {
    let operand = |n: usize| {
        let accumulator = O::ACCUMULATES && n + 1 == O::SOURCES.len();
        let is_unread = O::DISTANCE == Some(n) && is_distance_known;
        let code = if accumulator || is_unread { ACCUMULATOR + inst.dst } else { inst.src[n] };
        Operand { n, code, kind: O::SOURCES[n], accumulator }
    };
    let a = wide_source::<PLAIN>(wave, inst, operand(0), buffer_a);
    let b = if O::SOURCES.len() > 1 { wide_source::<PLAIN>(wave, inst, operand(1), buffer_b) } else { a };
    let c = if O::SOURCES.len() > 2 { wide_source::<PLAIN>(wave, inst, operand(2), buffer_c) } else { a };
    [a, b, c]
}

/// A source of an instruction without modifiers or with any: low and high halves, the low half twice for narrow ones.
#[inline(always)]
fn wide_source<'a, const PLAIN: bool>(
    wave: &'a Wave,
    inst: &Inst,
    operand: Operand,
    buffers: &'a mut [LaneBuffer; 2],
) -> (&'a Lanes, &'a Lanes) {
    match (PLAIN, operand.kind.is_64()) {
        (true, true) => source64(wave, inst, operand.code, operand.kind, buffers),
        (false, true) => modify::source64(wave, inst, operand, buffers),
        (_, false) => {
            let [buffer, _] = buffers;
            let low = if PLAIN {
                source(wave, inst, operand.code, operand.kind, buffer)
            } else {
                modify::source(wave, inst, operand, buffer)
            };
            (low, low)
        }
    }
}

#[inline(always)]
fn compare_body<O: Compare>(wave: &mut Wave, inst: &Inst) -> Flow {
    let exec = wave.exec();
    let relevant = if has_float(&O::SOURCES) { !0 } else { unusual::INDEXED };
    let (first, second) = (Operand::new(inst, 0, O::SOURCES[0]), Operand::new(inst, 1, O::SOURCES[1]));
    let mut buffers: [[LaneBuffer; 2]; 2] = [const { [MaybeUninit::uninit(), MaybeUninit::uninit()] }; 2];
    let [buffer_a, buffer_b] = &mut buffers;
    let mask = if wave.unusual() & relevant != 0 {
        modify::compare::<O>(wave, inst)
    } else if inst.plain {
        let a = wide_source::<true>(wave, inst, first, buffer_a);
        let b = wide_source::<true>(wave, inst, second, buffer_b);
        comparison::<O>(a, b)
    } else {
        let a = wide_source::<false>(wave, inst, first, buffer_a);
        let b = wide_source::<false>(wave, inst, second, buffer_b);
        comparison::<O>(a, b) & !modify::skipped(wave, inst)
    };
    // Lanes that are off give zero.
    wave.set_s64(usize::from(inst.sdst), mask & exec);
    if O::EXEC {
        wave.set_exec(mask & exec);
    }
    Flow::Next
}

/// The bits of all lanes.
#[inline(always)]
fn comparison<O: Compare>(a: (&Lanes, &Lanes), b: (&Lanes, &Lanes)) -> u64 {
    let join = |(low, high): (&Lanes, &Lanes), lane: usize, n: usize| {
        let low = u64::from(low[lane] & O::SOURCES[n].mask());
        low | if O::SOURCES[n].is_64() { u64::from(high[lane]) << 32 } else { 0 }
    };
    let mut bits = [0_u8; LANES];
    for lane in 0..LANES {
        bits[lane] = u8::from(O::lane(join(a, lane, 0), join(b, lane, 1)));
    }
    pack(&bits)
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
handlers!(wide_portable, wide_wide, wide_body, WideLane);
handlers!(compare_portable, compare_wide, compare_body, Compare);

/// An operation made of a [`Lane`].
pub const fn lane<O: Lane>(encoding: Encoding, opcode: u16, name: &'static str) -> Op {
    Op { encoding, opcode, name, targets: BOTH, portable: lane_portable::<O>, wide: lane_wide::<O> }
}

/// An operation made of a [`WideLane`].
pub const fn wide<O: WideLane>(encoding: Encoding, opcode: u16, name: &'static str) -> Op {
    Op { encoding, opcode, name, targets: BOTH, portable: wide_portable::<O>, wide: wide_wide::<O> }
}

/// A comparison (VOPC; its VOP3 form comes with it).
pub const fn compare<O: Compare>(opcode: u16, name: &'static str) -> Op {
    Op {
        encoding: Encoding::Vopc,
        opcode,
        name,
        targets: BOTH,
        portable: compare_portable::<O>,
        wide: compare_wide::<O>,
    }
}

const BOTH: &[Target] = crate::inst::BOTH;
