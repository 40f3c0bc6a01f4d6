//! Structures from bytes and back, without `unsafe`.
//!
//! Arguments arrive over a socket, packets and queue objects out of another process's memory: as bytes. A structure
//! that implements [`Abi`] has no padding of its own, so its bytes are all defined and it may also be handed to the
//! driver in place.

/// A value with a fixed layout in memory, the C one.
pub trait Abi: Copy {
    /// Bytes it takes.
    const SIZE: usize;
    /// The value whose bytes are all zero.
    const ZERO: Self;

    /// Reads the value at the start of `bytes`; `None` if they are too few.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// Writes the value to the start of `out`; `None`, and nothing written, if there is too little room.
    fn encode(&self, out: &mut [u8]) -> Option<()>;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Abi for $int {
            const SIZE: usize = size_of::<$int>();
            const ZERO: $int = 0;

            fn decode(bytes: &[u8]) -> Option<$int> {
                bytes.first_chunk().map(|chunk| <$int>::from_le_bytes(*chunk))
            }

            fn encode(&self, out: &mut [u8]) -> Option<()> {
                *out.first_chunk_mut()? = self.to_le_bytes();
                Some(())
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i32, i64);

impl<T: Abi, const N: usize> Abi for [T; N] {
    const SIZE: usize = T::SIZE * N;
    const ZERO: [T; N] = [T::ZERO; N];

    fn decode(bytes: &[u8]) -> Option<[T; N]> {
        let mut values = Self::ZERO;
        for (value, chunk) in values.iter_mut().zip(bytes.get(..Self::SIZE)?.chunks_exact(T::SIZE)) {
            *value = T::decode(chunk)?;
        }
        Some(values)
    }

    fn encode(&self, out: &mut [u8]) -> Option<()> {
        for (value, chunk) in self.iter().zip(out.get_mut(..Self::SIZE)?.chunks_exact_mut(T::SIZE)) {
            value.encode(chunk)?;
        }
        Some(())
    }
}

/// Size of the field that the function selects. For [`plain!`](crate::plain).
#[doc(hidden)]
pub const fn field_size<S, F>(_: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// Bytes of the largest union of the interface.
const UNION_BYTES: usize = 32;

/// A C union as the words it occupies. The tag beside the union says which view is valid.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Union<const WORDS: usize>(pub [u64; WORDS]);

impl<const WORDS: usize> Union<WORDS> {
    /// The union holding `view`; bytes that the view does not cover are zero.
    #[must_use]
    pub fn of<T: Abi>(view: &T) -> Self {
        const { assert!(T::SIZE <= WORDS * 8 && WORDS * 8 <= UNION_BYTES, "the view is larger than the union") };
        let mut bytes = [0; UNION_BYTES];
        // Both fit, as asserted.
        view.encode(&mut bytes).and_then(|()| Self::decode(&bytes)).unwrap_or(Self::ZERO)
    }

    /// The start of the union seen as a `T`.
    #[must_use]
    pub fn get<T: Abi>(&self) -> T {
        const { assert!(T::SIZE <= WORDS * 8 && WORDS * 8 <= UNION_BYTES, "the view is larger than the union") };
        let mut bytes = [0; UNION_BYTES];
        self.encode(&mut bytes).and_then(|()| T::decode(&bytes)).unwrap_or(T::ZERO)
    }
}

impl<const WORDS: usize> Default for Union<WORDS> {
    fn default() -> Self {
        Self::ZERO
    }
}

impl<const WORDS: usize> Abi for Union<WORDS> {
    const SIZE: usize = WORDS * 8;
    const ZERO: Self = Union([0; WORDS]);

    fn decode(bytes: &[u8]) -> Option<Self> {
        <[u64; WORDS]>::decode(bytes).map(Union)
    }

    fn encode(&self, out: &mut [u8]) -> Option<()> {
        self.0.encode(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{CreateQueueArgs, QueueType};
    use std::vec;

    #[test]
    fn a_structure_survives_the_way_through_bytes() {
        let args = CreateQueueArgs {
            ring_base_address: 0x7f00_1234_5000,
            ring_size: 4096,
            queue_type: QueueType::COMPUTE_AQL,
            sdma_engine_id: 7,
            ..CreateQueueArgs::ZERO
        };
        let mut bytes = vec![0xFF; CreateQueueArgs::SIZE];
        args.encode(&mut bytes).unwrap();
        assert_eq!(bytes[32..36], 4096_u32.to_le_bytes());
        assert_eq!(bytes[40..44], 2_u32.to_le_bytes());
        assert_eq!(CreateQueueArgs::decode(&bytes), Some(args));
    }

    #[test]
    fn too_few_bytes_are_refused_and_left_alone() {
        let mut bytes = vec![0xAA; CreateQueueArgs::SIZE - 1];
        assert_eq!(CreateQueueArgs::decode(&bytes), None);
        assert_eq!(CreateQueueArgs::ZERO.encode(&mut bytes), None);
        assert!(bytes.iter().all(|&byte| byte == 0xAA));
        assert_eq!(<[u32; 2]>::decode(&[0; 7]), None);
    }

    #[test]
    fn a_union_shows_the_same_bytes_through_every_view() {
        let union = Union::<3>::of(&[0x1111_1111_u32, 0x2222_2222, 0x3333_3333]);
        assert_eq!(union.0, [0x2222_2222_1111_1111, 0x3333_3333, 0]);
        assert_eq!(union.get::<u64>(), 0x2222_2222_1111_1111);
        assert_eq!(union.get::<[u32; 3]>(), [0x1111_1111, 0x2222_2222, 0x3333_3333]);
    }
}
