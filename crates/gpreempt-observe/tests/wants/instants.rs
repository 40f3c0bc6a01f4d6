//! Tenants that go on between the reads of a look, in every way that few interruptions allow.

use std::cell::Cell;
use std::rc::Rc;

use gpreempt_core::Activity;
use gpreempt_observe::{PollError, ReadFailure};

use super::fake::{Bytes, Fake, INVALID, IndexKind};
use super::{TenantActivity, Watch, ms};

/// Looks, and calls `between` before each read, which fails if that says so.
fn look_with(
    watch: &mut Watch,
    at: u64,
    mut between: impl FnMut() -> Result<(), ReadFailure> + 'static,
) -> Result<TenantActivity, PollError> {
    watch.memory.before_read(Some(Box::new(move |_| between())));
    let look = watch.poll(ms(at), false);
    watch.memory.before_read(None);
    look
}

/// What a tenant, or the processor for it, does at once. Numbers of queues, packets and signals.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Arms the signal of a packet and writes the packet; it may wait for another signal.
    Write { queue: usize, number: u64, signal: Option<u64>, waits_for: Option<u64> },
    /// Moves the write index past a packet.
    Announce { queue: usize, number: u64 },
    /// Takes the header of a packet.
    Take { queue: usize, number: u64 },
    /// Moves the read index past a packet.
    Pass { queue: usize, number: u64 },
    /// Fires a signal.
    Fire(u64),
}

/// Queues of one tenant, whose signals are those of the first, and what it does there. It has work from the first act
/// to the last.
struct Play {
    queues: Vec<Fake>,
    acts: Vec<Act>,
}

impl Play {
    fn do_act(&self, act: Act) {
        match act {
            Act::Write { queue, number, signal, waits_for } => {
                let place = |signal| self.queues[0].signal(signal);
                let packet = waits_for.map_or_else(Bytes::kernel, |signal| Bytes::wait_all(&[place(signal)]));
                if let Some(signal) = signal {
                    self.queues[0].set_signal(signal, 1);
                }
                self.queues[queue].put(number, &signal.map_or(packet, |signal| packet.completes(place(signal))));
            }
            Act::Announce { queue, number } => self.queues[queue].set_write(number + 1),
            Act::Take { queue, number } => self.queues[queue].header(number, INVALID),
            Act::Pass { queue, number } => self.queues[queue].set_read(number + 1),
            Act::Fire(signal) => self.queues[0].set_signal(signal, 0),
        }
    }
}

/// Acts are done in bursts, each before a certain read: its number, counted from the first look, and how many acts.
type Bursts = Vec<(usize, usize)>;

/// The first packet is submitted, then looks are taken, with bursts between the reads, of which one may be `away`.
/// Returns the number of reads and of acts that are left.
fn perform(play: &Rc<Play>, looks: u64, bursts: &Bursts, away: Option<usize>) -> (usize, usize) {
    const SUBMITTED: usize = 2;
    play.queues.iter().for_each(Fake::clear);
    play.acts[..SUBMITTED].iter().for_each(|act| play.do_act(*act));
    let rings: Vec<_> = play.queues.iter().map(Fake::ring).collect();
    let mut probe = Watch::new(&rings);
    assert!(probe.poll(ms(0), false).unwrap().activity.has_work());
    let (reads, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(SUBMITTED)));
    for at in 1..=looks {
        // A processor takes a header and moves the index at once; the look before this one has seen it, and one is all
        // that is believed.
        let taken = matches!(play.acts[done.get() - 1], Act::Take { .. });
        let between = {
            let (play, bursts, reads, done) = (Rc::clone(play), bursts.clone(), Rc::clone(&reads), Rc::clone(&done));
            move || {
                let burst = bursts.iter().find(|(read, _)| *read == reads.get()).map_or(0, |(_, acts)| *acts);
                play.acts[done.get()..done.get() + burst].iter().for_each(|act| play.do_act(*act));
                done.set(done.get() + burst);
                reads.set(reads.get() + 1);
                if away.is_some_and(|away| away + 1 == reads.get()) { Err(ReadFailure::Away) } else { Ok(()) }
            }
        };
        let look = match look_with(&mut probe, at, between) {
            Ok(look) => look,
            // What was told last holds: it has work.
            Err(PollError::Away) if away.is_some() => continue,
            Err(error) => panic!("{error}"),
        };
        assert!(
            taken || look.activity.has_work(),
            "look {at} says {look:?}, done: {:?}, bursts: {bursts:?}, away: {away:?}",
            &play.acts[..done.get()]
        );
    }
    (reads.get(), play.acts.len() - done.get())
}

