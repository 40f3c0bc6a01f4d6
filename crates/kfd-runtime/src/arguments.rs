//! The argument block of a kernel.

use crate::memory::GpuAddr;

/// Arguments in the order of the kernel's parameters, each aligned to its size as compilers do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    bytes: Vec<u8>,
}

impl Arguments {
    fn push(mut self, value: &[u8]) -> Arguments {
        self.bytes.resize(self.bytes.len().next_multiple_of(value.len().max(1)), 0);
        self.bytes.extend_from_slice(value);
        self
    }

    /// Adds an address.
    #[must_use]
    pub fn address(self, value: GpuAddr) -> Arguments {
        self.push(&value.0.to_le_bytes())
    }

    /// Adds a 32-bit integer.
    #[must_use]
    pub fn u32(self, value: u32) -> Arguments {
        self.push(&value.to_le_bytes())
    }

    /// Adds a single-precision number.
    #[must_use]
    pub fn f32(self, value: f32) -> Arguments {
        self.push(&value.to_le_bytes())
    }

    /// The block, at least as large as the kernel's descriptor says. Hidden arguments, which no kernel here reads, are
    /// zero.
    #[must_use]
    pub fn block(mut self, size: u32) -> Vec<u8> {
        let size = (size as usize).max(self.bytes.len());
        self.bytes.resize(size, 0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_aligned_to_their_size() {
        let block = Arguments::default().u32(1).address(GpuAddr(2)).f32(1.0).u32(3).block(0);
        let words: Vec<u32> = block.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [1, 0, 2, 0, 1.0f32.to_bits(), 3]);
    }

    #[test]
    fn hidden_arguments_are_zero() {
        let block = Arguments::default().u32(u32::MAX).block(280);
        assert_eq!(block.len(), 280);
        assert!(block[4..].iter().all(|&byte| byte == 0));
        // A descriptor that says less than the arguments need is not believed.
        assert_eq!(Arguments::default().address(GpuAddr(1)).block(4).len(), 8);
    }
}
