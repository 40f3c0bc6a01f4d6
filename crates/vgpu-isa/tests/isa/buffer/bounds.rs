//! Lanes outside of the buffer, and dwords that are apart.

use vgpu_isa::inst::Stop;
use vgpu_isa::memory::{Access, Fault};

use super::{SWIZZLE, mix, resource};
use crate::access::forms::stops;
use crate::access::values::{LOADS, STORES};
use crate::access::{Place, State, whole};
use crate::harness::{Case, MEMORY, Machine};

/// Byte of memory of a dword of a lane; none outside of the buffer.
type Dwords = fn(usize, usize) -> Option<usize>;

/// Loads and stores of all widths whose dwords are where `dwords` says.
fn widths(vector: &str, tail: &str, setup: fn(&mut Machine), dwords: Dwords) -> Vec<Case> {
    let mut cases = Vec::new();
    for load in LOADS {
        let data = crate::access::registers('v', 8, load.registers);
        cases.push(whole(format!("buffer_{} {data}, {vector}{tail}", load.name), setup, move |state| {
            for lane in state.active() {
                let bytes: Vec<u8> = (0..load.registers)
                    .flat_map(|k| {
                        let size = load.size.min(4);
                        dwords(lane, k).map_or(vec![0; size], |at| state.read(lane, Place::Global(at), size))
                    })
                    .collect();
                load.set(state, false, 8, lane, &bytes);
            }
        }));
    }
    for store in STORES {
        let data = crate::access::registers('v', 8, store.registers);
        cases.push(whole(format!("buffer_{} {data}, {vector}{tail}", store.name), setup, move |state| {
            for lane in state.active() {
                let bytes = store.bytes(state, false, 8, lane);
                for (k, bytes) in bytes.chunks(4).enumerate() {
                    if let Some(at) = dwords(lane, k) {
                        state.write(lane, Place::Global(at), bytes);
                    }
                }
            }
        }));
    }
    cases
}

fn raw() -> Vec<Case> {
    // 0x200 bytes, of which the scalar offset takes 16; the last lanes would wrap around.
    let setup = |m: &mut Machine| {
        resource(m, 0x3000, 0, 0x200, 0, 16);
        m.set_v(2, |lane| if lane < 60 { lane as u32 * 16 } else { 0xFFFF_FFF8 });
    };
    widths("v2", ", s[4:7], s10 offen offset:8", setup, |lane, k| {
        let offset = lane * 16 + 8 + 4 * k;
        (lane < 60 && offset < 0x1F0).then_some(0x3010 + offset)
    })
}

fn structured() -> Vec<Case> {
    let setup = |m: &mut Machine| {
        resource(m, 0x3000, 16, 10, 0, 0);
        m.set_v(2, |lane| if lane == 3 { 0xFFFF_FFFF } else { lane as u32 });
    };
    widths("v2", ", s[4:7], 0 idxen", setup, |lane, k| (lane < 10 && lane != 3).then_some(0x3000 + lane * 16 + 4 * k))
}

/// Groups of 16 records of 32 bytes: the first dwords of all, then the second ones.
fn swizzled() -> Vec<Case> {
    let setup = |m: &mut Machine| {
        resource(m, 0x2000, 32 | SWIZZLE, 64, 1 << 21, 0);
        m.set_v(2, |lane| mix(lane) as u32);
        m.set_v(3, |lane| (lane % 3 * 4) as u32);
    };
    widths("v[2:3]", ", s[4:7], 0 idxen offen offset:4", setup, |lane, k| {
        let (group, record, dword) = (mix(lane) / 16, mix(lane) % 16, lane % 3 + 1 + k);
        Some(0x2000 + group * 512 + dword * 64 + record * 4)
    })
}

/// Atomics outside do nothing and return zero; half a double word inside does not count.
fn atomics() -> Vec<Case> {
    let setup = |m: &mut Machine| {
        resource(m, 0x3000, 0, 0x204, 0, 0);
        m.set_v(2, |lane| lane as u32 * 16);
    };
    let add = |state: &mut State, words: usize, returns: bool| {
        for lane in state.active() {
            let place = Place::Global(0x3000 + lane * 16);
            let inside = lane * 16 + 4 * words <= 0x204;
            let old = if inside { state.read(lane, place, 4 * words) } else { vec![0; 4 * words] };
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u128, |sum, byte| sum * 256 + u128::from(*byte));
            let operand: u128 = (0..words).map(|n| u128::from(state.v[8 + n][lane]) << (32 * n)).sum();
            if inside {
                let sum = (number(&old) + operand).to_le_bytes();
                state.write(lane, place, &sum[..4 * words]);
            }
            for n in 0..if returns { words } else { 0 } {
                state.v[8 + n][lane] = number(&old[4 * n..4 * n + 4]) as u32;
            }
        }
    };
    vec![
        whole("buffer_atomic_add v8, v2, s[4:7], 0 offen", setup, move |s| add(s, 1, false)),
        whole("buffer_atomic_add v8, v2, s[4:7], 0 offen sc0", setup, move |s| add(s, 1, true)),
        whole("buffer_atomic_add_x2 v[8:9], v2, s[4:7], 0 offen sc0", setup, move |s| add(s, 2, true)),
    ]
}

/// Inside of the buffer there may still be no memory; and records may be more than four gigabytes away.
fn faults() -> Vec<Case> {
    let stop = |offset: u64, access| Stop::Memory(Fault { address: MEMORY + offset, access, mapped: false });
    let far = |m: &mut Machine| {
        resource(m, 0, 0x3000, 0xFFFF_FFFF, 0, 0);
        m.set_v(2, |_| 0x10_0000);
        m.wave.set_exec(1);
    };
    let beyond = |m: &mut Machine| resource(m, 0x1_0000, 0, 64, 0, 0);
    vec![
        stops("buffer_load_dword v8, v2, s[4:7], 0 idxen", far, stop(0x3_0000_0000, Access::Read)),
        stops("buffer_store_dword v8, v2, s[4:7], 0 idxen", far, stop(0x3_0000_0000, Access::Write)),
        stops("buffer_load_dwordx2 v[8:9], off, s[4:7], 0", beyond, stop(0x1_0000, Access::Read)),
        stops("buffer_atomic_add v8, off, s[4:7], 0", beyond, stop(0x1_0000, Access::Write)),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    [raw(), structured(), swizzled(), atomics(), faults()].into_iter().flatten().collect()
}
