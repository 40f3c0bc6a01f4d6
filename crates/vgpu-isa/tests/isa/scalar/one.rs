//! SOP1: one source, result in registers.

use super::operands::Source;
use super::{EDGES, bit, from_bits, get, narrow, only_next, parts, reg, set, signed, vcc, wrap};
use crate::harness::Case;

/// Result and SCC from the source, the old destination and the old SCC.
type Oracle = fn(u64, u64, bool) -> (u64, bool);

/// Mnemonic; bits of destination and source.
type Row = (&'static str, u32, u32, Oracle);

fn nonzero(value: u64) -> (u64, bool) {
    (value, value != 0)
}

fn count(bits: u32, a: u64, wanted: bool) -> (u64, bool) {
    nonzero((0..bits).filter(|&n| bit(a, n) == wanted).count() as u64)
}

/// The first position of several that satisfies a condition, or minus one in 32 bits.
fn first(mut positions: impl Iterator<Item = u32>, condition: impl Fn(u32) -> bool) -> u64 {
    positions.position(condition).map_or(0xFFFF_FFFF, |n| n as u64)
}

fn sign_change(bits: u32, a: u64) -> u64 {
    first(0..bits, |n| bit(a, bits - 1 - n) != bit(a, bits - 1))
}

fn quad(a: u64, n: u32) -> bool {
    (0..4).any(|lane| bit(a, n * 4 + lane))
}

fn replace(bits: u32, d: u64, position: u64, to: bool) -> u64 {
    from_bits(bits, |n| if u64::from(n) == position % u64::from(bits) { to } else { bit(d, n) })
}

const ROWS: &[Row] = &[
    ("s_mov_b32", 32, 32, |a, _, c| (a, c)),
    ("s_mov_b64", 64, 64, |a, _, c| (a, c)),
    ("s_cmov_b32", 32, 32, |a, d, c| ([d, a][usize::from(c)], c)),
    ("s_cmov_b64", 64, 64, |a, d, c| ([d, a][usize::from(c)], c)),
    ("s_not_b32", 32, 32, |a, _, _| nonzero(u64::from(u32::MAX) - a)),
    ("s_not_b64", 64, 64, |a, _, _| nonzero(u64::MAX - a)),
    ("s_wqm_b32", 32, 32, |a, _, _| nonzero(from_bits(32, |n| quad(a, n / 4)))),
    ("s_wqm_b64", 64, 64, |a, _, _| nonzero(from_bits(64, |n| quad(a, n / 4)))),
    ("s_brev_b32", 32, 32, |a, _, c| (from_bits(32, |n| bit(a, 31 - n)), c)),
    ("s_brev_b64", 64, 64, |a, _, c| (from_bits(64, |n| bit(a, 63 - n)), c)),
    ("s_bcnt0_i32_b32", 32, 32, |a, _, _| count(32, a, false)),
    ("s_bcnt0_i32_b64", 32, 64, |a, _, _| count(64, a, false)),
    ("s_bcnt1_i32_b32", 32, 32, |a, _, _| count(32, a, true)),
    ("s_bcnt1_i32_b64", 32, 64, |a, _, _| count(64, a, true)),
    ("s_ff0_i32_b32", 32, 32, |a, _, c| (first(0..32, |n| !bit(a, n)), c)),
    ("s_ff0_i32_b64", 32, 64, |a, _, c| (first(0..64, |n| !bit(a, n)), c)),
    ("s_ff1_i32_b32", 32, 32, |a, _, c| (first(0..32, |n| bit(a, n)), c)),
    ("s_ff1_i32_b64", 32, 64, |a, _, c| (first(0..64, |n| bit(a, n)), c)),
    ("s_flbit_i32_b32", 32, 32, |a, _, c| (first((0..32).rev(), |n| bit(a, n)), c)),
    ("s_flbit_i32_b64", 32, 64, |a, _, c| (first((0..64).rev(), |n| bit(a, n)), c)),
    ("s_flbit_i32", 32, 32, |a, _, c| (sign_change(32, a), c)),
    ("s_flbit_i32_i64", 32, 64, |a, _, c| (sign_change(64, a), c)),
    ("s_sext_i32_i8", 32, 32, |a, _, c| (wrap(signed(a % 256, 8), 32), c)),
    ("s_sext_i32_i16", 32, 32, |a, _, c| (wrap(signed(a % 65536, 16), 32), c)),
    ("s_bitset0_b32", 32, 32, |a, d, c| (replace(32, d, a, false), c)),
    ("s_bitset0_b64", 64, 32, |a, d, c| (replace(64, d, a, false), c)),
    ("s_bitset1_b32", 32, 32, |a, d, c| (replace(32, d, a, true), c)),
    ("s_bitset1_b64", 64, 32, |a, d, c| (replace(64, d, a, true), c)),
    ("s_quadmask_b32", 32, 32, |a, _, _| nonzero(from_bits(8, |n| quad(a, n)))),
    ("s_quadmask_b64", 64, 64, |a, _, _| nonzero(from_bits(16, |n| quad(a, n)))),
    ("s_abs_i32", 32, 32, |a, _, _| nonzero(wrap(signed(a, 32).abs(), 32))),
    ("s_bitreplicate_b64_b32", 64, 32, |a, _, c| (from_bits(64, |n| bit(a, n / 2)), c)),
];

fn case(row: &Row, dst: (String, usize), a: Source, value: u64, scc: bool) -> Case {
    let (name, d_bits, a_bits, oracle) = *row;
    let asm = format!("{name} {}, {}", dst.0, a.text(a_bits));
    Case::new(
        asm,
        move |m| {
            m.wave.scc = scc;
            if let Source::Register(first) = a {
                set(m, first, a_bits, value);
            }
            a.prepare(m);
        },
        move |before, after| {
            let (value, scc) = oracle(a.value(before, a_bits), get(before, dst.1, d_bits), scc);
            only_next(before, after, &parts(dst.1, d_bits, value), scc)
        },
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for row in ROWS {
        let (_, d_bits, a_bits, _) = *row;
        let a = Source::Register(2);
        for (n, x) in EDGES.into_iter().enumerate() {
            for x in [x, !x, x.rotate_left(17)] {
                cases.push(case(row, (reg(20, d_bits), 20), a, narrow(x, a_bits), n % 2 == 0));
            }
        }
        for special in Source::SPECIAL.into_iter().filter(|s| s.exists(a_bits)) {
            for scc in [false, true] {
                cases.push(case(row, (reg(20, d_bits), 20), special, 0, scc));
            }
        }
        for scc in [false, true] {
            let value = narrow(0x0F01_8000_0000_2048, a_bits);
            cases.push(case(row, (reg(2, d_bits), 2), a, value, scc));
            cases.push(case(row, (vcc(d_bits).into(), 106), a, value, scc));
            cases.push(case(row, (reg(20, d_bits), 20), Source::MinusFour, 0, scc));
        }
    }
    cases
}
