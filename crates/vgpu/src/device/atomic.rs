//! Atomics of the command processor and the copy engine, by the number the memory system gives them.

use vgpu_isa::memory::Fault;

use super::context::Context;

/// Bit that makes an operation one on 64 bits.
const WIDE: u32 = 0x20;
/// Compare and swap.
const CMPSWAP: u32 = 0x08;

/// An atomic operation with its operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    /// Number of the operation. Those without a result have bit 6 set and do the same.
    pub(crate) operation: u32,
    pub(crate) address: u64,
    pub(crate) source: u64,
    pub(crate) compare: u64,
}

impl Atomic {
    /// Returns whether the device implements it.
    pub(crate) fn known(&self) -> bool {
        matches!(self.operation & 0x1F, 0x07 | CMPSWAP | 0x0F..=0x19)
    }

    /// Returns whether a compare and swap succeeds on the value before, `old`; true for other operations.
    pub(crate) fn satisfied(&self, old: u64) -> bool {
        self.operation & 0x1F != CMPSWAP || old == self.masked(self.compare)
    }

    fn wide(&self) -> bool {
        self.operation & WIDE != 0
    }

    fn masked(&self, value: u64) -> u64 {
        if self.wide() { value } else { value & 0xFFFF_FFFF }
    }

    /// Executes it and returns the value before.
    pub(crate) fn execute(&self, cx: &mut Context<'_>) -> Result<u64, Fault> {
        if self.wide() {
            return cx.memory.atomic_u64(self.address, |old| self.apply(old));
        }
        cx.memory.atomic_u32(self.address, |old| self.apply(u64::from(old)) as u32).map(u64::from)
    }

    /// Computes the value after from the one before.
    fn apply(&self, old: u64) -> u64 {
        let source = self.masked(self.source);
        let signed = |value: u64| if self.wide() { value as i64 } else { i64::from(value as u32 as i32) };
        match self.operation & 0x1F {
            0x07 => source,
            CMPSWAP if old == self.masked(self.compare) => source,
            0x0F => old.wrapping_add(source),
            0x10 => old.wrapping_sub(source),
            0x11 if signed(source) < signed(old) => source,
            0x12 => old.min(source),
            0x13 if signed(source) > signed(old) => source,
            0x14 => old.max(source),
            0x15 => old & source,
            0x16 => old | source,
            0x17 => old ^ source,
            0x18 if old >= source => 0,
            0x18 => old.wrapping_add(1),
            0x19 if old == 0 || old > source => source,
            0x19 => old.wrapping_sub(1),
            _ => old,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(operation: u32, old: u64, source: u64, compare: u64) -> u64 {
        Atomic { operation, address: 0, source, compare }.apply(old)
    }

    #[test]
    fn operations_have_their_numbers() {
        assert_eq!(after(0x2F, 5, u64::MAX, 0), 4, "add64 of -1");
        assert_eq!(after(0x6F, u64::MAX, 1, 0), 0, "add64 without result");
        assert_eq!(after(0x27, 5, 9, 0), 9, "swap64");
        assert_eq!(after(0x28, 5, 9, 5), 9, "cmpswap64 that hits");
        assert_eq!(after(0x28, 5, 9, 6), 5, "cmpswap64 that misses");
        assert_eq!(after(0x11, 3, 0xFFFF_FFFF, 0), 0xFFFF_FFFF, "smin32 of -1");
        assert_eq!(after(0x13, 3, 0xFFFF_FFFF, 0), 3, "smax32 of -1");
        assert_eq!(after(0x18, 7, 7, 0), 0, "inc wraps at its limit");
        assert_eq!(after(0x19, 0, 7, 0), 7, "dec wraps to its limit");
    }
}
