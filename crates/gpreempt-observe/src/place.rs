//! Where the ring of a queue and its indices are in the owner's memory.

use core::fmt;

use kfd_abi::aql::{PACKET_SIZE, Slot};

use crate::{ReadFailure, TenantMemory};

/// The driver takes sizes of 32 bits.
const LARGEST: u64 = 1 << 31;
/// Addresses above are the kernel's.
const LAST_ADDRESS: u64 = 1 << 56;
/// Indices that lie within so many bytes are read at once. Those of the vendor's runtime do.
const TOGETHER: usize = 256;
/// Bytes of an index.
const INDEX: usize = size_of::<u64>();

/// Format of what a ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingFormat {
    /// Packets of 64 bytes; indices count packets and never wrap.
    Aql,
    /// Dwords; indices count dwords.
    Pm4,
}

/// Where a ring and its indices are in the owner's memory, as the driver tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// Format of its packets.
    pub format: RingFormat,
    /// Its address.
    pub base: u64,
    /// Its bytes; a power of two.
    pub bytes: u64,
    /// Address of the read index.
    pub read_index: u64,
    /// Address of the write index.
    pub write_index: u64,
}

impl RingPlace {
    /// Checks that a ring can be there.
    ///
    /// # Errors
    ///
    /// If the driver would not have taken it.
    pub fn check(&self) -> Result<(), InvalidRing> {
        Ring::new(*self).map(|_| ())
    }
}

/// Why there can be no ring at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidRing {
    /// The size is no power of two, less than a packet, or more than the driver takes.
    Size {
        /// The size.
        bytes: u64,
    },
    /// An address is no multiple of what lies there, or no address of a program.
    Address {
        /// The address.
        address: u64,
        /// What should be there.
        what: &'static str,
    },
}

impl fmt::Display for InvalidRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidRing::Size { bytes } => {
                write!(f, "a ring has a power of two of bytes, from 64 to 2 GiB, not {bytes}")
            }
            InvalidRing::Address { address, what } => write!(f, "{address:#x} is no address of {what}"),
        }
    }
}

impl core::error::Error for InvalidRing {}

/// The indices of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Indices {
    /// What the processor fetches next.
    pub(crate) read: u64,
    /// What the program writes next.
    pub(crate) write: u64,
}

impl Indices {
    /// Packets that the read index has not passed. The processor may have gone on between the reads of the two.
    pub(crate) fn pending(self) -> u64 {
        u64::try_from(self.write.wrapping_sub(self.read).cast_signed()).unwrap_or(0)
    }
}

/// A place at which a ring can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    place: RingPlace,
}

impl Ring {
    /// No ring: nothing can be read there.
    pub(crate) const NONE: Ring = Ring {
        place: RingPlace { format: RingFormat::Aql, base: 0, bytes: PACKET_SIZE as u64, read_index: 0, write_index: 0 },
    };

    pub(crate) fn new(place: RingPlace) -> Result<Ring, InvalidRing> {
        let RingPlace { base, bytes, .. } = place;
        if !bytes.is_power_of_two() || !(PACKET_SIZE as u64..=LARGEST).contains(&bytes) {
            return Err(InvalidRing::Size { bytes });
        }
        if base == 0 || !base.is_multiple_of(256) || base > LAST_ADDRESS - bytes {
            return Err(InvalidRing::Address { address: base, what: "a ring" });
        }
        for (address, what) in [(place.read_index, "a read index"), (place.write_index, "a write index")] {
            if address == 0 || !address.is_multiple_of(4) || address > LAST_ADDRESS {
                return Err(InvalidRing::Address { address, what });
            }
        }
        Ok(Ring { place })
    }

    pub(crate) fn place(&self) -> &RingPlace {
        &self.place
    }

    pub(crate) fn holds_packets(&self) -> bool {
        self.place.format == RingFormat::Aql
    }

    /// Packets of 64 bytes that it holds.
    pub(crate) fn packets(&self) -> u64 {
        (self.place.bytes / PACKET_SIZE as u64).max(1)
    }

    /// Bits of an index that are a place in the ring, for a ring of dwords.
    pub(crate) fn word_mask(&self) -> u64 {
        (self.place.bytes / 4).wrapping_sub(1)
    }

