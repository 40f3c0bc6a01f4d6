//! Scalar atomics.

use vgpu_isa::memory::Access;

use super::place::{Base, FORMS, Form, base, buffer};
use super::{changed, faulted};
use crate::harness::{Case, MEMORY, MEMORY_SIZE};

/// What memory holds afterwards: from what it held, the operand, the value compared with, and the width.
type Oracle = fn(i128, i128, i128, u32) -> i128;

fn signed(value: i128, bits: u32) -> i128 {
    if value >= 1 << (bits - 1) { value - (1 << bits) } else { value }
}

fn by_bits(a: i128, b: i128, f: fn(i128, i128) -> bool) -> i128 {
    (0..64).map(|n| 1_i128 << n).filter(|bit| f(a / bit % 2, b / bit % 2)).sum()
}

const ROWS: &[(&str, Oracle)] = &[
    ("swap", |_, data, _, _| data),
    ("cmpswap", |old, data, compare, _| if old == compare { data } else { old }),
    ("add", |old, data, _, _| old + data),
    ("sub", |old, data, _, _| old - data),
    ("smin", |old, data, _, bits| signed(old, bits).min(signed(data, bits))),
    ("umin", |old, data, _, _| old.min(data)),
    ("smax", |old, data, _, bits| signed(old, bits).max(signed(data, bits))),
    ("umax", |old, data, _, _| old.max(data)),
    ("and", |old, data, _, _| by_bits(old, data, |x, y| x + y == 2)),
    ("or", |old, data, _, _| by_bits(old, data, |x, y| x + y > 0)),
    ("xor", |old, data, _, _| by_bits(old, data, |x, y| x + y == 1)),
    ("inc", |old, data, _, _| if old < data { old + 1 } else { 0 }),
    ("dec", |old, data, _, _| if old != 0 && old <= data { old - 1 } else { data }),
];

/// Values that memory and the operand take.
const PAIRS: [(u64, u64); 9] = [
    (0, 0),
    (5, 5),
    (5, 4),
    (4, 5),
    (0, 7),
    (u64::MAX, 1),
    (1, u64::MAX),
    (0x8000_0000_8000_0000, 0x7FFF_FFFF_7FFF_FFFF),
    (0x1234_5678_9ABC_DEF0, 0x0FED_CBA9_8765_4321),
];

/// Data registers of an operand of some dwords.
fn data(dwords: usize) -> String {
    if dwords == 1 { "s60".into() } else { format!("s[60:{}]", 59 + dwords) }
}

/// The dwords of a value, starting at a register or byte offset that grows by `step`.
fn split(first: usize, step: usize, dwords: usize, value: u64) -> Vec<(usize, u32)> {
    (0..dwords).map(|n| (first + n * step, (value >> (32 * n)) as u32)).collect()
}

struct Shape {
    kind: Base,
    bits: u32,
}

impl Shape {
    fn name(&self, operation: &str) -> String {
        let buffer = if self.kind == Base::Buffer { "buffer_" } else { "" };
        let wide = if self.bits == 64 { "_x2" } else { "" };
        format!("s_{buffer}atomic_{operation}{wide}")
    }

    fn dwords(&self) -> usize {
        self.bits as usize / 32
    }

    /// Data registers of the instruction: s_atomic_cmpswap has two operands.
    fn data(&self, operation: &str) -> String {
        data(self.dwords() * if operation == "cmpswap" { 2 } else { 1 })
    }

    fn case(&self, row: &(&'static str, Oracle), form: Form, glc: &str, pair: (u64, u64), equal: bool) -> Case {
        let &Self { kind, bits } = self;
        let dwords = self.dwords();
        let oracle = row.1;
        let cut = |value: u64| if bits == 64 { value } else { value % (1 << 32) };
        let (old, operand) = (cut(pair.0), cut(pair.1));
        let compare = if equal { old } else { cut(old.wrapping_add(1 << (bits - 1))) };
        let returned = !glc.is_empty();
        let asm = format!("{} {}, {}{glc}", self.name(row.0), self.data(row.0), form.text(kind));
        let place = form.place(kind);
        Case::new(
            asm,
            move |m| {
                form.prepare(m, kind);
                m.poke(place, &old.to_le_bytes()[..dwords * 4]);
                let operands = [split(60, 1, dwords, operand), split(60 + dwords, 1, dwords, compare)];
                for (register, value) in operands.concat() {
                    m.wave.s[register] = value;
                }
            },
            move |before, after| {
                let new = oracle(old.into(), operand.into(), compare.into(), bits).rem_euclid(1 << bits) as u64;
                let registers = if returned { split(60, 1, dwords, old) } else { Vec::new() };
                changed(before, after, &registers, &split(place, 4, dwords, new))
            },
        )
    }

    fn cases(&self, row: &(&'static str, Oracle)) -> Vec<Case> {
        let mut cases = Vec::new();
        for pair in PAIRS {
            for glc in ["", " glc"] {
                for equal in [true, false] {
                    cases.push(self.case(row, FORMS[1], glc, pair, equal));
                }
            }
        }
        for &form in FORMS.iter().filter(|form| form.place(self.kind).is_multiple_of(self.dwords() * 4)) {
            cases.push(self.case(row, form, "", (5, 7), true));
        }
        let (name, data) = (self.name(row.0), self.data(row.0));
        if self.kind == Base::Buffer {
            // Beyond the records nothing happens, and zero comes back.
            let dwords = self.dwords();
            for records in [0, self.bits / 8 - 1] {
                cases.push(Case::new(
                    format!("{name} {data}, s[16:19], 0x0 glc"),
                    move |m| buffer(m, 0, records),
                    move |before, after| changed(before, after, &split(60, 1, dwords, 0), &[]),
                ));
            }
            return cases;
        }
        let end = MEMORY + MEMORY_SIZE as u64;
        cases.push(Case::new(
            format!("{name} {data}, s[16:17], 0x0 glc"),
            move |m| base(m, end),
            move |before, after| faulted(before, after, end, Access::Write, false),
        ));
        if self.bits == 64 {
            cases.push(Case::new(
                format!("{name} {data}, s[16:17], 0x4"),
                |m| base(m, MEMORY),
                |before, after| faulted(before, after, MEMORY + 4, Access::Write, true),
            ));
        }
        cases
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in [Base::Global, Base::Buffer] {
        for bits in [32, 64] {
            for row in ROWS {
                cases.extend(Shape { kind, bits }.cases(row));
            }
        }
    }
    cases
}
