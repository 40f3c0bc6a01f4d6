//! What a tenant wants, by its rings and signals: single situations, each in the memory of a queue of this process.

use gpreempt_core::{Activity, Nanos};
use gpreempt_observe::{PollError, RingFormat, RingPlace, TenantActivity, Unwatched};

mod away;
mod fake;
mod instants;
mod model;
mod nonsense;
mod retirement;
mod rings;
mod watch;

use fake::{Bytes, Fake};
use watch::{Sample, Watch};

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn probe(fake: &Fake) -> Watch {
    Watch::new(&[fake.ring()])
}

/// A look at the running queues.
fn poll(probe: &mut Watch, at: Nanos) -> TenantActivity {
    probe.poll(at, false).unwrap()
}

fn activity(probe: &mut Watch, at: Nanos) -> Activity {
    poll(probe, at).activity
}

fn sample(at: Nanos, occupied_cus: Option<u32>, evicted_ms: u64) -> Sample {
    Sample { at, occupied_cus, evicted_ms }
}

#[test]
fn work_is_followed_from_the_doorbell_to_its_signal() {
    let fake = Fake::new(64, 4);
    let mut probe = probe(&fake);
    let idle = TenantActivity { activity: Activity::Idle, since: ms(1), pending: 0, unsure: false };
    assert_eq!(poll(&mut probe, ms(1)), idle);
    fake.set_signal(0, 1);
    fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
    let wants = TenantActivity { activity: Activity::Wants, since: ms(2), pending: 1, unsure: false };
    assert_eq!(poll(&mut probe, ms(2)), wants);
    fake.fetch(0, 1);
    let running = TenantActivity { activity: Activity::Running, since: ms(2), pending: 0, unsure: false };
    assert_eq!(poll(&mut probe, ms(3)), running);
    fake.set_signal(0, 0);
    assert_eq!(poll(&mut probe, ms(4)), TenantActivity { since: ms(4), ..idle });
}

#[test]
fn a_packet_that_is_announced_and_not_written_is_no_work_and_is_not_overlooked() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    fake.set_write(1);
    let look = poll(&mut probe, ms(1));
    assert_eq!((look.activity, look.pending), (Activity::Idle, 1));
    fake.put(0, &Bytes::kernel());
    assert_eq!(activity(&mut probe, ms(1)), Activity::Wants);
}

#[test]
fn a_head_that_waits_blocks_until_its_signals_let_it_pass() {
    let fake = Fake::new(64, 4);
    let (first, second) = (fake.signal(0), fake.signal(1));
    let waits = [
        (
            Bytes::wait_all(&[first, second]),
            [(1, 1, Activity::Blocked), (0, 1, Activity::Blocked), (0, 0, Activity::Wants)],
        ),
        (
            Bytes::wait_any(&[first, second]),
            [(1, 1, Activity::Blocked), (0, 1, Activity::Wants), (1, 0, Activity::Wants)],
        ),
        (
            Bytes::wait_at_least(first, 5),
            [(4, 0, Activity::Blocked), (5, 0, Activity::Wants), (-9, 0, Activity::Blocked)],
        ),
    ];
    for (wait, cases) in waits {
        fake.submit(0, &[wait, Bytes::kernel().completes(fake.signal(2))]);
        let mut probe = probe(&fake);
        for (one, other, expected) in cases {
            fake.set_signal(0, one);
            fake.set_signal(1, other);
            assert_eq!(activity(&mut probe, ms(1)), expected, "{one} {other}");
        }
    }
}

#[test]
fn a_wait_that_was_fetched_blocks_what_is_behind_it_and_not_what_runs_before_it() {
    let fake = Fake::new(64, 4);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    for signal in 0..3 {
        fake.set_signal(signal, 1);
    }
    let kernel = Bytes::kernel().completes(fake.signal(0));
    let wait = Bytes::wait_all(&[fake.signal(1)]).completes(fake.signal(2));
    fake.submit(0, &[kernel, wait, Bytes::kernel()]);
    fake.fetch(0, 2);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Running);
    fake.set_signal(0, 0);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Blocked);
    fake.set_signal(1, 0);
    assert!(activity(&mut probe, ms(1)).has_work());
    fake.set_signal(2, 0);
    // The dependency is used for something else by now.
    fake.set_signal(1, 1);
    assert!(activity(&mut probe, ms(1)).has_work());
}

