//! Operations that know their lane, or take and give single lanes.

use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::handlers;
use crate::modify::{self, Operand, Writing};
use crate::operand::{LaneBuffer, Type};
use crate::wave::{LANES, Lanes, Wave};

/// Counts the bits of a half of a mask that belong to lanes before this one.
trait Before: 'static {
    /// For each lane, the bits of the half that count.
    const LANES_BEFORE: Lanes;
}

/// The 32 bits at `shift` of the mask of all lanes before each.
const fn lanes_before(shift: u32) -> Lanes {
    let mut masks = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        masks[lane] = (((1_u64 << lane) - 1) >> shift) as u32;
        lane += 1;
    }
    masks
}

struct Low;

impl Before for Low {
    const LANES_BEFORE: Lanes = lanes_before(0);
}

struct High;

impl Before for High {
    const LANES_BEFORE: Lanes = lanes_before(32);
}

#[inline(always)]
fn before_body<O: Before>(wave: &mut Wave, inst: &Inst) -> Flow {
    let inst = &modify::relative(wave, inst);
    let (mut buffer_a, mut buffer_b) = (LaneBuffer::uninit(), LaneBuffer::uninit());
    let a = modify::source(wave, inst, Operand::new(inst, 0, Type::B32), &mut buffer_a);
    let b = modify::source(wave, inst, Operand::new(inst, 1, Type::B32), &mut buffer_b);
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = (a[lane] & O::LANES_BEFORE[lane]).count_ones().wrapping_add(b[lane]);
    }
    modify::store(wave, inst, Writing::WORD, &out, None);
    Flow::Next
}

handlers!(before_portable, before_wide, before_body, Before);

/// One lane of a source; a scalar has the same in all of them.
fn lane_of(wave: &Wave, inst: &Inst, lane: usize) -> u32 {
    let code = inst.src[0];
    if code >= 256 { wave.vector(code)[lane & 63] } else { wave.scalar(code, inst, Type::B32) }
}

fn readfirstlane(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
    // Without any lane that is on, the first of all. 64 & 63 is 0.
    let first = wave.exec().trailing_zeros() as usize & 63;
    wave.s[usize::from(inst.dst & 127)] = lane_of(wave, inst, first);
    Flow::Next
}

fn readlane(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
    let lane = wave.scalar(inst.src[1], inst, Type::B32) as usize;
    wave.s[usize::from(inst.dst & 127)] = lane_of(wave, inst, lane);
    Flow::Next
}

fn writelane(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
    let lane = wave.scalar(inst.src[1], inst, Type::B32) as usize & 63;
    let value = wave.scalar(inst.src[0], inst, Type::B32);
    wave.v[usize::from(inst.dst & 0xFF)][lane] = value;
    Flow::Next
}

const fn before<O: Before>(opcode: u16, name: &'static str) -> Op {
    Op { wide: before_wide::<O>, ..Op::new(Encoding::Vop3, opcode, name, before_portable::<O>) }
}

pub(super) static OPS: &[Op] = &[
    Op::new(Encoding::Vop1, 2, "v_readfirstlane_b32", readfirstlane),
    Op::new(Encoding::Vop3, 649, "v_readlane_b32", readlane),
    Op::new(Encoding::Vop3, 650, "v_writelane_b32", writelane),
    before::<Low>(652, "v_mbcnt_lo_u32_b32"),
    before::<High>(653, "v_mbcnt_hi_u32_b32"),
];
