//! The packets of one ring: which of them the processor has fetched, and what comes next.
//!
//! The read index may pass a packet when it is fetched or when it has retired, and where it passes at fetch it may go
//! back while the queue is saved: [`ReadIndexTrust`](crate::retirement::ReadIndexTrust) says what is known. `front` is
//! how far the index has ever been. What lies before `front` was fetched; an index below it has come back to the oldest
//! packet that has not retired, and that packet alone then decides, because nothing behind a wait is fetched before it
//! passes. A packet that was seen in its slot and has lost its header was fetched as well, wherever the index is.

use kfd_abi::aql::{PACKET_SIZE, Packet, PacketKind, SignalHandle, Slot};

use crate::in_flight::InFlight;
use crate::list::List;
use crate::memory::{has_fired, is_blocked};
use crate::place::{Indices, Ring};
use crate::scratch::{FETCHED, Learned, Scratch};
use crate::{ReadFailure, TenantMemory};

/// Packets that are read at most in a ring not seen before.
const FIRST_SIGHT: u64 = 8;
/// Packets that are read at most before they are fetched.
const AHEAD: usize = 8;

/// The packet that the read index stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
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
    /// Its bytes, with its header if that was there.
    slot: Slot,
    /// Its completion signal was seen unfired.
    armed: bool,
    /// A newer packet uses its completion signal: it has completed, though the index may not have passed it.
    spent: bool,
    /// It was seen in the last look for the first time.
    recent: bool,
}

impl SeenPacket {
    fn packet(&self) -> Packet {
        Packet::decode_fetched(&self.slot)
    }

    fn completes(&self, signal: SignalHandle) -> bool {
        self.packet().completion == Some(signal)
    }
}

/// Packets of a ring.
#[derive(Debug)]
pub(crate) struct Packets {
    pub(crate) in_flight: InFlight,
    /// Packets that the index has not passed.
    ahead: List<SeenPacket, AHEAD>,
    /// The highest read index seen.
    front: u64,
    /// The index passes packets when they have retired.
    retires: bool,
}

/// What a look at a ring reads with: where the ring is, which of the tenant's it is, and room for what is read.
pub(crate) struct Look<'a, M> {
    pub(crate) memory: &'a M,
    pub(crate) ring: Ring,
    pub(crate) number: u16,
    pub(crate) scratch: &'a mut Scratch,
}

impl<M: TenantMemory> Look<'_, M> {
    /// Reads `count` slots from packet `first` on, as far as there is room, and returns them with the signals that were
    /// learned so far.
    fn read(&mut self, first: u64, count: usize) -> Result<(&mut [Slot], &mut Learned), ReadFailure> {
        let Scratch { slots, learned } = &mut *self.scratch;
        let slots = slots.get_mut(..count).unwrap_or_default();
        self.ring.read_slots(self.memory, first, slots)?;
        Ok((slots, learned))
    }
}

