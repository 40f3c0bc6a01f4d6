//! Carries and selection: one bit for each lane.

use super::support::{Operand, PARTIAL, changed, edge, fill, hash, write};
use crate::harness::{Case, Machine};
use vgpu_isa::wave::{VCC, Wave};

/// Exact result of two sources and the bit.
type Exact = fn(i128, i128, i128) -> i128;

/// Name, whether it reads a carry, what it computes.
const OPERATIONS: &[(&str, bool, Exact)] = &[
    ("v_add_co_u32", false, |a, b, _| a + b),
    ("v_sub_co_u32", false, |a, b, _| a - b),
    ("v_subrev_co_u32", false, |a, b, _| b - a),
    ("v_addc_co_u32", true, |a, b, bit| a + b + bit),
    ("v_subb_co_u32", true, |a, b, bit| a - b - bit),
    ("v_subbrev_co_u32", true, |a, b, bit| b - a - bit),
];

const SDST: usize = 40;
const CARRY_IN: usize = 42;
const DST: usize = 20;

fn setup(exec: u64, seed: u64) -> impl Fn(&mut Machine) {
    move |machine| {
        fill(machine, &[Operand::V(4), Operand::V(6), Operand::S(30)], seed);
        machine.wave.set_s64(VCC, hash(seed + 1));
        machine.wave.set_s64(CARRY_IN, hash(seed + 2));
        machine.wave.set_exec(exec);
    }
}

/// The result of an addition or subtraction: what goes to the register and the carry.
fn outcome(exact: i128, clamp: bool) -> (u64, bool) {
    let overflows = !(0..1 << 32).contains(&exact);
    let value = if clamp { exact.clamp(0, 0xFFFF_FFFF) } else { exact.rem_euclid(1 << 32) };
    (value as u64, overflows)
}

struct Form {
    asm: String,
    first: Operand,
    carry_in: usize,
    carry_out: usize,
    dst: usize,
    exec: u64,
    clamp: bool,
}

fn case(exact: Exact, reads: bool, form: Form) -> Case {
    Case::new(form.asm, setup(form.exec, 11 + form.dst as u64), move |before, after| {
        let result = |lane: usize| {
            let a = form.first.value(before, lane, 32);
            let bit = if reads { before.wave.s64(form.carry_in) >> lane & 1 } else { 0 };
            let exact = exact(i128::from(a), i128::from(before.wave.v[6][lane]), i128::from(bit));
            outcome(exact, form.clamp)
        };
        changed(before, after, |wave| {
            write(wave, form.dst, 32, form.exec, |lane| result(lane).0);
            // Lanes that are off give zero.
            let on = (0..64).filter(|lane| form.exec >> lane & 1 == 1);
            wave.set_s64(form.carry_out, on.map(|lane| u64::from(result(lane).1) << lane).sum());
        })
    })
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, reads, exact) in OPERATIONS {
        let (vcc, pair) = if reads { (", vcc", ", s[42:43]") } else { ("", "") };
        let firsts = [Operand::V(4), Operand::V(6), Operand::S(30), Operand::Int(-1), Operand::Literal(0xFFFF_FFF0)];
        for (n, first) in firsts.into_iter().enumerate() {
            let exec = if n % 2 == 0 { !0 } else { PARTIAL };
            let text = first.text(32);
            // VCC is read and written by the short form.
            let short = Form {
                asm: format!("{name}_e32 v{}, vcc, {text}, v6{vcc}", DST + n),
                first,
                carry_in: VCC,
                carry_out: VCC,
                dst: DST + n,
                exec,
                clamp: false,
            };
            if !reads || matches!(first, Operand::V(_) | Operand::Int(_)) {
                cases.push(case(exact, reads, short));
            }
            for clamp in [false, true] {
                let suffix = if clamp { " clamp" } else { "" };
                let long = Form {
                    asm: format!("{name}_e64 v6, s[40:41], {text}, v6{pair}{suffix}"),
                    first,
                    carry_in: CARRY_IN,
                    carry_out: SDST,
                    dst: 6,
                    exec,
                    clamp,
                };
                let one_scalar = matches!(first, Operand::V(_) | Operand::Int(_)) || first == Operand::S(30) && !reads;
                if one_scalar {
                    cases.push(case(exact, reads, long));
                }
            }
        }
    }
    cases.extend(selections());
    cases.extend(wide());
    cases
}

