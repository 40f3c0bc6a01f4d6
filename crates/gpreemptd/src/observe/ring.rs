//! One ring of a tenant.

use std::collections::VecDeque;

use gpreempt_core::{Activity, Nanos};
use kfd::ProcessMemory;
use kfd::aql::{self, PACKET_SIZE, Packet, PacketKind, SignalHandle, Slot};
use kfd::ring::{IndexPlace, Indices, InvalidRing, Ring};

use super::confidence::{Confidence, SampleVerdict};
use super::in_flight::{InFlight, Unfinished};
use super::next_instant;
use crate::discovery;

/// Packets that are read at most after they were fetched: one call, half a page.
const FETCHED: u64 = 32;
/// Packets that are read at most in a ring not seen before.
const FIRST_SIGHT: u64 = 8;
/// Packets that are read at most before they are fetched.
const AHEAD: u64 = 8;
/// The processor may fetch the head between two reads; so often it is followed within one look.
const TRIES: u32 = 4;
/// A ring from which the processor fetched so lately is being worked on.
const LATELY: Nanos = Nanos::from_millis(2);

/// A ring with what is remembered of it.
#[derive(Debug)]
pub(super) struct RingState {
    place: discovery::Ring,
    indices: IndexPlace,
    contents: Contents,
    last: Option<Indices>,
    /// What was read last, if it could be.
    next: Option<Next>,
    /// When the processor was last seen to fetch.
    fetched_at: Option<Nanos>,
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
    Packets {
        ring: Ring,
        in_flight: Box<InFlight>,
        /// Packets that were seen before they were fetched, with their numbers.
        ahead: VecDeque<(u64, Packet)>,
    },
    Commands {
        /// Bits of an index that are a place in the ring.
        mask: u64,
        /// Commands were fetched, and nothing tells of their end.
        silent: bool,
    },
}

/// What a ring shows, or all rings of a tenant together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingActivity {
    pub(super) activity: Activity,
    /// Packets not yet fetched.
    pub(super) pending: u64,
    /// Only a sample of the occupancy can tell whether the work has ended.
    pub(super) unsure: bool,
    /// The processor fetched since the last poll.
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

