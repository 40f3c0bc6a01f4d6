//! Operations on the bytes of registers: permutation, interpolation, sums of absolute differences.

use super::arithmetic::saturate_u32;
use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::{Lane, WideLane, handlers, lane, wide};
use crate::modify::{self, Operand};
use crate::operand::{LaneBuffer, Type, write_masked};
use crate::wave::{LANES, Wave};

/// The byte at a position.
#[inline(always)]
fn byte(x: u32, n: u32) -> u32 {
    x >> (8 * n) & 0xFF
}

/// The sum of the absolute differences of four bytes (at most 1020).
#[inline(always)]
fn sad(a: u32, b: u32) -> u32 {
    let mut sum = 0;
    for n in 0..4 {
        sum += byte(a, n).abs_diff(byte(b, n));
    }
    sum
}

/// The same without the bytes where `b`, the reference, is zero.
#[inline(always)]
fn masked_sad(a: u32, b: u32) -> u32 {
    let mut sum = 0;
    for n in 0..4 {
        let difference = byte(a, n).abs_diff(byte(b, n));
        sum += if byte(b, n) == 0 { 0 } else { difference };
    }
    sum
}

#[inline(always)]
fn sad_u16(a: u32, b: u32) -> u32 {
    (a & 0xFFFF).abs_diff(b & 0xFFFF) + (a >> 16).abs_diff(b >> 16)
}

/// A sum of up to 34 bits, saturated.
#[inline(always)]
fn saturated_sum(a: u32, b: u32) -> u32 {
    saturate_u32(u64::from(a) + u64::from(b))
}

/// One byte of the permutation: 0-7 picks, 8-11 the sign of an odd byte, 12 zero, above ones.
#[inline(always)]
fn pick(a: u32, b: u32, select: u32) -> u32 {
    // All candidates and then a choice by masks: lanes differ, and branches would keep them out of vectors.
    let all = |condition: bool| 0_u32.wrapping_sub(u32::from(condition));
    let choose = |mask: u32, yes: u32, no: u32| yes & mask | no & !mask;
    let value = choose(all(select & 4 != 0), a, b) >> (8 * (select & 3));
    let signed = choose(all(select & 2 != 0), a, b) >> (15 + 16 * (select & 1));
    let above = choose(all(select < 12), all(signed & 1 != 0), all(select != 12));
    choose(all(select < 8), value, above) & 0xFF
}

#[inline(always)]
fn permute(a: u32, b: u32, selectors: u32) -> u32 {
    let mut result = 0;
    for n in 0..4 {
        result |= pick(a, b, byte(selectors, n)) << (8 * n);
    }
    result
}

/// The average of each pair of bytes; bit 0 of each byte of `c` rounds it up.
#[inline(always)]
fn average(a: u32, b: u32, c: u32) -> u32 {
    let mut result = 0;
    for n in 0..4 {
        result |= (byte(a, n) + byte(b, n) + (byte(c, n) & 1)) >> 1 << (8 * n);
    }
    result
}

operations! {
    OPS: Lane, u32, lane;
    Vop3 461 "v_lerp_u8" Lerp [B32 B32 B32] B32 |a, b, c| average(a, b, c);
    Vop3 473 "v_sad_u8" SadU8 [B32 B32 B32] B32 |a, b, c| sad(a, b).wrapping_add(c)
        => clamp |a, b, c| saturated_sum(sad(a, b), c);
    Vop3 474 "v_sad_hi_u8" SadHiU8 [B32 B32 B32] B32 |a, b, c| (sad(a, b) << 16).wrapping_add(c)
        => clamp |a, b, c| saturated_sum(sad(a, b) << 16, c);
    Vop3 475 "v_sad_u16" SadU16 [B32 B32 B32] B32 |a, b, c| sad_u16(a, b).wrapping_add(c)
        => clamp |a, b, c| saturated_sum(sad_u16(a, b), c);
    Vop3 476 "v_sad_u32" SadU32 [B32 B32 B32] B32 |a, b, c| a.abs_diff(b).wrapping_add(c)
        => clamp |a, b, c| saturated_sum(a.abs_diff(b), c);
    Vop3 484 "v_msad_u8" MsadU8 [B32 B32 B32] B32 |a, b, c| masked_sad(a, b).wrapping_add(c)
        => clamp |a, b, c| saturated_sum(masked_sad(a, b), c);
    Vop3 493 "v_perm_b32" Perm [B32 B32 B32] B32 |a, b, c| permute(a, b, c);
}

