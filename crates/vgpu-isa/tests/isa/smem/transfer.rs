//! Loads and stores.

use vgpu_isa::memory::Access;

use super::place::{BUFFER, Base, FORMS, Form, NEGATIVE, base, buffer};
use super::{changed, faulted};
use crate::harness::{Case, MEMORY, MEMORY_SIZE, Machine};

/// Mnemonic, kind of base, dwords.
type Row = (&'static str, Base, usize);

const LOADS: &[Row] = &[
    ("s_load_dword", Base::Global, 1),
    ("s_load_dwordx2", Base::Global, 2),
    ("s_load_dwordx4", Base::Global, 4),
    ("s_load_dwordx8", Base::Global, 8),
    ("s_load_dwordx16", Base::Global, 16),
    ("s_scratch_load_dword", Base::Scratch, 1),
    ("s_scratch_load_dwordx2", Base::Scratch, 2),
    ("s_scratch_load_dwordx4", Base::Scratch, 4),
    ("s_buffer_load_dword", Base::Buffer, 1),
    ("s_buffer_load_dwordx2", Base::Buffer, 2),
    ("s_buffer_load_dwordx4", Base::Buffer, 4),
    ("s_buffer_load_dwordx8", Base::Buffer, 8),
    ("s_buffer_load_dwordx16", Base::Buffer, 16),
];

const STORES: &[Row] = &[
    ("s_store_dword", Base::Global, 1),
    ("s_store_dwordx2", Base::Global, 2),
    ("s_store_dwordx4", Base::Global, 4),
    ("s_scratch_store_dword", Base::Scratch, 1),
    ("s_scratch_store_dwordx2", Base::Scratch, 2),
    ("s_scratch_store_dwordx4", Base::Scratch, 4),
    ("s_buffer_store_dword", Base::Buffer, 1),
    ("s_buffer_store_dwordx2", Base::Buffer, 2),
    ("s_buffer_store_dwordx4", Base::Buffer, 4),
];

/// The data registers in assembler text.
fn data(first: usize, dwords: usize) -> String {
    if dwords == 1 { format!("s{first}") } else { format!("s[{first}:{}]", first + dwords - 1) }
}

fn forms(base: Base) -> Vec<Form> {
    if base == Base::Buffer { FORMS.to_vec() } else { [FORMS, NEGATIVE].concat() }
}

fn loaded(before: &Machine, first: usize, dwords: usize, place: usize) -> Vec<(usize, u32)> {
    (0..dwords).map(|n| (first + n, before.u32_at(place + 4 * n))).collect()
}

fn stored(before: &Machine, first: usize, dwords: usize, place: usize) -> Vec<(usize, u32)> {
    (0..dwords).map(|n| (place + 4 * n, before.wave.s[first + n])).collect()
}

fn loads() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, base, dwords) in LOADS {
        for form in forms(base) {
            for (first, glc) in [(60, ""), (60, " glc")] {
                cases.push(Case::new(
                    format!("{name} {}, {}{glc}", data(first, dwords), form.text(base)),
                    move |m| form.prepare(m, base),
                    move |before, after| changed(before, after, &loaded(before, first, dwords, form.place(base)), &[]),
                ));
            }
        }
        // The result replaces the base and the offset.
        let both = FORMS[7];
        for first in [16, 48] {
            cases.push(Case::new(
                format!("{name} {}, {}", data(first, dwords), both.text(base)),
                move |m| both.prepare(m, base),
                move |before, after| changed(before, after, &loaded(before, first, dwords, both.place(base)), &[]),
            ));
        }
    }
    cases.push(Case::new(
        "s_load_dwordx2 vcc, s[16:17], 0x8",
        |m| base(m, MEMORY),
        |before, after| changed(before, after, &loaded(before, 106, 2, 8), &[]),
    ));
    // Loading into the offset register itself.
    cases.push(Case::new(
        "s_load_dword s7, s[16:17], s7 offset:0x0",
        |m| {
            base(m, MEMORY);
            m.wave.s[7] = 0x20;
        },
        |before, after| changed(before, after, &loaded(before, 7, 1, 0x20), &[]),
    ));
    cases
}

