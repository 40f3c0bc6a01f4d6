//! The packets of one ring: which of them the processor has fetched, and what comes next.
//!
//! The read index may pass a packet when it is fetched or when it has retired, and where it passes at fetch it may go
//! back while the queue is saved: [`ReadIndexTrust`](super::retirement::ReadIndexTrust) says what is known. `front` is
//! how far the index has ever been. What lies before `front` was fetched; an index below it has come back to the oldest
//! packet that has not retired, and that packet alone then decides, because nothing behind a wait is fetched before it
//! passes. A packet that was seen in its slot and has lost its header was fetched as well, wherever the index is.

use std::collections::VecDeque;

use kfd::ProcessMemory;
use kfd::aql::{self, PACKET_SIZE, Packet, PacketKind, SignalHandle, Slot};
use kfd::ring::{Indices, Ring};

use super::in_flight::InFlight;
use super::next_instant;

/// Packets that are read at most after they were fetched: one call, half a page.
const FETCHED: u64 = 32;
/// Packets that are read at most in a ring not seen before.
const FIRST_SIGHT: u64 = 8;
/// Packets that are read at most before they are fetched.
const AHEAD: u64 = 8;

/// The packet that the read index stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// There is none, or it is not written yet.
    Missing,
    /// It is not written yet, or the processor is about to fetch it: it takes the header before it moves the index.
    Unclear,
    /// Waits for a signal.
    Blocked,
    /// Could begin, or has begun where the index waits for its end.
    Ready,
    /// Has begun: its header is gone, or the index came back to it.
    Begun,
}

/// A packet that was seen before the index passed it.
#[derive(Clone, Copy, Debug)]
struct SeenPacket {
    number: u64,
    packet: Packet,
    /// Its completion signal was seen unfired.
    armed: bool,
    /// A newer packet uses its completion signal: it has completed, though the index may not have passed it.
    spent: bool,
}

/// Packets of a ring.
#[derive(Debug)]
pub(super) struct Packets {
    ring: Ring,
    pub(super) in_flight: InFlight,
    /// Packets that the index has not passed, the oldest first.
    ahead: VecDeque<SeenPacket>,
    /// The highest read index seen.
    front: u64,
    /// The index passes packets when they have retired.
    retires: bool,
}

