//! Memory that is away for a while: nothing is concluded from it, and nothing is lost when it is back.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use gpreempt_core::Activity;
use gpreempt_observe::{PollError, ReadFailure, RingPlace};

use super::fake::{Bytes, Fake};
use super::{Watch, activity, ms, poll, probe, sample};

impl Watch {
    /// These addresses are away; none, if there are none.
    fn take_away(&self, addresses: Range<u64>) {
        let is_away = move |address| if addresses.contains(&address) { Err(ReadFailure::Away) } else { Ok(()) };
        self.memory.before_read(Some(Box::new(is_away)));
    }

    fn bring_back(&self) {
        self.memory.before_read(None);
    }
}

/// Where the packets of a ring are.
fn slots(ring: RingPlace) -> Range<u64> {
    ring.base..ring.base + ring.bytes
}

/// Where the indices of a ring are, which lie before its packets.
fn indices(ring: RingPlace) -> Range<u64> {
    ring.base - 0x100..ring.base
}

fn signal(fake: &Fake, number: u64) -> Range<u64> {
    fake.signal(number)..fake.signal(number) + 64
}

#[test]
fn a_signal_that_is_away_is_awaited_as_before() {
    let fake = Fake::new(64, 2);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    fake.set_signal(0, 1);
    fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
    fake.fetch(0, 1);
    assert_eq!(activity(&mut probe, ms(2)), Activity::Running);
    probe.take_away(signal(&fake, 0));
    fake.set_signal(0, 0);
    for at in [3, 4] {
        assert_eq!(probe.poll(ms(at), false), Err(PollError::Away));
    }
    probe.bring_back();
    let end = poll(&mut probe, ms(5));
    assert_eq!((end.activity, end.since), (Activity::Idle, ms(5)));
    // The same for what a wait depends on.
    fake.set_signal(1, 1);
    fake.submit(1, &[Bytes::wait_all(&[fake.signal(1)]), Bytes::kernel()]);
    assert_eq!(activity(&mut probe, ms(6)), Activity::Blocked);
    probe.take_away(signal(&fake, 1));
    assert_eq!(probe.poll(ms(7), false), Err(PollError::Away));
    fake.fetch(1, 2);
    assert_eq!(probe.poll(ms(8), false), Err(PollError::Away));
    probe.bring_back();
    assert_eq!(activity(&mut probe, ms(9)), Activity::Blocked);
    fake.set_signal(1, 0);
    assert!(activity(&mut probe, ms(10)).has_work());
}

#[test]
fn packets_that_were_passed_while_they_were_away_are_followed_when_they_are_back() {
    for whole in [false, true] {
        let fake = Fake::new(64, 2);
        let mut probe = probe(&fake);
        poll(&mut probe, ms(1));
        for number in 0..2 {
            fake.set_signal(number, 1);
        }
        probe.take_away(if whole { indices(fake.ring()).start..slots(fake.ring()).end } else { slots(fake.ring()) });
        let kernel = |number| Bytes::kernel().completes(fake.signal(number));
        fake.submit(0, &[kernel(0), kernel(1)]);
        assert_eq!(probe.poll(ms(2), false), Err(PollError::Away));
        fake.fetch(0, 2);
        assert_eq!(probe.poll(ms(3), false), Err(PollError::Away));
        probe.bring_back();
        assert_eq!(activity(&mut probe, ms(4)), Activity::Running);
        fake.set_signal(1, 0);
        assert_eq!(activity(&mut probe, ms(4)), Activity::Running, "the first");
        fake.set_signal(0, 0);
        assert_eq!(activity(&mut probe, ms(5)), Activity::Idle);
    }
}

#[test]
fn a_tenant_that_is_looked_at_for_the_first_time_while_it_is_away_is_not_idle() {
    let fake = Fake::new(64, 1);
    fake.set_signal(0, 1);
    fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
    fake.fetch(0, 1);
    let mut probe = probe(&fake);
    for addresses in [indices(fake.ring()), slots(fake.ring()), signal(&fake, 0)] {
        probe.take_away(addresses);
        assert_eq!(probe.poll(ms(1), false), Err(PollError::Away));
    }
    assert!(!probe.probe.failed(), "no other ring is looked for");
    probe.bring_back();
    assert_eq!(activity(&mut probe, ms(2)), Activity::Running);
    for (at, expected) in [(10, Activity::Wants), (70, Activity::Idle)] {
        probe.sampled(&sample(ms(at), Some(0), 0), false);
        assert_eq!(activity(&mut probe, ms(at)), expected, "nothing saw it come");
    }
}

#[test]
fn a_packet_that_was_seen_to_come_is_believed_after_its_memory_was_away() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    fake.set_signal(0, 1);
    fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
    fake.fetch(0, 1);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Running);
    for addresses in [indices(fake.ring()), slots(fake.ring()), signal(&fake, 0)] {
        probe.take_away(addresses);
        let _ = probe.poll(ms(2), false);
    }
    probe.bring_back();
    for at in [10, 70] {
        probe.sampled(&sample(ms(at), Some(0), 0), false);
        assert_eq!(activity(&mut probe, ms(at)), Activity::Wants, "others have all the room");
    }
}

