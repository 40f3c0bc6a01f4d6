//! Single lanes, lanes before a lane, and what needs no operand table.

use super::support::{Operand, PARTIAL, changed, fill, hash, write};
use crate::harness::{Case, Machine};
use vgpu_isa::wave::{EXEC, M0, VCC};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = reads();
    cases.extend(writes());
    cases.extend(counts());
    cases.extend(swaps());
    cases.push(partition(false));
    cases.push(partition(true));
    for asm in ["v_nop", "v_nop_e64", "v_clrexcp", "v_clrexcp_e64"] {
        cases.push(Case::new(asm, |_| {}, |before, after| changed(before, after, |_| {})));
    }
    cases
}

fn reads() -> Vec<Case> {
    let mut cases = Vec::new();
    // The first lane that is on; lane 0 if none is.
    for (exec, lane) in [(!0, 0), (0, 0), (1 << 63, 63), (0xFF00_0000_0000, 40), (0x10, 4), (1 << 32, 32)] {
        for (to, register) in [("s5", 5), ("vcc_hi", VCC + 1), ("m0", M0)] {
            let asm = format!("v_readfirstlane_b32 {to}, v4");
            let setup = move |machine: &mut Machine| machine.wave.set_exec(exec);
            cases.push(Case::new(asm, setup, move |before, after| {
                changed(before, after, |wave| wave.s[register] = before.wave.v[4][lane])
            }));
        }
    }
    // EXEC does not matter; six bits of the selector do.
    let lanes = [("0", 0), ("63", 63), ("33", 33), ("s7", 21), ("m0", 50), ("vcc_lo", 7)];
    for (select, lane) in lanes {
        for exec in [!0, 0] {
            let asm = format!("v_readlane_b32 s9, v4, {select}");
            cases.push(Case::new(asm, selectors(exec), move |before, after| {
                changed(before, after, |wave| wave.s[9] = before.wave.v[4][lane])
            }));
        }
    }
    cases.push(Case::new(
        "v_readlane_b32 vcc_lo, v255, 17",
        |_| {},
        |before, after| changed(before, after, |wave| wave.s[VCC] = before.wave.v[255][17]),
    ));
    cases
}

fn selectors(exec: u64) -> impl Fn(&mut Machine) {
    move |machine| {
        machine.wave.set_exec(exec);
        machine.wave.s[7] = 64 + 21;
        machine.wave.s[M0] = 0xFFFF_FF00 + 50;
        machine.wave.s[VCC] = 7;
    }
}

fn writes() -> Vec<Case> {
    let mut cases = Vec::new();
    let values: [(&str, fn(&Machine) -> u32); 5] = [
        ("s30", |machine| machine.wave.s[30]),
        ("-5", |_| 0xFFFF_FFFB),
        ("1.0", |_| 0x3F80_0000),
        ("m0", |machine| machine.wave.s[M0]),
        ("exec_lo", |machine| machine.wave.s[EXEC]),
    ];
    for (text, value) in values {
        for (select, lane) in [("0", 0), ("63", 63), ("m0", 50)] {
            for exec in [0, PARTIAL] {
                let asm = format!("v_writelane_b32 v4, {text}, {select}");
                cases.push(Case::new(asm, selectors(exec), move |before, after| {
                    changed(before, after, |wave| wave.v[4][lane] = value(before))
                }));
            }
        }
    }
    cases
}

fn counts() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, first_lane) in [("v_mbcnt_lo_u32_b32", 0), ("v_mbcnt_hi_u32_b32", 32)] {
        for (mask, sum) in [("-1", "0"), ("-1", "v6"), ("s30", "v6"), ("v4", "v6"), ("v4", "s30"), ("exec_lo", "v6")] {
            for exec in [!0, PARTIAL] {
                let asm = format!("{name} v6, {mask}, {sum}");
                let setup = move |machine: &mut Machine| {
                    fill(machine, &[Operand::V(6)], 3);
                    machine.set_v(4, |lane| hash(lane as u64) as u32);
                    machine.wave.set_exec(exec);
                };
                cases.push(Case::new(asm, setup, move |before, after| {
                    let w = &before.wave;
                    let value = |text: &str, lane: usize| match text {
                        "-1" => !0,
                        "0" => 0,
                        "s30" => w.s[30],
                        "exec_lo" => w.s[EXEC],
                        "v4" => w.v[4][lane],
                        _ => w.v[6][lane],
                    };
                    let result = |lane: usize| {
                        // Bit n of the source stands for lane first_lane + n.
                        let bits = value(mask, lane);
                        let before = (0..32).filter(|n| first_lane + n < lane && bits >> n & 1 == 1).count();
                        (u64::from(value(sum, lane)) + before as u64) % (1 << 32)
                    };
                    changed(before, after, |wave| write(wave, 6, 32, exec, result))
                }));
            }
        }
    }
    cases
}

fn swaps() -> Vec<Case> {
    let mut cases = Vec::new();
    for exec in [!0, PARTIAL, 0] {
        for (a, b) in [(4, 6), (255, 0), (9, 9)] {
            let setup = move |machine: &mut Machine| machine.wave.set_exec(exec);
            cases.push(Case::new(format!("v_swap_b32 v{a}, v{b}"), setup, move |before, after| {
                changed(before, after, |wave| {
                    write(wave, a, 32, exec, |lane| u64::from(before.wave.v[b][lane]));
                    write(wave, b, 32, exec, |lane| u64::from(before.wave.v[a][lane]));
                })
            }));
        }
    }
    cases
}

/// The engines of a rectangle, by painting a map of four by four tiles that repeats itself.
fn partition(long: bool) -> Case {
    let (suffix, first) = if long { ("_e64", 128) } else { ("_e32", 0) };
    Case::new(
        format!("v_screen_partition_4se_b32{suffix} v20, v4"),
        move |machine| machine.set_v(4, |lane| 0xABCD_0000 + first + 2 * lane as u32),
        move |before, after| {
            // Engine of the tile in row y, column x.
            let map = [[0, 2, 1, 3], [1, 3, 0, 2], [2, 0, 3, 1], [3, 1, 2, 0]];
            let span = |from: u32, to: u32| (from..from + 4).take_while(move |n| n % 4 != to).chain([to]);
            let result = |lane: usize| {
                let select = before.wave.v[4][lane] % 256;
                let (x_min, y_min, x_max, y_max) = (select / 64, select / 16 % 4, select / 4 % 4, select % 4);
                let mut engines = [false; 4];
                for x in span(x_min, x_max) {
                    for y in span(y_min, y_max) {
                        engines[map[y as usize % 4][x as usize % 4]] = true;
                    }
                }
                (0..4).map(|n| u64::from(engines[n]) << n).sum()
            };
            changed(before, after, |wave| write(wave, 20, 32, !0, result))
        },
    )
}
