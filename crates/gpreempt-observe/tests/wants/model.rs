//! Random histories of a queue beside a model that knows the truth.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gpreempt_core::{Activity, Nanos};
use gpreempt_observe::{PollError, ReadFailure, TenantActivity};
use proptest::prelude::*;

use super::fake::{Bytes, Fake, INVALID, IndexKind};
use super::{Watch, ms, sample};

/// Completion signals; few, so that they are used again soon.
const SIGNALS: u64 = 10;
/// Signals that waits depend on.
const DEPENDENCIES: u64 = 3;
/// Slots of the ring: a slot is not used twice in one history, so that one that is reserved and not written is empty.
const RING: u64 = 256;
/// Packets that may be pending.
const PENDING: u64 = 8;

#[derive(Clone, Copy, Debug)]
enum Step {
    Kernel {
        signal: bool,
        ordered: bool,
    },
    Wait {
        any: bool,
        dependency: u64,
        signal: bool,
        ordered: bool,
    },
    Reserve,
    Write,
    Fetch,
    Finish(usize),
    Fire(u64),
    Arm(u64),
    Stop,
    /// A cycle that others cause takes the queue off the gpu.
    Cycle,
    Resume,
    Poll {
        micros: u64,
    },
    Sample {
        micros: u64,
    },
}