    /// Reads the slots of the packets from number `first` on. Numbers count from the first packet of the queue.
    pub(crate) fn read_slots(
        &self,
        memory: &impl TenantMemory,
        first: u64,
        slots: &mut [Slot],
    ) -> Result<(), ReadFailure> {
        let at = first & (self.packets() - 1);
        let whole = usize::try_from(self.packets()).unwrap_or(usize::MAX).max(1);
        let before_end = usize::try_from(self.packets() - at).unwrap_or(usize::MAX).min(slots.len());
        let Some((head, tail)) = slots.split_at_mut_checked(before_end) else { return Ok(()) };
        if !head.is_empty() {
            memory.read(self.place.base + at * PACKET_SIZE as u64, head.as_flattened_mut())?;
        }
        // More slots than the ring has are the same ones again.
        for part in tail.chunks_mut(whole) {
            memory.read(self.place.base, part.as_flattened_mut())?;
        }
        Ok(())
    }

    /// Reads both indices: in one call if they lie close together. They are not of the same instant: the processor may
    /// be past what the program is said to have written.
    pub(crate) fn read_indices(&self, memory: &impl TenantMemory) -> Result<Indices, ReadFailure> {
        let RingPlace { read_index, write_index, .. } = self.place;
        let first = read_index.min(write_index);
        let apart = read_index.abs_diff(write_index);
        if apart > (TOGETHER - INDEX) as u64 {
            // The read index first, so that it is not past the write index.
            let read = memory.read_u64(read_index)?;
            return Ok(Indices { read, write: memory.read_u64(write_index)? });
        }
        let mut bytes = [0; TOGETHER];
        let wanted = bytes.get_mut(..apart as usize + INDEX).unwrap_or_default();
        memory.read(first, wanted)?;
        let index = |address: u64| {
            let at = (address - first) as usize;
            bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        Ok(Indices { read: index(read_index), write: index(write_index) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Bytes from an address on.
    struct Bytes(u64, Vec<u8>);

    impl TenantMemory for Bytes {
        fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), ReadFailure> {
            let at = usize::try_from(address.checked_sub(self.0).ok_or(ReadFailure::Gone)?).unwrap();
            bytes.copy_from_slice(self.1.get(at..at + bytes.len()).ok_or(ReadFailure::Gone)?);
            Ok(())
        }
    }

    const BASE: u64 = 0x1_0000;

    fn place(bytes: u64) -> RingPlace {
        RingPlace { format: RingFormat::Aql, base: BASE, bytes, read_index: 0x1000, write_index: 0x1008 }
    }

    proptest! {
        #[test]
        fn indices_are_found_however_they_lie(read in 0usize..600, write in 0usize..600) {
            let words: Vec<u64> = (0..600).map(|word| word * 3 + 1).collect();
            let memory = Bytes(BASE, words.iter().flat_map(|word| word.to_le_bytes()).collect());
            let (read_index, write_index) = (BASE + read as u64 * 8, BASE + write as u64 * 8);
            let ring = Ring::new(RingPlace { read_index, write_index, ..place(4096) }).unwrap();
            let found = ring.read_indices(&memory).unwrap();
            prop_assert_eq!(found, Indices { read: words[read], write: words[write] });
        }

        #[test]
        fn slots_are_those_of_their_numbers_in_a_ring_that_wraps(
            logarithm in 2u32..8, first: u64, count in 0usize..40,
        ) {
            let packets = 1usize << logarithm;
            // Each slot is filled with its own number.
            let memory = Bytes(BASE, (0..packets).flat_map(|number| [number as u8; PACKET_SIZE]).collect());
            let ring = Ring::new(place((packets * PACKET_SIZE) as u64)).unwrap();
            let mut slots = vec![[0xFF; PACKET_SIZE]; count];
            ring.read_slots(&memory, first, &mut slots).unwrap();
            for (offset, slot) in slots.iter().enumerate() {
                let expected = first.wrapping_add(offset as u64) % packets as u64;
                prop_assert_eq!(slot, &[expected as u8; PACKET_SIZE]);
            }
        }
    }

    #[test]
    fn places_that_hold_no_ring_are_refused_with_a_reason() {
        for bytes in [0, 32, 100, 4097, 1 << 32, u64::MAX] {
            assert_eq!(place(bytes).check(), Err(InvalidRing::Size { bytes }));
        }
        for base in [0, 0x10040, u64::MAX, !255, 1 << 63] {
            let refused = RingPlace { base, ..place(4096) }.check();
            assert_eq!(refused, Err(InvalidRing::Address { address: base, what: "a ring" }));
        }
        let said = RingPlace { write_index: 3, ..place(4096) }.check().unwrap_err();
        assert_eq!(std::format!("{said}"), "0x3 is no address of a write index");
        assert!(RingPlace { read_index: u64::MAX - 7, ..place(4096) }.check().is_err());
    }
}
