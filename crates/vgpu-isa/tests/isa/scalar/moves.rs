//! Relative moves and the index of vector registers.

use vgpu_isa::inst::Flow;
use vgpu_isa::wave::mode;

use super::{get, only_next, parts, reg, set};
use crate::harness::{Case, same};

/// How many scalar registers relative moves reach: up to and including VCC.
const REACH: u64 = 108;

fn relative() -> Vec<Case> {
    let mut cases = Vec::new();
    for bits in [32, 64] {
        let length = u64::from(bits / 32);
        for m0 in [0_u32, 2, 40, 94, 96, 98, 100, 0x8000_0000, 0xFFFF_FFFF] {
            let from = 10 + u64::from(m0);
            let inside = from + length <= REACH;
            cases.push(Case::new(
                format!("s_movrels_b{bits} {}, {}", reg(4, bits), reg(10, bits)),
                move |m| set(m, 124, 32, u64::from(m0)),
                move |before, after| {
                    let from = if inside { from as usize } else { 0 };
                    only_next(before, after, &parts(4, bits, get(before, from, bits)), false)
                },
            ));
            cases.push(Case::new(
                format!("s_movreld_b{bits} {}, {}", reg(10, bits), reg(4, bits)),
                move |m| set(m, 124, 32, u64::from(m0)),
                move |before, after| {
                    let changed = if inside { parts(from as usize, bits, get(before, 4, bits)) } else { Vec::new() };
                    only_next(before, after, &changed, false)
                },
            ));
        }
        cases.push(Case::new(
            format!("s_movreld_b{bits} {}, -7", reg(10, bits)),
            |m| set(m, 124, 32, 6),
            move |before, after| only_next(before, after, &parts(16, bits, u64::MAX - 6), false),
        ));
    }
    cases
}

/// Changes M0 and the mode as `want` says.
fn index(asm: &str, m0: u32, mode_before: u32, want_m0: u32, want_mode: u32) -> Case {
    Case::new(
        asm,
        move |m| {
            m.wave.s[3] = 0xABCD_EF91;
            m.wave.s[124] = m0;
            m.wave.set_mode(mode_before);
        },
        move |before, after| {
            let mut want = before.wave.s;
            want[124] = want_m0;
            same("registers", after.wave.s, want)?;
            same("mode", after.wave.mode(), want_mode)?;
            same("scc", after.wave.scc, before.wave.scc)?;
            same("flow", after.flow, Flow::Next)
        },
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = relative();
    let (usual, on) = (mode::USUAL, mode::USUAL | mode::GPR_IDX_EN);
    cases.extend([
        index("s_set_gpr_idx_on s3, gpr_idx(SRC0,DST)", 0x1234_5678, usual, 0x1234_9691, on),
        index("s_set_gpr_idx_on s3, gpr_idx(SRC1,SRC2)", 0xFFFF_FFFF, on, 0xFFFF_6F91, on),
        index("s_set_gpr_idx_on 5, gpr_idx()", 0xFFFF_FFFF, usual, 0xFFFF_0F05, on),
        index("s_set_gpr_idx_off", 0xFFFF_FFFF, on, 0xFFFF_FFFF, usual),
        index("s_set_gpr_idx_off", 7, usual, 7, usual),
        index("s_set_gpr_idx_mode gpr_idx(SRC0,SRC2)", 0x1234_FFFF, on, 0x1234_5FFF, on),
        index("s_set_gpr_idx_mode gpr_idx(DST)", 0, usual, 0x8000, usual),
        index("s_set_gpr_idx_idx s3", 0x1234_5678, usual, 0x1234_5691, usual),
        index("s_set_gpr_idx_idx 0xff01", 0xFFFF_FFFF, on, 0xFFFF_FF01, on),
    ]);
    cases
}
