//! Sums of absolute differences, interpolation, permutation: operations on bytes, in terms of byte arrays.

use super::support::{Operand, PARTIAL, changed, fill, hash, write};
use crate::harness::Case;
use vgpu_isa::wave::Wave;

type Bytes = [u8; 4];

fn differences(a: Bytes, b: Bytes, masked: bool) -> u64 {
    let pairs = a.into_iter().zip(b).filter(|&(_, reference)| !masked || reference != 0);
    pairs.map(|(a, b)| (i64::from(a) - i64::from(b)).unsigned_abs()).sum()
}

/// Exact result of sources; clamp takes it to 32 bits.
type Exact = fn(u32, u32, u32) -> u64;

const OPERATIONS: &[(&str, bool, Exact)] = &[
    ("v_lerp_u8", false, |a, b, c| {
        let (a, b, c) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
        let mean = |n: usize| ((u16::from(a[n]) + u16::from(b[n]) + u16::from(c[n] % 2)) / 2) as u8;
        u64::from(u32::from_le_bytes([mean(0), mean(1), mean(2), mean(3)]))
    }),
    ("v_sad_u8", true, |a, b, c| differences(a.to_le_bytes(), b.to_le_bytes(), false) + u64::from(c)),
    ("v_sad_hi_u8", true, |a, b, c| differences(a.to_le_bytes(), b.to_le_bytes(), false) * 65536 + u64::from(c)),
    ("v_sad_u16", true, |a, b, c| {
        let halves = |x: u32| [i64::from(x % 65536), i64::from(x / 65536)];
        let sum: i64 = halves(a).into_iter().zip(halves(b)).map(|(a, b)| (a - b).abs()).sum();
        sum as u64 + u64::from(c)
    }),
    ("v_sad_u32", true, |a, b, c| (i64::from(a) - i64::from(b)).unsigned_abs() + u64::from(c)),
    ("v_msad_u8", true, |a, b, c| differences(a.to_le_bytes(), b.to_le_bytes(), true) + u64::from(c)),
    ("v_perm_b32", false, |a, b, c| {
        let pool: Vec<u8> = b.to_le_bytes().into_iter().chain(a.to_le_bytes()).collect();
        let sign = |n: usize| if pool[n] >= 128 { 255 } else { 0 };
        let pick = |select: u8| match select {
            0..=7 => pool[usize::from(select)],
            8 => sign(1),
            9 => sign(3),
            10 => sign(5),
            11 => sign(7),
            12 => 0,
            13..=255 => 255,
        };
        u64::from(u32::from_le_bytes(c.to_le_bytes().map(pick)))
    }),
];

/// The four bytes of a window at a position.
fn window(data: u64, n: usize) -> Bytes {
    data.to_le_bytes()[n..n + 4].try_into().expect("four bytes")
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, clamps, exact) in OPERATIONS {
        let forms: &[(&str, bool)] = if clamps { &[("", false), (" clamp", true)] } else { &[("", false)] };
        for &(suffix, clamp) in forms {
            for (asm, exec) in [("v20, v4, v6, v8", !0), ("v8, v4, v6, v8", PARTIAL), ("v20, s30, v6, v8", !0)] {
                cases.push(single(format!("{name} {asm}{suffix}"), exec, clamp, exact));
            }
        }
    }
    // Every selector of the permutation, also those that no edge has.
    cases.push(Case::new(
        "v_perm_b32 v20, v4, v6, v10",
        |machine| {
            fill(machine, &[Operand::V(4), Operand::V(6)], 99);
            machine.set_v(10, |lane| (lane as u32 % 20) * 0x0101_0101 + (lane as u32 / 20) * 0x0001_0302);
        },
        |before, after| {
            let w = &before.wave;
            let perm = OPERATIONS[6].2;
            changed(before, after, |wave| write(wave, 20, 32, !0, |l| perm(w.v[4][l], w.v[6][l], w.v[10][l])))
        },
    ));
    for (name, masked) in [("v_qsad_pk_u16_u8", false), ("v_mqsad_pk_u16_u8", true)] {
        for clamp in [false, true] {
            cases.push(packed(name, masked, clamp, "v[20:21]", !0));
            cases.push(packed(name, masked, clamp, "v[8:9]", PARTIAL));
        }
    }
    for clamp in [false, true] {
        cases.push(quad(clamp, 20, !0));
        cases.push(quad(clamp, 8, PARTIAL));
    }
    cases
}

