//! Relative vector registers (`s_set_gpr_idx_on`).

use super::support::{PARTIAL, changed, write};
use crate::harness::{Case, Machine};
use vgpu_isa::wave::{M0, VCC, mode};

/// Bits of M0 that say which operands are relative.
const SOURCE_0: u32 = 1 << 12;
const SOURCE_1: u32 = 1 << 13;
const SOURCE_2: u32 = 1 << 14;
const DESTINATION: u32 = 1 << 15;

fn setup(m0: u32, exec: u64) -> impl Fn(&mut Machine) {
    move |machine| {
        machine.wave.s[M0] = m0;
        machine.wave.set_mode(mode::USUAL | mode::GPR_IDX_EN);
        machine.wave.set_exec(exec);
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for which in 0..16_u32 {
        for index in [3, 250] {
            let m0 = which << 12 | index;
            // The register that an operand names, after indexing.
            let at = move |register: u32, bit: u32| {
                (if m0 & bit != 0 { (register + index) % 256 } else { register }) as usize
            };
            cases.push(Case::new("v_mov_b32_e32 v20, v4", setup(m0, PARTIAL), move |before, after| {
                let from = before.wave.v[at(4, SOURCE_0)];
                changed(before, after, |wave| {
                    write(wave, at(20, DESTINATION), 32, PARTIAL, |lane| u64::from(from[lane]));
                })
            }));
            cases.push(Case::new("v_sub_u32_e32 v20, v4, v6", setup(m0, !0), move |before, after| {
                let (a, b) = (before.wave.v[at(4, SOURCE_0)], before.wave.v[at(6, SOURCE_1)]);
                changed(before, after, |wave| {
                    write(wave, at(20, DESTINATION), 32, !0, |lane| u64::from(a[lane].wrapping_sub(b[lane])));
                })
            }));
            // Scalars and constants are never relative.
            cases.push(Case::new("v_add3_u32 v20, s30, v6, v8", setup(m0, !0), move |before, after| {
                let (b, c) = (before.wave.v[at(6, SOURCE_1)], before.wave.v[at(8, SOURCE_2)]);
                let a = before.wave.s[30];
                changed(before, after, |wave| {
                    let sum = |lane: usize| a.wrapping_add(b[lane]).wrapping_add(c[lane]);
                    write(wave, at(20, DESTINATION), 32, !0, |lane| u64::from(sum(lane)));
                })
            }));
            cases.push(Case::new("v_cmp_lt_u32_e32 vcc, v4, v6", setup(m0, PARTIAL), move |before, after| {
                let (a, b) = (before.wave.v[at(4, SOURCE_0)], before.wave.v[at(6, SOURCE_1)]);
                let holds = (0..64).filter(|&lane| a[lane] < b[lane] && PARTIAL >> lane & 1 == 1);
                let mask = holds.map(|lane| 1_u64 << lane).sum();
                changed(before, after, |wave| wave.set_s64(VCC, mask))
            }));
            cases.push(Case::new("v_cndmask_b32_e32 v20, v4, v6, vcc", setup(m0, !0), move |before, after| {
                let (a, b) = (before.wave.v[at(4, SOURCE_0)], before.wave.v[at(6, SOURCE_1)]);
                let vcc = before.wave.vcc();
                changed(before, after, |wave| {
                    let chosen = |lane: usize| if vcc >> lane & 1 == 1 { b[lane] } else { a[lane] };
                    write(wave, at(20, DESTINATION), 32, !0, |lane| u64::from(chosen(lane)));
                })
            }));
        }
    }
    // Single lanes keep the register they name.
    cases.push(Case::new("v_readlane_b32 s9, v4, 5", setup(0xF003, !0), |before, after| {
        changed(before, after, |wave| wave.s[9] = before.wave.v[4][5])
    }));
    cases.push(Case::new("v_readfirstlane_b32 s9, v4", setup(0xF003, !0), |before, after| {
        changed(before, after, |wave| wave.s[9] = before.wave.v[4][0])
    }));
    cases.push(Case::new("v_writelane_b32 v4, s30, 5", setup(0xF003, !0), |before, after| {
        changed(before, after, |wave| wave.v[4][5] = before.wave.s[30])
    }));
    // Without the mode bit M0 means nothing.
    cases.push(Case::new(
        "v_mov_b32_e32 v20, v4",
        |machine| machine.wave.s[M0] = 0xF003,
        |before, after| changed(before, after, |wave| wave.v[20] = before.wave.v[4]),
    ));
    cases
}
