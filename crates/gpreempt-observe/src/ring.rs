//! One ring of a tenant.

use gpreempt_core::{Activity, Nanos};
use kfd_abi::aql::SignalHandle;

use crate::confidence::{Confidence, SampleVerdict};
use crate::in_flight::Unfinished;
use crate::memory::Away;
use crate::packets::{Head, Look, Packets};
use crate::place::{Indices, Ring};
use crate::{InvalidRing, ReadFailure, RingPlace, TenantMemory};

/// The processor may fetch the head between two reads; so often it is followed within one look.
const TRIES: u32 = 4;
/// A ring whose read index moved so lately is being worked on.
const LATELY: Nanos = Nanos::from_millis(2);
/// A packet that could begin and at which the index stands for so long has begun, or finds no room: the processor
/// fetches sooner, and where the index waits for the end of packets nothing else tells.
const STAYS: Nanos = Nanos::from_millis(1);

/// A ring with what is remembered of it, 4 KiB. Each slot of a [`RingStorage`](crate::RingStorage) holds one.
#[derive(Debug)]
pub struct RingState {
    ring: Ring,
    packets: Packets,
    /// Of a ring of commands: some were fetched, and nothing tells of their end.
    silent: bool,
    last: Option<Indices>,
    /// What was read last, if it could be.
    next: Option<Next>,
    /// What happened since the last look that was ended.
    changes: Changes,
    /// When the read index was last seen to pass a packet.
    passed_at: Option<Nanos>,
    /// The head that could begin, and since when it was seen so.
    ready: Option<(u64, Nanos)>,
    /// Its waves were looked for and not found.
    parked: bool,
    /// The read index came back to packets that it had passed.
    rewound: bool,
    confidence: Confidence,
    stopped: bool,
    /// Something counts as ended only because there were no waves, which may be away for a cycle.
    dormant: bool,
    /// The packet that was announced and not there at the last look.
    missing: Option<u64>,
    /// The host still names it: a mark of [`TenantProbe::set_rings`](crate::TenantProbe::set_rings).
    pub(crate) stays: bool,
}

/// What waves that were on the gpu say about the read index of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexEvidence {
    /// Nothing.
    None,
    /// The index has passed everything; `ended`: all of that is known to have ended.
    Passed { ended: bool },
    /// The index stands at the kernel of this number, and all before it is known to have ended.
    Stands(u64),
}

/// What a ring shows, or all rings of a tenant together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingActivity {
    pub(crate) activity: Activity,
    /// Packets that the read index has not passed.
    pub(crate) pending: u64,
    /// Only a sample of the occupancy can tell whether the work has ended.
    pub(crate) unsure: bool,
    /// The read index passed packets since the last poll.
    pub(crate) fetches: bool,
    /// An index moved since it was last read, or a signal fired.
    pub(crate) moved: bool,
    /// Nothing changes before an index moves.
    pub(crate) settled: bool,
}

impl RingActivity {
    /// A ring without work, and a tenant without rings.
    pub(crate) const IDLE: RingActivity = RingActivity {
        activity: Activity::Idle,
        pending: 0,
        unsure: false,
        fetches: false,
        moved: false,
        settled: true,
    };

    /// Adds another ring of the same tenant. The busiest decides; a sample is worth nothing beside work that is
    /// certain.
    pub(crate) fn merge(&mut self, other: &RingActivity) {
        let rank = |activity| match activity {
            Activity::Running => 3,
            Activity::Wants => 2,
            Activity::Blocked | Activity::Evicted => 1,
            Activity::Idle => 0,
        };
        let certain = [&*self, other].into_iter().any(|ring| ring.activity.has_work() && !ring.unsure);
        if rank(other.activity) > rank(self.activity) {
            self.activity = other.activity;
        }
        self.unsure = (self.unsure || other.unsure) && !certain;
        self.pending = self.pending.saturating_add(other.pending);
        self.fetches |= other.fetches;
        self.moved |= other.moved;
        self.settled &= other.settled;
    }
}

