//! A kernel with its inputs and the results it must have.

use std::fmt;

use kfd_runtime::{Launch, Placement};
use rand_core::Rng;
use rand_pcg::Pcg64;

/// A kernel with its arguments and expected results.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The code object.
    pub object: &'static [u8],
    /// The kernel in it.
    pub kernel: &'static str,
    /// Sizes of the dispatch.
    pub launch: Launch,
    /// Arguments in order.
    pub arguments: Vec<Argument>,
}

impl Job {
    /// Bytes of the explicit arguments.
    #[must_use]
    pub fn argument_bytes(&self) -> usize {
        self.arguments.iter().fold(0usize, |offset, argument| {
            let size = if argument.buffer().is_some() { 8 } else { 4 };
            offset.next_multiple_of(size) + size
        })
    }
}

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// The address of a buffer.
    Buffer(BufferArgument),
    /// An integer.
    U32(u32),
    /// A number.
    F32(f32),
}

impl Argument {
    /// A buffer that the kernel reads.
    pub(super) fn input<T: Element>(placement: Placement, values: &[T]) -> Argument {
        Argument::Buffer(BufferArgument { placement, contents: bytes_of(values), expected: None })
    }

    /// A buffer that must hold exactly these values afterwards; it starts as zeroes.
    pub(super) fn output<T: Element>(placement: Placement, expected: &[T]) -> Argument {
        let expected = bytes_of(expected);
        Argument::updated(placement, vec![0; expected.len()], expected, size_of::<T>())
    }

    /// A buffer that the kernel changes from `before` to `after`.
    pub(super) fn changed<T: Element>(placement: Placement, before: &[T], after: &[T]) -> Argument {
        Argument::updated(placement, bytes_of(before), bytes_of(after), size_of::<T>())
    }

    fn updated(placement: Placement, contents: Vec<u8>, bytes: Vec<u8>, width: usize) -> Argument {
        Argument::Buffer(BufferArgument { placement, contents, expected: Some(Expected::Exactly { bytes, width }) })
    }

    /// A buffer that must be close to these values afterwards.
    pub(super) fn near(placement: Placement, values: Vec<f32>, tolerance: f32, floor: f32) -> Argument {
        let contents = vec![0; values.len() * size_of::<f32>()];
        let expected = Some(Expected::Near { values, tolerance, floor });
        Argument::Buffer(BufferArgument { placement, contents, expected })
    }

    /// The buffer, if it is one.
    #[must_use]
    pub fn buffer(&self) -> Option<&BufferArgument> {
        match self {
            Argument::Buffer(buffer) => Some(buffer),
            Argument::U32(_) | Argument::F32(_) => None,
        }
    }
}

/// A buffer before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferArgument {
    /// Memory that the buffer lies in.
    pub placement: Placement,
    /// Contents before the kernel runs.
    pub contents: Vec<u8>,
    /// Expected contents afterwards, if they are checked.
    pub expected: Option<Expected>,
}

/// Expected contents of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// These bytes.
    Exactly {
        /// The bytes.
        bytes: Vec<u8>,
        /// Bytes of an element, to name the wrong one.
        width: usize,
    },
    /// Numbers close to these: instructions that approximate, or sums whose order the hardware chooses.
    Near {
        /// The numbers.
        values: Vec<f32>,
        /// Largest difference, relative to the number.
        tolerance: f32,
        /// Numbers smaller than this are allowed the difference that this one is.
        floor: f32,
    },
}

/// The first wrong element of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Index of the buffer, counted from 0 among the arguments that are buffers.
    pub buffer: usize,
    /// Index of the element.
    pub element: usize,
    /// Value in the buffer.
    pub found: String,
    /// Value that is expected.
    pub expected: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { buffer, element, found, expected } = self;
        write!(f, "buffer {buffer}, element {element}: found {found}, expected {expected}")
    }
}

