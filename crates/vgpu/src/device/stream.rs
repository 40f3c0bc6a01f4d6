//! A sequence of dwords that a processor reads packets from: a ring or an indirect buffer.

use vgpu_isa::memory::Fault;

use super::context::Context;

/// Position in a ring or an indirect buffer, in dwords.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    base: u64,
    /// Dwords after which addresses start again at `base`.
    dwords: u64,
    /// Next dword; counts on where a ring wraps.
    pub(crate) at: u64,
    /// Dword after the last.
    pub(crate) end: u64,
}

impl Stream {
    /// Makes an empty ring of `bytes`.
    pub(crate) fn ring(base: u64, bytes: u64) -> Self {
        Self { base, dwords: (bytes / 4).max(1), at: 0, end: 0 }
    }

    /// Makes a stream over an indirect buffer.
    pub(crate) fn buffer(base: u64, dwords: u64) -> Self {
        Self { base: base & !3, dwords: dwords.max(1), at: 0, end: dwords }
    }

    /// Continues at another address with the same contents.
    pub(crate) fn moved(&mut self, base: u64, bytes: u64) {
        self.base = base;
        self.dwords = (bytes / 4).max(1);
    }

    /// Returns the number of dwords available.
    pub(crate) fn left(&self) -> u64 {
        self.end.wrapping_sub(self.at)
    }

    /// Returns the capacity of the ring in dwords.
    pub(crate) fn capacity(&self) -> u64 {
        self.dwords
    }

    /// Reads the dword `n` after the next.
    pub(crate) fn peek(&self, cx: &mut Context<'_>, n: u64) -> Result<u32, Fault> {
        let at = self.at.wrapping_add(n) % self.dwords;
        cx.memory.read_u32(self.base.wrapping_add(4 * at))
    }

    /// Reads `count` dwords from the one `n` after the next into `out`.
    pub(crate) fn read(&self, cx: &mut Context<'_>, n: u64, count: u64, out: &mut Vec<u32>) -> Result<(), Fault> {
        out.clear();
        for i in n..n + count {
            out.push(self.peek(cx, i)?);
        }
        Ok(())
    }

    /// Advances by `count` dwords.
    pub(crate) fn skip(&mut self, count: u64) {
        self.at = self.at.wrapping_add(count.min(self.left()));
    }
}
