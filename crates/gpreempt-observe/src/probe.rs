//! Polls all rings of one tenant.

use core::fmt;

use gpreempt_core::{Activity, Nanos};

use crate::memory::Away;
use crate::packets::Look;
use crate::retirement::ReadIndexTrust;
use crate::ring::{IndexEvidence, RingActivity};
use crate::{ReadFailure, RingPlace, RingState, RingStorage, Scratch, TenantActivity, TenantMemory};

/// A tenant that was found evicted counts as that for so long, if nothing says otherwise: the driver tries to bring it
/// back after 100 ms.
const EVICTED: Nanos = Nanos::from_millis(100);
/// A tenant may move on while it is looked at; so often it is followed within one look.
const TRIES: u32 = 4;

/// Why a poll tells nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollError {
    /// Nothing of the tenant can be read: its process, or all its queues, are ending. Whether they are gone is for the
    /// host to find out; until then the tenant has no work.
    Gone {
        /// Address of the read index of a ring that cannot be read.
        read_index: u64,
    },
    /// Memory that decides is away. Nothing is known to have changed: what was told last holds, and the next poll goes
    /// on from here. A host that is away too often lets something else, that may wait, touch the memory.
    Away,
}

impl fmt::Display for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PollError::Gone { read_index } => {
                write!(f, "no ring can be read, nor that with its read index at {read_index:#x}")
            }
            PollError::Away => f.write_str("memory that decides is not present now"),
        }
    }
}

impl core::error::Error for PollError {}

impl From<Away> for PollError {
    fn from(_: Away) -> PollError {
        PollError::Away
    }
}

/// Rings that a probe does not watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwatched {
    /// They cannot be rings ([`RingPlace::check`]) and count for nothing.
    pub invalid: usize,
    /// The storage has no room for them. While there are such, the tenant always has work, and is unsure of it: nothing
    /// tells that they have none.
    pub no_room: usize,
}

/// Polls the rings of one tenant and remembers what is needed between polls.
///
/// It is small; what grows with the number of rings lies in its storage.
#[derive(Debug)]
pub struct TenantProbe<S> {
    storage: S,
    /// Slots of the storage that are in use, from the first on.
    used: usize,
    unwatched: Unwatched,
    index: ReadIndexTrust,
    /// Whether a ring was gone at the last look.
    failed: bool,
    /// The last look was not ended, because memory was away.
    interrupted: bool,
    /// The read index passed packets since the last poll that told something.
    fetches: bool,
    /// Whether it has work, and since when.
    work: Option<(bool, Nanos)>,
    evicted_ms: Option<u64>,
    evicted_until: Option<Nanos>,
}

/// What a look at all rings found.
struct Joined {
    seen: RingActivity,
    /// Some memory was away: of what it would show nothing is in `seen`.
    away: bool,
}

impl<S: RingStorage> TenantProbe<S> {
    /// Returns a probe without rings. What the slots of the storage hold does not matter.
    #[must_use]
    pub const fn new(storage: S) -> TenantProbe<S> {
        TenantProbe {
            storage,
            used: 0,
            unwatched: Unwatched { invalid: 0, no_room: 0 },
            index: ReadIndexTrust::new(),
            failed: false,
            interrupted: false,
            fetches: false,
            work: None,
            evicted_ms: None,
            evicted_until: None,
        }
    }

    fn rings(&self) -> &[RingState] {
        self.storage.slots().get(..self.used).unwrap_or_default()
    }

    fn rings_mut(&mut self) -> &mut [RingState] {
        self.storage.slots_mut().get_mut(..self.used).unwrap_or_default()
    }

    /// The rings are these now. What is known of those that stay is kept, also where there is no room for all. Returns
    /// which are not watched. Takes time with the square of their number.
    pub fn set_rings<I>(&mut self, places: I) -> Unwatched
    where
        I: IntoIterator<Item = RingPlace, IntoIter: Clone>,
    {
        let places = places.into_iter();
        self.drop_all_but(places.clone());
        self.storage.make_room(places.clone().count());
        self.unwatched = Unwatched::default();
        for place in places {
            if self.rings().iter().any(|ring| *ring.place() == place) {
                continue;
            }
            let retires = self.index.retires();
            // Rings are numbered in 16 bits.
            let free = self.storage.slots_mut().get_mut(self.used).filter(|_| self.used < usize::from(u16::MAX));
            match free.map(|slot| slot.reset(place, retires)) {
                Some(Ok(())) => self.used += 1,
                Some(Err(_)) => self.unwatched.invalid += 1,
                None if place.check().is_err() => self.unwatched.invalid += 1,
                None => self.unwatched.no_room += 1,
            }
        }
        self.unwatched
    }

