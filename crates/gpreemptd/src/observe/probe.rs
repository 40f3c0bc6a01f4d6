//! Polls all rings of one tenant.

use std::sync::Arc;

use gpreempt_core::{Activity, Nanos};
use kfd::ProcessMemory;

use super::TenantActivity;
use super::retirement::ReadIndexTrust;
use super::ring::{IndexEvidence, RingActivity, RingState};
use crate::discovery::{OccupancySample, Ring};

/// A tenant that was found evicted counts as that for so long, if nothing says otherwise: the driver tries to bring it
/// back after 100 ms.
const EVICTED: Nanos = Nanos::from_millis(100);
/// A tenant may move on while it is looked at; so often it is followed within one look.
const TRIES: u32 = 4;

/// Nothing of the tenant can be read: its process, or all its queues, are ending. Whether they are gone is for the
/// discovery thread to say; until then the tenant has no work.
#[derive(Debug, thiserror::Error)]
#[error("no ring can be read: {0}")]
pub struct Unreadable(kfd::Error);

/// Polls the rings of one tenant and remembers what is needed between polls.
#[derive(Debug)]
pub struct TenantProbe {
    memory: Arc<ProcessMemory>,
    rings: Vec<RingState>,
    pub(super) index: ReadIndexTrust,
    /// Whether a ring could not be read at the last look.
    failed: bool,
    /// Whether it has work, and since when.
    work: Option<(bool, Nanos)>,
    evicted_ms: Option<u64>,
    evicted_until: Option<Nanos>,
}

impl TenantProbe {
    /// Returns a probe of these rings of a process. Rings that cannot be such are left out.
    #[must_use]
    pub fn new(memory: Arc<ProcessMemory>, rings: &[Ring]) -> TenantProbe {
        let mut probe = TenantProbe {
            memory,
            rings: Vec::new(),
            index: ReadIndexTrust::new(),
            failed: false,
            work: None,
            evicted_ms: None,
            evicted_until: None,
        };
        probe.set_rings(rings);
        probe
    }

    /// The rings are these now. What is known of those that stay is kept.
    pub fn set_rings(&mut self, rings: &[Ring]) {
        let mut known = std::mem::take(&mut self.rings);
        for ring in rings {
            if self.rings.iter().any(|watched| watched.place() == ring) {
                continue;
            }
            if let Some(at) = known.iter().position(|watched| watched.place() == ring) {
                self.rings.push(known.swap_remove(at));
                continue;
            }
            // Its clock starts with the first look.
            match RingState::new(*ring, Nanos::ZERO) {
                Ok(mut watched) => {
                    watched.set_retires(self.index.retires());
                    self.rings.push(watched);
                }
                Err(why) => tracing::debug!("a ring of process {} is left out: {why}", self.memory.pid()),
            }
        }
    }

    /// Whether a ring could not be read at the last look: there may be another in its place.
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
        for ring in &mut self.rings {
            ring.set_retires(false);
            if believed {
                // It was not followed, and counted as ended because the index had passed it.
                ring.revive();
            }
        }
    }

    /// What the tenant does. `stopped`: all its queues are off the gpu by our doing, so that nothing fetched can
    /// finish.
    ///
    /// # Errors
    ///
    /// If it has rings and none can be read. One that cannot be read beside others that can counts as idle.
    pub fn poll(&mut self, now: Nanos, stopped: bool) -> Result<TenantActivity, Unreadable> {
        let joined = self.join(now, stopped)?;
        if !self.index.is_refuted() && self.rings.iter().any(RingState::is_rewound) {
            self.refute_retirement();
        }
        if joined.fetches || self.evicted_until.is_some_and(|until| now >= until) {
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
    fn join(&mut self, now: Nanos, stopped: bool) -> Result<RingActivity, Unreadable> {
        let (mut fetches, mut tries) = (false, 0);
        let worked = self.work.is_some_and(|(has_work, _)| has_work);
        loop {
            let mut joined = self.join_once(now, stopped, worked || fetches)?;
            fetches |= joined.fetches;
            joined.fetches = fetches;
            if joined.activity.has_work() {
                return Ok(joined);
            }
            if !joined.moved && (joined.settled || !self.rings.iter().any(|ring| ring.moved(&self.memory))) {
                return Ok(joined);
            }
            tries += 1;
            if tries == TRIES {
                // It works faster than we read.
                let activity = if stopped { Activity::Wants } else { Activity::Running };
                return Ok(RingActivity { activity, ..joined });
            }
        }
    }

    /// `worked`: the tenant had work a moment ago.
    fn join_once(&mut self, now: Nanos, stopped: bool, worked: bool) -> Result<RingActivity, Unreadable> {
        let mut failure = None;
        for at in 0..self.rings.len() {
            let Some(ring) = self.rings.get_mut(at) else { continue };
            match ring.read(&self.memory, now, stopped, worked) {
                Ok(()) => self.pass_on(at),
                Err(error) => failure = Some(error),
            }
        }
        let (mut joined, mut readable) = (RingActivity::IDLE, 0);
        for ring in &mut self.rings {
            if let Some(seen) = ring.judge(&self.memory, now) {
                joined.merge(&seen);
                readable += 1;
            }
        }
        self.failed = failure.is_some();
        match failure {
            Some(error) if readable == 0 => {
                self.note_work(false, now);
                Err(Unreadable(error))
            }
            _ => Ok(joined),
        }
    }

    /// Takes what was sampled because a look was unsure. `alone`: no other tenant had waves on the gpu then, so that
    /// what is unfinished cannot be waiting for room.
    pub fn sampled(&mut self, sample: &OccupancySample, alone: bool) {
        let grew = match (self.evicted_ms, sample.evicted_ms) {
            (Some(before), Some(now)) => now > before,
            _ => false,
        };
        self.evicted_ms = sample.evicted_ms.or(self.evicted_ms);
        self.evicted_until = grew.then(|| sample.at.plus(EVICTED));
        if grew {
            // Waves that the driver took away tell nothing by being away.
            return;
        }
        self.index.checked();
        if sample.occupied_cus.is_some_and(|cus| cus > 0) {
            self.weigh_index(sample.at);
        }
        for ring in &mut self.rings {
            ring.sampled(sample.at, sample.occupied_cus, alone);
        }
    }

    /// Takes waves of the tenant that were on the gpu for evidence about the read index. They belong to the kernel that
    /// the index of a ring stands at, if everything else is known to have ended; or to what the index has passed, if it
    /// has passed everything.
    fn weigh_index(&mut self, at: Nanos) {
        if self.index.is_refuted() {
            return;
        }
        let (mut stands, mut all_ended) = (None, true);
        for ring in &self.rings {
            match ring.waves_say(&self.memory, at) {
                IndexEvidence::None => return,
                IndexEvidence::Passed { ended } => all_ended &= ended,
                IndexEvidence::Stands(number) => stands = Some((ring.place().rptr, number)),
            }
        }
        match stands {
            Some((index, number)) if all_ended => {
                self.index.runs_at(index, number);
                let retires = self.index.retires();
                self.rings.iter_mut().for_each(|ring| ring.set_retires(retires));
            }
            Some(_) => {}
            None => self.refute_retirement(),
        }
    }

    /// A signal that a packet of one ring uses is about no packet of another any more.
    fn pass_on(&mut self, from: usize) {
        let Some((before, rest)) = self.rings.split_at_mut_checked(from) else { return };
        let Some((ring, after)) = rest.split_first_mut() else { return };
        for signal in ring.learned() {
            before.iter_mut().chain(after.iter_mut()).for_each(|other| other.forget(*signal));
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
