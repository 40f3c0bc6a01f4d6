//! The event queue: a heap ordered by time and, among equal times, by the order of scheduling.
//!
//! Events are never removed early. The part of the machine that schedules an event remembers the instant it expects; an
//! event at another instant is stale and ignored. That is cheaper than a heap with removal and needs no epoch counters.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use gpreempt_core::Nanos;

use super::cycle::Ticket;

/// Kinds of event, with indices into the machine's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineEvent {
    /// The earliest batch of a gpu ends.
    Completion { gpu: u32 },
    /// A queue fetches from its ring.
    Fetch { queue: u32 },
    /// A request of a task arrives.
    Arrival { task: u32 },
    /// A call that asks for a cycle reaches the driver.
    Call { ticket: Ticket },
    /// The cycle in progress on a gpu ends.
    CycleEnd { gpu: u32 },
    /// The firmware rotates an over-subscribed runlist.
    Quantum { gpu: u32 },
    /// A mechanism's timer is due.
    Timer { token: u64 },
}

/// An event and its instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduled {
    pub(super) at: Nanos,
    sequence: u64,
    pub(super) what: MachineEvent,
}

impl Ord for Scheduled {
    /// Reversed, because the standard heap yields its greatest element.
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

/// The future events.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Scheduled>,
    sequence: u64,
}

impl EventQueue {
    /// Schedules `what` at `at`; does nothing if that is [`Nanos::NEVER`].
    pub(super) fn schedule(&mut self, at: Nanos, what: MachineEvent) {
        if at == Nanos::NEVER {
            return;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        self.heap.push(Scheduled { at, sequence, what });
    }

    /// Removes and returns the next event, if it is before `end`.
    pub(super) fn next_before(&mut self, end: Nanos) -> Option<Scheduled> {
        self.heap.pop().filter(|event| event.at < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_they_were_scheduled() {
        let mut queue = EventQueue::default();
        for (at, token) in [(5, 0), (3, 1), (5, 2), (3, 3), (9, 4)] {
            queue.schedule(Nanos(at), MachineEvent::Timer { token });
        }
        queue.schedule(Nanos::NEVER, MachineEvent::Timer { token: 99 });
        let order: Vec<u64> = std::iter::from_fn(|| queue.next_before(Nanos(9)))
            .filter_map(|event| match event.what {
                MachineEvent::Timer { token } => Some(token),
                _ => None,
            })
            .collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }
}