/// What comes next in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next {
    head: Head,
    pending: u64,
}

/// What was seen to happen in a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changes {
    /// The read index passed packets.
    fetches: bool,
    /// An index moved since it was last read, or a signal fired.
    moved: bool,
}

impl Changes {
    const NONE: Changes = Changes { fetches: false, moved: false };
}

impl RingState {
    /// A slot without a ring.
    pub const EMPTY: RingState = RingState {
        ring: Ring::NONE,
        packets: Packets::UNSEEN,
        silent: false,
        last: None,
        next: None,
        changes: Changes::NONE,
        passed_at: None,
        ready: None,
        parked: false,
        rewound: false,
        // Its clock starts with the first look.
        confidence: Confidence::new(Nanos::ZERO),
        stopped: false,
        dormant: false,
        missing: None,
        stays: false,
    };

    /// Becomes the state of a ring that was not looked at yet, in place.
    pub(crate) fn reset(&mut self, place: RingPlace, retires: bool) -> Result<(), InvalidRing> {
        self.ring = Ring::new(place)?;
        self.packets.reset();
        (self.last, self.next, self.changes) = (None, None, Changes::NONE);
        (self.passed_at, self.ready, self.missing) = (None, None, None);
        (self.silent, self.parked, self.rewound, self.stopped, self.dormant) = (false, false, false, false, false);
        self.confidence = Confidence::new(Nanos::ZERO);
        self.stays = true;
        self.set_retires(retires);
        Ok(())
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(crate) fn place(&self) -> &RingPlace {
        self.ring.place()
    }

    /// Whether an index moved since the last look.
    pub(crate) fn moved(&self, memory: &impl TenantMemory) -> Result<bool, Away> {
        match self.ring.read_indices(memory) {
            Err(ReadFailure::Away) => Err(Away),
            indices => Ok(indices.ok() != self.last),
        }
    }

    /// Newer packets of other rings use these signals.
    pub(crate) fn forget(&mut self, is_used: impl Fn(SignalHandle) -> bool) {
        if self.ring.holds_packets() {
            self.packets.forget(is_used);
        }
    }

    /// Whether the read index is known to pass packets only when they have retired.
    pub(crate) fn set_retires(&mut self, retires: bool) {
        if self.ring.holds_packets() {
            self.packets.set_retires(retires);
            // What the index has passed has ended, and not only for want of waves.
            self.dormant &= !retires;
        }
    }

    /// Whether the read index has come back to packets that it had passed.
    pub(crate) fn is_rewound(&self) -> bool {
        self.rewound
    }

    /// What waves that were on the gpu at an instant say about the read index. Nothing, if the indices cannot be read.
    pub(crate) fn waves_say(&self, memory: &impl TenantMemory, at: Nanos) -> IndexEvidence {
        let Some(last) = self.last.filter(|_| self.ring.holds_packets()) else { return IndexEvidence::None };
        let stood = |memory| self.moved(memory) == Ok(false);
        if self.stopped || self.rewound || at < self.confidence.moved_at() || !stood(memory) {
            return IndexEvidence::None;
        }
        match self.ready {
            _ if last.read == last.write => IndexEvidence::Passed { ended: self.packets.has_ended() },
            Some((number, since)) if number == last.read && since <= at && self.packets.is_at_kernel(number) => {
                if self.packets.has_ended() { IndexEvidence::Stands(number) } else { IndexEvidence::None }
            }
            _ => IndexEvidence::None,
        }
    }

    /// Something runs that the index has passed.
    pub(crate) fn revive(&mut self) {
        let passed = self.last.filter(|last| last.read != 0 && self.ring.holds_packets());
        if let Some(last) = passed {
            self.packets.in_flight.revive(last.read.wrapping_sub(1));
        }
    }

    /// The read index has passed nothing since the driver took the queue off the gpu.
    pub(crate) fn forget_fetches(&mut self) {
        self.changes.fetches = false;
    }

    /// Reads indices and packets. `worked`: the tenant had work a moment ago. `goes_on`: the last look was not ended,
    /// and this one ends it.
    ///
    /// # Errors
    ///
    /// If memory is gone, the ring is taken for another one when it can be read again. If it is away, everything is as
    /// far as it could be read.
    pub(crate) fn read(
        &mut self,
        look: &mut Look<'_, impl TenantMemory>,
        now: Nanos,
        stopped: bool,
        worked: bool,
        goes_on: bool,
    ) -> Result<(), ReadFailure> {
        self.packets.begin_look();
        if self.stopped && !stopped {
            self.confidence.resumed(now);
        }
        self.stopped = stopped;
        if !goes_on {
            self.changes = Changes::NONE;
        }
        let before = self.last;
        let next = self.next(look, now, worked);
        self.changes.fetches |=
            !self.rewound && before.zip(self.last).is_some_and(|(before, last)| before.read != last.read);
        self.changes.moved |= before != self.last;
        self.next = next.ok();
        if next == Err(ReadFailure::Gone) {
            // If it can be read again, it is another queue's.
            self.last = None;
        }
        next.map(|_| ())
    }

    fn next(&mut self, look: &mut Look<'_, impl TenantMemory>, now: Nanos, worked: bool) -> Result<Next, ReadFailure> {
        let mut indices = self.ring.read_indices(look.memory)?;
        let mut tries = 0;
        let head = loop {
            tries += 1;
            self.advance(look, indices, now)?;
            let head = self.head(look, indices, now)?;
            if head != Head::Missing || self.pending(indices) == 0 {
                break head;
            }
            // The header is gone when the processor has fetched the packet, and not there before the program wrote it.
            let again = self.ring.read_indices(look.memory)?;
            if again.read == indices.read {
                let unclear = self.missing != Some(indices.read) && worked;
                self.missing = Some(indices.read);
                break if unclear { Head::Unclear } else { head };
            }
            if tries == TRIES {
                // It fetches faster than we read.
                break Head::Ready;
            }
            indices = again;
        };
        Ok(Next { head, pending: self.pending(indices) })
    }

    /// What the ring shows, by what was read and by signals; `None` if it could not be read.
    ///
    /// # Errors
    ///
    /// If a signal that decides is away.
    pub(crate) fn judge(&mut self, memory: &impl TenantMemory, now: Nanos) -> Result<Option<RingActivity>, Away> {
        let Some(Next { head, pending }) = self.next else { return Ok(None) };
        let unfinished = if self.ring.holds_packets() {
            self.packets.in_flight.unfinished(memory, self.stopped)?
        } else {
            Unfinished { silent: self.silent, ..Unfinished::default() }
        };
        self.changes.moved |= unfinished.progress;
        let seen = self.weigh(head, unfinished, now);
        let settled = seen.activity == Activity::Idle && pending == 0 && !self.dormant;
        let Changes { fetches, moved } = self.changes;
        Ok(Some(RingActivity { pending, fetches, moved, settled, ..seen }))
    }

    /// What all that comes to.
    fn weigh(&mut self, head: Head, unfinished: Unfinished, now: Nanos) -> RingActivity {
        if unfinished.progress {
            self.confidence.moved(now);
        }
        let on_gpu = if self.stopped || unfinished.parked { Activity::Wants } else { Activity::Running };
        let seen =
            |activity, unsure: bool| RingActivity { activity, unsure: unsure && !self.stopped, ..RingActivity::IDLE };
        if unfinished.signalled {
            return seen(on_gpu, self.confidence.doubts_signals(now));
        }
        if head == Head::Begun || head == Head::Ready && !unfinished.blocked {
            let lately = self.passed_at.is_some_and(|at| now.since(at) < LATELY);
            let stays = self.ready.is_some_and(|(_, since)| now.since(since) >= STAYS);
            let on_gpu = if self.stopped || self.parked { Activity::Wants } else { on_gpu };
            let activity = if lately || stays || head == Head::Begun { on_gpu } else { Activity::Wants };
            return seen(activity, stays && self.confidence.doubts_signals(now));
        }
        if head == Head::Unclear && !unfinished.blocked && !self.stopped {
            // Work that was there a moment ago is believed until the next look.
            return seen(on_gpu, false);
        }
        if unfinished.silent && !self.confidence.gives_up(now) {
            return seen(on_gpu, self.confidence.doubts_silence(now));
        }
        if unfinished.silent && !self.stopped {
            self.packets.in_flight.give_up_on_silence();
            self.silent = false;
        }
        let blocked = unfinished.blocked || head == Head::Blocked;
        let activity = if blocked { Activity::Blocked } else { Activity::Idle };
        // Behind a wait that the index has passed, the head may run: the signal may have fired and be in use again.
        let doubtful = self.dormant || unfinished.blocked && head == Head::Ready;
        seen(activity, doubtful && self.confidence.doubts_signals(now))
    }

    /// Notes where the indices are, and what was passed since; nothing if that cannot be read.
    fn advance(
        &mut self,
        look: &mut Look<'_, impl TenantMemory>,
        indices: Indices,
        now: Nanos,
    ) -> Result<(), ReadFailure> {
        // Indices that cannot follow those seen last are those of another queue at the same place.
        let continues =
            |last: &Indices| !self.ring.holds_packets() || self.packets.continues(&self.ring, *last, indices);
        let known = self.last.filter(continues);
        let passed = if self.ring.holds_packets() {
            let passed = self.packets.advance(look, known.is_some(), indices)?;
            self.rewound = self.packets.is_rewound(indices);
            passed
        } else {
            self.silent |= known.map_or(indices.read != 0, |last| last != indices);
            known.is_some_and(|last| last.read != indices.read)
        };
        match known {
            None => {
                self.confidence = Confidence::new(now);
                self.passed_at = None;
            }
            Some(last) if last != indices => self.confidence.moved(now),
            Some(_) => {}
        }
        if passed {
            self.passed_at = Some(now);
        }
        self.dormant &= known == Some(indices);
        self.parked &= known == Some(indices);
        self.last = Some(indices);
        Ok(())
    }

    /// Judges the packet that the index stands at.
    fn head(
        &mut self,
        look: &mut Look<'_, impl TenantMemory>,
        indices: Indices,
        now: Nanos,
    ) -> Result<Head, ReadFailure> {
        if !self.ring.holds_packets() {
            return Ok(if self.pending(indices) > 0 { Head::Ready } else { Head::Missing });
        }
        let head = self.packets.head(look, indices, self.stopped)?;
        let since = self.ready.filter(|(number, _)| *number == indices.read).map_or(now, |(_, since)| since);
        self.ready = matches!(head, Head::Ready | Head::Begun).then_some((indices.read, since));
        Ok(head)
    }

    /// Packets that the index has not passed; for commands, whose number is not known, one.
    fn pending(&self, indices: Indices) -> u64 {
        if self.ring.holds_packets() {
            indices.pending()
        } else {
            u64::from((indices.read ^ indices.write) & self.ring.word_mask() != 0)
        }
    }

    /// Takes a sample of the tenant's occupancy. `alone`: no other tenant had waves on the gpu.
    pub(crate) fn sampled(&mut self, at: Nanos, occupied_cus: Option<u32>, alone: bool) {
        if self.stopped {
            return;
        }
        match self.confidence.sampled(at, occupied_cus) {
            SampleVerdict::NoWaves { lasting, for_good } => {
                self.dormant |= if self.ring.holds_packets() {
                    self.packets.in_flight.no_waves(alone, lasting)
                } else {
                    core::mem::take(&mut self.silent)
                };
                self.parked = true;
                self.dormant &= !for_good;
            }
            SampleVerdict::Waves => {
                let revived = core::mem::take(&mut self.dormant);
                self.parked = false;
                if self.ring.holds_packets() {
                    self.packets.in_flight.waves();
                } else {
                    self.silent |= revived;
                }
                if revived {
                    self.revive();
                }
            }
            SampleVerdict::Nothing => {}
        }
    }
}