/// Performs the play with every choice of `interruptions` bursts, and of a read that is away if there is to be one.
/// Returns how many there are.
fn perform_all(play: &Rc<Play>, looks: u64, interruptions: usize, one_away: bool, bursts: &mut Bursts) -> u64 {
    let (reads, left) = perform(play, looks, bursts, None);
    let mut performances = 1;
    if one_away {
        for away in 0..reads {
            perform(play, looks, bursts, Some(away));
            performances += 1;
        }
    }
    if bursts.len() < interruptions {
        let first = bursts.last().map_or(0, |(read, _)| read + 1);
        for read in first..reads {
            for acts in 1..=left {
                bursts.push((read, acts));
                performances += perform_all(play, looks, interruptions, one_away, bursts);
                bursts.pop();
            }
        }
    }
    performances
}

fn submit(queue: usize, number: u64, signal: Option<u64>, waits_for: Option<u64>) -> [Act; 2] {
    [Act::Write { queue, number, signal, waits_for }, Act::Announce { queue, number }]
}

fn pass_packet(queue: usize, number: u64) -> [Act; 2] {
    [Act::Take { queue, number }, Act::Pass { queue, number }]
}

/// What the processor does to the index when it fetches a packet.
fn fetch(kind: IndexKind, queue: usize, number: u64) -> Vec<Act> {
    if kind == IndexKind::Retire { Vec::new() } else { pass_packet(queue, number).to_vec() }
}

/// What the processor does when a packet has completed.
fn complete(kind: IndexKind, queue: usize, number: u64, signal: Option<u64>) -> Vec<Act> {
    let mut acts: Vec<Act> = signal.map(Act::Fire).into_iter().collect();
    if kind == IndexKind::Retire {
        acts.extend(pass_packet(queue, number));
    }
    acts
}

fn play(queues: usize, packets: u64, signals: u64, acts: Vec<Act>) -> Rc<Play> {
    Rc::new(Play { queues: (0..queues).map(|_| Fake::new(packets, signals)).collect(), acts })
}

/// Each kernel is submitted while the one before runs, in turn to the queues.
fn overlapping(kind: IndexKind, queues: usize, kernels: u64, signals: u64) -> Rc<Play> {
    let place = |number: u64| ((number % queues as u64) as usize, number / queues as u64);
    let mut acts = Vec::new();
    for number in 0..kernels {
        let (queue, at) = place(number);
        acts.extend(submit(queue, at, Some(number % signals), None));
        if let Some(before) = number.checked_sub(1) {
            acts.extend(complete(kind, place(before).0, place(before).1, Some(before % signals)));
        }
        acts.extend(fetch(kind, queue, at));
    }
    play(queues, 16, signals, acts)
}

/// As [`overlapping`], and each kernel begins before the one before ends.
fn side_by_side(kind: IndexKind, queues: usize, kernels: u64, signals: u64) -> Rc<Play> {
    let place = |number: u64| ((number % queues as u64) as usize, number / queues as u64);
    let mut acts = Vec::new();
    for number in 0..kernels {
        let (queue, at) = place(number);
        acts.extend(submit(queue, at, Some(number % signals), None));
        acts.extend(fetch(kind, queue, at));
        if let Some(before) = number.checked_sub(1) {
            acts.extend(complete(kind, place(before).0, place(before).1, Some(before % signals)));
        }
    }
    play(queues, 16, signals, acts)
}