#[test]
fn a_stopped_tenant_with_unfinished_work_wants_and_one_that_waits_does_not() {
    let fake = Fake::new(64, 4);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    fake.set_signal(0, 1);
    fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
    fake.fetch(0, 1);
    assert_eq!(activity(&mut probe, ms(2)), Activity::Running);
    for at in [2, 3, 500] {
        let stopped = probe.poll(ms(at), true).unwrap();
        assert_eq!((stopped.activity, stopped.unsure), (Activity::Wants, false));
        probe.sampled(&sample(ms(at), Some(0), 0), true);
    }
    assert_eq!(activity(&mut probe, ms(501)), Activity::Running);
    // Saved waves are not back at once.
    for at in [502, 503] {
        probe.sampled(&sample(ms(at), Some(0), 0), true);
    }
    assert_eq!(activity(&mut probe, ms(504)), Activity::Running);
    fake.set_signal(0, 0);
    fake.set_signal(1, 1);
    fake.submit(1, &[Bytes::wait_all(&[fake.signal(1)])]);
    assert_eq!(probe.poll(ms(505), true).unwrap().activity, Activity::Blocked);
    fake.submit(2, &[Bytes::kernel()]);
    fake.fetch(1, 2);
    // A wait is not passed while the queue is stopped, even if for a moment it could be.
    for (value, expected) in [(0, Activity::Wants), (1, Activity::Blocked)] {
        fake.set_signal(1, value);
        assert_eq!(probe.poll(ms(506), true).unwrap().activity, expected);
    }
}

#[test]
fn packets_without_signals_are_decided_by_a_sample() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    fake.submit(0, &[Bytes::kernel(), Bytes::kernel()]);
    fake.fetch(0, 2);
    let early = poll(&mut probe, ms(2));
    assert_eq!((early.activity, early.unsure), (Activity::Running, false));
    let late = poll(&mut probe, ms(4));
    assert_eq!((late.activity, late.unsure), (Activity::Running, true));
    probe.sampled(&sample(ms(4), Some(3), 0), false);
    let confirmed = poll(&mut probe, ms(5));
    assert_eq!((confirmed.activity, confirmed.unsure), (Activity::Running, false));
    assert!(poll(&mut probe, ms(20)).unsure, "a confirmation does not last");
    // While others have waves it may wait for room, but nothing tells for how long that is true.
    for (at, expected) in [(20, Activity::Wants), (22, Activity::Wants), (71, Activity::Idle)] {
        probe.sampled(&sample(ms(at), Some(0), 0), false);
        assert_eq!(activity(&mut probe, ms(at)), expected);
    }
    fake.submit(2, &[Bytes::kernel()]);
    fake.fetch(2, 3);
    assert_eq!(activity(&mut probe, ms(80)), Activity::Running);
    probe.sampled(&sample(ms(82), Some(0), 0), true);
    let done = poll(&mut probe, ms(82));
    assert_eq!((done.activity, done.since), (Activity::Idle, ms(82)));
}

#[test]
fn packets_without_signals_count_as_done_after_a_while_where_the_driver_tells_no_occupancy() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    fake.submit(0, &[Bytes::kernel()]);
    fake.fetch(0, 1);
    assert!(poll(&mut probe, ms(1)).activity.has_work());
    probe.sampled(&sample(ms(3), None, 0), true);
    let waiting = poll(&mut probe, ms(4));
    assert_eq!((waiting.activity, waiting.unsure), (Activity::Running, false));
    assert_eq!(activity(&mut probe, ms(100)), Activity::Idle);
}

/// No waves may mean that others have all the room: that is what preemption is for.
#[test]
fn a_kernel_that_finds_no_room_wants_and_one_whose_signal_is_stale_ends_when_the_gpu_is_free() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    fake.set_signal(0, 1);
    fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
    fake.fetch(0, 1);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Running);
    for at in [4, 8, 16, 200] {
        let unsure = poll(&mut probe, ms(at));
        assert!(unsure.activity.has_work() && unsure.unsure, "{at}: {unsure:?}");
        probe.sampled(&sample(ms(at), Some(0), 0), false);
        assert_eq!(activity(&mut probe, ms(at)), Activity::Wants);
    }
    probe.sampled(&sample(ms(201), Some(4), 0), false);
    assert_eq!(activity(&mut probe, ms(201)), Activity::Running);
    for (at, expected) in [(300, Activity::Wants), (301, Activity::Wants), (351, Activity::Idle)] {
        probe.sampled(&sample(ms(at), Some(0), 0), true);
        assert_eq!(activity(&mut probe, ms(at)), expected);
    }
}

