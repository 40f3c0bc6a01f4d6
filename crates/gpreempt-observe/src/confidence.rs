//! How long the state of a ring is believed, and what samples of the occupancy add to it.

use gpreempt_core::Nanos;

/// Waves of a packet that was just fetched, or of a queue that was just resumed, may not be on the gpu yet: no waves
/// say nothing before this time.
const SETTLING: Nanos = Nanos::from_millis(1);
/// The same for resumed queues: the driver answers before the gpu has restored what it saved.
const RESTORING: Nanos = Nanos::from_millis(5);
/// A signal that says "unfinished" is believed so long without any other sign of life.
const BELIEF: Nanos = Nanos::from_millis(2);
/// Waves that are away for so long have ended. Each cycle of the gpu takes all waves off it for a moment, also cycles
/// that others cause, so that one sample without waves, and even two, may have fallen into one.
const ABSENCE: Nanos = Nanos::from_millis(50);
/// No cycle takes longer: the driver itself gives up after 9 s.
const FOREVER: Nanos = Nanos::from_secs(10);
/// Longest time between two samples that are worth asking for.
const LONGEST: Nanos = Nanos::from_millis(64);
/// Where the driver tells no occupancy, packets without signals count as done after this time.
const GIVE_UP: Nanos = Nanos::from_millis(10);

/// How far the state of one ring can be believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confidence {
    /// When an index or a signal last moved.
    moved: Nanos,
    /// No waves before this instant mean nothing.
    settled: Nanos,
    /// When to trust it.
    due: Nanos,
    /// How long the next confirmation is believed.
    belief: Nanos,
    /// When the first of the last samples without waves was taken.
    absent: Option<Nanos>,
    /// The driver does not tell.
    untold: bool,
}

/// What a sample says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleVerdict {
    /// Too early, or the driver does not tell.
    Nothing,
    /// There are waves.
    Waves,
    /// There are none.
    NoWaves {
        /// And there have been none for longer than a cycle takes.
        lasting: bool,
        /// And there have been none for longer than any cycle can take.
        for_good: bool,
    },
}

impl Confidence {
    pub(crate) const fn new(now: Nanos) -> Confidence {
        let due = now.plus(BELIEF);
        Confidence { moved: now, settled: now.plus(SETTLING), due, belief: BELIEF, absent: None, untold: false }
    }

    /// An index or a signal moved.
    pub(crate) fn moved(&mut self, now: Nanos) {
        let settled = self.settled.0.max(now.plus(SETTLING).0);
        *self = Confidence { settled: Nanos(settled), untold: self.untold, ..Confidence::new(now) };
    }

    /// When an index or a signal was last seen to have moved.
    pub(crate) fn moved_at(&self) -> Nanos {
        self.moved
    }

    /// The queues were resumed.
    pub(crate) fn resumed(&mut self, now: Nanos) {
        self.moved(now);
        self.settled = now.plus(RESTORING);
    }

    /// Whether a signal that says "unfinished" should be backed by a sample.
    pub(crate) fn doubts_signals(&self, now: Nanos) -> bool {
        now >= self.due && now >= self.settled && !self.untold
    }

    /// Whether only a sample can tell of packets without signals.
    pub(crate) fn doubts_silence(&self, now: Nanos) -> bool {
        now >= self.settled && (self.belief == BELIEF || now >= self.due) && !self.untold
    }

    /// Whether nothing will ever tell of packets without signals.
    pub(crate) fn gives_up(&self, now: Nanos) -> bool {
        self.untold && now.since(self.moved) >= GIVE_UP
    }

    /// Takes a sample that was taken at an instant.
    pub(crate) fn sampled(&mut self, at: Nanos, occupied_cus: Option<u32>) -> SampleVerdict {
        self.untold = occupied_cus.is_none();
        match occupied_cus {
            Some(0) if at >= self.settled => {
                let absence = at.since(*self.absent.get_or_insert(at));
                self.due = at.plus(Nanos(absence.0.min(LONGEST.0)));
                SampleVerdict::NoWaves { lasting: absence >= ABSENCE, for_good: absence >= FOREVER }
            }
            Some(0) | None => SampleVerdict::Nothing,
            Some(_) if at < self.moved => SampleVerdict::Nothing,
            Some(_) => {
                self.absent = None;
                self.belief = Nanos(self.belief.times(2).0.min(LONGEST.0));
                self.due = at.plus(self.belief);
                SampleVerdict::Waves
            }
        }
    }
}
