//! Data-parallel primitives: the first source comes from another lane.

use crate::wave::{LANES, Lanes};

/// Reroutes lanes; returns the lanes that must not be written.
pub(super) fn reroute(low: &mut Lanes, high: &mut Lanes, control: u32, exec: u64) -> u64 {
    let (from_low, from_high) = (*low, *high);
    let select = (control >> 8) & 0x1FF;
    let bound_control = control & (1 << 19) != 0;
    let (bank_mask, row_mask) = ((control >> 24) & 0xF, (control >> 28) & 0xF);
    let mut skipped = 0;
    for lane in 0..LANES {
        let enabled = row_mask >> (lane / 16) & 1 != 0 && bank_mask >> (lane % 16 / 4) & 1 != 0;
        match source(select, lane).filter(|&from| exec >> from & 1 != 0) {
            _ if !enabled => skipped |= 1 << lane,
            Some(from) => {
                low[lane] = from_low[from];
                high[lane] = from_high[from];
            }
            // The manual: with bound_ctrl an invalid source reads as zero, otherwise the lane is not written.
            None if bound_control => {
                low[lane] = 0;
                high[lane] = 0;
            }
            None => skipped |= 1 << lane,
        }
    }
    skipped
}

/// The lane that `lane` takes its value from, if there is one.
fn source(select: u32, lane: usize) -> Option<usize> {
    let (row, within) = (lane & !15, lane % 16);
    let count = (select & 0xF) as usize;
    match select {
        0x000..=0x0FF => Some(lane & !3 | (select as usize >> (2 * (lane % 4))) & 3),
        0x101..=0x10F => (within + count < 16).then(|| lane + count),
        0x111..=0x11F => (within >= count).then(|| lane - count),
        0x121..=0x12F => Some(row | (within + 16 - count) % 16),
        0x130 => (lane < 63).then(|| lane + 1),
        0x134 => Some((lane + 1) % 64),
        0x138 => (lane > 0).then(|| lane - 1),
        0x13C => Some((lane + 63) % 64),
        0x140 => Some(row | (15 - within)),
        0x141 => Some(lane & !7 | (7 - lane % 8)),
        0x142 => (lane >= 16).then(|| row - 1),
        0x143 => (lane >= 32).then_some(31),
        // row_newbcast (gfx90a and later): one lane of the row for all of it.
        0x150..=0x15F => Some(row | count),
        _ => None,
    }
}