/// Whether index `one` is before `other`. Indices only grow, and may wrap.
fn is_before(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

impl Packets {
    pub(super) fn new(ring: Ring) -> Packets {
        Packets { ring, in_flight: InFlight::default(), ahead: VecDeque::new(), front: 0, retires: false }
    }

    /// Whether the index is known to pass packets only when they have retired: then nothing that it has passed is in
    /// flight.
    pub(super) fn set_retires(&mut self, retires: bool) {
        self.retires = retires;
        if retires {
            self.in_flight = InFlight::default();
        }
    }

    /// Whether these indices can belong to the queue of which others were seen last. The write index never goes back,
    /// and the read index not further than the ring reaches.
    pub(super) fn continues(&self, last: Indices, now: Indices) -> bool {
        let back = self.front.wrapping_sub(now.read).cast_signed();
        !is_before(now.write, last.write) && back <= self.ring.packets().cast_signed()
    }

    /// Whether the index has come back.
    pub(super) fn is_rewound(&self, indices: Indices) -> bool {
        is_before(indices.read, self.front)
    }

    /// Whether everything that the index has passed is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.in_flight.has_ended()
    }

    /// Whether the index stands at a kernel, or at commands that may start some.
    pub(super) fn is_at_kernel(&self, read: u64) -> bool {
        self.seen(read).is_some_and(|seen| !seen.packet.kind.waits())
    }

    fn seen(&self, number: u64) -> Option<&SeenPacket> {
        self.ahead.iter().find(|seen| seen.number == number)
    }

    /// Notes what the index has passed. `known`: the ring was looked at before. Says whether it passed anything.
    pub(super) fn advance(
        &mut self,
        memory: &ProcessMemory,
        known: bool,
        indices: Indices,
        learned: &mut Vec<SignalHandle>,
    ) -> kfd::Result<bool> {
        let Indices { read, write } = indices;
        if !known {
            let ring = self.ring;
            *self = Packets { front: read, retires: self.retires, ..Packets::new(ring) };
            self.in_flight.begin_at(read);
        }
        if self.is_rewound(indices) {
            if write.wrapping_sub(read) < self.ring.packets() {
                self.in_flight.retired_before(read);
            }
            return Ok(false);
        }
        let passed = if known { read.wrapping_sub(self.front) } else { read.min(FIRST_SIGHT) };
        let advanced = known && passed > 0;
        if passed > 0 && !self.retires {
            self.push_passed(memory, passed, known, indices, learned)?;
        }
        self.front = read;
        self.ahead.retain(|seen| !is_before(seen.number, read));
        Ok(advanced)
    }

    /// Takes the packets that the index has passed, the oldest first, as far as their slots still hold them.
    fn push_passed(
        &mut self,
        memory: &ProcessMemory,
        passed: u64,
        fresh: bool,
        Indices { read, write }: Indices,
        learned: &mut Vec<SignalHandle>,
    ) -> kfd::Result<()> {
        // A slot is used again one ring later.
        let written = u64::try_from(write.wrapping_sub(read).cast_signed()).unwrap_or(0);
        let count = passed.min(FETCHED).min(self.ring.packets().saturating_sub(written));
        if count < passed {
            self.in_flight.lose_sight(read.wrapping_sub(count).wrapping_sub(1));
        }
        if count == 0 {
            return Ok(());
        }
        let first = read.wrapping_sub(count);
        let mut slots = [[0; PACKET_SIZE]; FETCHED as usize];
        let slots = slots.get_mut(..count as usize).unwrap_or_default();
        self.ring.read(next_instant(memory), first, slots)?;
        for (offset, slot) in (0..).zip(slots.iter()) {
            let number = first.wrapping_add(offset);
            let seen = self.ahead.iter().find(|seen| seen.number == number);
            if seen.is_some_and(|seen| seen.spent) {
                self.in_flight.skip(number);
                continue;
            }
            let packet = seen.map_or_else(|| Packet::decode_fetched(slot), |seen| seen.packet);
            self.in_flight.push(number, &packet, seen.map(|seen| seen.armed), fresh);
            learned.extend(packet.completion);
        }
        Ok(())
    }

    /// Reads the head, and what lies behind it while that costs nothing more.
    pub(super) fn head(
        &mut self,
        memory: &ProcessMemory,
        indices: Indices,
        stopped: bool,
        learned: &mut Vec<SignalHandle>,
    ) -> kfd::Result<Head> {
        let pending = u64::try_from(indices.write.wrapping_sub(indices.read).cast_signed()).unwrap_or(0);
        if pending == 0 {
            return Ok(Head::Missing);
        }
        if self.is_rewound(indices) {
            return self.rewound_head(memory, indices);
        }
        let count = pending.min(AHEAD).min(self.ring.packets());
        // A packet does not change until it is fetched, so those that are known need not be read again. Behind a wait
        // that seems to hold up the ring the head's header tells whether it does, and in a queue that is stopped
        // whether the index came back.
        if self.ahead.len() as u64 == count && !self.in_flight.has_gate() && !stopped {
            return Ok(self.seen_head(memory, indices.read));
        }
        let mut slots = [[0; PACKET_SIZE]; AHEAD as usize];
        let slots = slots.get_mut(..count as usize).unwrap_or_default();
        self.ring.read(next_instant(memory), indices.read, slots)?;
        self.look_ahead(indices.read, slots, learned);
        match slots.first() {
            Some(slot) if Packet::decode(slot).kind == PacketKind::Invalid => {
                self.recognise(indices.read, slot, learned);
                if stopped && self.seen(indices.read).is_some() {
                    // It was fetched, and nothing is being fetched now: the index came back to it.
                    self.in_flight.retired_before(indices.read);
                }
                Ok(self.taken_head(memory, indices.read, slot))
            }
            _ => Ok(self.seen_head(memory, indices.read)),
        }
    }

    /// Remembers a packet that was fetched before it was seen, if its slot can hold no other: before the ring was used
    /// once around.
    fn recognise(&mut self, number: u64, slot: &Slot, learned: &mut Vec<SignalHandle>) {
        let packet = Packet::decode_fetched(slot);
        let can_be_older = number >= self.ring.packets();
        if can_be_older || self.seen(number).is_some() || packet.completion.is_none() && !names_anything(&packet.kind) {
            return;
        }
        self.remember(number, packet, learned);
    }

    fn remember(&mut self, number: u64, packet: Packet, learned: &mut Vec<SignalHandle>) {
        if let Some(signal) = packet.completion {
            self.forget(signal);
            learned.push(signal);
        }
        self.ahead.push_back(SeenPacket { number, packet, armed: false, spent: false });
    }

    /// A newer packet uses the signal.
    pub(super) fn forget(&mut self, signal: SignalHandle) {
        self.in_flight.forget(signal);
        for seen in self.ahead.iter_mut().filter(|seen| seen.packet.completion == Some(signal)) {
            seen.spent = true;
        }
    }

    /// Remembers the packets from number `first` on. One that has lost its header was fetched, and is what it was.
    fn look_ahead(&mut self, first: u64, slots: &[Slot], learned: &mut Vec<SignalHandle>) {
        let before = std::mem::take(&mut self.ahead);
        for (offset, slot) in (0..).zip(slots) {
            let number = first.wrapping_add(offset);
            if let Some(seen) = before.iter().find(|seen| seen.number == number) {
                self.ahead.push_back(*seen);
                continue;
            }
            let packet = Packet::decode(slot);
            if packet.kind != PacketKind::Invalid {
                self.remember(number, packet, learned);
            }
        }
    }

    /// Judges the head as it was seen.
    fn seen_head(&mut self, memory: &ProcessMemory, read: u64) -> Head {
        let retires = self.retires;
        let Some(seen) = self.ahead.iter_mut().find(|seen| seen.number == read) else { return Head::Missing };
        if is_blocked(&seen.packet, memory) {
            return Head::Blocked;
        }
        if !retires && !seen.armed && !seen.packet.kind.waits() {
            seen.armed = seen.packet.completion.is_some_and(|signal| is_unfired(signal, memory));
        }
        Head::Ready
    }

    /// Judges a head whose header is gone. One that was seen has begun. Another may be in a slot that was reserved a
    /// moment ago and still holds the packet of a ring before: it has begun unless its signal speaks against that.
    fn taken_head(&self, memory: &ProcessMemory, read: u64, slot: &Slot) -> Head {
        let seen = self.seen(read).map(|seen| seen.packet);
        let packet = seen.unwrap_or_else(|| Packet::decode_fetched(slot));
        if is_blocked(&packet, memory) {
            return Head::Blocked;
        }
        let uses = |signal: SignalHandle| {
            self.in_flight.awaits(signal) || self.ahead.iter().any(|seen| seen.packet.completion == Some(signal))
        };
        let begun = match packet.completion {
            _ if seen.is_some() => true,
            Some(signal) => !uses(signal) && is_unfired(signal, memory),
            None => names_anything(&packet.kind),
        };
        if begun { Head::Begun } else { Head::Missing }
    }

    /// Judges the oldest packet that has not retired, to which the index came back.
    fn rewound_head(&mut self, memory: &ProcessMemory, Indices { read, write }: Indices) -> kfd::Result<Head> {
        let packet = match self.in_flight.gate_at(read) {
            Some(packet) => packet,
            // As far as the ring reaches, and no further: an older one may run, which no wait is.
            None if write.wrapping_sub(read) >= self.ring.packets() => return Ok(Head::Begun),
            None => {
                let mut slots = [[0; PACKET_SIZE]];
                self.ring.read(next_instant(memory), read, &mut slots)?;
                Packet::decode_fetched(&slots[0])
            }
        };
        Ok(if is_blocked(&packet, memory) { Head::Blocked } else { Head::Begun })
    }
}

/// Whether a packet is more than an empty slot: an empty one reads as a wait for nothing.
fn names_anything(kind: &PacketKind) -> bool {
    match kind {
        PacketKind::BarrierAnd(signals) | PacketKind::BarrierOr(signals) => signals.iter().any(Option::is_some),
        _ => true,
    }
}

/// Whether a packet waits for signals that have not fired. A signal that cannot be read any more cannot be waited for.
fn is_blocked(packet: &Packet, memory: &ProcessMemory) -> bool {
    packet.kind.waits() && !aql::passes(&packet.kind, next_instant(memory)).unwrap_or(true)
}

/// Whether a completion signal has not fired.
fn is_unfired(signal: SignalHandle, memory: &ProcessMemory) -> bool {
    aql::signal_value(signal, next_instant(memory)).is_ok_and(|value| value > 0)
}