/// A cycle may take longer than we thought any would.
#[test]
fn what_was_taken_for_ended_runs_when_its_waves_come_back() {
    for with_signal in [false, true] {
        let fake = Fake::new(64, 1);
        let mut probe = probe(&fake);
        poll(&mut probe, ms(1));
        fake.set_signal(0, 1);
        let kernel = Bytes::kernel();
        fake.submit(0, &[if with_signal { kernel.completes(fake.signal(0)) } else { kernel }]);
        fake.fetch(0, 1);
        poll(&mut probe, ms(1));
        for at in [10, 100] {
            probe.sampled(&sample(ms(at), Some(0), 0), true);
        }
        assert_eq!(activity(&mut probe, ms(100)), Activity::Idle);
        let again = poll(&mut probe, ms(200));
        assert!(again.activity == Activity::Idle && again.unsure, "{again:?}");
        probe.sampled(&sample(ms(200), Some(4), 0), true);
        assert_eq!(activity(&mut probe, ms(200)), Activity::Running);
        // Only samples tell of its end now.
        for at in [300, 10_301] {
            probe.sampled(&sample(ms(at), Some(0), 0), true);
            assert_eq!(activity(&mut probe, ms(at)), Activity::Idle);
        }
        assert!(!poll(&mut probe, ms(20_000)).unsure, "no cycle takes so long");
    }
}

/// A cycle that others cause takes its waves off the gpu for a moment, and samples may fall into that.
#[test]
fn what_was_there_before_us_is_believed_until_its_waves_are_away_for_long() {
    let fake = Fake::new(64, 1);
    fake.set_signal(0, 1);
    fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
    fake.fetch(0, 1);
    let mut probe = probe(&fake);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Running);
    for at in [4, 6, 40] {
        assert!(poll(&mut probe, ms(at)).unsure);
        probe.sampled(&sample(ms(at), Some(0), 0), false);
        assert_eq!(activity(&mut probe, ms(at)), Activity::Wants);
    }
    probe.sampled(&sample(ms(60), Some(4), 0), false);
    assert_eq!(activity(&mut probe, ms(60)), Activity::Running);
    for (at, expected) in [(500, Activity::Wants), (560, Activity::Idle)] {
        assert!(poll(&mut probe, ms(at)).unsure);
        probe.sampled(&sample(ms(at), Some(0), 0), false);
        assert_eq!(activity(&mut probe, ms(at)), expected);
    }
}

#[test]
fn a_tenant_whose_time_off_the_gpu_grows_is_evicted_while_it_has_work() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    fake.submit(0, &[Bytes::kernel()]);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Wants);
    probe.sampled(&sample(ms(2), Some(0), 40), true);
    assert_eq!(activity(&mut probe, ms(2)), Activity::Wants, "nothing to compare with");
    probe.sampled(&sample(ms(3), Some(0), 45), true);
    let evicted = poll(&mut probe, ms(3));
    assert_eq!((evicted.activity, evicted.since, evicted.unsure), (Activity::Evicted, ms(3), true));
    probe.sampled(&sample(ms(8), Some(0), 45), true);
    assert_eq!(activity(&mut probe, ms(8)), Activity::Wants);
    probe.sampled(&sample(ms(9), Some(0), 46), true);
    assert_eq!(activity(&mut probe, ms(9)), Activity::Evicted);
    fake.fetch(0, 1);
    assert_eq!(activity(&mut probe, ms(10)), Activity::Running, "it is being worked on");
}

#[test]
fn commands_are_work_until_a_sample_after_they_were_fetched() {
    let fake = Fake::new(64, 1);
    let ring = RingPlace { format: RingFormat::Pm4, ..fake.ring() };
    let mut probe = Watch::new(&[ring]);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Idle);
    fake.set_write(40);
    let wants = poll(&mut probe, ms(2));
    assert_eq!((wants.activity, wants.pending), (Activity::Wants, 1));
    fake.set_read(40);
    assert_eq!(activity(&mut probe, ms(3)), Activity::Running);
    assert!(poll(&mut probe, ms(5)).unsure);
    probe.sampled(&sample(ms(5), Some(0), 0), true);
    assert_eq!(activity(&mut probe, ms(5)), Activity::Idle);
    // The read index is a place in the ring of 1,024 words, the write index counts on.
    fake.set_write(1024 + 8);
    assert_eq!(activity(&mut probe, ms(6)), Activity::Wants);
    fake.set_read(8);
    assert_eq!(poll(&mut probe, ms(7)).pending, 0);
}

