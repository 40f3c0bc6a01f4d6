//! SOPC and the comparisons of SOPK: SCC is the result.

use super::operands::Source;
use super::{EDGES, bit, narrow, only_next, set, signed};
use crate::harness::Case;

/// Mnemonic, bits of the sources, and the oracle.
type Row = (&'static str, u32, u32, fn(u64, u64) -> bool);

const ROWS: &[Row] = &[
    ("s_cmp_eq_i32", 32, 32, |a, b| signed(a, 32) == signed(b, 32)),
    ("s_cmp_lg_i32", 32, 32, |a, b| signed(a, 32) != signed(b, 32)),
    ("s_cmp_gt_i32", 32, 32, |a, b| signed(a, 32) > signed(b, 32)),
    ("s_cmp_ge_i32", 32, 32, |a, b| signed(a, 32) >= signed(b, 32)),
    ("s_cmp_lt_i32", 32, 32, |a, b| signed(a, 32) < signed(b, 32)),
    ("s_cmp_le_i32", 32, 32, |a, b| signed(a, 32) <= signed(b, 32)),
    ("s_cmp_eq_u32", 32, 32, |a, b| a == b),
    ("s_cmp_lg_u32", 32, 32, |a, b| a != b),
    ("s_cmp_gt_u32", 32, 32, |a, b| a > b),
    ("s_cmp_ge_u32", 32, 32, |a, b| a >= b),
    ("s_cmp_lt_u32", 32, 32, |a, b| a < b),
    ("s_cmp_le_u32", 32, 32, |a, b| a <= b),
    ("s_bitcmp0_b32", 32, 32, |a, b| !bit(a, (b % 32) as u32)),
    ("s_bitcmp1_b32", 32, 32, |a, b| bit(a, (b % 32) as u32)),
    ("s_bitcmp0_b64", 64, 32, |a, b| !bit(a, (b % 64) as u32)),
    ("s_bitcmp1_b64", 64, 32, |a, b| bit(a, (b % 64) as u32)),
    ("s_cmp_eq_u64", 64, 64, |a, b| a == b),
    ("s_cmp_lg_u64", 64, 64, |a, b| a != b),
];

/// Mnemonic, whether the constant is signed, and the oracle.
type Constant = (&'static str, bool, fn(i128, i128) -> bool);

const CONSTANTS: &[Constant] = &[
    ("s_cmpk_eq_i32", true, |a, b| a == b),
    ("s_cmpk_lg_i32", true, |a, b| a != b),
    ("s_cmpk_gt_i32", true, |a, b| a > b),
    ("s_cmpk_ge_i32", true, |a, b| a >= b),
    ("s_cmpk_lt_i32", true, |a, b| a < b),
    ("s_cmpk_le_i32", true, |a, b| a <= b),
    ("s_cmpk_eq_u32", false, |a, b| a == b),
    ("s_cmpk_lg_u32", false, |a, b| a != b),
    ("s_cmpk_gt_u32", false, |a, b| a > b),
    ("s_cmpk_ge_u32", false, |a, b| a >= b),
    ("s_cmpk_lt_u32", false, |a, b| a < b),
    ("s_cmpk_le_u32", false, |a, b| a <= b),
];

fn case(row: &Row, a: Source, b: Source, values: (u64, u64), scc: bool) -> Case {
    let (name, a_bits, b_bits, oracle) = *row;
    Case::new(
        format!("{name} {}, {}", a.text(a_bits), b.text(b_bits)),
        move |m| {
            m.wave.scc = scc;
            if let Source::Register(first) = a {
                set(m, first, a_bits, values.0);
            }
            if let Source::Register(first) = b {
                set(m, first, b_bits, values.1);
            }
            a.prepare(m);
            b.prepare(m);
        },
        move |before, after| {
            let want = oracle(a.value(before, a_bits), b.value(before, b_bits));
            only_next(before, after, &[], want)
        },
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for row in ROWS {
        let (_, a_bits, b_bits, _) = *row;
        let (a, b) = (Source::Register(2), Source::Register(6));
        for (n, x) in EDGES.into_iter().enumerate() {
            for y in [x, EDGES[(n + 1) % 16], EDGES[(n + 9) % 16]] {
                cases.push(case(row, a, b, (narrow(x, a_bits), narrow(y, b_bits)), n % 2 == 0));
            }
        }
        // Two numbers that differ in the high half only.
        cases.push(case(row, a, b, (narrow(1 << 32 | 5, a_bits), narrow(2 << 32 | 5, b_bits)), false));
        for special in Source::SPECIAL {
            for scc in [false, true] {
                let values = (narrow(0x8765_4321, a_bits), narrow(0xFFFF_FFF0, b_bits));
                if special.exists(a_bits) {
                    cases.push(case(row, special, b, values, scc));
                }
                if special.exists(b_bits) {
                    cases.push(case(row, a, special, values, scc));
                }
            }
        }
    }
    for &(name, is_signed, oracle) in CONSTANTS {
        for k in [0_u16, 1, 0x7FFF, 0x8000, 0xFFFF] {
            for d in [0_u64, 1, 0x7FFF, 0x8000, 0xFFFF, 0xFFFF_8000, 0xFFFF_FFFF, 0x8000_0000, 0x7FFF_FFFF] {
                cases.push(Case::new(
                    format!("{name} s5, {k:#x}"),
                    move |m| {
                        m.wave.scc = d % 2 == 0;
                        set(m, 5, 32, d);
                    },
                    move |before, after| {
                        let want = if is_signed {
                            oracle(signed(d, 32), signed(u64::from(k), 16))
                        } else {
                            oracle(i128::from(d), i128::from(k))
                        };
                        only_next(before, after, &[], want)
                    },
                ));
            }
        }
    }
    cases
}
