//! Loads to LDS, addresses that do not exist, and those that are not aligned.

use vgpu_isa::inst::Stop;
use vgpu_isa::memory::{Access, Fault};

use super::{PRIVATE, SHARED, mix};
use crate::access::forms::{SOME, stops};
use crate::access::values::{LOADS, Load};
use crate::access::{PRIVATE_SIZE, Place, whole};
use crate::harness::{Case, MEMORY, MEMORY_SIZE};

/// A load whose value goes to LDS at M0, the offset, and four bytes a lane.
fn to_lds(asm: String, load: Load, exec: u64, m0: u32, offset: usize, places: fn(usize) -> Place) -> Case {
    whole(
        asm,
        move |m| {
            m.wave.s[124] = m0;
            m.wave.s[4] = (MEMORY + 0x1000) as u32;
            m.wave.s[5] = (MEMORY >> 32) as u32;
            m.wave.s[6] = 12;
            m.set_v64(2, |lane| MEMORY + 0x1000 + (mix(lane) * 8) as u64);
            m.set_v(4, |lane| (mix(lane) * 4) as u32);
            m.wave.set_exec(exec);
        },
        move |state| {
            for lane in state.active() {
                let bytes = state.read(lane, places(lane), load.size);
                let to = (m0 as usize & 0xFFFF) + offset + 4 * lane;
                state.write(lane, Place::Lds(to), &load.word(&bytes).to_le_bytes());
            }
        },
    )
}

fn loads_to_lds() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, load) in ["ubyte", "sbyte", "ushort", "sshort", "dword"].into_iter().zip(LOADS) {
        for exec in [!0, SOME] {
            let global = |rest: &str| format!("global_load_lds_{name} {rest}");
            cases.push(to_lds(global("v[2:3], off offset:12"), load, exec, 0x0003_0100, 12, |lane| {
                Place::Global(0x1000 + mix(lane) * 8 + 12)
            }));
            cases.push(to_lds(global("v4, s[4:5]"), load, exec, 0x40, 0, |lane| Place::Global(0x1000 + mix(lane) * 4)));
            let scratch = |rest: &str| format!("scratch_load_lds_{name} {rest}");
            cases.push(to_lds(scratch("off, s6 offset:8"), load, exec, 0x80, 8, |_| Place::Private(20)));
            cases.push(to_lds(scratch("v4, off"), load, exec, 0x80, 0, |lane| Place::Private(mix(lane) * 4)));
        }
    }
    cases
}

fn fault(address: u64, access: Access) -> Stop {
    Stop::Memory(Fault { address, access, mapped: false })
}

fn broken_addresses() -> Vec<Case> {
    let end = MEMORY + MEMORY_SIZE as u64;
    let one_lane = |address: u64| {
        move |m: &mut crate::harness::Machine| {
            m.set_v64(2, |_| address);
            m.wave.set_exec(1 << 9);
        }
    };
    vec![
        stops("global_load_dword v8, v[2:3], off", one_lane(end), fault(end, Access::Read)),
        stops("global_load_dwordx4 v[8:11], v[2:3], off", one_lane(end - 8), fault(end, Access::Read)),
        stops("global_store_dword v[2:3], v8, off", one_lane(0), fault(0, Access::Write)),
        stops("global_load_ubyte v8, v[2:3], off", one_lane(u64::MAX), fault(u64::MAX, Access::Read)),
        stops("global_load_dword v8, v[2:3], off offset:-8", one_lane(4), fault(u64::MAX - 3, Access::Read)),
        // GLOBAL knows no apertures.
        stops("global_load_dword v8, v[2:3], off", one_lane(SHARED), fault(SHARED, Access::Read)),
        stops(
            "global_atomic_add v[2:3], v8, off",
            one_lane(MEMORY + 2),
            Stop::Memory(Fault { address: MEMORY + 2, access: Access::Write, mapped: true }),
        ),
        stops("global_atomic_add_x2 v[2:3], v[8:9], off", one_lane(end), fault(end, Access::Write)),
        stops("flat_atomic_add v[2:3], v8", one_lane(SHARED + 2), Stop::Lds { offset: 2 }),
        stops(
            "flat_load_dwordx2 v[8:9], v[2:3]",
            one_lane(PRIVATE + u64::from(PRIVATE_SIZE) - 4),
            Stop::Scratch { offset: u64::from(PRIVATE_SIZE) - 4 },
        ),
        stops("scratch_load_dword v8, v2, off offset:-4", one_lane(0), Stop::Scratch { offset: 0xFFFF_FFFC }),
        stops(
            "scratch_store_dword v2, v8, off",
            one_lane(u64::from(PRIVATE_SIZE) - 3),
            Stop::Scratch { offset: u64::from(PRIVATE_SIZE) - 3 },
        ),
        stops(
            "scratch_store_dwordx2 off, v[8:9], off offset:508",
            |_| {},
            Stop::Scratch { offset: u64::from(PRIVATE_SIZE) - 4 },
        ),
    ]
}

/// Flat addresses of LDS beyond the allocation read zero and write nothing.
fn outside_lds() -> Vec<Case> {
    let one_lane = |address: u64| {
        move |m: &mut crate::harness::Machine| {
            m.set_v64(2, |_| address);
            m.wave.set_exec(1 << 9);
        }
    };
    vec![
        whole("flat_load_dword v8, v[2:3]", one_lane(SHARED + 0xFFFD), |state| state.v[8][9] = 0),
        whole("flat_store_dword v[2:3], v8", one_lane(SHARED + 0x1_0000), |_| {}),
        whole("flat_atomic_add v20, v[2:3], v8 sc0", one_lane(SHARED + 0x1_0000), |state| state.v[20][9] = 0),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = loads_to_lds();
    cases.extend(outside_lds());
    cases.extend(broken_addresses());
    cases
}