#[test]
fn beside_a_ring_that_is_away_work_of_others_is_told_and_their_idleness_is_not() {
    let (first, second) = (Fake::new(64, 1), Fake::new(64, 1));
    let mut probe = Watch::new(&[first.ring(), second.ring()]);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Idle);
    probe.take_away(indices(first.ring()));
    assert_eq!(probe.poll(ms(2), false), Err(PollError::Away));
    second.submit(0, &[Bytes::kernel()]);
    assert_eq!(activity(&mut probe, ms(3)), Activity::Wants, "there was none before");
    assert_eq!(probe.poll(ms(4), false), Err(PollError::Away), "the first may run meanwhile");
    // One that is gone beside one that is away: nothing is known to have ended.
    let gone = RingPlace { read_index: 0x1000, write_index: 0x1040, ..second.ring() };
    probe.set_rings(&[first.ring(), gone]);
    assert_eq!(probe.poll(ms(5), false), Err(PollError::Away));
    assert!(probe.probe.failed(), "another is looked for");
    probe.bring_back();
    assert_eq!(activity(&mut probe, ms(6)), Activity::Idle);
}

/// Fetches are what ends an eviction, also those that a look saw which could not be ended.
#[test]
fn what_was_seen_before_memory_was_away_counts_when_it_is_back() {
    for evicted_again in [false, true] {
        let fake = Fake::new(64, 1);
        let mut probe = probe(&fake);
        fake.set_signal(0, 1);
        fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
        assert_eq!(activity(&mut probe, ms(1)), Activity::Wants);
        for (at, evicted_ms) in [(2, 40), (3, 45)] {
            probe.sampled(&sample(ms(at), Some(0), evicted_ms), true);
        }
        assert_eq!(activity(&mut probe, ms(4)), Activity::Evicted);
        fake.fetch(0, 1);
        probe.take_away(signal(&fake, 0));
        assert_eq!(probe.poll(ms(5), false), Err(PollError::Away));
        if evicted_again {
            probe.sampled(&sample(ms(6), Some(0), 50), true);
        }
        probe.bring_back();
        let expected = if evicted_again { Activity::Evicted } else { Activity::Running };
        assert_eq!(activity(&mut probe, ms(7)), expected);
    }
}

/// A signal that another ring has learned in a look that was not ended is about no packet of this ring any more.
#[test]
fn signals_that_were_learned_while_something_was_away_are_passed_on() {
    let (first, second) = (Fake::new(64, 2), Fake::new(64, 1));
    for rings in [[first.ring(), second.ring()], [second.ring(), first.ring()]] {
        first.clear();
        second.clear();
        let mut probe = Watch::new(&rings);
        poll(&mut probe, ms(1));
        first.set_signal(0, 1);
        first.set_signal(1, 1);
        first.submit(0, &[Bytes::kernel().completes(first.signal(0))]);
        first.fetch(0, 1);
        assert_eq!(activity(&mut probe, ms(2)), Activity::Running);
        // It has completed, and a packet behind a wait uses its signal.
        second.submit(0, &[Bytes::wait_all(&[first.signal(1)]), Bytes::kernel().completes(first.signal(0))]);
        probe.take_away(signal(&first, 1));
        assert_eq!(probe.poll(ms(3), false), Err(PollError::Away));
        probe.bring_back();
        assert_eq!(activity(&mut probe, ms(4)), Activity::Blocked);
    }
}

/// Each read of a poll fails once, in turn; the poll after it says what it would have said.
#[test]
fn a_poll_after_one_that_was_interrupted_anywhere_says_what_that_would_have_said() {
    type Act = (&'static str, fn(&Fake));
    let acts: &[Act] = &[
        ("a kernel is submitted", |fake| {
            fake.set_signal(0, 1);
            fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
        }),
        ("it is fetched, and a wait submitted", |fake| {
            fake.set_signal(1, 1);
            fake.fetch(0, 1);
            fake.submit(1, &[Bytes::wait_all(&[fake.signal(1)]), Bytes::kernel().completes(fake.signal(2))]);
        }),
        ("the wait is fetched", |fake| fake.fetch(1, 2)),
        ("the kernel ends", |fake| fake.set_signal(0, 0)),
        ("the wait passes, the next kernel begins", |fake| {
            fake.set_signal(2, 1);
            fake.set_signal(1, 0);
            fake.fetch(2, 3);
        }),
        ("the index comes back", |fake| fake.set_read(2)),
        ("and goes on", |fake| fake.set_read(3)),
        ("all ends", |fake| fake.set_signal(2, 0)),
    ];
    let mut interrupted = 0;
    for (until, (last, _)) in acts.iter().enumerate() {
        for failing in 0.. {
            let fakes = [Fake::new(64, 3), Fake::new(64, 3)];
            let mut watches = [probe(&fakes[0]), probe(&fakes[1])];
            for (at, (_, act)) in (1..).zip(&acts[..until]) {
                for (fake, watch) in fakes.iter().zip(&mut watches) {
                    poll(watch, ms(at));
                    act(fake);
                    poll(watch, ms(at));
                }
            }
            fakes.iter().for_each(acts[until].1);
            let at = ms(until as u64 + 1);
            let [steady, shaken] = &mut watches;
            let reads = Rc::new(Cell::new(0));
            let count = Rc::clone(&reads);
            shaken.memory.before_read(Some(Box::new(move |_| {
                count.set(count.get() + 1);
                if count.get() == failing + 1 { Err(ReadFailure::Away) } else { Ok(()) }
            })));
            let said = shaken.poll(at, false);
            shaken.bring_back();
            let expected = poll(steady, at);
            assert_eq!(poll(shaken, at), expected, "read {failing} after {last}");
            if reads.get() <= failing {
                assert_eq!(said, Ok(expected));
                break;
            }
            interrupted += u32::from(said == Err(PollError::Away));
        }
    }
    assert!(interrupted > 20, "{interrupted}");
}
