//! Random numbers and the checksum, both without state beyond one word.

/// Random numbers: xorshift64*.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Begins a sequence. Every seed is possible.
    pub(crate) fn new(seed: u64) -> Random {
        // Zero would give zeros.
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns the next number of 32 bits.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    }

    /// Returns a number below `end`, or zero; `end` has at most 32 bits.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        // The upper half of a product of two numbers of 32 bits.
        (self.next().wrapping_mul(u64::from(end)) >> 32) as u32
    }

    /// Returns true once in `times`.
    pub(crate) fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// Returns one of some values.
    pub(crate) fn one_of<T: Copy, const N: usize>(&mut self, values: &[T; N], otherwise: T) -> T {
        values.get(self.below(N as u32) as usize).copied().unwrap_or(otherwise)
    }
}

/// A checksum: FNV-1a over words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checksum(pub(crate) u64);

impl Checksum {
    pub(crate) const EMPTY: Checksum = Checksum(0xCBF2_9CE4_8422_2325);

    /// Takes a word in.
    pub(crate) fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(17);
    }
}
