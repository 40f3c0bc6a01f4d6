//! Tenants with several rings: signals that wander between them, and storage that does not hold all.

use gpreempt_core::Activity;
use gpreempt_observe::{RingPlace, RingState, Scratch, TenantProbe, Unwatched};

use super::fake::{Bytes, Fake};
use super::watch::OwnMemory;
use super::{Watch, activity, ms, poll};

/// Both rings are seen to use it in one look; which was first, nothing tells.
#[test]
fn a_signal_that_wandered_to_another_ring_between_two_looks_is_still_awaited() {
    let (first, second) = (Fake::new(64, 1), Fake::new(64, 1));
    let kernel = Bytes::kernel().completes(first.signal(0));
    for rings in [[first.ring(), second.ring()], [second.ring(), first.ring()]] {
        first.clear();
        second.clear();
        let mut probe = Watch::new(&rings);
        poll(&mut probe, ms(1));
        for fake in [&first, &second] {
            fake.submit(0, &[kernel]);
            fake.fetch(0, 1);
        }
        first.set_signal(0, 1);
        assert_eq!(activity(&mut probe, ms(2)), Activity::Running);
        first.set_signal(0, 0);
        assert_eq!(activity(&mut probe, ms(3)), Activity::Idle);
    }
}

/// The ring that is read first has learned the signal; the other must not take it back for a packet that it knew.
#[test]
fn a_packet_that_has_completed_does_not_take_its_signal_from_the_ring_that_uses_it_now() {
    let (first, second) = (Fake::new(64, 1), Fake::new(64, 1));
    let kernel = Bytes::kernel().completes(first.signal(0));
    let mut probe = Watch::new(&[first.ring(), second.ring()]);
    first.set_signal(0, 1);
    second.submit(0, &[kernel]);
    // A packet that was seen in the last look only may be newer than what the other ring learns in the next.
    for at in [0, 1] {
        assert!(activity(&mut probe, ms(at)).has_work());
    }
    // It is fetched, ends, and the other ring uses its signal, all between two looks.
    second.fetch(0, 1);
    first.submit(0, &[kernel]);
    first.fetch(0, 1);
    assert_eq!(activity(&mut probe, ms(2)), Activity::Running);
    probe.set_rings(&[first.ring()]);
    assert_eq!(activity(&mut probe, ms(3)), Activity::Running, "it is this ring that awaits it");
}

#[test]
fn hundreds_of_rings_hand_their_signals_on() {
    let fakes: Vec<Fake> = (0..255).map(|_| Fake::new(16, 1)).collect();
    let rings: Vec<RingPlace> = fakes.iter().map(Fake::ring).collect();
    let mut probe = Watch::new(&rings);
    poll(&mut probe, ms(1));
    // Each has a kernel with a signal of its own, and then with that of the next.
    for round in 0..2 {
        for (at, fake) in fakes.iter().enumerate() {
            let home = &fakes[(at + round) % fakes.len()];
            home.set_signal(0, 1);
            fake.submit(round as u64, &[Bytes::kernel().completes(home.signal(0))]);
            fake.fetch(round as u64, round as u64 + 1);
        }
        assert_eq!(activity(&mut probe, ms(2)), Activity::Running);
    }
    fakes.iter().for_each(|fake| fake.set_signal(0, 0));
    assert_eq!(activity(&mut probe, ms(3)), Activity::Idle);
    fakes[254].set_signal(0, 1);
    fakes[7].submit(2, &[Bytes::wait_all(&[fakes[254].signal(0)])]);
    assert_eq!(activity(&mut probe, ms(4)), Activity::Blocked);
}

#[test]
fn a_tenant_with_rings_that_find_no_room_is_never_idle_and_keeps_those_it_knows() {
    let fakes: Vec<Fake> = (0..3).map(|_| Fake::new(16, 1)).collect();
    let [one, two, three] = [0, 1, 2].map(|at: usize| fakes[at].ring());
    let mut slots = [const { RingState::EMPTY }; 2];
    let (memory, mut scratch) = (OwnMemory::open(), Box::new(Scratch::EMPTY));
    let mut probe = TenantProbe::new(&mut slots[..]);
    assert_eq!(probe.set_rings([one, two]), Unwatched::default());
    let mut look = |probe: &mut TenantProbe<_>, at| {
        let look = probe.poll(&memory, &mut scratch, ms(at), false).unwrap();
        (look.activity, look.unsure)
    };
    assert_eq!(look(&mut probe, 1), (Activity::Idle, false));
    fakes[1].set_signal(0, 1);
    fakes[1].submit(0, &[Bytes::kernel().completes(fakes[1].signal(0))]);
    fakes[1].fetch(0, 1);
    assert_eq!(look(&mut probe, 2), (Activity::Running, false));
    // Those that are known stay, wherever they are in the list.
    let odd = RingPlace { bytes: 100, ..three };
    assert_eq!(probe.set_rings([three, odd, two, one, two]), Unwatched { invalid: 1, no_room: 1 });
    assert_eq!(look(&mut probe, 3), (Activity::Running, false), "by a signal of a packet that was seen to come");
    fakes[1].set_signal(0, 0);
    assert_eq!(look(&mut probe, 4), (Activity::Wants, true), "nothing tells what the third does");
    for at in [10, 100, 20_000] {
        probe.sampled(&memory, ms(at), Some(0), Some(0), true);
        assert_eq!(look(&mut probe, at), (Activity::Wants, true));
    }
    assert_eq!(probe.set_rings([three, two]), Unwatched::default());
    assert_eq!(look(&mut probe, 20_001), (Activity::Idle, false));
    fakes[2].submit(0, &[Bytes::kernel()]);
    assert_eq!(look(&mut probe, 20_002), (Activity::Wants, false));
    assert_eq!(probe.set_rings([]), Unwatched::default());
    assert_eq!(look(&mut probe, 20_003), (Activity::Idle, false));
}
