//! A queue of messages in shared memory: one writer, one reader, no system call.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Bytes for messages: enough for what is told of the most queues a process can have. A power of two, so that positions
/// may wrap.
pub(super) const ROOM: usize = 512 << 10;

/// The part of a shared page that a ring consists of. All zero is an empty one.
#[repr(C)]
pub(super) struct Ring {
    /// Bytes ever written.
    written: AtomicU32,
    /// Bytes ever read.
    read: AtomicU32,
    bytes: [AtomicU8; ROOM],
}

/// The other side has written nonsense: it is as good as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

const LENGTH: u32 = 4;

impl Ring {
    /// Adds a message; `false` if there is no room for it at the moment.
    ///
    /// # Errors
    /// If the other side cannot have read what it says it has.
    pub(super) fn write(&self, message: &[u8]) -> Result<bool, Damaged> {
        let (written, read) = (self.written.load(Ordering::Relaxed), self.read.load(Ordering::Acquire));
        let used = written.wrapping_sub(read) as usize;
        if used > ROOM {
            return Err(Damaged);
        }
        let Ok(length) = u32::try_from(message.len()) else { return Ok(false) };
        if message.len() + LENGTH as usize > ROOM - used {
            return Ok(false);
        }
        self.put(written, &length.to_le_bytes());
        self.put(written.wrapping_add(LENGTH), message);
        self.written.store(written.wrapping_add(LENGTH).wrapping_add(length), Ordering::Release);
        Ok(true)
    }

    /// Takes the oldest message, if there is one.
    ///
    /// # Errors
    /// If what is there cannot be a message.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, Damaged> {
        let (written, read) = (self.written.load(Ordering::Acquire), self.read.load(Ordering::Relaxed));
        let used = written.wrapping_sub(read);
        if used == 0 {
            return Ok(None);
        }
        if used < LENGTH || used as usize > ROOM {
            return Err(Damaged);
        }
        let mut length = [0; LENGTH as usize];
        self.get(read, &mut length);
        let length = u32::from_le_bytes(length);
        if length > used - LENGTH {
            return Err(Damaged);
        }
        let mut message = vec![0; length as usize];
        self.get(read.wrapping_add(LENGTH), &mut message);
        self.read.store(read.wrapping_add(LENGTH).wrapping_add(length), Ordering::Release);
        Ok(Some(message))
    }

    fn put(&self, at: u32, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            self.bytes[(at as usize).wrapping_add(n) % ROOM].store(*byte, Ordering::Relaxed);
        }
    }

    fn get(&self, at: u32, bytes: &mut [u8]) {
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte = self.bytes[(at as usize).wrapping_add(n) % ROOM].load(Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ring() -> Box<Ring> {
        // SAFETY: the ring is made of atomics, for which zeros are valid.
        let ring: Box<Ring> = unsafe { Box::new_zeroed().assume_init() };
        ring.written.store(u32::MAX - 100, Ordering::Relaxed);
        ring.read.store(u32::MAX - 100, Ordering::Relaxed);
        ring
    }

    #[test]
    fn one_who_cannot_have_read_what_it_says_is_noticed() {
        let ring = ring();
        ring.read.fetch_add(1, Ordering::Relaxed);
        assert_eq!(ring.write(&[1, 2, 3]), Err(Damaged));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn messages_come_out_as_they_went_in(
            steps in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..ROOM / 6)), 1..40),
        ) {
            let ring = ring();
            let mut expected = std::collections::VecDeque::new();
            for step in steps {
                match step {
                    Some(message) => {
                        let used: usize = expected.iter().map(|m: &Vec<u8>| m.len() + 4).sum();
                        prop_assert_eq!(ring.write(&message), Ok(used + message.len() + 4 <= ROOM));
                        if used + message.len() + 4 <= ROOM {
                            expected.push_back(message);
                        }
                    }
                    None => prop_assert_eq!(ring.read(), Ok(expected.pop_front())),
                }
            }
        }

        #[test]
        fn nonsense_is_noticed_or_harmless(written in any::<u32>(), read in any::<u32>(), fill in any::<u8>()) {
            let ring = ring();
            ring.written.store(written, Ordering::Relaxed);
            ring.read.store(read, Ordering::Relaxed);
            ring.bytes.iter().for_each(|byte| byte.store(fill, Ordering::Relaxed));
            let _ = ring.read();
            let _ = ring.write(&[1, 2, 3]);
        }
    }
}
