//! One ring of a tenant.

use gpreempt_core::{Activity, Nanos};
use kfd::ProcessMemory;
use kfd::aql::SignalHandle;
use kfd::ring::{IndexPlace, Indices, InvalidRing, Ring};

use super::confidence::{Confidence, SampleVerdict};
use super::in_flight::Unfinished;
use super::next_instant;
use super::packets::{Head, Packets};
use crate::discovery;

/// The processor may fetch the head between two reads; so often it is followed within one look.
const TRIES: u32 = 4;
/// A ring whose read index moved so lately is being worked on.
const LATELY: Nanos = Nanos::from_millis(2);
/// A packet that could begin and at which the index stands for so long has begun, or finds no room: the processor
/// fetches sooner, and where the index waits for the end of packets nothing else tells.
const STAYS: Nanos = Nanos::from_millis(1);

/// A ring with what is remembered of it.
#[derive(Debug)]
pub(super) struct RingState {
    place: discovery::Ring,
    indices: IndexPlace,
    contents: Contents,
    last: Option<Indices>,
    /// What was read last, if it could be.
    next: Option<Next>,
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
    /// Signals of packets that came since the last look.
    learned: Vec<SignalHandle>,
}

#[derive(Debug)]
enum Contents {
    Packets(Box<Packets>),
    Commands {
        /// Bits of an index that are a place in the ring.
        mask: u64,
        /// Commands were fetched, and nothing tells of their end.
        silent: bool,
    },
}

/// What waves that were on the gpu say about the read index of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexEvidence {
    /// Nothing.
    None,
    /// The index has passed everything; `ended`: all of that is known to have ended.
    Passed { ended: bool },
    /// The index stands at the kernel of this number, and all before it is known to have ended.
    Stands(u64),
}

/// What a ring shows, or all rings of a tenant together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingActivity {
    pub(super) activity: Activity,
    /// Packets that the read index has not passed.
    pub(super) pending: u64,
    /// Only a sample of the occupancy can tell whether the work has ended.
    pub(super) unsure: bool,
    /// The read index passed packets since the last poll.
    pub(super) fetches: bool,
    /// An index moved since it was last read, or a signal fired.
    pub(super) moved: bool,
    /// Nothing changes before an index moves.
    pub(super) settled: bool,
}

impl RingActivity {
    /// A ring without work, and a tenant without rings.
    pub(super) const IDLE: RingActivity = RingActivity {
        activity: Activity::Idle,
        pending: 0,
        unsure: false,
        fetches: false,
        moved: false,
        settled: true,
    };

    /// Adds another ring of the same tenant. The busiest decides; a sample is worth nothing beside work that is
    /// certain.
    pub(super) fn merge(&mut self, other: &RingActivity) {
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
    fetches: bool,
    moved: bool,
}

impl RingState {
    pub(super) fn new(place: discovery::Ring, now: Nanos) -> Result<RingState, InvalidRing> {
        let ring = Ring::new(place.base, place.bytes)?;
        let indices = IndexPlace::new(place.rptr, place.wptr)?;
        let contents = match place.format {
            discovery::Format::Aql => Contents::Packets(Box::new(Packets::new(ring))),
            discovery::Format::Pm4 => Contents::Commands { mask: ring.words() - 1, silent: false },
        };
        Ok(RingState {
            place,
            indices,
            contents,
            last: None,
            next: None,
            passed_at: None,
            ready: None,
            parked: false,
            rewound: false,
            confidence: Confidence::new(now),
            stopped: false,
            dormant: false,
            missing: None,
            learned: Vec::new(),
        })
    }

    pub(super) fn place(&self) -> &discovery::Ring {
        &self.place
    }

    /// Whether an index moved since the last look.
    pub(super) fn moved(&self, memory: &ProcessMemory) -> bool {
        self.indices.read(next_instant(memory)).ok() != self.last
    }

    /// Signals of packets that came since the last look.
    pub(super) fn learned(&self) -> &[SignalHandle] {
        &self.learned
    }