/// The next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// There is none, or it is not written yet.
    Missing,
    /// It is not written yet, or the processor is about to fetch it: it takes the header before it moves the index.
    Unclear,
    /// Waits for a signal.
    Blocked,
    /// Could begin.
    Ready,
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
            discovery::Format::Aql => Contents::Packets { ring, in_flight: Box::default(), ahead: VecDeque::new() },
            discovery::Format::Pm4 => Contents::Commands { mask: ring.words() - 1, silent: false },
        };
        Ok(RingState {
            place,
            indices,
            contents,
            last: None,
            next: None,
            fetched_at: None,
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
        if let Contents::Packets { in_flight, .. } = &mut self.contents {
            in_flight.forget(signal);
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
            let head = self.head(memory, indices)?;
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
        let fetches = before.is_some_and(|before| before.read != indices.read);
        Ok(Next { head, pending: self.pending(indices), fetches, moved: before != Some(indices) })
    }

    /// What the ring shows, by what was read and by signals; `None` if it could not be read.
    pub(super) fn judge(&mut self, memory: &ProcessMemory, now: Nanos) -> Option<RingActivity> {
        let Next { head, pending, fetches, moved } = self.next?;
        let unfinished = match &mut self.contents {
            Contents::Packets { in_flight, .. } => in_flight.unfinished(memory, self.stopped),
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
        let lately = self.fetched_at.is_some_and(|at| now.since(at) < LATELY);
        if head == Head::Ready && !unfinished.blocked {
            return seen(if lately { on_gpu } else { Activity::Wants }, false);
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
                Contents::Packets { in_flight, .. } => in_flight.give_up_on_silence(),
                Contents::Commands { silent, .. } => *silent = false,
            }
        }
        let blocked = unfinished.blocked || head == Head::Blocked;
        let activity = if blocked { Activity::Blocked } else { Activity::Idle };
        seen(activity, self.dormant && self.confidence.doubts_signals(now))
    }

    /// Notes where the indices are, and what was fetched since.
    fn advance(&mut self, memory: &ProcessMemory, indices: Indices, now: Nanos) -> kfd::Result<()> {
        // Indices of packets only grow: one that does not is that of another queue at the same place.
        let backwards = |last: &Indices| indices.read.wrapping_sub(last.read).cast_signed() < 0;
        let known = match self.contents {
            Contents::Packets { .. } => self.last.filter(|last| !backwards(last)),
            Contents::Commands { .. } => self.last,
        };
        match known {
            None => {
                self.confidence = Confidence::new(now);
                self.fetched_at = None;
            }
            Some(last) if last != indices => self.confidence.moved(now),
            Some(_) => {}
        }
        if known.is_some_and(|last| last.read != indices.read) {
            self.fetched_at = Some(now);
        }
        self.dormant &= known == Some(indices);
        let learned = &mut self.learned;
        match &mut self.contents {
            Contents::Packets { ring, in_flight, ahead } => {
                if known.is_none() {
                    **in_flight = InFlight::default();
                    ahead.clear();
                }
                take_fetched(memory, ring, known, indices, |number, slot| {
                    let seen = ahead.iter().find(|(other, _)| *other == number).map(|(_, packet)| *packet);
                    let packet = seen.unwrap_or_else(|| Packet::decode_fetched(slot));
                    in_flight.push(number, &packet, seen.is_some(), known.is_some());
                    learned.extend(packet.completion);
                })?;
                ahead.retain(|(number, _)| indices.read.wrapping_sub(*number).cast_signed() <= 0);
            }
            Contents::Commands { silent, .. } => {
                *silent |= known.map_or(indices.read != 0, |last| last != indices);
            }
        }
        self.last = Some(indices);
        Ok(())
    }

    /// Reads the head, and what lies behind it while that costs nothing more.
    fn head(&mut self, memory: &ProcessMemory, indices: Indices) -> kfd::Result<Head> {
        let pending = self.pending(indices);
        let Contents::Packets { ring, in_flight, ahead } = &mut self.contents else {
            return Ok(if pending > 0 { Head::Ready } else { Head::Missing });
        };
        if pending == 0 {
            return Ok(Head::Missing);
        }
        let count = pending.min(AHEAD).min(ring.packets());
        // A packet does not change until it is fetched, so those that are known need not be read again.
        if ahead.len() as u64 != count {
            let mut slots = [[0; PACKET_SIZE]; AHEAD as usize];
            let slots = slots.get_mut(..count as usize).unwrap_or_default();
            ring.read(next_instant(memory), indices.read, slots)?;
            let packets = (0..).zip(slots.iter()).map(|(offset, slot)| (indices.read.wrapping_add(offset), slot));
            let packets = packets.map(|(number, slot)| (number, Packet::decode(slot)));
            ahead.clear();
            ahead.extend(packets.filter(|(_, packet)| packet.kind != PacketKind::Invalid));
            for signal in ahead.iter().filter_map(|(_, packet)| packet.completion) {
                in_flight.forget(signal);
                self.learned.push(signal);
            }
        }
        let head = ahead.iter().find(|(number, _)| *number == indices.read);
        let Some((_, packet)) = head else { return Ok(Head::Missing) };
        Ok(match packet.kind {
            kind if kind.waits() && !aql::passes(&kind, next_instant(memory)).unwrap_or(true) => Head::Blocked,
            _ => Head::Ready,
        })
    }

    /// Packets that were not fetched; for commands, whose number is not known, one.
    fn pending(&self, Indices { read, write }: Indices) -> u64 {
        match self.contents {
            // The processor may have gone on between the reads of the two.
            Contents::Packets { .. } => u64::try_from(write.wrapping_sub(read).cast_signed()).unwrap_or(0),
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
                    Contents::Packets { in_flight, .. } => in_flight.no_waves(alone, lasting),
                    Contents::Commands { silent, .. } => std::mem::take(silent),
                };
                self.dormant &= !for_good;
            }
            SampleVerdict::Waves => {
                let revived = std::mem::take(&mut self.dormant);
                match &mut self.contents {
                    Contents::Packets { in_flight, .. } => {
                        in_flight.waves();
                        if let Some(last) = self.last.filter(|_| revived) {
                            in_flight.revive(last.read.wrapping_sub(1));
                        }
                    }
                    Contents::Commands { silent, .. } => *silent |= revived,
                }
            }
            SampleVerdict::Nothing => {}
        }
    }
}

/// Hands over the packets that were fetched since the last look, or before the first, the oldest first, as far as their
/// slots still hold them.
fn take_fetched(
    memory: &ProcessMemory,
    ring: &Ring,
    last: Option<Indices>,
    Indices { read, write }: Indices,
    mut take: impl FnMut(u64, &Slot),
) -> kfd::Result<()> {
    let fetched = last.map_or(read.min(FIRST_SIGHT), |last| read.wrapping_sub(last.read)).min(FETCHED);
    // A slot is used again one ring later.
    let written = u64::try_from(write.wrapping_sub(read).cast_signed()).unwrap_or(0);
    let count = fetched.min(ring.packets().saturating_sub(written));
    if count == 0 {
        return Ok(());
    }
    let first = read.wrapping_sub(count);
    let mut slots = [[0; PACKET_SIZE]; FETCHED as usize];
    let slots = slots.get_mut(..count as usize).unwrap_or_default();
    ring.read(next_instant(memory), first, slots)?;
    for (offset, slot) in (0..).zip(slots.iter()) {
        take(first.wrapping_add(offset), slot);
    }
    Ok(())
}