fn single(asm: String, exec: u64, clamp: bool, exact: Exact) -> Case {
    let (scalar, in_place) = (asm.contains("s30"), asm.contains(" v8, "));
    let seed = asm.len() as u64 * 1000 + u64::from(asm.as_bytes()[4]);
    Case::new(
        asm,
        move |machine| {
            fill(machine, &[Operand::V(4), Operand::V(6), Operand::V(8), Operand::S(30)], seed);
            machine.wave.set_exec(exec);
        },
        move |before, after| {
            let w = &before.wave;
            let dst = if in_place { 8 } else { 20 };
            let result = |lane: usize| {
                let a = if scalar { w.s[30] } else { w.v[4][lane] };
                let sum = exact(a, w.v[6][lane], w.v[8][lane]);
                if clamp { sum.min(0xFFFF_FFFF) } else { sum }
            };
            changed(before, after, |wave| write(wave, dst, 32, exec, result))
        },
    )
}

/// Bytes of all sizes, and sums close to the top.
fn rubbish(machine: &mut crate::harness::Machine, exec: u64) {
    machine.set_v64(4, |lane| hash(lane as u64 + 500));
    machine.set_v(6, |lane| hash(lane as u64 + 600) as u32 & [!0, 0xFF00_FF00, 0x00FF_FFFF][lane % 3]);
    for n in 8..12 {
        machine.set_v(n, |lane| {
            let h = hash((n * 64 + lane) as u64) as u32;
            if lane % 2 == 0 { h } else { 0xFFFF_FF00 | h & 0xFF }
        });
    }
    machine.wave.set_exec(exec);
}

fn packed(name: &'static str, masked: bool, clamp: bool, dst: &'static str, exec: u64) -> Case {
    let suffix = if clamp { " clamp" } else { "" };
    Case::new(
        format!("{name} {dst}, v[4:5], v6, v[8:9]{suffix}"),
        move |machine| rubbish(machine, exec),
        move |before, after| {
            let result = |lane: usize| {
                let reference = before.wave.v[6][lane].to_le_bytes();
                let sums = before.v64(8, lane);
                let part = |n: usize| {
                    let sum =
                        differences(window(before.v64(4, lane), n), reference, masked) + (sums >> (16 * n) & 0xFFFF);
                    (if clamp { sum.min(0xFFFF) } else { sum % 65536 }) << (16 * n)
                };
                part(0) + part(1) + part(2) + part(3)
            };
            let register = if dst == "v[8:9]" { 8 } else { 20 };
            changed(before, after, |wave| write(wave, register, 64, exec, result))
        },
    )
}

fn quad(clamp: bool, dst: usize, exec: u64) -> Case {
    let suffix = if clamp { " clamp" } else { "" };
    Case::new(
        format!("v_mqsad_u32_u8 v[{dst}:{}], v[4:5], v6, v[8:11]{suffix}", dst + 3),
        move |machine| rubbish(machine, exec),
        move |before, after| {
            let change = |wave: &mut Wave| {
                for n in 0..4 {
                    write(wave, dst + n, 32, exec, |lane| {
                        let reference = before.wave.v[6][lane].to_le_bytes();
                        let sum = differences(window(before.v64(4, lane), n), reference, true)
                            + u64::from(before.wave.v[8 + n][lane]);
                        if clamp { sum.min(0xFFFF_FFFF) } else { sum }
                    });
                }
            };
            changed(before, after, change)
        },
    )
}