/// Each kernel lies behind a wait for the one before, in turn in the queues; the wait is fetched, or not, before that
/// ends.
fn chained(kind: IndexKind, queues: usize, kernels: u64, signals: u64, wait_is_fetched: bool) -> Rc<Play> {
    let mut acts = Vec::from(submit(0, 0, Some(0), None));
    let mut ends = vec![0; queues];
    acts.extend(fetch(kind, 0, 0));
    ends[0] = 1;
    let mut last = (0, 0);
    for number in 1..kernels {
        let queue = (number % queues as u64) as usize;
        let (at, before) = (ends[queue], (number - 1) % signals);
        ends[queue] += 2;
        acts.extend(submit(queue, at, None, Some(before)));
        acts.extend(submit(queue, at + 1, Some(number % signals), None));
        let (fetched, completed) = (fetch(kind, queue, at), complete(kind, last.0, last.1, Some(before)));
        acts.extend(if wait_is_fetched { [fetched, completed] } else { [completed, fetched] }.concat());
        acts.extend(complete(kind, queue, at, None));
        acts.extend(fetch(kind, queue, at + 1));
        last = (queue, at + 1);
    }
    play(queues, 16, signals, acts)
}

fn short(kind: IndexKind) -> [Rc<Play>; 9] {
    [
        overlapping(kind, 1, 4, 2),
        overlapping(kind, 1, 4, 3),
        overlapping(kind, 2, 3, 2),
        side_by_side(kind, 1, 4, 3),
        side_by_side(kind, 2, 3, 2),
        chained(kind, 1, 2, 2, false),
        chained(kind, 1, 2, 2, true),
        chained(kind, 2, 2, 2, false),
        chained(kind, 2, 2, 2, true),
    ]
}

/// A look says that there is no work only if there was none at an instant between its first read and its last.
#[test]
fn a_tenant_at_work_is_never_seen_without_however_it_goes_on_between_reads() {
    // Between saves an index that is rewound at save is as one that is not.
    for kind in [IndexKind::Retire, IndexKind::Fetch] {
        let mut performances = 0;
        for play in &short(kind) {
            performances += perform_all(play, 2, 3, false, &mut Vec::new());
        }
        let long = [
            overlapping(kind, 1, 6, 4),
            side_by_side(kind, 2, 4, 3),
            chained(kind, 2, 3, 3, true),
            chained(kind, 1, 4, 3, false),
        ];
        for play in &long {
            performances += perform_all(play, 3, 2, false, &mut Vec::new());
        }
        assert!(performances > 50_000, "{kind:?}: {performances}");
    }
}

/// A look that fails tells nothing, and the next one is not misled by what that had read.
#[test]
fn a_tenant_at_work_is_never_seen_without_however_it_goes_on_between_reads_of_which_one_is_away() {
    for kind in [IndexKind::Retire, IndexKind::Fetch] {
        let performances: u64 = short(kind).iter().map(|play| perform_all(play, 2, 2, true, &mut Vec::new())).sum();
        assert!(performances > 20_000, "{kind:?}: {performances}");
    }
}

/// Looks are taken thousands of times a second.
#[test]
fn a_look_at_a_tenant_that_goes_on_as_before_costs_few_reads() {
    let fake = Fake::new(16, 2);
    let mut probe = super::probe(&fake);
    let mut look = |expected: Activity| {
        let (look, reads) = probe.count_reads(ms(1));
        assert_eq!(look.activity, expected);
        reads
    };
    look(Activity::Idle);
    assert_eq!(look(Activity::Idle), 1);
    fake.set_signal(0, 1);
    fake.submit(0, &[Bytes::kernel().completes(fake.signal(0))]);
    fake.fetch(0, 1);
    look(Activity::Running);
    assert_eq!(look(Activity::Running), 2);
    fake.set_signal(0, 0);
    assert_eq!(look(Activity::Idle), 3, "the end of the work is believed only after another read");
    fake.set_signal(1, 1);
    fake.submit(1, &[Bytes::wait_all(&[fake.signal(1)])]);
    look(Activity::Blocked);
    assert_eq!(look(Activity::Blocked), 3);
}