impl BufferArgument {
    /// The first element of `found` that is not as expected. `index` is the buffer's number.
    #[must_use]
    pub fn compare(&self, index: usize, found: &[u8]) -> Option<Mismatch> {
        let wrong = |element, found, expected| Some(Mismatch { buffer: index, element, found, expected });
        match self.expected.as_ref()? {
            Expected::Exactly { bytes, width } => {
                let element = bytes.chunks(*width).zip(found.chunks(*width)).position(|(one, other)| one != other);
                let element = element.or((bytes.len() != found.len()).then_some(bytes.len() / width))?;
                let show = |bytes: &[u8]| hexadecimal(bytes.chunks(*width).nth(element).unwrap_or_default());
                wrong(element, show(found), show(bytes))
            }
            Expected::Near { values, tolerance, floor } => {
                let found: Vec<f32> = found.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
                // Written so that a result that is no number is far from everything.
                let near = |found: f32, value: f32| (found - value).abs() <= tolerance * value.abs().max(*floor);
                let element = (0..values.len()).find(|&element| match (found.get(element), values.get(element)) {
                    (Some(&found), Some(&value)) => !near(found, value),
                    _ => true,
                })?;
                let show = |values: &[f32]| values.get(element).map_or_else(|| "nothing".to_owned(), f32::to_string);
                wrong(element, show(&found), show(values))
            }
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// What buffers are made of.
pub(super) trait Element: Copy {
    /// Its bytes as the gpu reads them.
    fn append(self, bytes: &mut Vec<u8>);
}

macro_rules! elements {
    ($($number:ty),*) => {$(
        impl Element for $number {
            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
elements!(u8, i8, u16, u32, i32, i64, f32, f64);

fn bytes_of<T: Element>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(values));
    for value in values {
        value.append(&mut bytes);
    }
    bytes
}

/// Random inputs, the same for the same seed.
pub(super) struct Inputs(Pcg64);

impl Inputs {
    /// A stream of its own for each kernel.
    pub(super) fn new(seed: u64, kernel: &str) -> Inputs {
        let stream = kernel.bytes().fold(0u128, |stream, byte| stream * 257 + u128::from(byte));
        Inputs(Pcg64::new(seed.into(), stream))
    }

    /// Any 32 bits.
    pub(super) fn word(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Any 64 bits.
    pub(super) fn wide(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from -1 up to 1, a multiple of 2^-23.
    pub(super) fn unit(&mut self) -> f32 {
        (self.word() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Many of one kind.
    pub(super) fn many<T>(&mut self, count: usize, mut one: impl FnMut(&mut Inputs) -> T) -> Vec<T> {
        (0..count).map(|_| one(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_element_is_named() {
        let Argument::Buffer(buffer) = Argument::output(Placement::Gtt, &[1u32, 2, 3]) else { unreachable!() };
        assert_eq!(buffer.compare(0, &bytes_of(&[1u32, 2, 3])), None);
        let said = buffer.compare(2, &bytes_of(&[1u32, 7, 9])).unwrap().to_string();
        assert_eq!(said, "buffer 2, element 1: found 0x00000007, expected 0x00000002");
        assert!(buffer.compare(0, &bytes_of(&[1u32, 2])).is_some());
    }

    #[test]
    fn closeness_is_relative_and_not_a_number_is_far() {
        let Argument::Buffer(buffer) = Argument::near(Placement::Gtt, vec![100.0, 0.0], 1e-3, 1.0) else {
            unreachable!()
        };
        assert_eq!(buffer.compare(0, &bytes_of(&[100.05f32, 0.0005])), None);
        assert_eq!(buffer.compare(0, &bytes_of(&[100.2f32, 0.0])).unwrap().element, 0);
        assert_eq!(buffer.compare(0, &bytes_of(&[100.0f32, f32::NAN])).unwrap().element, 1);
        assert_eq!(buffer.compare(0, &bytes_of(&[100.0f32])).unwrap().element, 1);
    }

    #[test]
    fn inputs_stay_in_their_range() {
        let mut inputs = Inputs::new(1, "test");
        let values = inputs.many(10_000, Inputs::unit);
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        assert!(values.iter().any(|value| *value > 0.9) && values.iter().any(|value| *value < -0.9));
    }
}
