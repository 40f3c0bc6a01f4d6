//! Instructions with two offsets.

use super::mix;
use crate::access::Place::Lds;
use crate::access::forms::SOME;
use crate::access::{State, registers, whole};
use crate::harness::{Case, Machine};

/// One value at each of the two offsets: what happens to it.
type Each = fn(&mut State, bool, usize, usize, usize, usize);

/// Loads `words` words at a byte of LDS into registers from `dst` on.
fn load(state: &mut State, accumulation: bool, lane: usize, at: usize, dst: usize, words: usize) {
    for n in 0..words {
        let bytes = state.read(lane, Lds(at + 4 * n), 4);
        state.file(accumulation)[dst + n][lane] = bytes.iter().rev().fold(0, |sum, byte| sum * 256 + u32::from(*byte));
    }
}

/// Stores `words` words of registers from `src` on.
fn store(state: &mut State, accumulation: bool, lane: usize, at: usize, src: usize, words: usize) {
    for n in 0..words {
        let word = state.file(accumulation)[src + n][lane];
        state.write(lane, Lds(at + 4 * n), &word.to_le_bytes());
    }
}

fn setup(exec: u64, words: usize) -> impl Fn(&mut Machine) {
    move |m| {
        m.set_v(2, |lane| (mix(lane) * 4 * words) as u32);
        m.wave.set_exec(exec);
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let variants = [(!0, 'v', (0, 64)), (SOME, 'a', (70, 3)), (!0, 'v', (5, 5))];
    for (kind, words) in [("b32", 1), ("b64", 2)] {
        for (stride, scale) in [("", 4 * words), ("st64", 256 * words)] {
            for (exec, file, (first, second)) in variants {
                // Offsets of the longer kind reach to the end of LDS.
                let (first, second) = if scale == 512 { (first % 64, second % 60) } else { (first, second) };
                let offsets = format!("offset0:{first} offset1:{second}");
                let accumulation = file == 'a';
                let (low, high) = (registers(file, 8, words), registers(file, 12, words));
                let result = registers(file, 20, 2 * words);
                let at = move |lane: usize, offset: usize| mix(lane) * 4 * words + offset * scale;
                let each = move |state: &mut State, each: Each, registers: [usize; 2]| {
                    // The first of all lanes comes before the second of any.
                    for (offset, register) in [first, second].into_iter().zip(registers) {
                        for lane in state.active() {
                            each(state, accumulation, lane, at(lane, offset), register, words);
                        }
                    }
                };
                cases.push(whole(
                    format!("ds_read2{stride}_{kind} {result}, v2 {offsets}"),
                    setup(exec, words),
                    move |state| each(state, load, [20, 20 + words]),
                ));
                cases.push(whole(
                    format!("ds_write2{stride}_{kind} v2, {low}, {high} {offsets}"),
                    setup(exec, words),
                    move |state| each(state, store, [8, 12]),
                ));
                cases.push(whole(
                    format!("ds_wrxchg2{stride}_rtn_{kind} {result}, v2, {low}, {high} {offsets}"),
                    setup(exec, words),
                    move |state| {
                        for (offset, (dst, src)) in [first, second].into_iter().zip([(20, 8), (20 + words, 12)]) {
                            for lane in state.active() {
                                load(state, accumulation, lane, at(lane, offset), dst, words);
                                store(state, accumulation, lane, at(lane, offset), src, words);
                            }
                        }
                    },
                ));
            }
        }
    }
    // The address register is one of the results.
    cases.push(whole("ds_read2_b32 v[2:3], v2 offset0:1 offset1:2", setup(!0, 1), |state| {
        for lane in 0..64 {
            load(state, false, lane, mix(lane) * 4 + 4, 2, 1);
            load(state, false, lane, mix(lane) * 4 + 8, 3, 1);
        }
    }));
    cases
}
