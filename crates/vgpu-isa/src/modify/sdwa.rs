//! Sub-dword addressing: parts of sources and of the destination.

use super::Change;
use crate::wave::{LANES, Lanes};

/// Position and bits of a selected part; nothing for the whole dword.
#[inline(always)]
fn part(select: u32) -> Option<(u32, u32)> {
    match select & 7 {
        n @ 0..=3 => Some((8 * n, 8)),
        n @ (4 | 5) => Some((16 * (n - 4), 16)),
        _ => None,
    }
}

/// Picks a byte or word of the source; bit 3 of `control` asks for sign extension.
#[inline(always)]
pub(super) fn select(control: u32) -> Change {
    let Some((shift, bits)) = part(control) else { return Change::default() };
    // Up to the top and down again: the part loses its neighbours and gets its extension.
    Change { left: 32 - bits - shift, right: 32 - bits, signed: control & 8 != 0, ..Change::default() }
}

/// The destination select: which part is written and what happens to the rest. `significant` are the bits of `new` that
/// count.
#[inline(always)]
pub(super) fn merge(old: &Lanes, new: &Lanes, significant: u32, control: u32) -> Lanes {
    let mut merged = [0; LANES];
    let Some((shift, bits)) = part(control >> 8) else {
        for lane in 0..LANES {
            merged[lane] = new[lane] & significant;
        }
        return merged;
    };
    let mask = ((1_u32 << bits) - 1) << shift;
    // Sign extension fills the bits above; those below are zero.
    let (extended, kept) = match (control >> 11) & 3 {
        0 => (0, 0),
        1 => (!mask & !((1 << shift) - 1), 0),
        _ => (0, !mask),
    };
    let top = 32 - shift - bits;
    for lane in 0..LANES {
        let value = ((new[lane] & significant) << shift) & mask;
        let sign = ((value << top) as i32 >> 31) as u32;
        merged[lane] = value | sign & extended | old[lane] & kept;
    }
    merged
}
