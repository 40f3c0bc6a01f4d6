//! Data-parallel primitives (DPP): the first source comes from another lane.
//!
//! The fields of the control word that follows the instruction, and the routes of DPP_CTRL, are those of section "DPP"
//! in chapter "Microcode Formats" of the MI300 ISA reference guide.

use crate::wave::{LANES, Lanes};

/// The index of no lane.
const NONE: usize = LANES;

/// Position and mask of DPP_CTRL, which selects the route.
const CTRL_SHIFT: u32 = 8;
const CTRL_MASK: u32 = 0x1FF;
/// BOUND_CTRL: an invalid source reads as zero.
const BOUND_CTRL: u32 = 1 << 19;
/// Positions of BANK_MASK and ROW_MASK, four bits each.
const BANK_MASK_SHIFT: u32 = 24;
const ROW_MASK_SHIFT: u32 = 28;

/// Moves the values of lanes along the route of `control`; returns the lanes that must not be written.
pub(super) fn reroute(low: &mut Lanes, high: &mut Lanes, control: u32, exec: u64) -> u64 {
    let (from_low, from_high) = (*low, *high);
    let route = route((control >> CTRL_SHIFT) & CTRL_MASK);
    let mut arrived = 0;
    for lane in 0..LANES {
        let from = usize::from(route[lane]) % LANES;
        let valid = usize::from(route[lane]) != NONE && exec >> from & 1 != 0;
        low[lane] = if valid { from_low[from] } else { 0 };
        high[lane] = if valid { from_high[from] } else { 0 };
        arrived |= u64::from(valid) << lane;
    }
    // With BOUND_CTRL an invalid source reads as zero, otherwise the lane is not written.
    let bound_control = control & BOUND_CTRL != 0;
    !enabled(control) | if bound_control { 0 } else { !arrived }
}

/// Returns the lanes that the row and bank masks enable: a row is 16 lanes, a bank four lanes of each row.
fn enabled(control: u32) -> u64 {
    let (bank_mask, row_mask) = ((control >> BANK_MASK_SHIFT) & 0xF, (control >> ROW_MASK_SHIFT) & 0xF);
    let mut lanes = 0;
    for group in 0..16 {
        if row_mask >> (group / 4) & bank_mask >> (group % 4) & 1 != 0 {
            lanes |= 0xF << (4 * group);
        }
    }
    lanes
}

/// Returns a route from a function of the lane.
#[inline(always)]
fn each(from: impl Fn(usize) -> usize) -> [u8; LANES] {
    std::array::from_fn(|lane| from(lane) as u8)
}

/// Returns for every lane the lane that its value comes from, or [`NONE`].
fn route(select: u32) -> [u8; LANES] {
    let count = (select & 0xF) as usize;
    let choose = |exists: bool, from: usize| if exists { from } else { NONE };
    match select {
        0x000..=0x0FF => each(|lane| lane & !3 | (select as usize >> (2 * (lane % 4))) & 3),
        0x101..=0x10F => each(|lane| choose(lane % 16 + count < 16, lane + count)),
        0x111..=0x11F => each(|lane| choose(lane % 16 >= count, lane.wrapping_sub(count))),
        0x121..=0x12F => each(|lane| lane & !15 | ((lane % 16 + 16 - count) % 16)),
        0x130 => each(|lane| choose(lane < 63, lane + 1)),
        0x134 => each(|lane| (lane + 1) % 64),
        0x138 => each(|lane| choose(lane > 0, lane.wrapping_sub(1))),
        0x13C => each(|lane| (lane + 63) % 64),
        0x140 => each(|lane| lane ^ 15),
        0x141 => each(|lane| lane ^ 7),
        0x142 => each(|lane| choose(lane >= 16, (lane & !15).wrapping_sub(1))),
        0x143 => each(|lane| choose(lane >= 32, 31)),
        // row_newbcast (gfx90a and later): one lane of the row for all of it.
        0x150..=0x15F => each(|lane| lane & !15 | count),
        _ => each(|_| NONE),
    }
}