    /// A newer packet of another ring uses the signal.
    pub(super) fn forget(&mut self, signal: SignalHandle) {
        let Contents::Packets(packets) = &mut self.contents else { return };
        if self.learned.contains(&signal) {
            packets.in_flight.forget(signal);
        } else {
            packets.forget(signal);
        }
    }

    /// Whether the read index is known to pass packets only when they have retired.
    pub(super) fn set_retires(&mut self, retires: bool) {
        if let Contents::Packets(packets) = &mut self.contents {
            packets.set_retires(retires);
            // What the index has passed has ended, and not only for want of waves.
            self.dormant &= !retires;
        }
    }

    /// Whether the read index has come back to packets that it had passed.
    pub(super) fn is_rewound(&self) -> bool {
        self.rewound
    }

    /// What waves that were on the gpu at an instant say about the read index.
    pub(super) fn waves_say(&self, memory: &ProcessMemory, at: Nanos) -> IndexEvidence {
        let (Contents::Packets(packets), Some(last)) = (&self.contents, self.last) else { return IndexEvidence::None };
        if self.stopped || self.rewound || at < self.confidence.moved_at() || self.moved(memory) {
            return IndexEvidence::None;
        }
        match self.ready {
            _ if last.read == last.write => IndexEvidence::Passed { ended: packets.has_ended() },
            Some((number, since)) if number == last.read && since <= at && packets.is_at_kernel(number) => {
                if packets.has_ended() { IndexEvidence::Stands(number) } else { IndexEvidence::None }
            }
            _ => IndexEvidence::None,
        }
    }

    /// Something runs that the index has passed.
    pub(super) fn revive(&mut self) {
        let passed = self.last.filter(|last| last.read != 0);
        if let (Contents::Packets(packets), Some(last)) = (&mut self.contents, passed) {
            packets.in_flight.revive(last.read.wrapping_sub(1));
        }
    }

    /// Reads indices and packets. `worked`: the tenant had work a moment ago.
    pub(super) fn read(&mut self, memory: &ProcessMemory, now: Nanos, stopped: bool, worked: bool) -> kfd::Result<()> {
        self.learned.clear();
        if self.stopped && !stopped {
            self.confidence.resumed(now);
        }
        self.stopped = stopped;
        let next = self.next(memory, now, worked);
        self.next = next.as_ref().ok().copied();
        if next.is_err() {
            // If it can be read again, it is another queue's.
            self.last = None;
        }
        next.map(|_| ())
    }

    fn next(&mut self, memory: &ProcessMemory, now: Nanos, worked: bool) -> kfd::Result<Next> {
        let before = self.last;
        let mut indices = self.indices.read(next_instant(memory))?;
        let mut tries = 0;
        let head = loop {
            tries += 1;
            self.advance(memory, indices, now)?;
            let head = self.head(memory, indices, now)?;
            if head != Head::Missing || self.pending(indices) == 0 {
                break head;
            }
            // The header is gone when the processor has fetched the packet, and not there before the program wrote it.
            let again = self.indices.read(next_instant(memory))?;
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
        let fetches = before.is_some_and(|before| before.read != indices.read) && !self.rewound;
        Ok(Next { head, pending: self.pending(indices), fetches, moved: before != Some(indices) })
    }

    /// What the ring shows, by what was read and by signals; `None` if it could not be read.
    pub(super) fn judge(&mut self, memory: &ProcessMemory, now: Nanos) -> Option<RingActivity> {
        let Next { head, pending, fetches, moved } = self.next?;
        let unfinished = match &mut self.contents {
            Contents::Packets(packets) => packets.in_flight.unfinished(memory, self.stopped),
            Contents::Commands { silent, .. } => Unfinished { silent: *silent, ..Unfinished::default() },
        };
        let seen = self.weigh(head, unfinished, now);
        let settled = seen.activity == Activity::Idle && pending == 0 && !self.dormant;
        Some(RingActivity { pending, fetches, moved: moved || unfinished.progress, settled, ..seen })
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
            match &mut self.contents {
                Contents::Packets(packets) => packets.in_flight.give_up_on_silence(),
                Contents::Commands { silent, .. } => *silent = false,
            }
        }
        let blocked = unfinished.blocked || head == Head::Blocked;
        let activity = if blocked { Activity::Blocked } else { Activity::Idle };
        // Behind a wait that the index has passed, the head may run: the signal may have fired and be in use again.
        let doubtful = self.dormant || unfinished.blocked && head == Head::Ready;
        seen(activity, doubtful && self.confidence.doubts_signals(now))
    }

