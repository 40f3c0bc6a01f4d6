//! Cases of MUBUF instructions.

mod bounds;
mod formats;

use crate::access::Place::{Global, Lds, Private};
use crate::access::forms::{Form, SOME};
use crate::access::values::{LOADS, STORES};
use crate::access::{atomics, whole};
use crate::harness::{Case, MEMORY, Machine};

fn mix(lane: usize) -> usize {
    lane * 37 % 64
}

/// The number of the lane is added to the index.
const ADD_LANE: u32 = 1 << 23;
/// Bit of the stride's dword.
const SWIZZLE: u32 = 1 << 31;

/// Sets the resource in s[4:7], and s10 for the offset.
fn resource(m: &mut Machine, at: usize, stride: u32, records: u32, control: u32, scalar: u32) {
    let base = MEMORY + at as u64;
    m.wave.s[4] = base as u32;
    m.wave.s[5] = (base >> 32) as u32 | (stride & 0x3FFF) << 16 | stride & SWIZZLE;
    m.wave.s[6] = records;
    m.wave.s[7] = control;
    m.wave.s[10] = scalar;
}

/// Forms that stay inside the buffer.
fn forms(size: usize) -> Vec<Form> {
    vec![
        Form::new("off", ", s[4:7], s10 offset:16", |m| resource(m, 0x1000, 0, 0x1000, 0, 0x20), |_| Global(0x1030)),
        Form::new(
            "v2",
            ", s[4:7], 0 offen offset:8",
            move |m| {
                // Exactly as large as needed.
                resource(m, 0x2000, 0, (64 * size + 8) as u32, 0, 0);
                m.set_v(2, |lane| (lane * size) as u32);
            },
            move |lane| Global(0x2008 + lane * size),
        ),
        Form::new(
            "v2",
            ", s[4:7], 64 offen",
            |m| {
                resource(m, 0x3000 - 64, 0, 0x2000, 0, 0);
                m.set_v(2, |lane| (mix(lane) * 24) as u32);
            },
            |lane| Global(0x3000 + mix(lane) * 24),
        )
        .exec(SOME)
        .accumulation(),
        Form::new(
            "v2",
            ", s[4:7], s10 idxen offset:8",
            |m| {
                // Records count here, so the scalar offset may be beyond their number.
                resource(m, 0x4000, 24, 64, 0, 0x800);
                m.set_v(2, |lane| mix(lane) as u32);
            },
            |lane| Global(0x4808 + mix(lane) * 24),
        ),
        Form::new(
            "v[2:3]",
            ", s[4:7], 0 idxen offen offset:4",
            |m| {
                resource(m, 0x5000, 32, 64, 0, 0);
                m.set_v(2, |lane| 63 - lane as u32);
                m.set_v(3, |lane| (lane % 3 * 4) as u32);
            },
            |lane| Global(0x5004 + (63 - lane) * 32 + lane % 3 * 4),
        ),
        Form::new(
            "off",
            ", s[4:7], 0 offset:12",
            |m| resource(m, 0x6000, 40, 0x1000, ADD_LANE, 0),
            |lane| Global(0x600C + lane * 40),
        ),
        Form::new("v2", ", s[4:7], 0 offen", |m| resource(m, 0, 0, 0x1000, 0, 0), |_| Global(0)).exec(0),
        // Private memory: dwords of 64 lanes interleaved by their number.
        Form::new(
            "v2",
            ", s[4:7], s10 offen offset:4",
            |m| {
                resource(m, 0, SWIZZLE, 0xFFFF_FFFF, ADD_LANE | 3 << 21, 16 * 64);
                m.set_v(2, |lane| (mix(lane) % 16 * 8) as u32);
            },
            |lane| Private(20 + mix(lane) % 16 * 8),
        )
        .exec(SOME),
        Form::new(
            "off",
            ", s[4:7], s10 offset:8",
            |m| resource(m, 0, SWIZZLE, 0xFFFF_FFFF, ADD_LANE | 3 << 21, 32 * 64),
            |_| Private(40),
        ),
    ]
}

