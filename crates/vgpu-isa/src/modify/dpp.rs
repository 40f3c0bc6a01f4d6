//! Data-parallel primitives (DPP): the first source comes from another lane.
//!
//! The fields of the control word that follows the instruction, and the routes of DPP_CTRL, are those of section "DPP"
//! in chapter "Microcode Formats" of the MI300 ISA reference guide.

use crate::operand::{Aligned, LaneBuffer, pack, write_masked};
use crate::wave::{LANES, Lanes};

/// Position and mask of DPP_CTRL, which selects the route.
const CTRL_SHIFT: u32 = 8;
const CTRL_MASK: u32 = 0x1FF;
/// BOUND_CTRL: an invalid source reads as zero.
const BOUND_CTRL: u32 = 1 << 19;
/// Positions of BANK_MASK and ROW_MASK, four bits each.
const BANK_MASK_SHIFT: u32 = 24;
const ROW_MASK_SHIFT: u32 = 28;

/// Values of DPP_CTRL up to the last route.
const CONTROLS: usize = 0x160;
/// For every lane the lane that its value comes from; any lane where there is none.
static ROUTES: [[u8; LANES]; CONTROLS] = routes().0;
/// The lanes whose source exists.
static EXISTING: [u64; CONTROLS] = routes().1;

/// Moves the values of lanes along the route of `control`. What lanes get that are [`skipped`] means nothing.
#[inline(always)]
pub(super) fn reroute<'a>(from: &Lanes, control: u32, exec: u64, to: &'a mut LaneBuffer) -> &'a Lanes {
    let to = &mut to.write(Aligned([0; LANES])).0;
    let Some(route) = ROUTES.get(select(control)) else { return to };
    if !across_rows(from, select(control), to) && !permute_rows(from, route, to) {
        for lane in 0..LANES {
            to[lane] = from[usize::from(route[lane]) % LANES];
        }
    }
    // With BOUND_CTRL an invalid source reads as zero, otherwise the lane is not written.
    if control & BOUND_CTRL != 0 {
        let arrived = arrived(control, exec);
        if arrived != !0 {
            write_masked(to, &[0; LANES], !arrived);
        }
    }
    to
}

/// Moves values along a route that leaves the rows: to the next lane, or one lane to many. Returns whether `select` is
/// such a route.
#[inline(always)]
fn across_rows(from: &Lanes, select: usize, to: &mut Lanes) -> bool {
    match select {
        0x130 | 0x134 => {
            to[..LANES - 1].copy_from_slice(&from[1..]);
            to[LANES - 1] = from[0];
        }
        0x138 | 0x13C => {
            to[1..].copy_from_slice(&from[..LANES - 1]);
            to[0] = from[LANES - 1];
        }
        0x142 => (1..4).for_each(|row| to[16 * row..][..16].fill(from[16 * row - 1])),
        0x143 => to[32..].fill(from[31]),
        _ => return false,
    }
    true
}

/// Moves values along a route that does not leave the rows, if the CPU has an instruction for it. Returns whether it
/// has done so.
#[inline(always)]
fn permute_rows(from: &Lanes, route: &[u8; LANES], to: &mut Lanes) -> bool {
    #[cfg(target_arch = "x86_64")]
    if crate::table::is_wide() {
        // SAFETY: the CPU has AVX2.
        unsafe { avx2::permute_rows(from, route, to) };
        return true;
    }
    let _ = (from, route, to);
    false
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        _mm_loadl_epi64, _mm256_blendv_ps, _mm256_castsi256_ps, _mm256_cvtepu8_epi32, _mm256_loadu_si256,
        _mm256_permutevar8x32_epi32, _mm256_slli_epi32, _mm256_storeu_ps,
    };

    use crate::wave::{LANES, Lanes};

    /// Moves values within rows: of the number of a lane in `route` the low four bits count.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn permute_rows(from: &Lanes, route: &[u8; LANES], to: &mut Lanes) {
        for first in (0..LANES).step_by(8) {
            let row = first & !15;
            // SAFETY: 16 lanes follow the first of a row, eight follow `first`, in each of the arrays.
            unsafe {
                let low = _mm256_loadu_si256(from.as_ptr().add(row).cast());
                let high = _mm256_loadu_si256(from.as_ptr().add(row + 8).cast());
                let index = _mm256_cvtepu8_epi32(_mm_loadl_epi64(route.as_ptr().add(first).cast()));
                let of_low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, index));
                let of_high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, index));
                // Bit 3 of the number, where the selection looks for it.
                let is_high = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index));
                _mm256_storeu_ps(to.as_mut_ptr().add(first).cast(), _mm256_blendv_ps(of_low, of_high, is_high));
            }
        }
    }
}

