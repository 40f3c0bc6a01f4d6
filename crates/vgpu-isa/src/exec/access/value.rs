//! What one lane loads or stores: one to four words, or a part of one.

use crate::operand::write_masked;
use crate::wave::{LANES, Lanes};

/// A value that lanes load.
pub(crate) trait Load: 'static {
    /// Bytes in memory.
    const SIZE: usize;
    /// A register for each word.
    type Block: Copy + AsRef<[Lanes]> + AsMut<[Lanes]>;
    /// Registers of zeros.
    const ZERO: Self::Block;
    /// Whether the value fills only a half of the register (D16).
    const IS_HALF: bool = false;

    /// Reads the value of one lane.
    ///
    /// # Safety
    /// `at` points to `SIZE` readable bytes and `lane` is below 64.
    unsafe fn get(at: *const u8, lane: usize, to: &mut Self::Block);

    /// Reads the values of all lanes, which lie one after the other.
    ///
    /// # Safety
    /// `at` points to `64 * SIZE` readable bytes.
    #[inline(always)]
    unsafe fn get_all(at: *const u8, to: &mut Self::Block) {
        for lane in 0..LANES {
            // SAFETY: promised by the caller.
            unsafe { Self::get(at.add(lane * Self::SIZE), lane, to) };
        }
    }
}

/// A value that lanes store.
pub(crate) trait Store: 'static {
    /// Bytes in memory.
    const SIZE: usize;
    /// A register for each word.
    type Block: Copy + AsRef<[Lanes]> + AsMut<[Lanes]>;
    /// Registers of zeros.
    const ZERO: Self::Block;

    /// Writes the value of one lane. Aligned words are written whole: others may watch them.
    ///
    /// # Safety
    /// `at` points to `SIZE` writable bytes and `lane` is below 64.
    unsafe fn put(at: *mut u8, lane: usize, from: &Self::Block);

    /// Writes the values of all lanes, one after the other.
    ///
    /// # Safety
    /// `at` points to `64 * SIZE` writable bytes.
    #[inline(always)]
    unsafe fn put_all(at: *mut u8, from: &Self::Block) {
        for lane in 0..LANES {
            // SAFETY: promised by the caller.
            unsafe { Self::put(at.add(lane * Self::SIZE), lane, from) };
        }
    }
}

/// `N` words.
pub(crate) struct Words<const N: usize>;

/// # Safety
/// `at` points to eight readable bytes.
#[inline(always)]
unsafe fn pair(at: *const u8) -> [u32; 2] {
    // SAFETY: promised by the caller.
    let both = u64::from_le(unsafe { at.cast::<u64>().read_unaligned() });
    [both as u32, (both >> 32) as u32]
}

/// # Safety
/// `at` points to eight writable bytes.
#[inline(always)]
unsafe fn put_pair(at: *mut u8, low: u32, high: u32) {
    let both = u64::from(low) | u64::from(high) << 32;
    // SAFETY: promised by the caller.
    unsafe { at.cast::<u64>().write_unaligned(both.to_le()) };
}

impl<const N: usize> Load for Words<N> {
    const SIZE: usize = 4 * N;
    type Block = [Lanes; N];
    const ZERO: Self::Block = [[0; LANES]; N];