/// Four sums for the four positions of a window of four bytes in `data`, added to the 16-bit parts of `sums`.
#[inline(always)]
fn packed(data: u64, reference: u64, sums: u64, of: fn(u32, u32) -> u32, finish: fn(u32) -> u32) -> u64 {
    let mut result = 0;
    for n in 0..4 {
        let sum = of((data >> (8 * n)) as u32, reference as u32) + (sums >> (16 * n)) as u32 % 0x1_0000;
        result |= u64::from(finish(sum)) << (16 * n);
    }
    result
}

#[inline(always)]
fn wrap(x: u32) -> u32 {
    x & 0xFFFF
}

#[inline(always)]
fn saturate(x: u32) -> u32 {
    x.min(0xFFFF)
}

operations! {
    PACKED: WideLane, u64, wide;
    Vop3 485 "v_qsad_pk_u16_u8" QsadPk [B64 B32 B64] B64 |a, b, c| packed(a, b, c, sad, wrap)
        => clamp |a, b, c| packed(a, b, c, sad, saturate);
    Vop3 486 "v_mqsad_pk_u16_u8" MqsadPk [B64 B32 B64] B64 |a, b, c| packed(a, b, c, masked_sad, wrap)
        => clamp |a, b, c| packed(a, b, c, masked_sad, saturate);
}

/// The operation that has four registers of sums and of results.
trait Quad: 'static {}

struct MqsadU32;

impl Quad for MqsadU32 {}

#[inline(always)]
fn quad_body<O: Quad>(wave: &mut Wave, inst: &Inst) -> Flow {
    let clamp = inst.clamp;
    let inst = &modify::relative(wave, inst);
    let (mut buffers, mut buffer) = ([LaneBuffer::uninit(), LaneBuffer::uninit()], LaneBuffer::uninit());
    let (low, high) = modify::source64(wave, inst, Operand::new(inst, 0, Type::B64), &mut buffers);
    let reference = modify::source(wave, inst, Operand::new(inst, 1, Type::B32), &mut buffer);
    let mut out = [[0; LANES]; 4];
    for (n, out) in out.iter_mut().enumerate() {
        // Scalar and constant sources have the same 32 bits for all four sums.
        let code = inst.src[2];
        let sums = if code >= 256 {
            *wave.vector(code & !0xFF | (code + n as u16) & 0xFF)
        } else {
            [wave.scalar(code, inst, Type::B32); LANES]
        };
        for lane in 0..LANES {
            let data = u64::from(low[lane]) | u64::from(high[lane]) << 32;
            let sum = masked_sad((data >> (8 * n)) as u32, reference[lane]);
            let plain = sum.wrapping_add(sums[lane]);
            out[lane] = if clamp { saturated_sum(sum, sums[lane]) } else { plain };
        }
    }
    let exec = wave.exec();
    for (n, out) in out.iter().enumerate() {
        write_masked(&mut wave.v[(usize::from(inst.dst) + n) & 0xFF], out, exec);
    }
    Flow::Next
}

handlers!(quad_portable, quad_wide, quad_body, Quad);

pub(super) static QUADS: [Op; 1] =
    [Op { wide: quad_wide::<MqsadU32>, ..Op::new(Encoding::Vop3, 487, "v_mqsad_u32_u8", quad_portable::<MqsadU32>) }];