/// v_cndmask_b32, which knows the sign modifiers of floats.
fn selections() -> Vec<Case> {
    let sign = |x: u32, abs: bool, neg: bool| {
        let x = if abs { x % (1 << 31) } else { x };
        if neg { x ^ 1 << 31 } else { x }
    };
    // Text, exec, register of the mask, modifiers of the first and the second source (abs, neg).
    type Signs = (bool, bool);
    let forms: &[(&str, u64, usize, Signs, Signs)] = &[
        ("v_cndmask_b32_e32 v20, v4, v6, vcc", !0, VCC, (false, false), (false, false)),
        ("v_cndmask_b32_e32 v6, v4, v6, vcc", PARTIAL, VCC, (false, false), (false, false)),
        ("v_cndmask_b32_e32 v20, v4, v6, vcc", 0, VCC, (false, false), (false, false)),
        ("v_cndmask_b32_e64 v20, v4, v6, s[42:43]", !0, CARRY_IN, (false, false), (false, false)),
        ("v_cndmask_b32_e64 v20, -v4, v6, s[42:43]", PARTIAL, CARRY_IN, (false, true), (false, false)),
        ("v_cndmask_b32_e64 v20, |v4|, -v6, vcc", !0, VCC, (true, false), (false, true)),
        ("v_cndmask_b32_e64 v20, -|v4|, -|v6|, vcc", !0, VCC, (true, true), (true, true)),
    ];
    let mut cases = Vec::new();
    for &(asm, exec, mask, first, second) in forms {
        cases.push(Case::new(asm, setup(exec, 77), move |before, after| {
            let w = &before.wave;
            let result = |lane: usize| {
                let a = sign(w.v[4][lane], first.0, first.1);
                let b = sign(w.v[6][lane], second.0, second.1);
                u64::from(if w.s64(mask) >> lane & 1 == 1 { b } else { a })
            };
            let dst = if asm.contains(" v6, v4") { 6 } else { 20 };
            changed(before, after, |wave| write(wave, dst, 32, exec, result))
        }));
    }
    // Denormals pass whatever the mode says: this is no arithmetic.
    cases.push(Case::new(
        "v_cndmask_b32_e64 v20, -v4, |v6|, s[42:43]",
        |machine| {
            machine.set_v(4, |lane| lane as u32 + 1);
            machine.set_v(6, |lane| 0x8000_0000 + lane as u32);
            machine.wave.set_s64(CARRY_IN, 0x0F0F_3333_5555_FF00);
            machine.wave.set_mode(0);
        },
        |before, after| {
            let result = |lane: usize| {
                let lane_bits = lane as u64;
                if 0x0F0F_3333_5555_FF00_u64 >> lane & 1 == 1 { lane_bits } else { 0x8000_0000 + lane_bits + 1 }
            };
            changed(before, after, |wave| write(wave, 20, 32, !0, result))
        },
    ));
    cases
}

/// 32-bit products added to 64 bits, with a carry.
fn wide() -> Vec<Case> {
    let mut cases = Vec::new();
    for signed in [false, true] {
        for (dst, exec, clamp) in [(20, !0, false), (8, PARTIAL, false), (20, !0, true), (4, PARTIAL, true)] {
            let name = if signed { "v_mad_i64_i32" } else { "v_mad_u64_u32" };
            let suffix = if clamp { " clamp" } else { "" };
            for (first, third) in [("v4", "v[8:9]"), ("s30", "v[8:9]"), ("v4", "-9"), ("v4", "0")] {
                let asm = format!("{name} v[{dst}:{}], s[40:41], {first}, v6, {third}{suffix}", dst + 1);
                cases.push(Case::new(asm, wide_setup(exec), move |before, after| {
                    let w = &before.wave;
                    let exact = |lane: usize| {
                        let number = |x: u32| if signed { i128::from(x as i32) } else { i128::from(x) };
                        let a = number(if first == "s30" { w.s[30] } else { w.v[4][lane] });
                        let c = match third {
                            "0" => 0,
                            "-9" => -9_i64 as u64,
                            _ => before.v64(8, lane),
                        };
                        let c = if signed { i128::from(c as i64) } else { i128::from(c) };
                        a * number(w.v[6][lane]) + c
                    };
                    let range = if signed { (i128::from(i64::MIN), i128::from(i64::MAX)) } else { (0, (1 << 64) - 1) };
                    changed(before, after, |wave: &mut Wave| {
                        write(wave, dst, 64, exec, |lane| {
                            let exact = exact(lane);
                            let exact = if clamp { exact.max(range.0).min(range.1) } else { exact };
                            exact.rem_euclid(1 << 64) as u64
                        });
                        // The bit above the 64 of the result.
                        let carry = |lane: &usize| exact(*lane).rem_euclid(1 << 65) >= 1 << 64;
                        let on = (0..64).filter(|lane| exec >> lane & 1 == 1);
                        wave.set_s64(SDST, on.filter(carry).map(|lane| 1 << lane).sum());
                    })
                }));
            }
        }
    }
    cases
}

fn wide_setup(exec: u64) -> impl Fn(&mut Machine) {
    move |machine| {
        fill(machine, &[Operand::V(4), Operand::V(6), Operand::V(8), Operand::S(30)], 5);
        // Products close to the limits of 64 bits.
        for lane in 0..8 {
            machine.wave.v[4][lane] = 0x8000_0000 - (lane as u32 & 1);
            machine.wave.v[6][lane] = !0 << (lane * 4);
        }
        machine.set_v64(
            8,
            |lane| if lane < 8 { i64::MAX as u64 + edge(lane as u64) % 2 } else { edge(lane as u64 + 900) },
        );
        machine.wave.set_exec(exec);
    }
}
