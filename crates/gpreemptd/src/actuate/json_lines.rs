//! Messages as JSON lines on a stream.

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
    use gpreempt_kernel_abi::{JobArgs, ModuleEvent, ProcessArgs, TenantRecord};
    use gpreempt_proto::ActuatorKind;
    use proptest::prelude::*;

    use super::super::{AbiText, CgroupJob, KernelStatus, PolicyChange, PolicyFailure};
    use super::super::{ActuatorCommand, ActuatorEvent, CommandRefusal, CommandRefusalKind, QueueChange, TracedQueue};
    use super::*;

    fn queue() -> impl Strategy<Value = TracedQueue> {
        any::<(u32, u32, u32, u64, u64, u64, u64)>().prop_map(|(queue, gpu, kind, ring, bytes, rptr, wptr)| {
            TracedQueue { queue, gpu: kfd::GpuId(gpu), kind: kfd::QueueType(kind), ring, bytes, rptr, wptr }
        })
    }

    fn numbers() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(any::<u32>(), 0..40)
    }

    fn change() -> impl Strategy<Value = QueueChange> {
        (any::<(u64, u32, u32, bool)>(), numbers()).prop_map(|((ticket, pid, gpu, preempt), queues)| QueueChange {
            ticket,
            pid,
            gpu: kfd::GpuId(gpu),
            queues,
            preempt,
        })
    }

    fn policy_change() -> impl Strategy<Value = PolicyChange> {
        prop_oneof![
            any::<(u64, u64)>().prop_map(|(job, hold_until_ns)| {
                PolicyChange::Job(AbiText(JobArgs { job, hold_until_ns, ..JobArgs::SIZED }))
            }),
            any::<(i32, u64)>().prop_map(|(pid, job)| PolicyChange::Process(AbiText(ProcessArgs {
                pid,
                job,
                ..ProcessArgs::SIZED
            }))),
            any::<(String, u64, bool)>()
                .prop_map(|(path, job, stoppable)| PolicyChange::Cgroup { path, job: CgroupJob { job, stoppable } }),
            any::<u64>().prop_map(|job| PolicyChange::RemoveJob { job }),
        ]
    }

    fn command() -> impl Strategy<Value = ActuatorCommand> {
        prop_oneof![
            any::<(u32, u64)>().prop_map(|(pid, started)| ActuatorCommand::Attach { pid, started }),
            any::<u32>().prop_map(|pid| ActuatorCommand::Detach { pid }),
            (prop::collection::vec(change(), 0..9), any::<Option<u8>>())
                .prop_map(|(changes, grace)| ActuatorCommand::Switch { changes, grace }),
            (any::<(u64, bool)>(), prop::collection::vec(policy_change(), 0..9))
                .prop_map(|((batch, complete), changes)| ActuatorCommand::Policy { batch, changes, complete }),
            Just(ActuatorCommand::Query),
            Just(ActuatorCommand::Clear),
        ]
    }

    fn event() -> impl Strategy<Value = ActuatorEvent> {
        let kinds = prop_oneof![
            Just(CommandRefusalKind::Gone),
            Just(CommandRefusalKind::Runtime),
            Just(CommandRefusalKind::Debugger),
            Just(CommandRefusalKind::Permission),
            Just(CommandRefusalKind::Reset),
            Just(CommandRefusalKind::Other),
        ];
        let queues = || prop::collection::vec(queue(), 0..9);
        prop_oneof![
            any::<(u32, bool)>().prop_map(|(actuator, combined)| ActuatorEvent::Started {
                actuator,
                kind: if combined { ActuatorKind::Combined } else { ActuatorKind::DebugTrap },
            }),
            (any::<(u32, bool)>(), queues()).prop_map(|((pid, runtime), queues)| ActuatorEvent::Attached {
                pid,
                runtime,
                queues
            }),
            (any::<(u32, bool)>(), queues()).prop_map(|((pid, runtime), queues)| ActuatorEvent::Changed {
                pid,
                runtime,
                queues
            }),
            (any::<(u64, u32, u32, u64, u64)>(), numbers(), numbers()).prop_map(
                |((ticket, pid, cycles, called_ns, answered_ns), queues, failed)| {
                    ActuatorEvent::Done { ticket, pid, queues, failed, cycles, called_ns, answered_ns }
                }
            ),
            (any::<(Option<u64>, u32, String, u64)>(), kinds).prop_map(|((ticket, pid, message, at_ns), kind)| {
                ActuatorEvent::Refused(CommandRefusal { ticket, pid, kind, message, at_ns })
            }),
            any::<u32>().prop_map(|pid| ActuatorEvent::Ended { pid }),
            prop::collection::vec(any::<(u64, i32)>(), 0..9).prop_map(|events| {
                let event = |(at_ns, pid)| AbiText(ModuleEvent { at_ns, pid, ..ModuleEvent::default() });
                ActuatorEvent::Kernel { events: events.into_iter().map(event).collect() }
            }),
            (any::<(u64, bool, String)>(), policy_change()).prop_map(|((batch, gone, message), change)| {
                ActuatorEvent::PolicyApplied { batch, failed: vec![PolicyFailure { change, gone, message }] }
            }),
            any::<(i32, u64)>().prop_map(|(pid, pending)| {
                let tenants = vec![AbiText(TenantRecord { pid, pending, ..TenantRecord::default() })];
                ActuatorEvent::KernelStatus(Box::new(KernelStatus { tenants, ..KernelStatus::default() }))
            }),
            any::<(String, bool)>().prop_map(|(why, killed)| ActuatorEvent::Lost { why, killed }),
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
            commands in prop::collection::vec(command(), 0..9),
            events in prop::collection::vec(event(), 0..9),
            piece in 1usize..300,
        ) {
            prop_assert_eq!(round_trip(&commands, piece), commands);
            prop_assert_eq!(round_trip(&events, piece), events);
        }

        #[test]
        fn no_bytes_are_more_than_refused(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let mut lines = Lines::default();
            lines.fill(&mut &bytes[..]).unwrap();
            while let Ok(Some(_)) = lines.next::<ActuatorCommand>() {}
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let (mut lines, mut endless) = (Lines::default(), io::repeat(b'x'));
        let refused = loop {
            lines.fill(&mut endless).unwrap();
            if let Err(error) = lines.next::<ActuatorCommand>() {
                break error;
            }
        };
        assert!(refused.to_string().contains("1048576"), "{refused}");
    }
}
