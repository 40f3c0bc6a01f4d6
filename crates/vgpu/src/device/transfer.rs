//! Copies and fills that proceed in pieces.

use vgpu_isa::memory::{Access, Fault};

use super::context::Context;

/// Bytes moved before other queues get their turn.
const PIECE: u64 = 256 << 10;
const BOUNCE: usize = 16 << 10;

/// Source of the bytes of a [`Transfer`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Memory; the address moves on.
    Memory(u64),
    /// The same dword again and again.
    Pattern(u32),
}

/// A copy or fill under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) from: Source,
    pub(crate) to: u64,
    pub(crate) left: u64,
}

impl Transfer {
    /// Moves a piece. Returns whether nothing is left.
    pub(crate) fn proceed(&mut self, cx: &mut Context<'_>) -> Result<bool, Fault> {
        let mut piece = self.left.min(PIECE);
        if self.copy_directly(cx, piece) {
            return Ok(self.left == 0);
        }
        let mut bounce = [0; BOUNCE];
        if let Source::Pattern(word) = self.from {
            for chunk in bounce.chunks_exact_mut(4) {
                chunk.copy_from_slice(&word.to_le_bytes());
            }
        }
        while piece > 0 {
            let length = piece.min(BOUNCE as u64);
            let part = &mut bounce[..length as usize];
            if let Source::Memory(from) = &mut self.from {
                cx.memory.read(*from, part)?;
                *from = from.wrapping_add(length);
            }
            cx.memory.write(self.to, part)?;
            self.to = self.to.wrapping_add(length);
            self.left -= length;
            piece -= length;
        }
        Ok(self.left == 0)
    }

    /// Copies a piece in one go, if both ends lie in one mapping each that is always there. Returns whether they do.
    fn copy_directly(&mut self, cx: &mut Context<'_>, length: u64) -> bool {
        let Source::Memory(from) = &mut self.from else { return false };
        let Some(source) = cx.memory.direct(*from, length, Access::Read) else { return false };
        let Some(target) = cx.memory.direct(self.to, length, Access::Write) else { return false };
        // SAFETY: both ranges are backed for `length` bytes by the promise made to `Space::insert`. They may overlap,
        // and others may use them at the same time, as device memory.
        unsafe { std::ptr::copy(source, target, length as usize) };
        *from = from.wrapping_add(length);
        self.to = self.to.wrapping_add(length);
        self.left -= length;
        true
    }
}

/// A copy of a box of elements between two pitched layouts, row by row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rectangle {
    from: Layout,
    to: Layout,
    /// Bytes of a row, rows of a slice, slices.
    size: [u64; 3],
    row: u64,
    slice: u64,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    first: u64,
    /// Bytes between rows and between slices.
    pitch: [u64; 2],
}

impl Layout {
    fn decode(words: &[u32; 5], element: u32) -> Self {
        let [low, high, xy, z_pitch, slice] = *words;
        let pitch = [u64::from(z_pitch >> 13) + 1, u64::from(slice & 0xFFF_FFFF) + 1].map(|count| count << element);
        let (x, y, z) = (u64::from(xy & 0x3FFF), u64::from(xy >> 16 & 0x3FFF), u64::from(z_pitch & 0x7FF));
        let offset = (x << element).wrapping_add(y * pitch[0]).wrapping_add(z * pitch[1]);
        Self { first: super::context::address(low, high).wrapping_add(offset), pitch }
    }

    fn row(&self, row: u64, slice: u64) -> u64 {
        self.first.wrapping_add(row * self.pitch[0]).wrapping_add(slice * self.pitch[1])
    }
}

impl Rectangle {
    /// Decodes the copy in a packet's words after the header. Returns `None` if they describe none.
    pub(crate) fn decode(header: u32, words: &[u32]) -> Option<Self> {
        let (&[from, to], &[xy, z, ..]) = (words.get(..10)?.as_chunks::<5>().0.first_chunk::<2>()?, words.get(10..)?)
        else {
            return None;
        };
        // Elements have up to 16 bytes.
        let element = Some(header >> 29).filter(|&element| element <= 4)?;
        let columns = (u64::from(xy & 0x3FFF) + 1) << element;
        let size = [columns, u64::from(xy >> 16 & 0x3FFF) + 1, u64::from(z & 0x7FF) + 1];
        let (from, to) = (Layout::decode(&from, element), Layout::decode(&to, element));
        Some(Self { from, to, size, row: 0, slice: 0 })
    }

    /// Copies some rows. Returns whether all are done.
    pub(crate) fn proceed(&mut self, cx: &mut Context<'_>) -> Result<bool, Fault> {
        let mut moved = 0;
        while moved < PIECE && self.slice < self.size[2] {
            let from = Source::Memory(self.from.row(self.row, self.slice));
            let to = self.to.row(self.row, self.slice);
            // A row is at most 16384 elements of 16 bytes, a piece.
            Transfer { from, to, left: self.size[0] }.proceed(cx)?;
            moved += self.size[0];
            self.row += 1;
            if self.row == self.size[1] {
                self.row = 0;
                self.slice += 1;
            }
        }
        Ok(self.slice == self.size[2])
    }
}