    #[inline(always)]
    unsafe fn get(at: *const u8, lane: usize, to: &mut Self::Block) {
        for k in (0..N).step_by(2) {
            // SAFETY: promised by the caller; a pair is read only if there is a second word.
            unsafe {
                if k + 1 < N {
                    let [low, high] = pair(at.add(4 * k));
                    to[k][lane] = low;
                    to[k + 1][lane] = high;
                } else {
                    to[k][lane] = u32::from_le(at.add(4 * k).cast::<u32>().read_unaligned());
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn get_all(at: *const u8, to: &mut Self::Block) {
        #[cfg(target_arch = "x86_64")]
        if let Some(to) = four(to) {
            // SAFETY: promised by the caller.
            return unsafe { quads::spread(at, to) };
        }
        let words = at.cast::<u32>();
        if let [to] = to.as_mut_slice() {
            // In one piece: the compiler cuts the loop, and what was written in pieces is slow to read as a whole.
            // SAFETY: promised by the caller.
            *to = unsafe { words.cast::<Lanes>().read_unaligned() };
            to.iter_mut().for_each(|word| *word = u32::from_le(*word));
            return;
        }
        for lane in 0..LANES {
            for k in 0..N {
                // SAFETY: promised by the caller.
                to[k][lane] = u32::from_le(unsafe { words.add(lane * N + k).read_unaligned() });
            }
        }
    }
}

impl<const N: usize> Store for Words<N> {
    const SIZE: usize = 4 * N;
    type Block = [Lanes; N];
    const ZERO: Self::Block = [[0; LANES]; N];

    #[inline(always)]
    unsafe fn put(at: *mut u8, lane: usize, from: &Self::Block) {
        for k in (0..N).step_by(2) {
            // SAFETY: promised by the caller; a pair is written only if there is a second word.
            unsafe {
                if k + 1 < N {
                    put_pair(at.add(4 * k), from[k][lane], from[k + 1][lane]);
                } else {
                    at.add(4 * k).cast::<u32>().write_unaligned(from[k][lane].to_le());
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn put_all(at: *mut u8, from: &Self::Block) {
        #[cfg(target_arch = "x86_64")]
        if let Ok(from) = from[..].try_into() {
            // SAFETY: promised by the caller.
            return unsafe { quads::gather(at, from) };
        }
        for lane in 0..LANES {
            // SAFETY: promised by the caller.
            unsafe { Self::put(at.add(lane * 4 * N), lane, from) };
        }
    }
}

/// The registers, if they are four.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn four(registers: &mut [Lanes]) -> Option<&mut [Lanes; 4]> {
    registers.try_into().ok()
}

/// Four words a lane, four lanes at a time, as transpositions: what compilers do not find by themselves.
#[cfg(target_arch = "x86_64")]
mod quads {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32,
        _mm_unpacklo_epi64,
    };

    use crate::wave::{LANES, Lanes};

    #[inline(always)]
    fn transposed([a, b, c, d]: [__m128i; 4]) -> [__m128i; 4] {
        // SAFETY: every CPU of this architecture has SSE2.
        unsafe {
            let (ab_low, ab_high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
            [
                _mm_unpacklo_epi64(ab_low, cd_low),
                _mm_unpackhi_epi64(ab_low, cd_low),
                _mm_unpacklo_epi64(ab_high, cd_high),
                _mm_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }

    /// # Safety
    /// `at` points to 1024 readable bytes.
    #[inline(always)]
    pub(super) unsafe fn spread(at: *const u8, to: &mut [Lanes; 4]) {
        let rows = at.cast::<__m128i>();
        for first in (0..LANES).step_by(4) {
            // SAFETY: promised by the caller; four lanes of a register follow `first`.
            unsafe {
                let columns = transposed(std::array::from_fn(|n| _mm_loadu_si128(rows.add(first + n))));
                for (register, column) in to.iter_mut().zip(columns) {
                    _mm_storeu_si128(register.as_mut_ptr().add(first).cast(), column);
                }
            }
        }
    }

    /// # Safety
    /// `at` points to 1024 writable bytes.
    #[inline(always)]
    pub(super) unsafe fn gather(at: *mut u8, from: &[Lanes; 4]) {
        let rows = at.cast::<__m128i>();
        for first in (0..LANES).step_by(4) {
            // SAFETY: promised by the caller; four lanes of a register follow `first`.
            unsafe {
                let columns = transposed(std::array::from_fn(|n| _mm_loadu_si128(from[n].as_ptr().add(first).cast())));
                for (n, column) in columns.into_iter().enumerate() {
                    _mm_storeu_si128(rows.add(first + n), column);
                }
            }
        }
    }
}

/// The register takes the whole value.
pub(crate) const WHOLE: u8 = 0;
/// The value goes to the low half of the register.
pub(crate) const LOW: u8 = 1;
/// The value goes to the high half of the register.
pub(crate) const HIGH: u8 = 2;

/// One or two bytes, extended with zeros or the sign to the register or a half of it.
///
/// A D16 load, which fills a half, clears the other half: with SRAM ECC, which MI200 and MI300 always have, the
/// register file writes whole registers (LLVM: `GCNSubtarget::d16PreservesUnusedBits` is false with `sramecc`).
pub(crate) struct Narrow<const BYTES: usize, const SIGNED: bool, const PART: u8>;

impl<const BYTES: usize, const SIGNED: bool, const PART: u8> Load for Narrow<BYTES, SIGNED, PART> {
    const SIZE: usize = BYTES;
    type Block = [Lanes; 1];
    const ZERO: Self::Block = [[0; LANES]; 1];
    const IS_HALF: bool = PART != WHOLE;

    #[inline(always)]
    unsafe fn get(at: *const u8, lane: usize, to: &mut Self::Block) {
        // SAFETY: promised by the caller.
        let raw = unsafe {
            match BYTES {
                1 => u32::from(at.read()),
                _ => u32::from(u16::from_le(at.cast::<u16>().read_unaligned())),
            }
        };
        let value = match (SIGNED, BYTES) {
            (false, _) => raw,
            (true, 1) => i32::from(raw as i8) as u32,
            (true, _) => i32::from(raw as i16) as u32,
        };
        to[0][lane] = match PART {
            WHOLE => value,
            LOW => value & 0xFFFF,
            _ => value << 16,
        };
    }
}

/// One or two bytes of a register, of its high half if `FROM_HIGH`.
pub(crate) struct Part<const BYTES: usize, const FROM_HIGH: bool>;

impl<const BYTES: usize, const FROM_HIGH: bool> Store for Part<BYTES, FROM_HIGH> {
    const SIZE: usize = BYTES;
    type Block = [Lanes; 1];
    const ZERO: Self::Block = [[0; LANES]; 1];

    #[inline(always)]
    unsafe fn put(at: *mut u8, lane: usize, from: &Self::Block) {
        let value = if FROM_HIGH { from[0][lane] >> 16 } else { from[0][lane] };
        // SAFETY: promised by the caller.
        unsafe {
            match BYTES {
                1 => at.write(value as u8),
                _ => at.cast::<u16>().write_unaligned((value as u16).to_le()),
            }
        }
    }
}

/// Writes loaded values to registers from `dst` on, in the lanes that are on.
#[inline(always)]
pub(crate) fn commit<L: Load>(file: &mut [Lanes; 256], dst: u32, block: &L::Block, exec: u64) {
    for (k, new) in block.as_ref().iter().enumerate() {
        let to = &mut file[(dst as usize + k) & 0xFF];
        write_masked(to, new, exec);
    }
}

/// The registers from `src` on that a store takes its values from.
#[inline(always)]
pub(crate) fn operands<S: Store>(file: &[Lanes; 256], src: u32) -> S::Block {
    let mut block = S::ZERO;
    for (k, to) in block.as_mut().iter_mut().enumerate() {
        *to = file[(src as usize + k) & 0xFF];
    }
    block
}