#[test]
fn rings_are_joined_and_keep_what_is_known_of_them() {
    let (first, second) = (Fake::new(64, 2), Fake::new(64, 2));
    let mut probe = Watch::new(&[first.ring(), second.ring()]);
    poll(&mut probe, ms(1));
    first.set_signal(0, 1);
    first.set_signal(1, 1);
    first.submit(0, &[Bytes::wait_all(&[first.signal(0)])]);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Blocked);
    second.submit(0, &[Bytes::kernel().completes(first.signal(1))]);
    let look_at_both = poll(&mut probe, ms(2));
    assert_eq!((look_at_both.activity, look_at_both.pending), (Activity::Wants, 2));
    second.fetch(0, 1);
    assert_eq!(activity(&mut probe, ms(3)), Activity::Running);
    probe.set_rings(&[second.ring()]);
    probe.sampled(&sample(ms(9), Some(0), 0), false);
    assert_eq!(activity(&mut probe, ms(9)), Activity::Wants, "it saw the packet come");
    // The other queue completed it and uses the signal again.
    probe.set_rings(&[second.ring(), first.ring()]);
    poll(&mut probe, ms(10));
    first.submit(1, &[Bytes::kernel().completes(first.signal(1))]);
    assert_eq!(activity(&mut probe, ms(10)), Activity::Blocked);
}

#[test]
fn memory_that_is_gone_is_no_work_and_no_panic() {
    let fake = Fake::new(64, 1);
    let gone = RingPlace { read_index: 0x1000, write_index: 0x1040, ..fake.ring() };
    let mut probe = Watch::new(&[gone, fake.ring()]);
    fake.submit(0, &[Bytes::kernel()]);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Wants);
    probe.set_rings(&[gone]);
    let error = probe.poll(ms(1), false).unwrap_err();
    assert_eq!(error, PollError::Gone { read_index: 0x1000 });
    let said = error.to_string();
    assert!(said.contains("no ring can be read") && said.contains("0x1000"), "{said}");
    probe.set_rings(&[]);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Idle);
}

#[test]
fn a_packet_whose_signals_are_gone_is_no_longer_waited_for() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    fake.submit(0, &[Bytes::kernel().completes(0x40)]);
    fake.fetch(0, 1);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Idle);
    fake.submit(1, &[Bytes::wait_all(&[0x40])]);
    assert_eq!(activity(&mut probe, ms(9)), Activity::Wants);
}

#[test]
fn rings_that_cannot_be_are_left_out() {
    let fake = Fake::new(64, 1);
    let odd = RingPlace { bytes: 4000, ..fake.ring() };
    let far = RingPlace { base: u64::MAX - 255, ..fake.ring() };
    let mut probe = Watch::new(&[odd, fake.ring(), far]);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Idle);
    fake.submit(0, &[Bytes::kernel()]);
    assert_eq!(activity(&mut probe, ms(2)), Activity::Wants, "the one between them is polled");
    assert!(!probe.probe.failed(), "no other is looked for");
    assert_eq!(probe.probe.unwatched(), Unwatched { invalid: 2, no_room: 0 });
}

#[test]
fn a_queue_that_takes_the_place_of_another_is_seen_for_the_first_time() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    fake.submit(0, &[Bytes::kernel(), Bytes::kernel()]);
    fake.fetch(0, 2);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Running);
    fake.set_write(0);
    fake.set_read(0);
    assert_eq!(activity(&mut probe, ms(1)), Activity::Idle);
}

/// Anything may stand in the memory of another process.
#[test]
fn indices_without_sense_are_survived() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    for (read, write) in [(u64::MAX, 0), (0, u64::MAX), (1 << 63, 0), (5, 3), (u64::MAX, u64::MAX), (7, 1 << 62)] {
        fake.set_read(read);
        fake.set_write(write);
        poll(&mut probe, ms(1));
        poll(&mut probe, ms(2));
    }
    fake.submit(u64::MAX - 2, &[Bytes::kernel()]);
    fake.set_read(u64::MAX - 2);
    assert_eq!(activity(&mut probe, ms(3)), Activity::Wants);
}