fn step(silent: bool) -> impl Strategy<Value = Step> {
    let signal = prop::bool::weighted(if silent { 0.5 } else { 1.0 });
    let dependency = 0..DEPENDENCIES;
    let wait = (any::<bool>(), dependency.clone(), any::<bool>(), any::<bool>());
    prop_oneof![
        4 => (signal, any::<bool>()).prop_map(|(signal, ordered)| Step::Kernel { signal, ordered }),
        2 => wait.prop_map(|(any, dependency, signal, ordered)| Step::Wait { any, dependency, signal, ordered }),
        1 => Just(Step::Reserve),
        2 => Just(Step::Write),
        6 => Just(Step::Fetch),
        5 => any::<usize>().prop_map(Step::Finish),
        2 => dependency.clone().prop_map(Step::Fire),
        2 => dependency.prop_map(Step::Arm),
        1 => Just(Step::Stop),
        1 => Just(Step::Cycle),
        4 => Just(Step::Resume),
        8 => (0u64..3_000).prop_map(|micros| Step::Poll { micros }),
        2 => (0u64..6_000).prop_map(|micros| Step::Sample { micros }),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// What a wait depends on; a kernel does not wait.
    dependency: Option<u64>,
    signal: Option<u64>,
    ordered: bool,
    written: bool,
}

struct Model {
    kind: IndexKind,
    fake: Fake,
    packets: Vec<Entry>,
    /// Packet to fetch next.
    fetched: u64,
    /// The read index.
    shown: u64,
    /// Kernels that were fetched and have not completed.
    running: Vec<u64>,
    /// A wait that was fetched and not passed.
    gate: Option<u64>,
    free: Vec<u64>,
    /// The queue is off the gpu, by our doing.
    stopped: bool,
    /// The queue is off the gpu.
    saved: bool,
    /// A kernel without a signal was fetched: what is seen of it afterwards is no proof of anything.
    silent: bool,
    now: Nanos,
}

impl Model {
    fn new(kind: IndexKind) -> Model {
        Model {
            kind,
            fake: Fake::new(RING, SIGNALS + DEPENDENCIES),
            packets: Vec::new(),
            fetched: 0,
            shown: 0,
            running: Vec::new(),
            gate: None,
            free: (0..SIGNALS).collect(),
            stopped: false,
            saved: false,
            silent: false,
            now: ms(1),
        }
    }

    /// The oldest packet that was fetched and has not completed, or else the next.
    fn oldest(&self) -> u64 {
        self.running.iter().copied().chain(self.gate).min().unwrap_or(self.fetched)
    }

    /// Moves the read index to where it belongs. A packet loses its header before the index passes it.
    fn show(&mut self) {
        let index = match self.kind {
            IndexKind::Retire => self.oldest(),
            IndexKind::FetchRewoundAtSave if self.saved => self.oldest().max(self.write().saturating_sub(RING)),
            IndexKind::FetchRewoundAtSave | IndexKind::Fetch => self.fetched,
        };
        for number in self.shown..index {
            self.fake.header(number, INVALID);
        }
        self.shown = index;
        self.fake.set_read(index);
    }

    /// Whether looks reach all pending packets, so that signals which are in use again are known to be. While an index
    /// is rewound by a cycle of others, there may be more.
    fn is_seen_whole(&self) -> bool {
        self.stopped || self.pending() <= PENDING
    }

    /// Packets that the program sees pending.
    fn pending(&self) -> u64 {
        self.write() - self.shown
    }

    fn has_room(&self) -> bool {
        self.write() - if self.kind == IndexKind::Retire { self.shown } else { self.fetched } < PENDING
    }

    fn entry(&self, number: u64) -> Entry {
        self.packets[number as usize]
    }

    fn write(&self) -> u64 {
        self.packets.len() as u64
    }

    fn submit(&mut self, entry: Entry, any: bool) {
        if !self.has_room() {
            return;
        }
        let number = self.write();
        self.packets.push(entry);
        if entry.written {
            self.put(number, any);
        }
        self.fake.set_write(self.write());
    }

    fn take_signal(&mut self, wanted: bool) -> Option<Option<u64>> {
        if !wanted {
            return Some(None);
        }
        let signal = self.free.pop()?;
        self.fake.set_signal(signal, 1);
        Some(Some(signal))
    }

    fn put(&self, number: u64, any: bool) {
        let entry = self.entry(number);
        let signal = |index: u64| self.fake.signal(SIGNALS + index);
        let packet = match entry.dependency {
            None => Bytes::kernel(),
            Some(index) if any => Bytes::wait_any(&[signal(index)]),
            Some(index) => Bytes::wait_all(&[signal(index)]),
        };
        let packet = if entry.ordered { packet.ordered() } else { packet };
        let packet = entry.signal.map_or(packet, |signal| packet.completes(self.fake.signal(signal)));
        self.fake.put(number, &packet);
    }

    fn passes(&self, number: u64) -> bool {
        self.entry(number).dependency.is_none_or(|index| self.fake.signal_value(SIGNALS + index) == 0)
    }

    fn complete(&mut self, number: u64) {
        if let Some(signal) = self.entry(number).signal {
            self.fake.set_signal(signal, 0);
            self.free.push(signal);
        }
    }

    /// Lets the processor pass the wait that it is at, if it can.
    fn pass(&mut self) {
        let Some(gate) = self.gate else { return };
        if self.passes(gate) && (!self.entry(gate).ordered || self.running.is_empty()) {
            self.gate = None;
            self.complete(gate);
            self.show();
        }
    }

    fn fetch(&mut self) {
        if self.saved {
            return;
        }
        self.pass();
        if self.gate.is_some() || !self.next_is_written() {
            return;
        }
        let number = self.fetched;
        self.fetched += 1;
        let entry = self.entry(number);
        if entry.dependency.is_some() {
            self.gate = Some(number);
        } else {
            self.running.push(number);
            self.silent |= entry.signal.is_none();
        }
        self.show();
    }

    fn finish(&mut self, which: usize) {
        if self.saved || self.running.is_empty() {
            return;
        }
        let at = which % self.running.len();
        let number = self.running[at];
        if !self.entry(number).ordered || self.running.iter().all(|other| *other >= number) {
            self.running.remove(at);
            self.complete(number);
            self.show();
        }
    }

    /// Something else may use a signal that no packet from the last fetched on depends on.
    fn arm(&mut self, dependency: u64) {
        let from = self.oldest().min(self.fetched.saturating_sub(1)).min(self.shown.saturating_sub(1));
        if (from..self.write()).all(|number| self.entry(number).dependency != Some(dependency)) {
            self.fake.set_signal(SIGNALS + dependency, 1);
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Kernel { signal, ordered } => {
                if let Some(signal) = self.take_signal(signal && self.has_room()) {
                    self.submit(Entry { dependency: None, signal, ordered, written: true }, false);
                }
            }
            Step::Wait { any, dependency, signal, ordered } => {
                if let Some(signal) = self.take_signal(signal && self.has_room()) {
                    self.submit(Entry { dependency: Some(dependency), signal, ordered, written: true }, any);
                }
            }
            Step::Reserve => {
                self.submit(Entry { dependency: None, signal: None, ordered: false, written: false }, false);
            }
            Step::Write => self.write_reserved(),
            Step::Fetch => self.fetch(),
            Step::Finish(which) => self.finish(which),
            Step::Fire(dependency) => self.fake.set_signal(SIGNALS + dependency, 0),
            Step::Arm(dependency) => self.arm(dependency),
            Step::Stop => self.save(true),
            Step::Cycle => self.save(false),
            Step::Resume => self.restore(),
            Step::Poll { micros } | Step::Sample { micros } => self.now = self.now.plus(Nanos::from_micros(micros)),
        }
    }

    fn save(&mut self, by_us: bool) {
        self.saved = true;
        self.stopped |= by_us;
        self.show();
    }

    fn restore(&mut self) {
        (self.saved, self.stopped) = (false, false);
        self.show();
    }

    /// Compute units that its waves occupy; what is sampled while a queue is off the gpu says nothing.
    fn occupied_cus(&self) -> Option<u32> {
        (!self.saved).then_some(if self.running.is_empty() { 0 } else { 3 })
    }

    fn write_reserved(&mut self) {
        let reserved = (self.fetched..self.write()).find(|number| !self.entry(*number).written);
        let Some(number) = reserved else { return };
        let Some(signal) = self.take_signal(true) else { return };
        let entry = &mut self.packets[number as usize];
        (entry.signal, entry.written) = (signal, true);
        self.put(number, false);
    }

    /// What the tenant does: whether it certainly has work, and what it does if it certainly has none.
    fn truth(&self) -> (bool, Activity) {
        let gate_blocked = self.gate.is_some_and(|gate| !self.passes(gate));
        let head = self.next_is_written().then_some(self.fetched);
        let head_passes = head.is_some_and(|head| self.passes(head));
        let signalled = |number: u64| self.entry(number).signal.is_some();
        let has_work = self.running.iter().any(|number| signalled(*number))
            || self.gate.is_some_and(|gate| !gate_blocked && (signalled(gate) || self.shown <= gate))
            || (!gate_blocked && head_passes);
        let blocked = gate_blocked || (head.is_some() && !head_passes);
        (has_work, if blocked { Activity::Blocked } else { Activity::Idle })
    }

    fn next_is_written(&self) -> bool {
        self.fetched < self.write() && self.entry(self.fetched).written
    }

    /// The next packet is announced and not written.
    fn head_is_missing(&self) -> bool {
        self.fetched < self.write() && !self.entry(self.fetched).written
    }

    /// Lets everything end.
    fn drain(&mut self) {
        self.restore();
        for dependency in 0..DEPENDENCIES {
            self.fake.set_signal(SIGNALS + dependency, 0);
        }
        while self.next_is_written() {
            self.fetch();
            self.finish(0);
        }
        while !self.running.is_empty() {
            self.finish(0);
        }
        self.pass();
    }
}

/// Polls at each of these reads fail, in turn, and from the beginning again: the memory is away.
type Absences = [bool];

/// Polls as long as memory is away for some read. Says what was told last, before it is there again.
fn poll_through(probe: &mut Watch, model: &Model, absences: &Absences, polls: usize) -> Option<TenantActivity> {
    let (absences, mut at) = (absences.to_vec(), 0);
    probe.memory.before_read(Some(Box::new(move |_| {
        at += 1;
        if absences[at % absences.len()] { Err(ReadFailure::Away) } else { Ok(()) }
    })));
    let told = (0..polls).filter_map(|_| match probe.poll(model.now, model.stopped) {
        Ok(look) => Some(look),
        Err(error) => {
            assert_eq!(error, PollError::Away);
            None
        }
    });
    let told = told.last();
    probe.memory.before_read(None);
    told
}

/// Plays a history. Where there are absences, polls fail before each that does not, and some polls are left out.
fn play(kind: IndexKind, steps: &[Step], absences: &Absences) {
    let mut model = Model::new(kind);
    let mut probe = Watch::new(&[model.fake.ring()]);
    let mut last = probe.poll(model.now, false).unwrap();
    let mut unseen = 0;
    for (number, step) in steps.iter().enumerate() {
        model.take(*step);
        unseen += 1;
        // A probe cannot follow more packets than there are slots to look at.
        if !matches!(step, Step::Poll { .. } | Step::Sample { .. }) && unseen < 20 {
            continue;
        }
        if let (Step::Sample { .. }, Some(cus)) = (step, model.occupied_cus()) {
            probe.sampled(&sample(model.now, Some(cus), 0), true);
        }
        if !absences.is_empty() {
            if let Some(told) = poll_through(&mut probe, &model, absences, 1 + number % 3) {
                assert!(told.activity.has_work() || model.head_is_missing() || !model.truth().0, "{told:?} with work");
                last = told;
            }
            if unseen < 20 && number % 2 == 0 {
                continue;
            }
        }
        unseen = 0;
        let mut look = probe.poll(model.now, model.stopped).unwrap();
        if model.head_is_missing() {
            // It might be on its way to the processor: the first look after work does not tell.
            look = probe.poll(model.now, model.stopped).unwrap();
        }
        last = judge(kind, &model, &probe, last, look);
    }
    model.drain();
    for at in [10, 20, 30] {
        probe.poll(model.now.plus(ms(at)), false).unwrap();
        probe.sampled(&sample(model.now.plus(ms(at)), Some(0), 0), true);
    }
    let end = probe.poll(model.now.plus(ms(30)), false).unwrap();
    assert_eq!((end.activity, end.unsure), (Activity::Idle, false));
}

/// Compares what was told with the truth, and with what was told before. Returns it.
fn judge(kind: IndexKind, model: &Model, probe: &Watch, last: TenantActivity, look: TenantActivity) -> TenantActivity {
    let (retires, refuted) = (probe.probe.trusts_index(), probe.probe.refutes_retirement());
    let (has_work, otherwise) = model.truth();
    if has_work {
        assert!(look.activity.has_work(), "{look:?} with work");
    } else if model.is_seen_whole() && (!model.silent || retires && model.running.is_empty()) {
        assert_eq!(look.activity, otherwise, "{look:?}");
    }
    assert!(!retires || kind == IndexKind::Retire, "the index passes unfinished work");
    assert!(!refuted || kind != IndexKind::Retire, "the index passes nothing unfinished");
    assert!(!(model.stopped && look.activity == Activity::Running), "{look:?} while stopped");
    assert_eq!(look.pending, model.pending());
    if look.activity.has_work() == last.activity.has_work() {
        assert_eq!(look.since, last.since);
    } else {
        assert_eq!(look.since, model.now);
    }
    look
}

proptest! {
    #[test]
    fn what_signals_tell_is_told_as_it_is(steps in prop::collection::vec(step(false), 1..150)) {
        for kind in IndexKind::ALL {
            play(kind, &steps, &[]);
        }
    }

    #[test]
    fn work_is_not_overlooked_beside_packets_without_signals(steps in prop::collection::vec(step(true), 1..150)) {
        for kind in IndexKind::ALL {
            play(kind, &steps, &[]);
        }
    }
}

/// Which reads fail: some, so that some polls fail at each of their reads and others do not.
fn absences() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(prop::bool::weighted(0.2), 2..40)
        .prop_filter("some are there", |all| !all.iter().all(|is| *is))
}

