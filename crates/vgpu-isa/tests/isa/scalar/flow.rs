//! Branches, calls, forks, returns.

use vgpu_isa::inst::{Flow, Stop};
use vgpu_isa::wave::{Wave, mode, status};

use super::{only, parts, set};
use crate::harness::{CODE, Case, Machine, same};

/// The instruction after a short one.
const NEXT: u64 = CODE + 4;

/// Goes to `target`, or on if there is none, and changes nothing but the registers named.
fn arrives(before: &Machine, after: &Machine, target: Option<u64>, changed: &[(usize, u32)]) -> Result<(), String> {
    same("flow", after.flow, if target.is_some() { Flow::Jump } else { Flow::Next })?;
    same("pc", after.wave.pc, target.unwrap_or(NEXT))?;
    only(before, after, changed, before.wave.scc)
}

/// A conditional branch, a state, and whether the branch is taken in it.
fn branch(name: &'static str, taken: bool, setup: fn(&mut Wave)) -> Vec<Case> {
    let case = |offset: i64| {
        Case::new(
            format!("{name} {}", offset as u16),
            move |m| setup(&mut m.wave),
            move |before, after| {
                let target = (i128::from(NEXT) + 4 * i128::from(offset)) as u64;
                arrives(before, after, taken.then_some(target), &[])
            },
        )
    };
    [0, 1, -1, 0x7FFF, -0x8000].map(case).into()
}

fn branches() -> Vec<Case> {
    let with_debug = |bits: u32| -> fn(&mut Wave) {
        match bits {
            0 => |w| w.status &= !(status::COND_DBG_SYS | status::COND_DBG_USER),
            1 => |w| w.status |= status::COND_DBG_SYS,
            2 => |w| w.status |= status::COND_DBG_USER,
            _ => |w| w.status |= status::COND_DBG_SYS | status::COND_DBG_USER,
        }
    };
    let mut all = vec![
        branch("s_branch", true, |_| {}),
        branch("s_cbranch_scc0", true, |w| w.scc = false),
        branch("s_cbranch_scc0", false, |w| w.scc = true),
        branch("s_cbranch_scc1", true, |w| w.scc = true),
        branch("s_cbranch_scc1", false, |w| w.scc = false),
        branch("s_cbranch_vccz", true, |w| w.s[106..108].fill(0)),
        branch("s_cbranch_vccz", false, |w| w.s[106..108].copy_from_slice(&[0, 1 << 31])),
        branch("s_cbranch_vccnz", true, |w| w.s[106..108].copy_from_slice(&[0, 1])),
        branch("s_cbranch_vccnz", true, |w| w.s[106..108].copy_from_slice(&[1, 0])),
        branch("s_cbranch_vccnz", false, |w| w.s[106..108].fill(0)),
        branch("s_cbranch_execz", true, |w| w.s[126..128].fill(0)),
        branch("s_cbranch_execz", false, |w| w.s[126..128].copy_from_slice(&[0, 1 << 31])),
        branch("s_cbranch_execnz", true, |w| w.s[126..128].copy_from_slice(&[1, 0])),
        branch("s_cbranch_execnz", false, |w| w.s[126..128].fill(0)),
    ];
    for bits in 0..4 {
        let (system, user) = (bits & 1 != 0, bits & 2 != 0);
        let setup = with_debug(bits);
        all.push(branch("s_cbranch_cdbgsys", system, setup));
        all.push(branch("s_cbranch_cdbguser", user, setup));
        all.push(branch("s_cbranch_cdbgsys_or_user", system || user, setup));
        all.push(branch("s_cbranch_cdbgsys_and_user", system && user, setup));
    }
    all.into_iter().flatten().collect()
}