fn plain() -> Vec<Case> {
    let mut cases = Vec::new();
    for load in LOADS {
        let name = format!("buffer_{}", load.name);
        let forms = forms(load.size);
        let aliased = forms[1].clone().data(2);
        cases.extend(forms.iter().chain([&aliased]).map(|form| form.load(&name, load)));
    }
    for store in STORES {
        let name = format!("buffer_{}", store.name);
        cases.extend(forms(store.size).iter().map(|form| form.store(&name, store, true)));
    }
    cases
}

fn with_atomics() -> Vec<Case> {
    let mut cases = Vec::new();
    // There is no such instruction on these devices.
    for (name, atomic) in atomics::vector().into_iter().filter(|(name, _)| name != "pk_add_bf16") {
        for form in forms(atomic.size) {
            // That buffer ends in the middle of a double word.
            if form.tail.contains("offset:4") || form.tail.contains("offset:12") {
                continue;
            }
            let data = [8, 8 + atomic.size / 4];
            let operands = form.operands(&atomic);
            for (suffix, dst) in [("", None), (" sc0", Some(8))] {
                let asm = format!("buffer_atomic_{name} {operands}, {}{}{suffix}", form.vector, form.tail);
                cases.push(form.atomic(asm, atomic, data, dst));
            }
        }
    }
    cases
}

/// Loads that go to LDS: M0, the offset of the instruction, four bytes a lane.
fn to_lds() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, load) in ["ubyte", "sbyte", "ushort", "sshort", "dword"].into_iter().zip(LOADS) {
        for (operands, places) in [
            ("off, s[4:7], s10 offset:16", (|_| 0x1030) as fn(usize) -> usize),
            ("v2, s[4:7], s10 offen offset:16", |lane| 0x1030 + mix(lane) * 8),
        ] {
            let setup = |m: &mut Machine| {
                resource(m, 0x1000, 0, 0x1000, 0, 0x20);
                m.set_v(2, |lane| (mix(lane) * 8) as u32);
                m.wave.s[124] = 0x100;
                m.wave.set_exec(SOME);
            };
            cases.push(whole(format!("buffer_load_{name} {operands} lds"), setup, move |state| {
                for lane in state.active() {
                    let bytes = state.read(lane, Global(places(lane)), load.size);
                    state.write(lane, Lds(0x110 + 4 * lane), &load.word(&bytes).to_le_bytes());
                }
            }));
        }
    }
    cases
}

/// Stores of words that come from LDS, from the same place.
fn out_of_lds() -> Vec<Case> {
    [("s[4:7], s10 offset:16", (|_| 0x1030) as fn(usize) -> usize), ("s[4:7], s10 offset:24", |_| 0x1038)]
        .into_iter()
        .zip([0, ADD_LANE])
        .map(|((operands, place), control)| {
            let setup = move |m: &mut Machine| {
                resource(m, 0x1000, 40, 0x2000, control, 0x20);
                m.wave.s[124] = 0x7777_0100;
                m.wave.set_exec(if control == 0 { 1 << 40 } else { SOME });
            };
            whole(format!("buffer_store_lds_dword {operands} lds"), setup, move |state| {
                for lane in state.active() {
                    let bytes = state.read(lane, Lds(place(lane) - 0x1020 + 0x100 + 4 * lane), 4);
                    let record = if control == 0 { 0 } else { lane * 40 };
                    state.write(lane, Global(place(lane) + record), &bytes);
                }
            })
        })
        .collect()
}

/// Caches need no care: nothing changes.
fn caches() -> Vec<Case> {
    ["buffer_wbl2 sc1", "buffer_inv sc0 sc1", "buffer_wbinvl1", "buffer_wbinvl1_vol"]
        .into_iter()
        .map(|asm| whole(asm, |_| {}, |_| {}))
        .collect()
}

pub(crate) fn cases() -> Vec<Case> {
    [plain(), with_atomics(), to_lds(), out_of_lds(), caches(), bounds::cases(), formats::cases()]
        .into_iter()
        .flatten()
        .collect()
}