    /// Notes where the indices are, and what was passed since.
    fn advance(&mut self, memory: &ProcessMemory, indices: Indices, now: Nanos) -> kfd::Result<()> {
        // Indices that cannot follow those seen last are those of another queue at the same place.
        let known = match &self.contents {
            Contents::Packets(packets) => self.last.filter(|last| packets.continues(*last, indices)),
            Contents::Commands { .. } => self.last,
        };
        match known {
            None => {
                self.confidence = Confidence::new(now);
                self.passed_at = None;
            }
            Some(last) if last != indices => self.confidence.moved(now),
            Some(_) => {}
        }
        self.dormant &= known == Some(indices);
        let passed = match &mut self.contents {
            Contents::Packets(packets) => {
                let passed = packets.advance(memory, known.is_some(), indices, &mut self.learned)?;
                self.rewound = packets.is_rewound(indices);
                passed
            }
            Contents::Commands { silent, .. } => {
                *silent |= known.map_or(indices.read != 0, |last| last != indices);
                known.is_some_and(|last| last.read != indices.read)
            }
        };
        if passed {
            self.passed_at = Some(now);
        }
        self.parked &= known == Some(indices);
        self.last = Some(indices);
        Ok(())
    }

    /// Judges the packet that the index stands at.
    fn head(&mut self, memory: &ProcessMemory, indices: Indices, now: Nanos) -> kfd::Result<Head> {
        let pending = self.pending(indices);
        let Contents::Packets(packets) = &mut self.contents else {
            return Ok(if pending > 0 { Head::Ready } else { Head::Missing });
        };
        let head = packets.head(memory, indices, self.stopped, &mut self.learned)?;
        let since = self.ready.filter(|(number, _)| *number == indices.read).map_or(now, |(_, since)| since);
        self.ready = matches!(head, Head::Ready | Head::Begun).then_some((indices.read, since));
        Ok(head)
    }

    /// Packets that the index has not passed; for commands, whose number is not known, one.
    fn pending(&self, Indices { read, write }: Indices) -> u64 {
        match self.contents {
            // The processor may have gone on between the reads of the two.
            Contents::Packets(_) => u64::try_from(write.wrapping_sub(read).cast_signed()).unwrap_or(0),
            Contents::Commands { mask, .. } => u64::from((read ^ write) & mask != 0),
        }
    }

    /// Takes a sample of the tenant's occupancy. `alone`: no other tenant had waves on the gpu.
    pub(super) fn sampled(&mut self, at: Nanos, occupied_cus: Option<u32>, alone: bool) {
        if self.stopped {
            return;
        }
        match self.confidence.sampled(at, occupied_cus) {
            SampleVerdict::NoWaves { lasting, for_good } => {
                self.dormant |= match &mut self.contents {
                    Contents::Packets(packets) => packets.in_flight.no_waves(alone, lasting),
                    Contents::Commands { silent, .. } => std::mem::take(silent),
                };
                self.parked = true;
                self.dormant &= !for_good;
            }
            SampleVerdict::Waves => {
                let revived = std::mem::take(&mut self.dormant);
                self.parked = false;
                match &mut self.contents {
                    Contents::Packets(packets) => packets.in_flight.waves(),
                    Contents::Commands { silent, .. } => *silent |= revived,
                }
                if revived {
                    self.revive();
                }
            }
            SampleVerdict::Nothing => {}
        }
    }
}
