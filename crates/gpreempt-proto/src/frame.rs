//! JSON lines: cutting a stream of bytes into lines, and making lines of messages.
//!
//! The one framing of the control socket (both ends) and of the channel between daemon and actuator.

use std::io::{self, Read};

use serde::Serialize;

/// Bytes read from a source at once.
const CHUNK: usize = 16 * 1024;

/// A line is longer than its reader accepts. The stream cannot be used any more: where the line ends is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of more than {longest} bytes")]
pub struct TooLong {
    /// The longest line accepted, in bytes without its end.
    pub longest: usize,
}

/// Bytes received and not yet used, cut into lines.
///
/// Bounded: a reader that takes lines until there is none before it calls [`LineBuffer::fill`] again holds at most the
/// longest line and one chunk of 16 KiB.
#[derive(Debug)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Bytes before this one hold no end of a line.
    searched: usize,
    longest: usize,
}

impl LineBuffer {
    /// Makes an empty buffer for lines of at most so many bytes, their ends not counted.
    #[must_use]
    pub fn new(longest: usize) -> LineBuffer {
        LineBuffer { bytes: Vec::new(), searched: 0, longest }
    }

    /// Reads from the source once and returns how many bytes came; 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// The errors of the source.
    pub fn fill(&mut self, source: &mut impl Read) -> io::Result<usize> {
        let mut chunk = [0; CHUNK];
        let count = source.read(&mut chunk)?;
        self.bytes.extend_from_slice(chunk.get(..count).unwrap_or_default());
        Ok(count)
    }

    /// Takes the next whole line, without its end; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// If the line, whole or not, is longer than the buffer accepts.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let found = self.bytes.iter().skip(self.searched).position(|&byte| byte == b'\n');
        let length = found.map_or(self.bytes.len(), |offset| self.searched + offset);
        if length > self.longest {
            return Err(TooLong { longest: self.longest });
        }
        if found.is_none() {
            self.searched = length;
            return Ok(None);
        }
        let mut line: Vec<u8> = self.bytes.drain(..=length).collect();
        line.pop();
        self.searched = 0;
        // An idle connection keeps no memory.
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
        Ok(Some(line))
    }

    /// Takes what is left of a stream that ended: a last line needs no end. `None` if nothing is left.
    pub fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.searched = 0;
        Some(std::mem::take(&mut self.bytes)).filter(|rest| !rest.is_empty())
    }

    /// Drops everything received.
    pub fn clear(&mut self) {
        self.bytes = Vec::new();
        self.searched = 0;
    }

    /// Returns whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns whether more is left than the longest line has: nothing more should be read before lines are taken.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() > self.longest
    }

    /// Returns whether there may be another line without anything being read.
    #[must_use]
    pub fn may_have_line(&self) -> bool {
        self.searched < self.bytes.len()
    }
}

/// Makes a line of a message, with its end.
///
/// # Errors
///
/// If the message is not representable in JSON.
pub fn line(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands out bytes in pieces of given sizes, as a socket may.
    struct Pieces<'a, S>(&'a [u8], S);

    impl<S: Iterator<Item = usize>> Read for Pieces<'_, S> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let size = self.1.next().unwrap_or(1).min(into.len());
            (&mut self.0).take(size as u64).read(into)
        }
    }

    const LONGEST: usize = 60;

    proptest! {
        #[test]
        fn lines_come_out_as_they_went_in_however_they_are_cut(
            bytes in prop::collection::vec(prop_oneof![4 => any::<u8>(), 1 => Just(b'\n')], 0..400),
            sizes in prop::collection::vec(1usize..50, 1..20),
        ) {
            let (mut buffer, mut source) = (LineBuffer::new(LONGEST), Pieces(&bytes, sizes.into_iter().cycle()));
            let mut found = Vec::new();
            let ended = loop {
                match buffer.next_line() {
                    Ok(Some(line)) => found.push(line),
                    Err(TooLong { longest }) => {
                        prop_assert_eq!(longest, LONGEST);
                        break false;
                    }
                    Ok(None) => {
                        prop_assert!(!buffer.may_have_line() && !buffer.is_full());
                        if buffer.fill(&mut source).unwrap() == 0 {
                            found.extend(buffer.take_rest());
                            break true;
                        }
                    }
                }
                prop_assert!(buffer.bytes.len() <= LONGEST + CHUNK);
            };
            let mut expected: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
            // After the last end there is a line only if it has bytes.
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let readable = expected.iter().take_while(|line| line.len() <= LONGEST).count();
            prop_assert_eq!(ended, readable == expected.len());
            prop_assert_eq!(found, &expected[..readable]);
        }
    }

    #[test]
    fn a_line_of_the_longest_length_is_accepted_and_one_byte_more_is_not() {
        for (length, end, accepted) in [(60, "\n", true), (61, "\n", false), (61, "", false)] {
            let mut buffer = LineBuffer::new(60);
            buffer.fill(&mut format!("{}{end}", "x".repeat(length)).as_bytes()).unwrap();
            assert_eq!(buffer.next_line().is_ok(), accepted, "{length} bytes and {end:?}");
        }
    }
}
