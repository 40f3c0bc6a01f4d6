//! Cases of DS instructions.

mod gws;
mod lanes;
mod two;

use vgpu_isa::inst::Stop;

use crate::access::Place::Lds;
use crate::access::atomics;
use crate::access::forms::{Form, SOME, stops};
use crate::access::values::{LOADS, STORES};
use crate::access::{State, registers, whole};
use crate::harness::Case;

fn mix(lane: usize) -> usize {
    lane * 37 % 64
}

/// Forms that suit values of `size` bytes, all of them aligned to eight bytes except the second last.
fn forms(size: usize) -> Vec<Form> {
    vec![
        Form::new(
            "v2",
            " offset:64",
            move |m| m.set_v(2, |lane| (0x800 - 64 + lane * size) as u32),
            move |lane| Lds(0x800 + lane * size),
        ),
        Form::new("v2", "", |m| m.set_v(2, |_| 0x3008), |_| Lds(0x3008)),
        Form::new("v2", " offset:8", |m| m.set_v(2, |lane| (mix(lane) * 24) as u32), |lane| Lds(8 + mix(lane) * 24))
            .exec(SOME)
            .accumulation(),
        // The sum of address and offset wraps.
        Form::new(
            "v2",
            " offset:65528",
            |m| m.set_v(2, |lane| (mix(lane) as u32 * 16).wrapping_sub(65528 - 32)),
            |lane| Lds(32 + mix(lane) * 16),
        ),
        Form::new("v2", " offset:16", |m| m.wave.s[124] = 0, |_| Lds(0)).exec(0),
        Form::new(
            "v2",
            " offset:3",
            |m| m.set_v(2, |lane| 0x1000 + (mix(lane) * 19) as u32),
            |lane| Lds(0x1003 + mix(lane) * 19),
        )
        .exec(SOME),
        // The very end.
        Form::new(
            "v2",
            "",
            move |m| m.set_v(2, |lane| (65536 - size * (64 - lane)) as u32),
            move |lane| Lds(65536 - size * (64 - lane)),
        ),
    ]
}

fn plain() -> Vec<Case> {
    let mut cases = Vec::new();
    for load in LOADS {
        let forms = forms(load.size);
        let aliased = forms[0].clone().data(2);
        cases.extend(forms.iter().chain([&aliased]).map(|form| form.load(load.ds, load)));
    }
    for store in STORES {
        cases.extend(forms(store.size).iter().map(|form| form.store(store.ds, store, false)));
    }
    for exec in [!0, SOME] {
        let setup = move |m: &mut crate::harness::Machine| {
            m.wave.s[124] = 0x1234_0102;
            m.wave.set_exec(exec);
        };
        let place = |lane: usize| Lds(0x102 + 16 + 4 * lane);
        let (load, store) = (LOADS[4], STORES[4]);
        cases.push(whole("ds_read_addtid_b32 v8 offset:16", setup, move |s| load.apply(s, false, 8, &place)));
        cases.push(whole("ds_write_addtid_b32 v8 offset:16", setup, move |s| store.apply(s, false, 8, &place)));
    }
    cases
}

fn with_atomics() -> Vec<Case> {
    let mut cases = Vec::new();
    for (stem, kind, atomic) in atomics::ds() {
        let words = atomic.size / 4;
        let data = [8, 12];
        for form in forms(atomic.size).into_iter().filter(|form| form.tail != " offset:3") {
            let operands: Vec<String> =
                data.iter().take(atomic.operands).map(|first| form.named(*first, words)).collect();
            let operands = operands.join(", ");
            if !["ds_wrxchg", "ds_wrap", "ds_condxchg32"].contains(&stem) {
                let asm = format!("{stem}_{kind} {}, {operands}{}", form.vector, form.tail);
                cases.push(form.atomic(asm, atomic, data, None));
            }
            for dst in [20, 8] {
                let result = form.named(dst, words);
                let asm = format!("{stem}_rtn_{kind} {result}, {}, {operands}{}", form.vector, form.tail);
                cases.push(form.atomic(asm, atomic, data, Some(dst)));
            }
        }
    }
    cases
}

/// Atomics want aligned words.
fn misaligned_atomics() -> Vec<Case> {
    let at = |address: u32| {
        move |m: &mut crate::harness::Machine| {
            m.set_v(2, |_| address);
            m.wave.set_exec(1 << 40);
        }
    };
    vec![
        stops("ds_add_u32 v2, v8", at(2), Stop::Lds { offset: 2 }),
        stops("ds_add_u64 v2, v[8:9]", at(4), Stop::Lds { offset: 4 }),
    ]
}