    /// Drops rings at other places than these. The rest are moved together, each in place.
    fn drop_all_but(&mut self, places: impl Iterator<Item = RingPlace>) {
        self.rings_mut().iter_mut().for_each(|ring| ring.stays = false);
        for place in places {
            self.rings_mut().iter_mut().filter(|ring| *ring.place() == place).for_each(|ring| ring.stays = true);
        }
        let mut kept = 0;
        for at in 0..self.used {
            if !self.rings().get(at).is_some_and(|ring| ring.stays) {
                continue;
            }
            if let Some((before, from)) = self.rings_mut().split_at_mut_checked(at)
                && let (Some(to), Some(ring)) = (before.get_mut(kept), from.first_mut())
            {
                core::mem::swap(to, ring);
            }
            kept += 1;
        }
        self.used = kept;
    }

    /// Returns which of the rings that were set last are not watched.
    #[must_use]
    pub fn unwatched(&self) -> Unwatched {
        self.unwatched
    }

    /// Whether a ring was gone at the last look: there may be another in its place.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Whether the read index of this tenant is known to pass packets only when they have retired.
    #[must_use]
    pub fn trusts_index(&self) -> bool {
        self.index.retires()
    }

    /// Whether the read index was seen to pass work of this tenant that was unfinished.
    #[must_use]
    pub fn refutes_retirement(&self) -> bool {
        self.index.is_refuted()
    }

    /// The read index passes unfinished work on this gpu, of this tenant or of another.
    pub fn refute_retirement(&mut self) {
        let believed = self.index.retires();
        self.index.refute();
        for ring in self.rings_mut() {
            ring.set_retires(false);
            if believed {
                // It was not followed, and counted as ended because the index had passed it.
                ring.revive();
            }
        }
    }

    /// What the tenant does. `stopped`: all its queues are off the gpu by our doing, so that nothing fetched can
    /// finish. `scratch` may be that of other tenants. Costs time that grows with the number of rings, and is bounded
    /// whatever the tenant does meanwhile.
    ///
    /// # Errors
    ///
    /// If it has rings and none can be read. One that is gone beside others that can be read counts as idle; one that
    /// is away leaves everything as it was, unless others show work where there was none.
    pub fn poll(
        &mut self,
        memory: &impl TenantMemory,
        scratch: &mut Scratch,
        now: Nanos,
        stopped: bool,
    ) -> Result<TenantActivity, PollError> {
        let mut joined = self.join(memory, scratch, now, stopped)?;
        if !self.index.is_refuted() && self.rings().iter().any(RingState::is_rewound) {
            self.refute_retirement();
        }
        if self.unwatched.no_room > 0 && !joined.activity.has_work() {
            (joined.activity, joined.unsure) = (Activity::Wants, true);
        }
        if core::mem::take(&mut self.fetches) || self.evicted_until.is_some_and(|until| now >= until) {
            self.evicted_until = None;
        }
        let evicted = joined.activity.has_work() && self.evicted_until.is_some();
        let activity = if evicted { Activity::Evicted } else { joined.activity };
        let worked = self.work.is_some_and(|(worked, _)| worked);
        match (worked, activity) {
            (true, Activity::Idle) if self.index.retires() => self.index.told_end(),
            (_, Activity::Idle) => {}
            _ => self.index.checked(),
        }
        let since = self.note_work(activity.has_work(), now);
        let unsure = evicted || joined.unsure || self.index.wants_check();
        Ok(TenantActivity { activity, since, pending: joined.pending, unsure })
    }

    /// Looks at all rings. The tenant goes on between the reads: it may end what it had and begin something else where
    /// we have looked already. So no work is believed only of a tenant at which nothing had moved since it was read
    /// before, neither index nor signal: then there was none at the instant of the first read. What holds it up is read
    /// later, and is believed only if the indices are still where they were.
    fn join(
        &mut self,
        memory: &impl TenantMemory,
        scratch: &mut Scratch,
        now: Nanos,
        stopped: bool,
    ) -> Result<RingActivity, PollError> {
        let worked = self.work.is_some_and(|(has_work, _)| has_work);
        let (mut fetches, mut tries) = (false, 0);
        loop {
            let Joined { seen, away } = self.join_once(memory, scratch, now, stopped, worked || fetches)?;
            fetches |= seen.fetches;
            if away && (worked || !seen.activity.has_work()) {
                return Err(PollError::Away);
            }
            if seen.activity.has_work() || !seen.moved && (seen.settled || !self.moved(memory)?) {
                return Ok(seen);
            }
            tries += 1;
            if tries == TRIES {
                // It works faster than we read.
                let activity = if stopped { Activity::Wants } else { Activity::Running };
                return Ok(RingActivity { activity, ..seen });
            }
        }
    }

    /// Whether an index moved since it was read.
    fn moved(&mut self, memory: &impl TenantMemory) -> Result<bool, Away> {
        for at in 0..self.used {
            let moved = self.rings().get(at).map_or(Ok(false), |ring| ring.moved(memory));
            if moved != Ok(false) {
                self.interrupted |= moved.is_err();
                return moved;
            }
        }
        Ok(false)
    }

