//! Operations on EXEC that keep or pass on the mask.

use super::{bit, from_bits, only_next, parts, set};
use crate::harness::Case;

/// Mnemonic, whether the destination gets the old mask, and one bit of the new mask.
type Row = (&'static str, bool, fn(bool, bool) -> bool);

const ROWS: &[Row] = &[
    ("s_and_saveexec_b64", true, |s, e| s && e),
    ("s_or_saveexec_b64", true, |s, e| s || e),
    ("s_xor_saveexec_b64", true, |s, e| s != e),
    ("s_andn2_saveexec_b64", true, |s, e| s && !e),
    ("s_orn2_saveexec_b64", true, |s, e| s || !e),
    ("s_nand_saveexec_b64", true, |s, e| !s || !e),
    ("s_nor_saveexec_b64", true, |s, e| !s && !e),
    ("s_xnor_saveexec_b64", true, |s, e| s == e),
    ("s_andn1_saveexec_b64", true, |s, e| !s && e),
    ("s_orn1_saveexec_b64", true, |s, e| !s || e),
    ("s_andn1_wrexec_b64", false, |s, e| !s && e),
    ("s_andn2_wrexec_b64", false, |s, e| s && !e),
];

const MASKS: [u64; 6] = [0, u64::MAX, 1, 0x8000_0000_0000_0000, 0x0F0F_F0F0_00FF_FF00, 0xFFFF_FFFF];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, saves, f) in ROWS {
        for (n, source) in MASKS.into_iter().enumerate() {
            for exec in MASKS {
                // The destination is another pair, the source itself, VCC, or EXEC.
                for (text, dst) in [("s[8:9]", 8), ("s[2:3]", 2), ("vcc", 106), ("exec", 126)] {
                    cases.push(Case::new(
                        format!("{name} {text}, s[2:3]"),
                        move |m| {
                            m.wave.scc = n % 2 == 0;
                            set(m, 2, 64, source);
                            set(m, 126, 64, exec);
                        },
                        move |before, after| {
                            let new = from_bits(64, |n| f(bit(source, n), bit(exec, n)));
                            let mut changed = parts(126, 64, new);
                            changed.extend(parts(dst, 64, if saves { exec } else { new }));
                            only_next(before, after, &changed, new != 0)
                        },
                    ));
                }
            }
        }
        cases.push(Case::new(
            format!("{name} s[8:9], -1"),
            |m| set(m, 126, 64, 0x1234),
            move |before, after| {
                let new = from_bits(64, |n| f(true, bit(0x1234, n)));
                let mut changed = parts(126, 64, new);
                changed.extend(parts(8, 64, if saves { 0x1234 } else { new }));
                only_next(before, after, &changed, new != 0)
            },
        ));
    }
    cases
}
