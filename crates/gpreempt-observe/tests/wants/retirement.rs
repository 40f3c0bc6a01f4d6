//! What the read index tells once it is known to wait for the end of packets, and how that is found out.

use gpreempt_core::Activity;

use super::fake::{Bytes, Fake};
use super::{Watch, activity, ms, poll, probe, sample};

/// Kernels without signals, each found on the gpu while the index stands at it, then retired. Returns the time.
fn teach(fake: &Fake, probe: &mut Watch, kernels: u64) -> u64 {
    for number in 0..kernels {
        let at = 10 * number + 1;
        poll(probe, ms(at));
        fake.submit(number, &[Bytes::kernel()]);
        assert_eq!(activity(probe, ms(at)), Activity::Wants, "it may not have begun");
        let later = poll(probe, ms(at + 4));
        assert_eq!((later.activity, later.unsure), (Activity::Running, true), "one that stays has begun, or waits");
        probe.sampled(&sample(ms(at + 4), Some(3), 0), true);
        assert_eq!(activity(probe, ms(at + 4)), Activity::Running);
        fake.fetch(number, number + 1);
        poll(probe, ms(at + 5));
        // Where nothing is known yet, the end of packets without signals is seen only in a sample.
        probe.sampled(&sample(ms(at + 7), Some(0), 0), true);
        assert_eq!(activity(probe, ms(at + 7)), Activity::Idle);
    }
    10 * kernels
}

#[test]
fn an_index_that_waits_for_the_end_tells_the_end_of_packets_without_signals() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    let mut at = teach(&fake, &mut probe, 2);
    assert!(probe.probe.trusts_index());
    let mut checks = 0;
    for number in 2..40 {
        at += 10;
        fake.submit(number, &[Bytes::kernel()]);
        assert!(activity(&mut probe, ms(at)).has_work());
        fake.fetch(number, number + 1);
        let end = poll(&mut probe, ms(at + 1));
        assert_eq!((end.activity, end.since), (Activity::Idle, ms(at + 1)), "at once");
        if end.unsure {
            checks += 1;
            probe.sampled(&sample(ms(at + 2), Some(0), 0), true);
        }
        assert!(!poll(&mut probe, ms(at + 2)).unsure);
    }
    assert!((1..=6).contains(&checks), "{checks} ends were checked, ever fewer");
}

#[test]
fn signals_that_are_in_use_again_say_nothing_where_the_index_tells_the_end() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    let at = teach(&fake, &mut probe, 2);
    fake.set_signal(0, 1);
    fake.submit(2, &[Bytes::kernel().completes(fake.signal(0))]);
    assert!(activity(&mut probe, ms(at + 1)).has_work());
    // It has completed, and a copy uses its signal now.
    fake.fetch(2, 3);
    assert_eq!(activity(&mut probe, ms(at + 2)), Activity::Idle);
}

#[test]
fn one_kernel_is_no_evidence_and_neither_is_one_beside_packets_that_may_run() {
    let fake = Fake::new(64, 1);
    let mut first = probe(&fake);
    teach(&fake, &mut first, 1);
    assert!(!first.probe.trusts_index());
    // The index passes at fetch: a kernel without a signal runs, and the processor does not fetch what comes next.
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    for number in 0..8 {
        let at = 20 * number + 1;
        poll(&mut probe, ms(at));
        fake.submit(2 * number, &[Bytes::kernel(), Bytes::kernel()]);
        fake.fetch(2 * number, 2 * number + 1);
        for later in [1, 4, 9] {
            poll(&mut probe, ms(at + later));
            probe.sampled(&sample(ms(at + later), Some(3), 0), true);
        }
        fake.fetch(2 * number + 1, 2 * number + 2);
    }
    assert!(!probe.probe.trusts_index());
}

#[test]
fn waves_of_work_that_the_index_has_passed_end_the_belief_for_good() {
    let fake = Fake::new(64, 1);
    let mut probe = probe(&fake);
    let at = teach(&fake, &mut probe, 2);
    assert!(probe.probe.trusts_index() && !probe.probe.refutes_retirement());
    fake.submit(2, &[Bytes::kernel()]);
    poll(&mut probe, ms(at + 1));
    fake.fetch(2, 3);
    let end = poll(&mut probe, ms(at + 2));
    assert!(end.activity == Activity::Idle && end.unsure, "the first end is checked: {end:?}");
    probe.sampled(&sample(ms(at + 3), Some(3), 0), true);
    assert!(probe.probe.refutes_retirement());
    assert_eq!(activity(&mut probe, ms(at + 3)), Activity::Running, "it is followed by samples from now on");
    probe.sampled(&sample(ms(at + 9), Some(0), 0), true);
    assert_eq!(activity(&mut probe, ms(at + 9)), Activity::Idle);
    fake.submit(3, &[Bytes::kernel()]);
    for later in [10, 14, 24] {
        poll(&mut probe, ms(at + later));
        probe.sampled(&sample(ms(at + later), Some(3), 0), true);
    }
    assert!(probe.probe.refutes_retirement() && !probe.probe.trusts_index());
}

#[test]
fn an_index_that_comes_back_while_a_queue_is_saved_is_followed_and_ends_the_belief() {
    let fake = Fake::new(64, 3);
    let mut probe = probe(&fake);
    poll(&mut probe, ms(1));
    for signal in 0..3 {
        fake.set_signal(signal, 1);
    }
    let kernel = |signal: u64| Bytes::kernel().completes(fake.signal(signal));
    fake.submit(0, &[kernel(0), kernel(1), Bytes::wait_all(&[fake.signal(2)])]);
    fake.fetch(0, 3);
    assert_eq!(activity(&mut probe, ms(2)), Activity::Running);
    // The second has completed, the first is saved.
    fake.set_signal(1, 0);
    fake.set_read(0);
    let stopped = probe.poll(ms(3), true).unwrap();
    assert_eq!((stopped.activity, stopped.pending), (Activity::Wants, 3));
    assert!(probe.probe.refutes_retirement());
    fake.set_read(3);
    assert_eq!(activity(&mut probe, ms(4)), Activity::Running);
    fake.set_signal(0, 0);
    assert_eq!(activity(&mut probe, ms(5)), Activity::Blocked);
    // Now the oldest is the wait.
    fake.set_read(2);
    assert_eq!(probe.poll(ms(6), true).unwrap().activity, Activity::Blocked);
    fake.set_signal(2, 0);
    assert_eq!(probe.poll(ms(7), true).unwrap().activity, Activity::Wants);
    fake.set_read(3);
    assert_eq!(activity(&mut probe, ms(8)), Activity::Idle);
}
