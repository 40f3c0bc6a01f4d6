//! Private memory of a wave. Dwords of the lanes are interleaved, so one dword of all lanes is one row of 256 bytes.

use super::Bytes;
use super::lanes::Active;
use super::value::{Load, Store};
use crate::inst::Stop;
use crate::wave::{LANES, Lanes, Scratch};

/// Bytes of one dword of all lanes.
const ROW: usize = 4 * LANES;

/// The one offset of all lanes that are on, if it is one and a multiple of four.
#[inline(always)]
fn common(offsets: &Lanes, exec: u64) -> Option<usize> {
    let first = offsets[exec.trailing_zeros() as usize & 63];
    let mut difference = 0;
    for lane in 0..LANES {
        difference |= (offsets[lane] ^ first) & ((exec >> lane) as u32 & 1).wrapping_neg();
    }
    (difference == 0 && first.is_multiple_of(4)).then_some(first as usize)
}

/// The rows of a value that all lanes have at the same offset.
#[inline(always)]
fn rows(scratch: &mut Scratch, offset: usize, size: usize) -> Option<&mut [u8]> {
    if offset + size > scratch.size as usize {
        return None;
    }
    let start = offset / 4 * ROW;
    scratch.memory.get_mut(start..start + size / 4 * ROW)
}

/// Position of a byte of one lane's private memory.
#[inline(always)]
fn position(lane: usize, offset: usize) -> usize {
    (offset / 4 * LANES + lane) * 4 + offset % 4
}

/// Whether a lane may access `size` bytes at `offset`.
#[inline(always)]
fn check(scratch: &Scratch, offset: u32, size: usize) -> Result<usize, Stop> {
    let end = u64::from(offset) + size as u64;
    let inside = end <= u64::from(scratch.size) && end.div_ceil(4) * ROW as u64 <= scratch.memory.len() as u64;
    if inside { Ok(offset as usize) } else { Err(Stop::Scratch { offset: u64::from(offset) }) }
}

/// Bytes that lie together in one dword: where they start among `length` bytes, and how many they are.
#[inline(always)]
fn pieces(offset: usize, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let head = (4 - offset % 4).min(length);
    let rest = (head..length).step_by(4).map(move |start| (start, 4.min(length - start)));
    std::iter::once((0, head)).chain(rest)
}

/// Reads bytes of one lane.
#[inline(always)]
pub(crate) fn read(scratch: &Scratch, lane: usize, offset: u32, out: &mut [u8]) -> Result<(), Stop> {
    let offset = check(scratch, offset, out.len())?;
    for (start, count) in pieces(offset, out.len()) {
        let at = position(lane, offset + start);
        out[start..start + count].copy_from_slice(&scratch.memory[at..at + count]);
    }
    Ok(())
}

/// Writes bytes of one lane.
#[inline(always)]
pub(crate) fn write(scratch: &mut Scratch, lane: usize, offset: u32, bytes: &[u8]) -> Result<(), Stop> {
    let offset = check(scratch, offset, bytes.len())?;
    for (start, count) in pieces(offset, bytes.len()) {
        let at = position(lane, offset + start);
        scratch.memory[at..at + count].copy_from_slice(&bytes[start..start + count]);
    }
    Ok(())
}

/// Loads the lanes that are on; what the others get means nothing.
#[inline(always)]
pub(crate) fn load<L: Load>(scratch: &mut Scratch, offsets: &Lanes, exec: u64, to: &mut L::Block) -> Result<(), Stop> {
    if L::SIZE >= 4
        && let Some(offset) = common(offsets, exec)
        && let Some(rows) = rows(scratch, offset, L::SIZE)
    {
        for (row, register) in rows.chunks_exact(ROW).zip(to.as_mut()) {
            for lane in 0..LANES {
                let word = &row[4 * lane..4 * lane + 4];
                register[lane] = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            }
        }
        return Ok(());
    }
    for lane in Active(exec) {
        let mut bytes = Bytes::default();
        read(scratch, lane, offsets[lane], &mut bytes.0[..L::SIZE])?;
        // SAFETY: no value is larger than the array.
        unsafe { L::get(bytes.0.as_ptr(), lane, to) };
    }
    Ok(())
}

/// Stores the lanes that are on.
#[inline(always)]
pub(crate) fn store<S: Store>(scratch: &mut Scratch, offsets: &Lanes, exec: u64, from: &S::Block) -> Result<(), Stop> {
    if S::SIZE >= 4
        && exec == !0
        && let Some(offset) = common(offsets, exec)
        && let Some(rows) = rows(scratch, offset, S::SIZE)
    {
        for (row, register) in rows.chunks_exact_mut(ROW).zip(from.as_ref()) {
            for lane in 0..LANES {
                row[4 * lane..4 * lane + 4].copy_from_slice(&register[lane].to_le_bytes());
            }
        }
        return Ok(());
    }
    for lane in Active(exec) {
        let mut bytes = Bytes::default();
        // SAFETY: no value is larger than the array.
        unsafe { S::put(bytes.0.as_mut_ptr(), lane, from) };
        write(scratch, lane, offsets[lane], &bytes.0[..S::SIZE])?;
    }
    Ok(())
}
