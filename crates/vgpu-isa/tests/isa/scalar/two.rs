//! SOP2: two sources.

use super::operands::Source;
use super::{EDGES, bit, from_bits, narrow, only_next, parts, reg, set, signed, vcc, wrap};
use crate::harness::Case;

/// Result and SCC from two sources and the old SCC.
type Oracle = fn(u64, u64, bool) -> (u64, bool);

/// Mnemonic; bits of destination, first and second source.
type Row = (&'static str, u32, u32, u32, Oracle);

fn nonzero(value: u64) -> (u64, bool) {
    (value, value != 0)
}

fn each_bit(bits: u32, a: u64, b: u64, f: fn(bool, bool) -> bool) -> (u64, bool) {
    nonzero(from_bits(bits, |n| f(bit(a, n), bit(b, n))))
}

/// A result and whether it leaves the range of signed 32-bit numbers.
fn overflow(result: i128) -> (u64, bool) {
    (wrap(result, 32), !(-(1_i128 << 31)..1 << 31).contains(&result))
}

fn carry(result: i128) -> (u64, bool) {
    (wrap(result, 32), !(0..1 << 32).contains(&result))
}

fn shift_left(bits: u32, a: u64, count: u64) -> (u64, bool) {
    nonzero(wrap(i128::from(a) * (1_i128 << (count % u64::from(bits))), bits))
}

fn shift_right(bits: u32, a: i128, count: u64) -> (u64, bool) {
    nonzero(wrap(a.div_euclid(1 << (count % u64::from(bits))), bits))
}

fn field_mask(bits: u32, size: u64, offset: u64) -> u64 {
    let (size, offset) = (size % u64::from(bits), offset % u64::from(bits));
    from_bits(bits, |n| (offset..offset + size).contains(&u64::from(n)))
}

/// Bit fields by their bits: those above the source are zero or copies of its sign.
fn extract(bits: u32, a: u64, field: u64, is_signed: bool) -> (u64, bool) {
    let (offset, size) = ((field % u64::from(bits)) as u32, ((field / 65536) % 128) as u32);
    let at = |n: u32| if offset + n < bits { bit(a, offset + n) } else { is_signed && bit(a, bits - 1) };
    let value = from_bits(bits, |n| if n < size { at(n) } else { is_signed && size != 0 && at(size - 1) });
    nonzero(value)
}

fn low16(value: u64) -> u64 {
    value % 65536
}

fn high16(value: u64) -> u64 {
    value / 65536
}

const ROWS: &[Row] = &[
    ("s_add_u32", 32, 32, 32, |a, b, _| carry(i128::from(a) + i128::from(b))),
    ("s_sub_u32", 32, 32, 32, |a, b, _| carry(i128::from(a) - i128::from(b))),
    ("s_add_i32", 32, 32, 32, |a, b, _| overflow(signed(a, 32) + signed(b, 32))),
    ("s_sub_i32", 32, 32, 32, |a, b, _| overflow(signed(a, 32) - signed(b, 32))),
    ("s_addc_u32", 32, 32, 32, |a, b, c| carry(i128::from(a) + i128::from(b) + i128::from(c))),
    ("s_subb_u32", 32, 32, 32, |a, b, c| carry(i128::from(a) - i128::from(b) - i128::from(c))),
    ("s_min_i32", 32, 32, 32, |a, b, _| (wrap(signed(a, 32).min(signed(b, 32)), 32), signed(a, 32) < signed(b, 32))),
    ("s_min_u32", 32, 32, 32, |a, b, _| (a.min(b), a < b)),
    ("s_max_i32", 32, 32, 32, |a, b, _| (wrap(signed(a, 32).max(signed(b, 32)), 32), signed(a, 32) >= signed(b, 32))),
    ("s_max_u32", 32, 32, 32, |a, b, _| (a.max(b), a >= b)),
    ("s_cselect_b32", 32, 32, 32, |a, b, c| ([b, a][usize::from(c)], c)),
    ("s_cselect_b64", 64, 64, 64, |a, b, c| ([b, a][usize::from(c)], c)),
    ("s_and_b32", 32, 32, 32, |a, b, _| each_bit(32, a, b, |x, y| x && y)),
    ("s_and_b64", 64, 64, 64, |a, b, _| each_bit(64, a, b, |x, y| x && y)),
    ("s_or_b32", 32, 32, 32, |a, b, _| each_bit(32, a, b, |x, y| x || y)),
    ("s_or_b64", 64, 64, 64, |a, b, _| each_bit(64, a, b, |x, y| x || y)),
    ("s_xor_b32", 32, 32, 32, |a, b, _| each_bit(32, a, b, |x, y| x != y)),
    ("s_xor_b64", 64, 64, 64, |a, b, _| each_bit(64, a, b, |x, y| x != y)),
    ("s_andn2_b32", 32, 32, 32, |a, b, _| each_bit(32, a, b, |x, y| x && !y)),
    ("s_andn2_b64", 64, 64, 64, |a, b, _| each_bit(64, a, b, |x, y| x && !y)),
    ("s_orn2_b32", 32, 32, 32, |a, b, _| each_bit(32, a, b, |x, y| x || !y)),
    ("s_orn2_b64", 64, 64, 64, |a, b, _| each_bit(64, a, b, |x, y| x || !y)),
    ("s_nand_b32", 32, 32, 32, |a, b, _| each_bit(32, a, b, |x, y| !x || !y)),
    ("s_nand_b64", 64, 64, 64, |a, b, _| each_bit(64, a, b, |x, y| !x || !y)),
    ("s_nor_b32", 32, 32, 32, |a, b, _| each_bit(32, a, b, |x, y| !x && !y)),
    ("s_nor_b64", 64, 64, 64, |a, b, _| each_bit(64, a, b, |x, y| !x && !y)),
    ("s_xnor_b32", 32, 32, 32, |a, b, _| each_bit(32, a, b, |x, y| x == y)),
    ("s_xnor_b64", 64, 64, 64, |a, b, _| each_bit(64, a, b, |x, y| x == y)),
    ("s_lshl_b32", 32, 32, 32, |a, b, _| shift_left(32, a, b)),
    ("s_lshl_b64", 64, 64, 32, |a, b, _| shift_left(64, a, b)),
    ("s_lshr_b32", 32, 32, 32, |a, b, _| shift_right(32, i128::from(a), b)),
    ("s_lshr_b64", 64, 64, 32, |a, b, _| shift_right(64, i128::from(a), b)),
    ("s_ashr_i32", 32, 32, 32, |a, b, _| shift_right(32, signed(a, 32), b)),
    ("s_ashr_i64", 64, 64, 32, |a, b, _| shift_right(64, signed(a, 64), b)),
    ("s_bfm_b32", 32, 32, 32, |a, b, c| (field_mask(32, a, b), c)),
    ("s_bfm_b64", 64, 32, 32, |a, b, c| (field_mask(64, a, b), c)),
    ("s_mul_i32", 32, 32, 32, |a, b, c| (wrap(signed(a, 32) * signed(b, 32), 32), c)),
    ("s_bfe_u32", 32, 32, 32, |a, b, _| extract(32, a, b, false)),
    ("s_bfe_i32", 32, 32, 32, |a, b, _| extract(32, a, b, true)),
    ("s_bfe_u64", 64, 64, 32, |a, b, _| extract(64, a, b, false)),
    ("s_bfe_i64", 64, 64, 32, |a, b, _| extract(64, a, b, true)),
    ("s_absdiff_i32", 32, 32, 32, |a, b, _| {
        let difference = signed(wrap(i128::from(a) - i128::from(b), 32), 32);
        nonzero(wrap(difference.abs(), 32))
    }),
    ("s_mul_hi_u32", 32, 32, 32, |a, b, c| (wrap((i128::from(a) * i128::from(b)).div_euclid(1 << 32), 32), c)),
    ("s_mul_hi_i32", 32, 32, 32, |a, b, c| (wrap((signed(a, 32) * signed(b, 32)).div_euclid(1 << 32), 32), c)),
    ("s_lshl1_add_u32", 32, 32, 32, |a, b, _| carry(i128::from(a) * 2 + i128::from(b))),
    ("s_lshl2_add_u32", 32, 32, 32, |a, b, _| carry(i128::from(a) * 4 + i128::from(b))),
    ("s_lshl3_add_u32", 32, 32, 32, |a, b, _| carry(i128::from(a) * 8 + i128::from(b))),
    ("s_lshl4_add_u32", 32, 32, 32, |a, b, _| carry(i128::from(a) * 16 + i128::from(b))),
    ("s_pack_ll_b32_b16", 32, 32, 32, |a, b, c| (low16(a) + 65536 * low16(b), c)),
    ("s_pack_lh_b32_b16", 32, 32, 32, |a, b, c| (low16(a) + 65536 * high16(b), c)),
    ("s_pack_hh_b32_b16", 32, 32, 32, |a, b, c| (high16(a) + 65536 * high16(b), c)),
];

/// Fields for s_bfe: ordinary, whole, empty, too wide, beyond the end.
const FIELDS: [u64; 8] =
    [0x0008_0004, 0x0020_0000, 0x0000_0003, 0x0040_0000, 0x007F_0007, 0x0010_001C, 0x0001_003F, 0xFF90_FFE1];

fn case(row: &Row, dst: (String, usize), a: Source, b: Source, values: (u64, u64), scc: bool) -> Case {
    let (name, d_bits, a_bits, b_bits, oracle) = *row;
    let asm = format!("{name} {}, {}, {}", dst.0, a.text(a_bits), b.text(b_bits));
    Case::new(
        asm,
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
            let (value, scc) = oracle(a.value(before, a_bits), b.value(before, b_bits), scc);
            only_next(before, after, &parts(dst.1, d_bits, value), scc)
        },
    )
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for row in ROWS {
        let (name, d_bits, a_bits, b_bits, _) = *row;
        let dst = || (reg(20, d_bits), 20);
        let (a, b) = (Source::Register(2), Source::Register(6));
        for (n, &x) in EDGES.iter().enumerate() {
            for y in [EDGES[(n + 3) % 16], EDGES[(n * 7 + 12) % 16], x] {
                let values = (narrow(x, a_bits), narrow(y, b_bits));
                cases.push(case(row, dst(), a, b, values, n % 2 == 0));
            }
        }
        if name.starts_with("s_bfe") {
            for (n, field) in FIELDS.into_iter().enumerate() {
                for x in [0x8765_4321_F0E1_D2C3, 0x7FFF_FFFF_0000_1234, u64::MAX] {
                    cases.push(case(row, dst(), a, b, (narrow(x, a_bits), field), n % 2 == 0));
                }
            }
        }
        let values = (narrow(0xDEAD_BEEF_8000_0123, a_bits), narrow(0x1234_5678_0007_0905, b_bits));
        for special in Source::SPECIAL {
            if special.exists(a_bits) {
                cases.push(case(row, dst(), special, b, values, true));
            }
            if special.exists(b_bits) {
                cases.push(case(row, dst(), a, special, values, false));
            }
        }
        cases.push(case(row, dst(), Source::MinusFour, Source::Integer(3), values, true));
        for scc in [false, true] {
            cases.push(case(row, (reg(2, d_bits), 2), a, b, values, scc));
            cases.push(case(row, (reg(6, d_bits), 6), a, b, values, scc));
            cases.push(case(row, (vcc(d_bits).into(), 106), a, b, values, scc));
        }
    }
    cases
}