/// Whether index `one` is before `other`. Indices only grow, and may wrap.
fn is_before(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

impl Packets {
    /// Of a ring that was not looked at yet.
    pub(crate) const UNSEEN: Packets =
        Packets { in_flight: InFlight::NOTHING, ahead: List::EMPTY, front: 0, retires: false };

    /// Back to [`Packets::UNSEEN`].
    pub(crate) fn reset(&mut self) {
        self.in_flight.reset();
        self.ahead.clear();
        (self.front, self.retires) = (0, false);
    }

    /// Whether the index is known to pass packets only when they have retired: then nothing that it has passed is in
    /// flight.
    pub(crate) fn set_retires(&mut self, retires: bool) {
        self.retires = retires;
        if retires {
            self.in_flight.reset();
        }
    }

    /// Whether these indices can belong to the queue of which others were seen last. The write index never goes back,
    /// and the read index not further than the ring reaches.
    pub(crate) fn continues(&self, ring: &Ring, last: Indices, now: Indices) -> bool {
        let back = self.front.wrapping_sub(now.read).cast_signed();
        !is_before(now.write, last.write) && back <= ring.packets().cast_signed()
    }

    /// Whether the index has come back.
    pub(crate) fn is_rewound(&self, indices: Indices) -> bool {
        is_before(indices.read, self.front)
    }

    /// Whether everything that the index has passed is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.in_flight.has_ended()
    }

    /// Whether the index stands at a kernel, or at commands that may start some.
    pub(crate) fn is_at_kernel(&self, read: u64) -> bool {
        self.seen(read).is_some_and(|seen| !seen.packet().kind.waits())
    }

    fn seen(&self, number: u64) -> Option<&SeenPacket> {
        self.ahead.iter().find(|seen| seen.number == number)
    }

    /// A look begins: what was seen in the last one is recent no more.
    pub(crate) fn begin_look(&mut self) {
        self.ahead.iter_mut().for_each(|seen| seen.recent = false);
    }

    /// Notes what the index has passed. `known`: the ring was looked at before. Says whether it passed anything.
    ///
    /// # Errors
    ///
    /// If what it passed cannot be read: nothing is noted.
    pub(crate) fn advance(
        &mut self,
        look: &mut Look<'_, impl TenantMemory>,
        known: bool,
        indices: Indices,
    ) -> Result<bool, ReadFailure> {
        let Indices { read, write } = indices;
        if known && self.is_rewound(indices) {
            if write.wrapping_sub(read) < look.ring.packets() {
                self.in_flight.retired_before(read);
            }
            return Ok(false);
        }
        let passed = if known { read.wrapping_sub(self.front) } else { read.min(FIRST_SIGHT) };
        // A slot is used again one ring later.
        let there = look.ring.packets().saturating_sub(indices.pending());
        let count = if self.retires { 0 } else { passed.min(FETCHED as u64).min(there) };
        let first = read.wrapping_sub(count);
        let number = look.number;
        let (slots, learned) = look.read(first, count as usize)?;
        if !known {
            self.in_flight.reset();
            self.ahead.clear();
            self.in_flight.begin_at(read);
        }
        if count < passed && !self.retires {
            self.in_flight.lose_sight(first.wrapping_sub(1));
        }
        for (packet, slot) in (0..count).map(|offset| first.wrapping_add(offset)).zip(slots) {
            self.push_passed(packet, slot, known, &mut |signal| learned.insert(signal, number));
        }
        self.front = read;
        self.ahead.retain(|seen| !is_before(seen.number, read));
        Ok(known && passed > 0)
    }

    /// Takes a packet that the index has passed, from what its slot holds still.
    fn push_passed(&mut self, number: u64, slot: &Slot, fresh: bool, learn: &mut impl FnMut(SignalHandle)) {
        let seen = self.ahead.iter().find(|seen| seen.number == number);
        if seen.is_some_and(|seen| seen.spent) {
            self.in_flight.skip(number);
            return;
        }
        let slot = seen.map_or(slot, |seen| &seen.slot);
        if let Some(signal) = self.in_flight.push(number, slot, seen.map(|seen| seen.armed), fresh) {
            learn(signal);
        }
    }

    /// Reads the head, and what lies behind it while that costs nothing more.
    ///
    /// # Errors
    ///
    /// If it, or the signal that decides about it, cannot be read.
    pub(crate) fn head(
        &mut self,
        look: &mut Look<'_, impl TenantMemory>,
        indices: Indices,
        stopped: bool,
    ) -> Result<Head, ReadFailure> {
        let pending = indices.pending();
        if pending == 0 {
            return Ok(Head::Missing);
        }
        if self.is_rewound(indices) {
            return self.rewound_head(look, indices);
        }
        let count = pending.min(AHEAD as u64).min(look.ring.packets()) as usize;
        // A packet does not change until it is fetched, so those that are known need not be read again. Behind a wait
        // that seems to hold up the ring the head's header tells whether it does, and in a queue that is stopped
        // whether the index came back.
        if self.ahead.len() == count && !self.in_flight.has_gate() && !stopped {
            return self.seen_head(look.memory, indices.read);
        }
        let (memory, number, packets) = (look.memory, look.number, look.ring.packets());
        let (slots, learned) = look.read(indices.read, count)?;
        let mut learn = |signal| learned.insert(signal, number);
        self.look_ahead(indices.read, slots, &mut learn);
        match slots.first() {
            Some(slot) if Packet::decode(slot).kind == PacketKind::Invalid => {
                // A slot can hold no other packet before the ring was used once around.
                if indices.read < packets {
                    self.recognise(indices.read, slot, &mut learn);
                }
                if stopped && self.seen(indices.read).is_some() {
                    // It was fetched, and nothing is being fetched now: the index came back to it.
                    self.in_flight.retired_before(indices.read);
                }
                self.taken_head(memory, indices.read, slot)
            }
            _ => self.seen_head(memory, indices.read),
        }
    }

    /// Remembers a packet that was fetched before it was seen.
    fn recognise(&mut self, number: u64, slot: &Slot, learn: &mut impl FnMut(SignalHandle)) {
        let packet = Packet::decode_fetched(slot);
        if self.seen(number).is_none() && (packet.completion.is_some() || names_anything(&packet.kind)) {
            self.remember(number, slot, packet.completion, learn);
        }
    }

    fn remember(
        &mut self,
        number: u64,
        slot: &Slot,
        completion: Option<SignalHandle>,
        learn: &mut impl FnMut(SignalHandle),
    ) {
        if let Some(signal) = completion {
            self.in_flight.forget(|awaited| awaited == signal);
            let older = self.ahead.iter_mut().filter(|seen| is_before(seen.number, number) && seen.completes(signal));
            older.for_each(|seen| seen.spent = true);
            learn(signal);
        }
        self.ahead.push(SeenPacket { number, slot: *slot, armed: false, spent: false, recent: true });
    }

    /// Newer packets of other rings use these signals. What came in the same look may be newer than these.
    pub(crate) fn forget(&mut self, is_used: impl Fn(SignalHandle) -> bool) {
        self.in_flight.forget(&is_used);
        for seen in self.ahead.iter_mut().filter(|seen| !seen.recent) {
            seen.spent |= seen.packet().completion.is_some_and(&is_used);
        }
    }

    /// Remembers the packets from number `first` on. One that has lost its header was fetched, and is what it was.
    fn look_ahead(&mut self, first: u64, slots: &[Slot], learn: &mut impl FnMut(SignalHandle)) {
        let count = slots.len() as u64;
        self.ahead.retain(|seen| seen.number.wrapping_sub(first) < count);
        for (offset, slot) in (0..count).zip(slots) {
            let number = first.wrapping_add(offset);
            if self.seen(number).is_some() {
                continue;
            }
            let packet = Packet::decode(slot);
            if packet.kind != PacketKind::Invalid {
                self.remember(number, slot, packet.completion, learn);
            }
        }
    }

    /// Judges the head as it was seen.
    fn seen_head(&mut self, memory: &impl TenantMemory, read: u64) -> Result<Head, ReadFailure> {
        let retires = self.retires;
        let Some(seen) = self.ahead.iter_mut().find(|seen| seen.number == read) else { return Ok(Head::Missing) };
        let packet = seen.packet();
        if is_blocked(&packet, memory)? {
            return Ok(Head::Blocked);
        }
        if !retires && !seen.armed && !packet.kind.waits() {
            // One that is away is looked at again.
            seen.armed = packet.completion.is_some_and(|signal| has_fired(signal, memory) == Ok(false));
        }
        Ok(Head::Ready)
    }

    /// Judges a head whose header is gone. One that was seen has begun. Another may be in a slot that was reserved a
    /// moment ago and still holds the packet of a ring before: it has begun unless its signal speaks against that.
    fn taken_head(&self, memory: &impl TenantMemory, read: u64, slot: &Slot) -> Result<Head, ReadFailure> {
        let seen = self.seen(read);
        let packet = Packet::decode_fetched(seen.map_or(slot, |seen| &seen.slot));
        if is_blocked(&packet, memory)? {
            return Ok(Head::Blocked);
        }
        let uses = |signal| self.in_flight.awaits(signal) || self.ahead.iter().any(|seen| seen.completes(signal));
        let begun = match packet.completion {
            _ if seen.is_some() => true,
            Some(signal) => !uses(signal) && !has_fired(signal, memory)?,
            None => names_anything(&packet.kind),
        };
        Ok(if begun { Head::Begun } else { Head::Missing })
    }

    /// Judges the oldest packet that has not retired, to which the index came back.
    fn rewound_head(
        &mut self,
        look: &mut Look<'_, impl TenantMemory>,
        Indices { read, write }: Indices,
    ) -> Result<Head, ReadFailure> {
        let packet = match self.in_flight.gate_at(read) {
            Some(slot) => Packet::decode_fetched(slot),
            // As far as the ring reaches, and no further: an older one may run, which no wait is.
            None if write.wrapping_sub(read) >= look.ring.packets() => return Ok(Head::Begun),
            None => {
                let mut slots = [[0; PACKET_SIZE]];
                look.ring.read_slots(look.memory, read, &mut slots)?;
                let [slot] = &slots;
                Packet::decode_fetched(slot)
            }
        };
        Ok(if is_blocked(&packet, look.memory)? { Head::Blocked } else { Head::Begun })
    }
}

/// Whether a packet is more than an empty slot: an empty one reads as a wait for nothing.
fn names_anything(kind: &PacketKind) -> bool {
    match kind {
        PacketKind::BarrierAnd(signals) | PacketKind::BarrierOr(signals) => signals.iter().any(Option::is_some),
        _ => true,
    }
}
