//! Rings of compute queues and their indices, in the memory of another process.

use kfd_abi::aql::PACKET_SIZE;

use crate::aql::Slot;
use crate::error::Result;
use crate::memory::ProcessMemory;

/// The driver takes sizes of 32 bits.
const LARGEST: u64 = 1 << 31;
/// Addresses above are the kernel's.
const LAST_ADDRESS: u64 = 1 << 56;
/// Indices that lie within so many bytes are read at once. Those of the vendor's runtime do.
const TOGETHER: usize = 256;
/// Bytes of an index.
const INDEX: usize = size_of::<u64>();

/// Why there can be no ring at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRing {
    /// The size is no power of two, less than a packet, or more than the driver takes.
    #[error("a ring has a power of two of bytes, from 64 to 2 GiB, not {bytes}")]
    Size {
        /// The size.
        bytes: u64,
    },
    /// An address is no multiple of what lies there, or no address of a program.
    #[error("{address:#x} is no address of {what}")]
    Address {
        /// The address.
        address: u64,
        /// What should be there.
        what: &'static str,
    },
}

/// Where the packets, or commands, of a queue are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    base: u64,
    bytes: u64,
}

impl Ring {
    /// The ring of `bytes` bytes at `base`.
    ///
    /// # Errors
    ///
    /// If the driver would not have taken it.
    pub fn new(base: u64, bytes: u64) -> std::result::Result<Ring, InvalidRing> {
        if !bytes.is_power_of_two() || !(PACKET_SIZE as u64..=LARGEST).contains(&bytes) {
            return Err(InvalidRing::Size { bytes });
        }
        if base == 0 || !base.is_multiple_of(256) || base > LAST_ADDRESS - bytes {
            return Err(InvalidRing::Address { address: base, what: "a ring" });
        }
        Ok(Ring { base, bytes })
    }

    /// Packets of 64 bytes that it holds.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.bytes / PACKET_SIZE as u64
    }

    /// Words of 4 bytes that it holds.
    #[must_use]
    pub const fn words(&self) -> u64 {
        self.bytes / 4
    }

    /// Reads the slots of the packets from number `first` on. Numbers count from the first packet of the queue.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn read(&self, memory: &ProcessMemory, first: u64, slots: &mut [Slot]) -> Result<()> {
        let at = first & (self.packets() - 1);
        let before_end = usize::try_from(self.packets() - at).unwrap_or(usize::MAX).min(slots.len());
        let (head, tail) = slots.split_at_mut(before_end);
        if !head.is_empty() {
            memory.read(self.base + at * PACKET_SIZE as u64, head.as_flattened_mut())?;
        }
        // More slots than the ring has are the same ones again.
        for part in tail.chunks_mut(usize::try_from(self.packets()).unwrap_or(usize::MAX)) {
            memory.read(self.base, part.as_flattened_mut())?;
        }
        Ok(())
    }
}

/// Where the indices of a queue are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexPlace {
    read: u64,
    write: u64,
}

/// The indices of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indices {
    /// What the processor fetches next.
    pub read: u64,
    /// What the program writes next.
    pub write: u64,
}

impl IndexPlace {
    /// The read index is at the first address, the write index at the second.
    ///
    /// # Errors
    ///
    /// If one of them cannot be the address of an index.
    pub fn new(read: u64, write: u64) -> std::result::Result<IndexPlace, InvalidRing> {
        for (address, what) in [(read, "a read index"), (write, "a write index")] {
            if address == 0 || !address.is_multiple_of(4) || address > LAST_ADDRESS {
                return Err(InvalidRing::Address { address, what });
            }
        }
        Ok(IndexPlace { read, write })
    }

    /// Reads both: in one call if they lie close together. They are not of the same instant: the processor may be past
    /// what the program is said to have written.
    ///
    /// # Errors
    ///
    /// As [`ProcessMemory::read`].
    pub fn read(&self, memory: &ProcessMemory) -> Result<Indices> {
        let first = self.read.min(self.write);
        let apart = self.read.abs_diff(self.write) as usize;
        if self.read.abs_diff(self.write) > (TOGETHER - INDEX) as u64 {
            // The read index first, so that it is not past the write index.
            let read = memory.read_u64(self.read)?;
            return Ok(Indices { read, write: memory.read_u64(self.write)? });
        }
        let mut bytes = [0; TOGETHER];
        let wanted = bytes.get_mut(..apart + INDEX).unwrap_or_default();
        memory.read(first, wanted)?;
        let index = |address: u64| {
            let at = (address - first) as usize;
            bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        Ok(Indices { read: index(self.read), write: index(self.write) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::Pid;

    fn own() -> ProcessMemory {
        ProcessMemory::open(Pid(std::process::id())).unwrap()
    }

    proptest! {
        #[test]
        fn indices_are_found_however_they_lie(read in 0usize..600, write in 0usize..600) {
            let words: Vec<u64> = (0..600).map(|word| word * 3 + 1).collect();
            let base = words.as_ptr().expose_provenance() as u64;
            let place = IndexPlace::new(base + read as u64 * 8, base + write as u64 * 8).unwrap();
            let found = place.read(&own()).unwrap();
            prop_assert_eq!(found, Indices { read: words[read], write: words[write] });
        }

        #[test]
        fn slots_are_those_of_their_numbers_in_a_ring_that_wraps(
            logarithm in 2u32..8, first: u64, count in 0usize..40,
        ) {
            let packets = 1usize << logarithm;
            // Each slot is filled with its own number; room to begin at a multiple of 256.
            let mut memory = vec![0u8; packets * PACKET_SIZE + 256];
            let start = memory.as_ptr().expose_provenance().next_multiple_of(256);
            let skip = start - memory.as_ptr().expose_provenance();
            for (number, slot) in memory[skip..].chunks_exact_mut(PACKET_SIZE).take(packets).enumerate() {
                slot.fill(number as u8);
            }
            let ring = Ring::new(start as u64, (packets * PACKET_SIZE) as u64).unwrap();
            let mut slots = vec![[0xFF; PACKET_SIZE]; count];
            ring.read(&own(), first, &mut slots).unwrap();
            for (offset, slot) in slots.iter().enumerate() {
                let expected = first.wrapping_add(offset as u64) % packets as u64;
                prop_assert_eq!(slot, &[expected as u8; PACKET_SIZE]);
            }
        }
    }

    #[test]
    fn places_that_hold_no_ring_are_refused_with_a_reason() {
        for bytes in [0, 32, 100, 4097, 1 << 32, u64::MAX] {
            assert_eq!(Ring::new(0x10000, bytes), Err(InvalidRing::Size { bytes }));
        }
        for address in [0, 0x10040, u64::MAX, !255, 1 << 63] {
            assert_eq!(Ring::new(address, 4096), Err(InvalidRing::Address { address, what: "a ring" }));
        }
        let said = IndexPlace::new(0x1000, 3).unwrap_err().to_string();
        assert_eq!(said, "0x3 is no address of a write index");
        assert!(IndexPlace::new(u64::MAX - 7, 0x1000).is_err());
    }
}
