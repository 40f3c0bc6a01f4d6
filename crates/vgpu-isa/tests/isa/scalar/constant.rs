//! SOPK arithmetic and moves: a register and a 16-bit constant.

use super::{only_next, set, signed, wrap};
use crate::harness::Case;

/// Result and SCC from the register, the constant as a signed number, and the old SCC.
type Oracle = fn(u64, i128, bool) -> (u64, bool);

const ROWS: &[(&str, Oracle)] = &[
    ("s_movk_i32", |_, k, c| (wrap(k, 32), c)),
    ("s_cmovk_i32", |d, k, c| (if c { wrap(k, 32) } else { d }, c)),
    ("s_addk_i32", |d, k, _| {
        let sum = signed(d, 32) + k;
        (wrap(sum, 32), sum != signed(wrap(sum, 32), 32))
    }),
    ("s_mulk_i32", |d, k, c| (wrap(signed(d, 32) * k, 32), c)),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, oracle) in ROWS {
        for k in [0_i16, 1, -1, 0x7FFF, -0x8000, 0x1234] {
            for d in [0_u64, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x7FFF_8000, 0x8000_7FFF, 0xDEAD_BEEF] {
                for scc in [false, true] {
                    cases.push(Case::new(
                        format!("{name} s5, {:#x}", k as u16),
                        move |m| {
                            m.wave.scc = scc;
                            set(m, 5, 32, d);
                        },
                        move |before, after| {
                            let (value, scc) = oracle(d, i128::from(k), scc);
                            only_next(before, after, &[(5, value as u32)], scc)
                        },
                    ));
                }
            }
        }
    }
    cases
}
