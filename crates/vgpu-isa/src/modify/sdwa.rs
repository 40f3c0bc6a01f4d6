//! Sub-dword addressing: parts of sources and of the destination.

use crate::wave::{LANES, Lanes};

/// Position and bits of a selected part; nothing for the whole dword.
fn part(select: u32) -> Option<(u32, u32)> {
    match select & 7 {
        n @ 0..=3 => Some((8 * n, 8)),
        n @ (4 | 5) => Some((16 * (n - 4), 16)),
        _ => None,
    }
}

/// Picks a byte or word of the source; bit 3 of `control` asks for sign extension.
pub(super) fn select(lanes: &mut Lanes, control: u32) {
    let Some((shift, bits)) = part(control) else { return };
    // Up to the top and down again: the part loses its neighbours and gets its extension.
    let (up, down) = (32 - bits - shift, 32 - bits);
    if control & 8 != 0 {
        lanes.iter_mut().for_each(|lane| *lane = ((*lane << up) as i32 >> down) as u32);
    } else {
        lanes.iter_mut().for_each(|lane| *lane = *lane << up >> down);
    }
}

/// The destination select: which part is written and what happens to the rest. `whole` are the bits that a result has
/// without selection.
pub(super) fn merge(old: &Lanes, new: &Lanes, control: u32, whole: u32) -> Lanes {
    let mut merged = [0; LANES];
    let Some((shift, bits)) = part(control >> 8) else {
        for lane in 0..LANES {
            merged[lane] = new[lane] & whole;
        }
        return merged;
    };
    let mask = ((1_u32 << bits) - 1) << shift;
    let above = !mask & !((1 << shift) - 1);
    let unused = (control >> 11) & 3;
    for lane in 0..LANES {
        let value = (new[lane] << shift) & mask;
        let negative = value >> (shift + bits - 1) & 1 != 0;
        let rest = match unused {
            0 => 0,
            // Sign extension fills the bits above; those below are zero.
            1 if negative => above,
            1 => 0,
            _ => old[lane] & !mask,
        };
        merged[lane] = value | rest;
    }
    merged
}
