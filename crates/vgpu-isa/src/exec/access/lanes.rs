//! The lanes of one instruction reach for memory.

use super::value::{Load, Store};
use super::{Bytes, Memory};
use crate::inst::Stop;
use crate::memory::Access;
use crate::operand::write_masked;
use crate::wave::{LANES, Lanes};

/// Bytes of the largest values of all lanes.
const MOST: usize = LANES * 16;

/// Offsets of all lanes in relation to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// One value after the other.
    Consecutive,
    /// All lanes have the same.
    Same,
    /// Anything else.
    Scattered,
}

/// How offsets relate; the second tells nearly always, so most of them are looked at only where it pays.
#[inline(always)]
fn pattern(offsets: &Lanes, stride: u32) -> Pattern {
    let first = offsets[0];
    let step = offsets[1].wrapping_sub(first);
    if step != stride && step != 0 {
        return Pattern::Scattered;
    }
    let mut difference = 0;
    for lane in 0..LANES {
        difference |= first.wrapping_add(step.wrapping_mul(lane as u32)) ^ offsets[lane];
    }
    match difference {
        0 if step == 0 => Pattern::Same,
        // The last value must not begin beyond the reach of an offset.
        0 if first.checked_add(stride * (LANES as u32 - 1)).is_some() => Pattern::Consecutive,
        _ => Pattern::Scattered,
    }
}

/// Lanes of a mask, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Active(pub(crate) u64);

impl Iterator for Active {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    }
}

/// Offsets with those of lanes that are off replaced by one of a lane that is on, and the smallest and largest.
#[inline(always)]
pub(crate) fn bounds(offsets: &Lanes, exec: u64) -> (Lanes, u32, u32) {
    let mut all = [offsets[exec.trailing_zeros() as usize & 63]; LANES];
    write_masked(&mut all, offsets, exec);
    let (mut low, mut high) = (u32::MAX, 0);
    for lane in 0..LANES {
        low = low.min(all[lane]);
        high = high.max(all[lane]);
    }
    (all, low, high)
}

/// Loads the lanes that are on; what the others get means nothing.
#[inline(always)]
pub(crate) fn load<L: Load, M: Memory>(
    memory: &mut M,
    base: u64,
    offsets: &Lanes,
    exec: u64,
    to: &mut L::Block,
) -> Result<(), Stop> {
    if exec == !0 {
        let start = M::address(base, offsets[0]);
        match pattern(offsets, L::SIZE as u32) {
            Pattern::Consecutive => {
                if let Some(at) = memory.span(start, (LANES * L::SIZE) as u64, Access::Read) {
                    // SAFETY: `span` vouches for all lanes.
                    unsafe { L::get_all(at, to) };
                    return Ok(());
                }
                if load_at_once::<L, M>(memory, start, to) {
                    return Ok(());
                }
            }
            Pattern::Same => {
                if let Some(at) = memory.span(start, L::SIZE as u64, Access::Read) {
                    // SAFETY: `span` vouches for one value.
                    unsafe { L::get(at, 0, to) };
                    for register in to.as_mut() {
                        *register = [register[0]; LANES];
                    }
                    return Ok(());
                }
            }
            Pattern::Scattered => {}
        }
    }
    load_scattered::<L, M>(memory, base, offsets, exec, to)
}

/// Values that follow each other but need care, with one careful access.
#[inline(never)]
fn load_at_once<L: Load, M: Memory>(memory: &mut M, start: u64, to: &mut L::Block) -> bool {
    let mut bytes = [0; MOST];
    let done = memory.read_all(start, &mut bytes[..LANES * L::SIZE]);
    if done {
        // SAFETY: the array is large enough.
        unsafe { L::get_all(bytes.as_ptr(), to) };
    }
    done
}