    /// `worked`: the tenant had work a moment ago.
    fn join_once(
        &mut self,
        memory: &impl TenantMemory,
        scratch: &mut Scratch,
        now: Nanos,
        stopped: bool,
        worked: bool,
    ) -> Result<Joined, PollError> {
        let goes_on = core::mem::replace(&mut self.interrupted, false);
        let (mut gone, mut away) = (None, false);
        scratch.learned.clear();
        for (number, at) in (0..=u16::MAX).zip(0..self.used) {
            self.pass_on(scratch, at..at + 1);
            let Some(ring) = self.rings_mut().get_mut(at) else { continue };
            let mut look = Look { memory, ring: *ring.ring(), number, scratch: &mut *scratch };
            match ring.read(&mut look, now, stopped, worked, goes_on) {
                Ok(()) => {}
                Err(ReadFailure::Gone) => gone = Some(ring.place().read_index),
                Err(ReadFailure::Away) => away = true,
            }
        }
        self.pass_on(scratch, 0..self.used);
        let (mut seen, mut readable) = (RingActivity::IDLE, 0);
        for ring in self.rings_mut() {
            match ring.judge(memory, now) {
                Ok(Some(ring)) => {
                    seen.merge(&ring);
                    readable += 1;
                }
                Ok(None) => {}
                Err(Away) => away = true,
            }
        }
        self.failed = gone.is_some();
        self.interrupted = away;
        self.fetches |= seen.fetches;
        match gone {
            Some(read_index) if readable == 0 && !away && self.unwatched.no_room == 0 => {
                self.fetches = false;
                self.note_work(false, now);
                Err(PollError::Gone { read_index })
            }
            _ => Ok(Joined { seen, away }),
        }
    }

    /// A signal that a packet of one ring uses is about no packet of another any more: these rings hear of signals that
    /// others have learned. Where two learned the same, it is the last's.
    fn pass_on(&mut self, scratch: &Scratch, rings: core::ops::Range<usize>) {
        if self.used < 2 || scratch.learned.is_empty() {
            return;
        }
        let first = u16::try_from(rings.start).unwrap_or(u16::MAX);
        for (number, ring) in (first..=u16::MAX).zip(self.rings_mut().get_mut(rings).unwrap_or_default()) {
            ring.forget(|signal| scratch.learned.is_of_another(signal, number));
        }
    }

    /// Takes a sample of the occupancy that was taken at an instant because a poll was unsure: the compute units that
    /// hold waves of the tenant and the milliseconds that it was evicted so far, if the driver tells. `alone`: no other
    /// tenant had waves on the gpu then, so that what is unfinished cannot be waiting for room.
    pub fn sampled(
        &mut self,
        memory: &impl TenantMemory,
        at: Nanos,
        occupied_cus: Option<u32>,
        evicted_ms: Option<u64>,
        alone: bool,
    ) {
        let grew = match (self.evicted_ms, evicted_ms) {
            (Some(before), Some(now)) => now > before,
            _ => false,
        };
        self.evicted_ms = evicted_ms.or(self.evicted_ms);
        self.evicted_until = grew.then(|| at.plus(EVICTED));
        if grew {
            // Waves that the driver took away tell nothing by being away, nor do packets that were fetched before.
            self.fetches = false;
            self.rings_mut().iter_mut().for_each(RingState::forget_fetches);
            return;
        }
        self.index.checked();
        if occupied_cus.is_some_and(|cus| cus > 0) {
            self.weigh_index(memory, at);
        }
        for ring in self.rings_mut() {
            ring.sampled(at, occupied_cus, alone);
        }
    }

    /// Takes waves of the tenant that were on the gpu for evidence about the read index. They belong to the kernel that
    /// the index of a ring stands at, if everything else is known to have ended; or to what the index has passed, if it
    /// has passed everything.
    fn weigh_index(&mut self, memory: &impl TenantMemory, at: Nanos) {
        if self.index.is_refuted() || self.unwatched.no_room > 0 {
            return;
        }
        let (mut stands, mut all_ended) = (None, true);
        for ring in self.rings() {
            match ring.waves_say(memory, at) {
                IndexEvidence::None => return,
                IndexEvidence::Passed { ended } => all_ended &= ended,
                IndexEvidence::Stands(number) => stands = Some((ring.place().read_index, number)),
            }
        }
        match stands {
            Some((index, number)) if all_ended => {
                self.index.runs_at(index, number);
                let retires = self.index.retires();
                self.rings_mut().iter_mut().for_each(|ring| ring.set_retires(retires));
            }
            Some(_) => {}
            None => self.refute_retirement(),
        }
    }

    fn note_work(&mut self, has_work: bool, now: Nanos) -> Nanos {
        match self.work {
            Some((before, since)) if before == has_work => since,
            _ => {
                self.work = Some((has_work, now));
                now
            }
        }
    }
}