/// Returns the lanes that must not be written.
#[inline(never)]
pub(super) fn skipped(control: u32, exec: u64) -> u64 {
    !enabled(control) | if control & BOUND_CTRL != 0 { 0 } else { !arrived(control, exec) }
}

/// Returns the lanes whose source exists and is on.
#[inline(always)]
fn arrived(control: u32, exec: u64) -> u64 {
    let select = select(control);
    let Some((route, existing)) = ROUTES.get(select).zip(EXISTING.get(select)) else { return 0 };
    if exec == !0 {
        return *existing;
    }
    let mut bits = [0; LANES];
    for lane in 0..LANES {
        bits[lane] = (exec >> (route[lane] % LANES as u8)) as u8 & 1;
    }
    pack(&bits) & existing
}

#[inline(always)]
fn select(control: u32) -> usize {
    ((control >> CTRL_SHIFT) & CTRL_MASK) as usize
}

/// Returns the lanes that the row and bank masks enable: a row is 16 lanes, a bank four lanes of each row.
#[inline(always)]
fn enabled(control: u32) -> u64 {
    let (banks, rows) = ((control >> BANK_MASK_SHIFT) & 0xF, (control >> ROW_MASK_SHIFT) & 0xF);
    ENABLED_BANKS[banks as usize] & ENABLED_ROWS[rows as usize]
}

/// The lanes of each set of banks, and of each set of rows.
static ENABLED_BANKS: [u64; 16] = lanes_of_sets(0x000F_000F_000F_000F, 4);
static ENABLED_ROWS: [u64; 16] = lanes_of_sets(0xFFFF, 16);

/// Returns the lanes of all sets of four, of which one has the lanes `first` and the next ones follow by `step`.
const fn lanes_of_sets(first: u64, step: usize) -> [u64; 16] {
    let mut sets = [0; 16];
    let mut at = 0;
    while at < 16 * 4 {
        if (at / 4) >> (at % 4) & 1 != 0 {
            sets[at / 4] |= first << (step * (at % 4));
        }
        at += 1;
    }
    sets
}

/// Returns the routes of all controls, and the lanes whose source exists.
const fn routes() -> ([[u8; LANES]; CONTROLS], [u64; CONTROLS]) {
    let (mut routes, mut existing) = ([[0; LANES]; CONTROLS], [0; CONTROLS]);
    let mut control = 0;
    while control < CONTROLS {
        let mut lane = 0;
        while lane < LANES {
            if let Some(from) = origin(control, lane) {
                routes[control][lane] = from as u8;
                existing[control] |= 1 << lane;
            }
            lane += 1;
        }
        control += 1;
    }
    (routes, existing)
}

/// Returns the lane that the value of a lane comes from, if there is one.
const fn origin(select: usize, lane: usize) -> Option<usize> {
    let (count, row, place) = (select % 16, lane & !15, lane % 16);
    let (exists, from) = match select {
        0x000..=0x0FF => (true, lane & !3 | (select >> (2 * (lane % 4))) & 3),
        0x101..=0x10F => (place + count < 16, lane + count),
        0x111..=0x11F => (place >= count, lane.wrapping_sub(count)),
        0x121..=0x12F => (true, row | ((place + 16 - count) % 16)),
        0x130 => (lane < 63, lane + 1),
        0x134 => (true, (lane + 1) % 64),
        0x138 => (lane > 0, lane.wrapping_sub(1)),
        0x13C => (true, (lane + 63) % 64),
        0x140 => (true, lane ^ 15),
        0x141 => (true, lane ^ 7),
        0x142 => (lane >= 16, row.wrapping_sub(1)),
        0x143 => (lane >= 32, 31),
        // row_newbcast (gfx90a and later): one lane of the row for all of it.
        0x150..=0x15F => (true, row | count),
        _ => (false, 0),
    };
    if exists { Some(from) } else { None }
}
