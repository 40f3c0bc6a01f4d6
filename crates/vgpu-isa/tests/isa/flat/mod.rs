//! Cases of FLAT, GLOBAL and SCRATCH instructions.

mod special;

use crate::access::Place::{Global, Lds, Private};
use crate::access::atomics;
use crate::access::forms::{Form, SOME};
use crate::access::values::{LOADS, STORES};
use crate::harness::{Case, MEMORY, Machine};

/// LDS in flat addresses.
const SHARED: u64 = 0x0001_0000_0000_0000;
/// Private memory in flat addresses.
const PRIVATE: u64 = 0x0002_0000_0000_0000;

fn mix(lane: usize) -> usize {
    lane * 37 % 64
}

fn set_scalar(machine: &mut Machine, register: usize, value: u64) {
    machine.wave.s[register] = value as u32;
    machine.wave.s[register + 1] = (value >> 32) as u32;
}

/// Forms that suit values of `size` bytes; `aligned` ones suit atomics.
fn global(size: usize, aligned: bool) -> Vec<Form> {
    let step = if aligned { 24 } else { 19 };
    vec![
        Form::new(
            "v[2:3]",
            ", off offset:16",
            move |m| m.set_v64(2, |lane| MEMORY + 0x1000 + (lane * size) as u64 - 16),
            move |lane| Global(0x1000 + lane * size),
        ),
        Form::new(
            "v2",
            ", s[4:5] offset:-4096",
            move |m| {
                set_scalar(m, 4, MEMORY + 0x3000);
                m.set_v(2, |lane| (lane * size) as u32);
            },
            move |lane| Global(0x2000 + lane * size),
        ),
        Form::new("v[2:3]", ", off", |m| m.set_v64(2, |_| MEMORY + 0x3008), |_| Global(0x3008)),
        Form::new(
            "v[2:3]",
            ", off offset:-1",
            move |m| m.set_v64(2, |lane| MEMORY + 0x4001 + (mix(lane) * step) as u64),
            move |lane| Global(0x4000 + mix(lane) * step),
        )
        .exec(SOME),
        Form::new(
            "v2",
            ", vcc offset:4095",
            move |m| {
                set_scalar(m, 106, MEMORY + 0x4000 - 4095);
                m.set_v(2, |lane| (mix(lane) * 24) as u32);
            },
            |lane| Global(0x4000 + mix(lane) * 24),
        )
        .accumulation(),
        Form::new("v[2:3]", ", off", |_| {}, |_| Global(0)).exec(0),
    ]
}

/// Flat forms: global memory, LDS, private memory, and all three at once.
fn flat(size: usize) -> Vec<Form> {
    let mixed = move |lane: usize| match lane % 3 {
        0 => Global(0x5000 + lane * 16),
        1 => Lds(0x100 + lane * 16),
        _ => Private(lane % 8 * 16),
    };
    let address = move |lane: usize| match mixed(lane) {
        Global(at) => MEMORY + at as u64,
        Lds(at) => SHARED + at as u64,
        Private(at) => PRIVATE + at as u64,
    };
    vec![
        Form::new(
            "v[2:3]",
            " offset:4095",
            move |m| m.set_v64(2, |lane| MEMORY + 0x1000 + (lane * size) as u64 - 4095),
            move |lane| Global(0x1000 + lane * size),
        ),
        Form::new(
            "v[2:3]",
            " offset:8",
            |m| m.set_v64(2, |lane| MEMORY + 0x4000 - 8 + (mix(lane) * 24) as u64),
            |lane| Global(0x4000 + mix(lane) * 24),
        )
        .exec(SOME)
        .accumulation(),
        Form::new(
            "v[2:3]",
            " offset:64",
            move |m| m.set_v64(2, |lane| SHARED + 0x800 - 64 + (lane * size) as u64),
            move |lane| Lds(0x800 + lane * size),
        ),
        Form::new(
            "v[2:3]",
            " offset:4",
            |m| m.set_v64(2, |lane| PRIVATE + (mix(lane) % 8 * 16) as u64),
            |lane| Private(4 + mix(lane) % 8 * 16),
        )
        .exec(SOME),
        Form::new("v[2:3]", "", move |m| m.set_v64(2, address), mixed),
        Form::new("v[2:3]", " offset:1", |_| {}, |_| Global(0)).exec(0),
    ]
}

/// Private memory by vector register, scalar register, both, neither.
fn scratch() -> Vec<Form> {
    vec![
        Form::new(
            "v2",
            ", off offset:-4",
            |m| m.set_v(2, |lane| 4 + (mix(lane) * 4) as u32),
            |lane| Private(mix(lane) * 4),
        ),
        Form::new("off", ", s4 offset:8", |m| m.wave.s[4] = 0x60, |_| Private(0x68)),
        Form::new("off", ", off offset:20", |_| {}, |_| Private(20)).exec(SOME).accumulation(),
        Form::new(
            "v2",
            ", s4 offset:1",
            |m| {
                m.wave.s[4] = 0x80;
                m.set_v(2, |lane| lane as u32 * 3);
            },
            |lane| Private(0x81 + lane * 3),
        )
        .exec(SOME),
        Form::new("v2", ", off", |m| m.set_v(2, |_| 64), |_| Private(64)),
        Form::new("v2", ", s4", |m| m.wave.s[4] = !0, |_| Private(0)).exec(0),
    ]
}

fn plain() -> Vec<Case> {
    let mut cases = Vec::new();
    for load in LOADS {
        let forms = |prefix: &str, forms: Vec<Form>| -> Vec<Case> {
            let name = format!("{prefix}_{}", load.name);
            // Twice in the registers of the address itself.
            let aliased = forms[0].clone().data(2);
            forms.iter().chain([&aliased]).map(|form| form.load(&name, load)).collect()
        };
        cases.extend(forms("global", global(load.size, false)));
        cases.extend(forms("flat", flat(load.size)));
        cases.extend(forms("scratch", scratch()));
    }
    for store in STORES {
        let forms = |prefix: &str, forms: Vec<Form>| -> Vec<Case> {
            let name = format!("{prefix}_{}", store.name);
            forms.iter().map(|form| form.store(&name, store, false)).collect()
        };
        cases.extend(forms("global", global(store.size, false)));
        cases.extend(forms("flat", flat(store.size)));
        cases.extend(forms("scratch", scratch()));
    }
    cases
}

fn with_atomics() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, atomic) in atomics::vector() {
        for (prefix, forms) in [("global", global(atomic.size, true)), ("flat", flat(atomic.size))] {
            for form in forms {
                // The offset of minus one is for values that need no alignment.
                if form.tail.contains("offset:-1") {
                    continue;
                }
                let data = [8, 8 + atomic.size / 4];
                let operands = form.operands(&atomic);
                let plain = format!("{prefix}_atomic_{name} {}, {operands}{}", form.vector, form.tail);
                cases.push(form.atomic(plain, atomic, data, None));
                for dst in [20, 8] {
                    let result = form.named(dst, atomic.size / 4);
                    let asm = format!("{prefix}_atomic_{name} {result}, {}, {operands}{} sc0", form.vector, form.tail);
                    cases.push(form.atomic(asm, atomic, data, Some(dst)));
                }
            }
        }
    }
    cases
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = plain();
    cases.extend(with_atomics());
    cases.extend(special::cases());
    cases
}