#[inline(always)]
fn load_scattered<L: Load, M: Memory>(
    memory: &mut M,
    base: u64,
    offsets: &Lanes,
    exec: u64,
    to: &mut L::Block,
) -> Result<(), Stop> {
    if exec == 0 {
        return Ok(());
    }
    let (all, low, high) = bounds(offsets, exec);
    let length = u64::from(high - low) + L::SIZE as u64;
    if let Some(at) = memory.span(M::address(base, low), length, Access::Read) {
        for lane in 0..LANES {
            // SAFETY: `span` vouches for everything from the lowest to the end of the highest lane.
            unsafe { L::get(at.add((all[lane] - low) as usize), lane, to) };
        }
        return Ok(());
    }
    load_carefully::<L, M>(memory, base, offsets, exec, to)
}

#[inline(never)]
fn load_carefully<L: Load, M: Memory>(
    memory: &mut M,
    base: u64,
    offsets: &Lanes,
    exec: u64,
    to: &mut L::Block,
) -> Result<(), Stop> {
    for lane in Active(exec) {
        let address = M::address(base, offsets[lane]);
        if let Some(at) = memory.span(address, L::SIZE as u64, Access::Read) {
            // SAFETY: `span` vouches for one value.
            unsafe { L::get(at, lane, to) };
            continue;
        }
        let mut bytes = Bytes::default();
        memory.read(address, &mut bytes.0[..L::SIZE])?;
        // SAFETY: no value is larger than the array.
        unsafe { L::get(bytes.0.as_ptr(), lane, to) };
    }
    Ok(())
}

/// Stores the lanes that are on.
#[inline(always)]
pub(crate) fn store<S: Store, M: Memory>(
    memory: &mut M,
    base: u64,
    offsets: &Lanes,
    exec: u64,
    from: &S::Block,
) -> Result<(), Stop> {
    if exec == !0 && pattern(offsets, S::SIZE as u32) == Pattern::Consecutive {
        let start = M::address(base, offsets[0]);
        if let Some(at) = memory.span(start, (LANES * S::SIZE) as u64, Access::Write) {
            // SAFETY: `span` vouches for all lanes.
            unsafe { S::put_all(at, from) };
            return Ok(());
        }
        if store_at_once::<S, M>(memory, start, from) {
            return Ok(());
        }
    }
    store_scattered::<S, M>(memory, base, offsets, exec, from)
}

/// Values that follow each other but need care, with one careful access.
#[inline(never)]
fn store_at_once<S: Store, M: Memory>(memory: &mut M, start: u64, from: &S::Block) -> bool {
    let mut bytes = [0; MOST];
    // SAFETY: the array is large enough.
    unsafe { S::put_all(bytes.as_mut_ptr(), from) };
    memory.write_all(start, &bytes[..LANES * S::SIZE])
}

#[inline(always)]
fn store_scattered<S: Store, M: Memory>(
    memory: &mut M,
    base: u64,
    offsets: &Lanes,
    exec: u64,
    from: &S::Block,
) -> Result<(), Stop> {
    if exec == 0 {
        return Ok(());
    }
    let (all, low, high) = bounds(offsets, exec);
    let length = u64::from(high - low) + S::SIZE as u64;
    if let Some(at) = memory.span(M::address(base, low), length, Access::Write) {
        for lane in Active(exec) {
            // SAFETY: `span` vouches for everything from the lowest to the end of the highest lane.
            unsafe { S::put(at.add((all[lane] - low) as usize), lane, from) };
        }
        return Ok(());
    }
    store_carefully::<S, M>(memory, base, offsets, exec, from)
}

#[inline(never)]
fn store_carefully<S: Store, M: Memory>(
    memory: &mut M,
    base: u64,
    offsets: &Lanes,
    exec: u64,
    from: &S::Block,
) -> Result<(), Stop> {
    for lane in Active(exec) {
        let address = M::address(base, offsets[lane]);
        if let Some(at) = memory.span(address, S::SIZE as u64, Access::Write) {
            // SAFETY: `span` vouches for one value.
            unsafe { S::put(at, lane, from) };
            continue;
        }
        let mut bytes = Bytes::default();
        // SAFETY: no value is larger than the array.
        unsafe { S::put(bytes.0.as_mut_ptr(), lane, from) };
        memory.write(address, &bytes.0[..S::SIZE])?;
    }
    Ok(())
}