proptest! {
    #[test]
    fn what_signals_tell_is_told_as_it_is_when_memory_that_was_away_is_back(
        steps in prop::collection::vec(step(false), 1..150), absences in absences(),
    ) {
        for kind in IndexKind::ALL {
            play(kind, &steps, &absences);
        }
    }

    #[test]
    fn work_is_not_overlooked_beside_packets_without_signals_and_memory_that_is_away(
        steps in prop::collection::vec(step(true), 1..150), absences in absences(),
    ) {
        for kind in IndexKind::ALL {
            play(kind, &steps, &absences);
        }
    }
}

/// A tenant that begins the next kernel before it ends the last is never without work, and is never seen without,
/// however looks and its steps fall together.
#[test]
fn a_tenant_at_work_is_never_seen_idle_while_it_moves() {
    const KERNELS: u64 = 4;
    let fake = Fake::new(16, KERNELS);
    let submit = |number: u64| {
        fake.set_signal(number % KERNELS, 1);
        fake.submit(number, &[Bytes::kernel().completes(fake.signal(number % KERNELS))]);
    };
    submit(0);
    let mut probe = Watch::new(&[fake.ring()]);
    let end = AtomicBool::new(false);
    // Odd while a packet's header is taken and the index does not show it yet. A processor does both at once; a thread
    // may be put aside between them for so long that two looks find no work.
    let taking = AtomicU64::new(0);
    let is_taking = || !taking.load(Ordering::SeqCst).is_multiple_of(2);
    let (mut idle, mut looks, mut last) = (0, 0, None);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut number = 0;
            while !end.load(Ordering::Relaxed) {
                // Steps of many lengths fall together with reads in many ways.
                for _ in 0..number * 7 % 64 {
                    std::hint::spin_loop();
                }
                taking.fetch_add(1, Ordering::SeqCst);
                fake.fetch(number, number + 1);
                taking.fetch_add(1, Ordering::SeqCst);
                submit(number + 1);
                fake.set_signal(number % KERNELS, 0);
                number += 1;
            }
            number
        });
        while looks < 30_000 {
            looks += 1;
            let taken = is_taking();
            let look = probe.poll(ms(looks), false).unwrap();
            if !look.activity.has_work() && !taken && !is_taking() {
                idle += 1;
                last = Some(look);
            }
        }
        end.store(true, Ordering::Relaxed);
        assert!(mover.join().unwrap() > 1_000, "it moved");
    });
    assert_eq!(idle, 0, "of {looks}: {last:?}");
}