fn stores() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, base, dwords) in STORES {
        for form in forms(base) {
            cases.push(Case::new(
                format!("{name} {}, {}", data(60, dwords), form.text(base)),
                move |m| form.prepare(m, base),
                move |before, after| changed(before, after, &[], &stored(before, 60, dwords, form.place(base))),
            ));
        }
    }
    cases
}

/// Accesses that leave memory: at once, or after the first dwords.
fn faults() -> Vec<Case> {
    let end = MEMORY + MEMORY_SIZE as u64;
    let mut cases = Vec::new();
    for &(name, kind, dwords) in LOADS.iter().chain(STORES) {
        if kind == Base::Buffer {
            continue;
        }
        let access = if name.contains("load") { Access::Read } else { Access::Write };
        let inside = 4 * (dwords as u64 - 1);
        for (from, fault) in
            [(0, 0), (end, end), (MEMORY - 4, MEMORY - 4), (end - inside, end), (u64::MAX - 3, u64::MAX - 3)]
        {
            cases.push(Case::new(
                format!("{name} {}, s[16:17], 0x0", data(60, dwords)),
                move |m| base(m, from),
                move |before, after| faulted(before, after, fault, access, false),
            ));
        }
    }
    cases
}

/// Records of a buffer, and how many of the dwords at an offset exist.
fn limits() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, kind, dwords) in LOADS.iter().chain(STORES) {
        if kind != Base::Buffer {
            continue;
        }
        for (stride, records, offset) in [
            (0, 0x100, 0x100),
            (0, 0x100, 0xFC),
            (0, 0x100, 0xF8),
            (0, 0x100, 0x20),
            (0, 0, 0),
            (0, 3, 0),
            (0x10, 0x10, 0xF8),
            (0x10, 0x10, 0x100),
            (4, 0x3F, 0xF8),
            // The two highest bits are flags, not part of the stride.
            (0xC010, 0x10, 0xF8),
            (0x4000, 0x100, 0x100),
            (0, 0x100, 0xFFFF_FFF0),
        ] {
            let size = u64::from(records) * u64::from((stride % 0x4000).max(1));
            let existing = move |n: usize| u64::from(offset) + 4 * n as u64 + 4 <= size;
            cases.push(Case::new(
                format!("{name} {}, s[16:19], s50", data(60, dwords)),
                move |m| {
                    buffer(m, stride, records);
                    m.wave.s[50] = offset;
                },
                move |before, after| {
                    let at = |n: usize| BUFFER + offset as usize + 4 * n;
                    if name.contains("load") {
                        let value = |n: usize| if existing(n) { before.u32_at(at(n)) } else { 0 };
                        let registers: Vec<_> = (0..dwords).map(|n| (60 + n, value(n))).collect();
                        changed(before, after, &registers, &[])
                    } else {
                        let written = (0..dwords).filter(|&n| existing(n));
                        let memory: Vec<_> = written.map(|n| (at(n), before.wave.s[60 + n])).collect();
                        changed(before, after, &[], &memory)
                    }
                },
            ));
        }
        // A buffer that promises more than memory holds.
        let access = if name.contains("load") { Access::Read } else { Access::Write };
        cases.push(Case::new(
            format!("{name} {}, s[16:19], s50", data(60, dwords)),
            |m| {
                buffer(m, 0, 0xFFFF_FFFF);
                m.wave.s[50] = MEMORY_SIZE as u32;
            },
            move |before, after| {
                let address = MEMORY + (BUFFER + MEMORY_SIZE) as u64;
                faulted(before, after, address, access, false)
            },
        ));
    }
    cases
}

pub(super) fn cases() -> Vec<Case> {
    [loads(), stores(), faults(), limits()].into_iter().flatten().collect()
}
