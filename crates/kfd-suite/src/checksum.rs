//! A checksum for comparing the results of runs.

use std::fmt;

/// Checksum of bytes in order: FNV-1a with 64 bits. Any single changed bit changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checksum(u64);

impl Checksum {
    const START: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01B3;

    /// Returns the checksum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Checksum {
        let mut sum = Checksum::default();
        sum.add(bytes);
        sum
    }

    /// Continues with more bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(Checksum::PRIME));
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Checksum(Checksum::START)
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_published_function() {
        assert_eq!(Checksum::of(b"").to_string(), "cbf29ce484222325");
        assert_eq!(Checksum::of(b"a").to_string(), "af63dc4c8601ec8c");
        assert_eq!(Checksum::of(b"foobar").to_string(), "85944171f73967e8");
    }

    #[test]
    fn parts_count_like_the_whole_and_every_bit_counts() {
        let mut parts = Checksum::of(b"foo");
        parts.add(b"bar");
        assert_eq!(parts, Checksum::of(b"foobar"));
        let bytes = [7u8; 40];
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Checksum::of(&changed), Checksum::of(&bytes));
        }
    }
}