/// Beyond the allocation a lane reads zero and writes nothing; lanes beside it are not affected.
fn outside() -> Vec<Case> {
    // Lanes from `inside` on are outside.
    let case =
        |asm: &str, address: fn(usize) -> u32, inside: usize, size: usize, oracle: fn(&mut State, usize, u32)| {
            whole(
                asm,
                move |m| m.set_v(2, address),
                move |state| {
                    for lane in 0..64 {
                        let at = address(lane);
                        assert_eq!(at as usize + size <= 0x1_0000, lane < inside, "lane {lane} of {inside}");
                        oracle(state, lane, at);
                    }
                },
            )
        };
    vec![
        // Consecutive lanes, the last half of them outside.
        case("ds_read_b32 v8, v2", |lane| 0xFF80 + 4 * lane as u32, 32, 4, |state, lane, at| load(state, lane, at, 1)),
        case(
            "ds_read_b128 v[8:11], v2",
            |lane| 0xFE00 + 16 * lane as u32,
            32,
            16,
            |state, lane, at| {
                load(state, lane, at, 4);
            },
        ),
        // A value that ends outside is outside.
        case("ds_read_b128 v[8:11], v2", |_| 0xFFF8, 0, 16, |state, lane, at| load(state, lane, at, 4)),
        case("ds_read_b32 v8, v2", |_| 0xFFFF_FFFC, 0, 4, |state, lane, at| load(state, lane, at, 1)),
        case("ds_write_b32 v2, v8", |lane| 0xFF80 + 4 * lane as u32, 32, 4, store),
        case("ds_write_b32 v2, v8", |lane| if lane < 7 { 8 * lane as u32 } else { 0xF0_0000 }, 7, 4, store),
        case(
            "ds_add_rtn_u32 v8, v2, v9",
            |lane| 0xFF80 + 4 * lane as u32,
            32,
            4,
            |state, lane, at| {
                let operand = state.v[9][lane];
                load(state, lane, at, 1);
                let sum = state.v[8][lane].wrapping_add(operand);
                if at < 0x1_0000 {
                    state.write(lane, Lds(at as usize), &sum.to_le_bytes());
                }
            },
        ),
        whole("ds_append v8 offset:65535", |m| m.wave.s[124] = 1, |state| state.v[8] = [0; 64]),
        whole(
            "ds_read2st64_b32 v[8:9], v2 offset0:1 offset1:255",
            |m| m.set_v(2, |_| 0x200),
            |state| {
                for lane in 0..64 {
                    load(state, lane, 0x300, 1);
                    state.v[9][lane] = 0;
                }
            },
        ),
    ]
}

/// Loads words to registers from v8 on; zeros if one of them is outside.
fn load(state: &mut State, lane: usize, at: u32, words: usize) {
    let at = at as usize;
    let bytes = if at + 4 * words <= 0x1_0000 { state.read(lane, Lds(at), 4 * words) } else { vec![0; 4 * words] };
    for (n, word) in bytes.chunks(4).enumerate() {
        state.v[8 + n][lane] = u32::from_le_bytes(word.try_into().expect("four bytes"));
    }
}

/// Stores v8, if that is inside.
fn store(state: &mut State, lane: usize, at: u32) {
    let word = state.v[8][lane].to_le_bytes();
    if at < 0x1_0000 {
        state.write(lane, Lds(at as usize), &word);
    }
}

/// Denormals follow the mode of the wave, except in double precision sums.
fn flushed() -> Vec<Case> {
    let case = |name: &str, mode: u32, old: u64, a: u64, new: u64, size: usize| {
        let asm = format!("{name} v2, {}", registers('v', 8, size / 4));
        whole(
            asm,
            move |m| {
                m.wave.set_mode(mode);
                m.set_v(2, |lane| lane as u32 * 8);
                m.set_v64(8, |_| a);
                m.lds[..512].copy_from_slice(&old.to_le_bytes().repeat(64));
            },
            move |state| {
                for lane in 0..64 {
                    state.write(lane, Lds(lane * 8), &new.to_le_bytes()[..size]);
                }
            },
        )
    };
    let (flush, sources_only, results_only) = (0x300, 0x350, 0x3A0);
    vec![
        case("ds_add_f32", flush, 3, 0x3F80_0000, 0x3F80_0000, 4),
        case("ds_add_f32", flush, 0x8000_0003, 0x8000_0003, 0x8000_0000, 4),
        case("ds_add_f32", sources_only, 0x0080_0001, 0x8080_0000, 0, 4),
        case("ds_add_f32", results_only, 3, 0x0080_0000, 0x0080_0000, 4),
        case("ds_add_f32", 0x3F0, 3, 4, 7, 4),
        case("ds_min_f32", flush, 0x3F80_0000, 0x8000_0003, 0x8000_0000, 4),
        case("ds_max_f32", flush, 0, 3, 0, 4),
        case("ds_max_f64", flush, 0, 3, 0, 8),
        case("ds_add_f64", flush, 3, 4, 7, 8),
        case("ds_pk_add_f16", flush, 0x0001_3C00, 0x0002_0001, 0x0000_3C00, 4),
        case("ds_pk_add_f16", 0x3F0, 0x0001_3C00, 0x0002_0001, 0x0003_3C00, 4),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    [plain(), with_atomics(), two::cases(), lanes::cases(), gws::cases(), misaligned_atomics(), outside(), flushed()]
        .into_iter()
        .flatten()
        .collect()
}