fn calls() -> Vec<Case> {
    let far = |m: &mut Machine| set(m, 2, 64, 0xFFF4_7123_4567_89AB);
    // Forty-eight bits of a program counter, whole dwords.
    const FAR: u64 = 0x0000_7123_4567_89A8;
    const HIGH: u64 = 0xFFFF_8000_0000_1000;
    vec![
        Case::new("s_getpc_b64 s[4:5]", |_| {}, |before, after| arrives(before, after, None, &parts(4, 64, NEXT))),
        Case::new(
            "s_getpc_b64 s[4:5]",
            |m| m.wave.pc = 0x7FFF_FFFF_FFFC,
            |before, after| {
                same("pc", after.wave.pc, 0x8000_0000_0000)?;
                only(before, after, &parts(4, 64, 0x8000_0000_0000), false)
            },
        ),
        Case::new("s_setpc_b64 s[2:3]", far, |before, after| arrives(before, after, Some(FAR), &[])),
        Case::new(
            "s_setpc_b64 s[2:3]",
            |m| set(m, 2, 64, 0x8000_0000_1002),
            |before, after| arrives(before, after, Some(HIGH), &[]),
        ),
        Case::new("s_swappc_b64 s[30:31], s[2:3]", far, |before, after| {
            arrives(before, after, Some(FAR), &parts(30, 64, NEXT))
        }),
        Case::new("s_swappc_b64 s[2:3], s[2:3]", far, |before, after| {
            arrives(before, after, Some(FAR), &parts(2, 64, NEXT))
        }),
        Case::new(
            "s_call_b64 s[30:31], 100",
            |_| {},
            |before, after| arrives(before, after, Some(NEXT + 400), &parts(30, 64, NEXT)),
        ),
        Case::new(
            "s_call_b64 s[30:31], 0xfff0",
            |_| {},
            |before, after| arrives(before, after, Some(NEXT - 64), &parts(30, 64, NEXT)),
        ),
    ]
}

/// Puts a depth into the mode.
fn depth(m: &mut Machine, depth: u32) {
    let other = m.wave.mode() % (1 << 29);
    m.wave.set_mode(other + (depth << 29));
}

/// A fork: mask, EXEC, and what must happen: the mask that runs, where, and what waits with which mask.
struct Fork {
    mask: u64,
    exec: u64,
    jumps: bool,
    waits: Option<(u64, bool)>,
}

fn forks() -> Vec<Case> {
    const TARGET: u64 = 0x2000_0040;
    // Waiting lanes and whether they wait for the target.
    let table = [
        Fork { mask: u64::MAX, exec: 0xFF, jumps: true, waits: None },
        Fork { mask: 0xFF00, exec: 0xFF, jumps: false, waits: None },
        Fork { mask: 0x0F, exec: 0, jumps: true, waits: None },
        // Fewer fail: they run first, those that pass wait for the target.
        Fork { mask: 0x7F, exec: 0xFF, jumps: false, waits: Some((0x7F, true)) },
        // Fewer pass, or as many: they run first, the others wait for the next instruction.
        Fork { mask: 0x01, exec: 0xFF, jumps: true, waits: Some((0xFE, false)) },
        Fork { mask: 0x0F, exec: 0xFF, jumps: true, waits: Some((0xF0, false)) },
    ];
    let mut cases = Vec::new();
    for Fork { mask, exec, jumps, waits } in table {
        for level in [0_u32, 1, 3, 7] {
            for (asm, target) in [
                ("s_cbranch_g_fork s[40:41], s[42:43]", TARGET),
                ("s_cbranch_i_fork s[40:41], 10", NEXT + 40),
                ("s_cbranch_i_fork s[40:41], 0xffff", NEXT - 4),
            ] {
                cases.push(Case::new(
                    asm,
                    move |m| {
                        set(m, 40, 64, mask);
                        set(m, 42, 64, TARGET);
                        set(m, 126, 64, exec);
                        depth(m, level);
                    },
                    move |before, after| {
                        let mut want = before.wave.s;
                        let mut want_level = level;
                        if let Some((lanes, at_target)) = waits {
                            let first = 4 * level as usize;
                            let address = if at_target { target } else { NEXT };
                            for (register, value) in [parts(first, 64, lanes), parts(first + 2, 64, address)].concat() {
                                want[register] = value;
                            }
                            for (register, value) in parts(126, 64, exec & !lanes) {
                                want[register] = value;
                            }
                            want_level = (level + 1) % 8;
                        }
                        same("registers", after.wave.s, want)?;
                        same("depth", after.wave.mode() >> 29, want_level)?;
                        same("mode", after.wave.mode() % (1 << 29), mode::USUAL)?;
                        same("flow", after.flow, if jumps { Flow::Jump } else { Flow::Next })?;
                        same("pc", after.wave.pc, if jumps { target } else { NEXT })
                    },
                ));
            }
        }
    }
    cases
}

