//! Values that move between lanes, and counts of lanes.

use super::mix;
use crate::access::forms::SOME;
use crate::access::{Place, State, whole};
use crate::harness::Case;

/// Every lane takes the value `from` names; lanes that are off give zero and keep their result.
fn take(state: &mut State, source: usize, dst: usize, from: impl Fn(usize) -> usize) {
    let active = state.active();
    let values = state.v[source];
    for &lane in &active {
        let from = from(lane);
        state.v[dst][lane] = if active.contains(&from) { values[from] } else { 0 };
    }
}

/// The lanes that the manual lists for a swizzle of 32 lanes, counted from one as it does.
fn listed(numbers: [usize; 32]) -> impl Fn(usize) -> usize {
    move |lane| lane / 32 * 32 + numbers[lane % 32] - 1
}

fn swizzle(cases: &mut Vec<Case>, control: &str, from: impl Fn(usize) -> usize + Copy + 'static) {
    for exec in [!0, SOME] {
        let asm = format!("ds_swizzle_b32 v8, v2 offset:{control}");
        cases.push(whole(asm, move |m| m.wave.set_exec(exec), move |state| take(state, 2, 8, from)));
    }
}

fn swizzles() -> Vec<Case> {
    let mut cases = Vec::new();
    swizzle(&mut cases, "swizzle(QUAD_PERM,3,1,0,2)", |lane| lane / 4 * 4 + [3, 1, 0, 2][lane % 4]);
    swizzle(&mut cases, "swizzle(SWAP,16)", |lane| if lane % 32 < 16 { lane + 16 } else { lane - 16 });
    swizzle(&mut cases, "swizzle(REVERSE,8)", |lane| lane / 8 * 8 + 7 - lane % 8);
    swizzle(&mut cases, "swizzle(BROADCAST,4,2)", |lane| lane / 4 * 4 + 2);
    // Bits of the lane from the highest: zero, one, kept, inverted, kept.
    swizzle(&mut cases, "swizzle(BITMASK_PERM,\"01pip\")", |lane| {
        let (kept, inverted) = (lane % 2 + lane / 4 % 2 * 4, 2 - lane / 2 % 2 * 2);
        lane / 32 * 32 + 8 + kept + inverted
    });
    let rotate = |by: usize, right: bool, mask: usize| 0xC000 + usize::from(right) * 0x400 + by * 32 + mask;
    swizzle(&mut cases, &rotate(1, false, 0).to_string(), |lane| lane / 32 * 32 + (lane + 1) % 32);
    swizzle(&mut cases, &rotate(5, true, 0).to_string(), |lane| lane / 32 * 32 + (lane + 27) % 32);
    // With the lowest bit masked: even lanes take from two further, odd ones likewise.
    swizzle(&mut cases, &rotate(2, false, 1).to_string(), |lane| lane / 32 * 32 + (lane + 2) % 32);
    let even = [
        0x01, 0x04, 0x03, 0x06, 0x05, 0x08, 0x07, 0x0A, 0x09, 0x0C, 0x0B, 0x0E, 0x0D, 0x10, 0x0F, 0x12, 0x11, 0x14,
        0x13, 0x16, 0x15, 0x18, 0x17, 0x1A, 0x19, 0x1C, 0x1B, 0x1E, 0x1D, 0x20, 0x1F, 0x02,
    ];
    let reversed = [
        0x01, 0x11, 0x09, 0x19, 0x05, 0x15, 0x0D, 0x1D, 0x03, 0x13, 0x0B, 0x1B, 0x07, 0x17, 0x0F, 0x1F, 0x02, 0x12,
        0x0A, 0x1A, 0x06, 0x16, 0x0E, 0x1E, 0x04, 0x14, 0x0C, 0x1C, 0x08, 0x18, 0x10, 0x20,
    ];
    let reversed_halves = [
        0x01, 0x09, 0x05, 0x0D, 0x03, 0x0B, 0x07, 0x0F, 0x02, 0x0A, 0x06, 0x0E, 0x04, 0x0C, 0x08, 0x10, 0x11, 0x19,
        0x15, 0x1D, 0x13, 0x1B, 0x17, 0x1F, 0x12, 0x1A, 0x16, 0x1E, 0x14, 0x1C, 0x18, 0x20,
    ];
    let tables = [(rotate(1, false, 1), even), (0xE000, reversed), (0xE010, reversed_halves)];
    for (control, table) in tables {
        swizzle(&mut cases, &control.to_string(), move |lane| listed(table)(lane));
    }
    swizzle(&mut cases, "57375", |lane| lane);
    cases
}

/// Where a lane points in the permutations: not one to one, with low bits and high bits that do not count.
fn target(lane: usize) -> u32 {
    (mix(lane) / 2 * 4 + lane % 4) as u32 + 0xABCD_0100
}

fn permutes() -> Vec<Case> {
    let mut cases = Vec::new();
    for exec in [!0, SOME] {
        let setup = move |m: &mut crate::harness::Machine| {
            m.set_v(2, target);
            m.wave.set_exec(exec);
        };
        for offset in [0, 12] {
            let slot = move |lane: usize| ((target(lane) as usize + offset) / 4) % 64;
            cases.push(whole(format!("ds_bpermute_b32 v8, v2, v9 offset:{offset}"), setup, move |state| {
                take(state, 9, 8, slot);
            }));
            cases.push(whole(format!("ds_permute_b32 v9, v2, v9 offset:{offset}"), setup, move |state| {
                let active = state.active();
                let values = state.v[9];
                for &lane in &active {
                    let sender = active.iter().rev().find(|sender| slot(**sender) == lane);
                    state.v[9][lane] = sender.map_or(0, |sender| values[*sender]);
                }
            }));
        }
    }
    cases
}

fn counts() -> Vec<Case> {
    let mut cases = vec![whole("ds_nop", |_| {}, |_| {})];
    for (name, sign) in [("ds_append", 1), ("ds_consume", -1)] {
        for exec in [!0, SOME, 0] {
            let setup = move |m: &mut crate::harness::Machine| {
                m.wave.s[124] = 0x7777_0200;
                m.wave.set_exec(exec);
                m.lds[0x204..0x208].copy_from_slice(&5_u32.to_le_bytes());
            };
            cases.push(whole(format!("{name} v8 offset:4"), setup, move |state| {
                let active = state.active();
                let new = 5 + sign * active.len() as i32;
                state.write(0, Place::Lds(0x204), &new.to_le_bytes());
                for lane in active {
                    state.v[8][lane] = 5;
                }
            }));
        }
    }
    cases
}

pub(super) fn cases() -> Vec<Case> {
    [swizzles(), permutes(), counts()].into_iter().flatten().collect()
}
