//! Sub-dword addressing: parts of sources and of the destination.

use super::Part;
use crate::operand::write_masked;
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
pub(super) fn select(control: u32) -> Option<Part> {
    let (shift, bits) = part(control)?;
    let sign = if control & 8 != 0 { 1 << (bits - 1) } else { 0 };
    Some(Part { left: 32 - bits - shift, right: 32 - bits, sign })
}

/// Writes the lanes named by `exec` as the destination select says: which part is written and what happens to the rest.
/// `significant` are the bits of `new` that count.
#[inline(always)]
pub(super) fn merge(to: &mut Lanes, new: &Lanes, significant: u32, control: u32, exec: u64) {
    let Some((shift, bits)) = part(control >> 8) else {
        return if significant == !0 {
            write_masked(to, new, exec);
        } else {
            write_masked(to, &new.map(|word| word & significant), exec);
        };
    };
    let mask = ((1_u32 << bits) - 1) << shift;
    // Sign extension fills the bits above; those below are zero.
    let (extended, kept) = match (control >> 11) & 3 {
        0 => (0, 0),
        1 => (!mask & !((1 << shift) - 1), 0),
        _ => (0, !mask),
    };
    let top = 32 - shift - bits;
    let mut merged = [0; LANES];
    for lane in 0..LANES {
        let value = ((new[lane] & significant) << shift) & mask;
        let sign = ((value << top) as i32 >> 31) as u32;
        merged[lane] = value | sign & extended | to[lane] & kept;
    }
    write_masked(to, &merged, exec);
}
