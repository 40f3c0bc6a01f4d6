//! Compute units that a queue may use.

/// Compute units that a mask can name; the driver cuts longer masks off.
pub const MOST_CUS: u32 = 1024;

const WORDS: usize = MOST_CUS as usize / 64;

/// A set of compute units, by the numbers that [`CuPlacement::cu`](super::CuPlacement::cu) has.
///
/// They are the numbers of bits in the driver's mask, too: neighbours lie on different XCCs, then on different shader
/// engines of an XCC, and only then on the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuMask([u64; WORDS]);

impl CuMask {
    /// Makes a mask from the dwords that the driver gets, lowest compute unit first. Compute units beyond them are
    /// excluded.
    pub fn of_dwords(dwords: &[u32]) -> Self {
        let mut words = [0; WORDS];
        for (n, dword) in dwords.iter().enumerate().take(2 * WORDS) {
            words[n / 2] |= u64::from(*dword) << (n % 2 * 32);
        }
        Self(words)
    }

    /// Returns whether a compute unit is in the set.
    pub fn contains(&self, cu: u32) -> bool {
        self.0.get(cu as usize / 64).is_some_and(|word| word >> (cu % 64) & 1 != 0)
    }

    /// Returns the set as words, for shared memory.
    pub(super) fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    pub(super) fn of_words(words: [u64; WORDS]) -> Self {
        Self(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_name_what_their_bits_say_and_nothing_beyond() {
        let mask = CuMask::of_dwords(&[1 << 3, 0, 1 << 31]);
        let named: Vec<_> = (0..2 * MOST_CUS).filter(|&cu| mask.contains(cu)).collect();
        assert_eq!(named, [3, 95]);
        let everything = CuMask::of_dwords(&[!0; 100]);
        assert_eq!((0..2 * MOST_CUS).filter(|&cu| everything.contains(cu)).count(), MOST_CUS as usize);
        assert!(!CuMask::of_dwords(&[]).contains(0));
    }
}
