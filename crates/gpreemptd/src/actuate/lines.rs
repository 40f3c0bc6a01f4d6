//! Messages as lines on a stream.

use std::io::{self, Read};

use gpreempt_proto::frame::{self, LineBuffer};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a message at most. All queues that a process can have take a fraction of it.
const LONGEST: usize = 1 << 20;

/// Returns a message as one line.
pub(super) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    Ok(frame::line(message)?)
}

/// Cuts what arrives into messages.
#[derive(Debug)]
pub(super) struct Lines(LineBuffer);

impl Default for Lines {
    fn default() -> Lines {
        Lines(LineBuffer::new(LONGEST))
    }
}

impl Lines {
    /// Reads from the source once and returns how many bytes came; 0 is the end.
    pub(super) fn fill(&mut self, source: &mut impl Read) -> io::Result<usize> {
        self.0.fill(source)
    }

    /// Returns the next whole message.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let line = self.0.next_line().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(line.map(|line| serde_json::from_slice(&line)).transpose()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Order, Refused, RefusedKind, Told, TracedQueue};
    use super::*;

    fn queue() -> impl Strategy<Value = TracedQueue> {
        any::<(u32, u32, u32, u64, u64, u64, u64)>().prop_map(|(queue, gpu, kind, ring, bytes, rptr, wptr)| {
            TracedQueue { queue, gpu, kind, ring, bytes, rptr, wptr }
        })
    }

    fn numbers() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(any::<u32>(), 0..40)
    }

    fn order() -> impl Strategy<Value = Order> {
        prop_oneof![
            any::<(u32, u64)>().prop_map(|(pid, started)| Order::Attach { pid, started }),
            any::<u32>().prop_map(|pid| Order::Detach { pid }),
            (any::<(u64, u32)>(), numbers(), any::<Option<u8>>())
                .prop_map(|((ticket, pid), queues, grace)| Order::Suspend { ticket, pid, queues, grace }),
            (any::<(u64, u32)>(), numbers()).prop_map(|((ticket, pid), queues)| Order::Resume { ticket, pid, queues }),
        ]
    }

    fn told() -> impl Strategy<Value = Told> {
        let kinds = prop_oneof![
            Just(RefusedKind::Gone),
            Just(RefusedKind::Runtime),
            Just(RefusedKind::Debugger),
            Just(RefusedKind::Permission),
            Just(RefusedKind::Reset),
            Just(RefusedKind::Other),
        ];
        let queues = || prop::collection::vec(queue(), 0..9);
        prop_oneof![
            any::<u32>().prop_map(|actuator| Told::Started { actuator }),
            (any::<(u32, bool)>(), queues()).prop_map(|((pid, runtime), queues)| Told::Attached {
                pid,
                runtime,
                queues
            }),
            (any::<(u32, bool)>(), queues()).prop_map(|((pid, runtime), queues)| Told::Changed {
                pid,
                runtime,
                queues
            }),
            (any::<(u64, u32, u64, u64)>(), numbers(), numbers()).prop_map(
                |((ticket, pid, called_ns, answered_ns), queues, failed)| {
                    Told::Done { ticket, pid, queues, failed, called_ns, answered_ns }
                }
            ),
            (any::<(Option<u64>, u32, String, u64)>(), kinds).prop_map(|((ticket, pid, message, at_ns), kind)| {
                Told::Refused(Refused { ticket, pid, kind, message, at_ns })
            }),
            any::<u32>().prop_map(|pid| Told::Ended { pid }),
            any::<(String, bool)>().prop_map(|(why, killed)| Told::Lost { why, killed }),
        ]
    }

    /// Hands out bytes in pieces of a few, as a socket may.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(into.len());
            (&mut self.0).take(size as u64).read(into)
        }
    }

    fn round_trip<T: Serialize + DeserializeOwned>(messages: &[T], piece: usize) -> Vec<T> {
        let bytes: Vec<u8> = messages.iter().flat_map(|message| line(message).unwrap()).collect();
        let (mut source, mut lines, mut found) = (Pieces(&bytes, piece), Lines::default(), Vec::new());
        while lines.fill(&mut source).unwrap() > 0 {
            while let Some(message) = lines.next().unwrap() {
                found.push(message);
            }
        }
        found
    }

    proptest! {
        #[test]
        fn messages_arrive_whole_however_they_are_cut(
            orders in prop::collection::vec(order(), 0..9),
            told in prop::collection::vec(told(), 0..9),
            piece in 1usize..300,
        ) {
            prop_assert_eq!(round_trip(&orders, piece), orders);
            prop_assert_eq!(round_trip(&told, piece), told);
        }

        #[test]
        fn no_bytes_are_more_than_refused(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let mut lines = Lines::default();
            lines.fill(&mut &bytes[..]).unwrap();
            while let Ok(Some(_)) = lines.next::<Order>() {}
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let (mut lines, mut endless) = (Lines::default(), io::repeat(b'x'));
        let refused = loop {
            lines.fill(&mut endless).unwrap();
            if let Err(error) = lines.next::<Order>() {
                break error;
            }
        };
        assert!(refused.to_string().contains("1048576"), "{refused}");
    }
}