fn joins() -> Vec<Case> {
    let mut cases = vec![Case::new(
        "s_cbranch_join s40",
        |m| {
            m.wave.s[40] = 3;
            depth(m, 3);
        },
        |before, after| arrives(before, after, None, &[]),
    )];
    for (level, saved) in [(3_u32, 2_u32), (1, 0), (0, 3), (2, 100)] {
        cases.push(Case::new(
            "s_cbranch_join s40",
            move |m| {
                m.wave.s[40] = saved;
                depth(m, level);
                let first = 4 * ((level + 7) % 8) as usize;
                set(m, first, 64, 0x1234_5678_9ABC_DEF0);
                set(m, first + 2, 64, 0x2000_0080);
            },
            move |before, after| {
                same("flow", after.flow, Flow::Jump)?;
                same("pc", after.wave.pc, 0x2000_0080)?;
                same("depth", after.wave.mode() >> 29, (level + 7) % 8)?;
                let mut want = before.wave.s;
                (want[126], want[127]) = (0x9ABC_DEF0, 0x1234_5678);
                same("registers", after.wave.s, want)
            },
        ));
    }
    cases
}

fn returns() -> Vec<Case> {
    let mut cases = Vec::new();
    for (asm, translated) in [
        ("s_rfe_b64 s[2:3]", None),
        ("s_rfe_restore_b64 s[2:3], s4", Some(true)),
        ("s_rfe_restore_b64 s[2:3], s5", Some(false)),
    ] {
        let setup = |m: &mut Machine| {
            set(m, 2, 64, 0xABCD_0000_2000_0040);
            (m.wave.s[4], m.wave.s[5]) = (0xFFFF_FFFF, 0xFFFF_FFFE);
        };
        for had in [false, true] {
            cases.push(Case::new(
                asm,
                move |m| {
                    setup(m);
                    m.wave.status |= status::PRIV;
                    if had {
                        m.wave.status |= status::INST_ATC;
                    }
                },
                move |before, after| {
                    same("flow", after.flow, Flow::Sleep)?;
                    same("pc", after.wave.pc, 0x2000_0040)?;
                    same("registers", after.wave.s, before.wave.s)?;
                    let fetch = if translated.unwrap_or(had) { status::INST_ATC } else { 0 };
                    same("status", after.wave.status, status::VALID | fetch)
                },
            ));
        }
        cases.push(Case::new(
            asm,
            move |m| {
                setup(m);
                m.wave.status |= status::PRIV | status::HALT;
            },
            |_, after| {
                same("flow", after.flow, Flow::Sleep)?;
                same("pc", after.wave.pc, 0x2000_0040)?;
                same("privilege", after.wave.status & status::PRIV, 0)
            },
        ));
        cases.push(Case::new(asm, setup, |before, after| {
            same("flow", after.flow, Flow::Stop)?;
            same("status", after.wave.status, before.wave.status)?;
            match after.stop {
                Some(Stop::Illegal { mnemonic: Some(name), .. }) if name.starts_with("s_rfe") => Ok(()),
                ref other => Err(format!("stopped with {other:?}")),
            }
        }));
    }
    cases
}

pub(super) fn cases() -> Vec<Case> {
    [branches(), calls(), forks(), joins(), returns()].into_iter().flatten().collect()
}
