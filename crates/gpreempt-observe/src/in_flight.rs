//! Packets that the command processor has fetched from a ring and may not have completed.

use kfd_abi::aql::{Packet, SignalHandle, Slot};

use crate::TenantMemory;
use crate::list::List;
use crate::memory::{Away, has_fired, passes};

/// Completion signals that are followed. Signals that fire are forgotten, and the newest one decides, so this is
/// reached only by programs that let hundreds of kernels run beside each other.
const FOLLOWED: usize = 128;

/// A packet whose completion signal had not fired when it was last looked at.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    /// Of the packet, in its queue.
    number: u64,
    signal: SignalHandle,
    /// Whether it started after all before it had completed; unknown if it was never seen before it was fetched.
    ordered: Option<bool>,
    /// Whether the signal was seen unfired: only then it tells of the end by having fired.
    armed: bool,
    /// Whether we saw the packet come. What was there before us may have completed long ago, and its signal may be in
    /// use for something else.
    fresh: bool,
}

/// A wait that the processor has fetched and may not have passed. Nothing behind it is fetched before it passes.
#[derive(Clone, Copy, Debug)]
struct Gate {
    number: u64,
    slot: Slot,
}

/// Packets fetched by the command processor that may not have completed.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// The oldest first.
    awaited: List<Awaited, FOLLOWED>,
    gate: Option<Gate>,
    /// The newest packet with work and without a signal.
    silent: Option<u64>,
    /// The newest packet whose end nothing proves, whether or not it counts as ended.
    unproven: Option<u64>,
    /// Waves were looked for and not found, while others had theirs on the gpu.
    parked: bool,
    /// A signal fired in a look that could not be ended.
    progress: bool,
}

/// What is unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unfinished {
    /// A wait whose signals have not fired holds up the ring.
    pub(crate) blocked: bool,
    /// A completion signal has not fired.
    pub(crate) signalled: bool,
    /// There are packets that nothing tells the end of.
    pub(crate) silent: bool,
    /// Its waves are known not to be on the gpu.
    pub(crate) parked: bool,
    /// A signal fired since the last look.
    pub(crate) progress: bool,
}

impl InFlight {
    /// Nothing.
    pub(crate) const NOTHING: InFlight =
        InFlight { awaited: List::EMPTY, gate: None, silent: None, unproven: None, parked: false, progress: false };

    /// Back to [`InFlight::NOTHING`].
    pub(crate) fn reset(&mut self) {
        self.awaited.clear();
        (self.gate, self.silent, self.unproven) = (None, None, None);
        (self.parked, self.progress) = (false, false);
    }

    /// Whatever came before this packet may run, for all that is known.
    pub(crate) fn begin_at(&mut self, number: u64) {
        if number != 0 {
            self.lose_sight(number.wrapping_sub(1));
        }
    }

    /// Nothing will prove that this packet and those before it have ended.
    pub(crate) fn lose_sight(&mut self, number: u64) {
        self.unproven = Some(number);
    }

    /// Takes the next packet that was fetched, from its slot. `seen`: it was read before the processor took its header,
    /// and whether its signal was found unfired then. Returns its completion signal.
    pub(crate) fn push(&mut self, number: u64, slot: &Slot, seen: Option<bool>, fresh: bool) -> Option<SignalHandle> {
        let packet = Packet::decode_fetched(slot);
        self.parked = false;
        let waits = packet.kind.waits();
        // The processor is past a wait when it has fetched what comes after.
        self.gate = waits.then_some(Gate { number, slot: *slot });
        let Some(signal) = packet.completion else {
            if !waits {
                self.silent = Some(number);
                self.lose_sight(number);
            }
            return None;
        };
        self.forget(|awaited| awaited == signal);
        let ordered = seen.map(|_| packet.header.barrier());
        // A wait has no waves, whatever its signal tells.
        let armed = waits || seen == Some(true);
        if let Some(lost) = self.awaited.push(Awaited { number, signal, ordered, armed, fresh }) {
            self.unproven = self.unproven.or(Some(lost.number));
        }
        Some(signal)
    }

    /// Takes the next packet that was fetched, which has completed.
    pub(crate) fn skip(&mut self, number: u64) {
        self.gate = None;
        self.lose_sight(self.unproven.map_or(number, |unproven| unproven.max(number)));
    }

    /// Whether a packet in flight has this completion signal.
    pub(crate) fn awaits(&self, signal: SignalHandle) -> bool {
        self.awaited.iter().any(|awaited| awaited.signal == signal)
    }

    /// Whether a wait was fetched and may not have passed.
    pub(crate) fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// Returns the wait of this number that was fetched and may not have passed.
    pub(crate) fn gate_at(&self, number: u64) -> Option<&Slot> {
        self.gate.as_ref().filter(|gate| gate.number == number).map(|gate| &gate.slot)
    }

    /// Whether everything that was fetched is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.awaited.is_empty() && self.gate.is_none() && self.silent.is_none() && self.unproven.is_none()
    }

    /// All packets before this one have retired.
    pub(crate) fn retired_before(&mut self, number: u64) {
        let stays = |other: u64| number.wrapping_sub(other).cast_signed() <= 0;
        self.awaited.retain(|awaited| stays(awaited.number));
        if self.gate.as_ref().is_some_and(|gate| !stays(gate.number)) {
            self.gate = None;
        }
        self.silent = self.silent.filter(|silent| stays(*silent));
        self.unproven = self.unproven.filter(|unproven| stays(*unproven));
    }

    /// Newer packets use these signals: if one still says "unfinished", it is about the newer one.
    pub(crate) fn forget(&mut self, is_used: impl Fn(SignalHandle) -> bool) {
        let mut unproven = self.unproven;
        self.awaited.retain(|awaited| {
            let used = is_used(awaited.signal);
            if used {
                unproven = Some(unproven.map_or(awaited.number, |unproven| unproven.max(awaited.number)));
            }
            !used
        });
        self.unproven = unproven;
    }

    /// What is unfinished now. Queues that are stopped do not pass a wait even if they could.
    ///
    /// # Errors
    ///
    /// If a signal is away: it is awaited as before.
    pub(crate) fn unfinished(&mut self, memory: &impl TenantMemory, stopped: bool) -> Result<Unfinished, Away> {
        let before = self.awaited.len();
        let signalled = self.check(memory, stopped);
        let progress = self.awaited.len() != before;
        self.progress |= progress;
        let (blocked, signalled) = signalled?;
        let progress = core::mem::take(&mut self.progress);
        self.parked &= !progress && (signalled || self.silent.is_some());
        Ok(Unfinished { blocked, signalled, silent: self.silent.is_some(), parked: self.parked, progress })
    }

    /// Whether a wait holds up the ring, and whether a signal has not fired.
    fn check(&mut self, memory: &impl TenantMemory, stopped: bool) -> Result<(bool, bool), Away> {
        let blocked = self.check_gate(memory, stopped)?;
        let gate = self.gate.as_ref().map(|gate| gate.number).filter(|_| blocked);
        Ok((blocked, self.check_signals(memory, gate)?))
    }

    /// Whether a wait holds up the ring.
    fn check_gate(&mut self, memory: &impl TenantMemory, stopped: bool) -> Result<bool, Away> {
        let Some(Gate { number, slot }) = &self.gate else { return Ok(false) };
        let (number, packet) = (*number, Packet::decode_fetched(slot));
        let completed = packet.completion.map_or(Ok(false), |signal| has_fired(signal, memory))?;
        let passes = completed || passes(&packet, memory)?;
        if completed {
            self.fired(number, None);
        }
        if completed || (passes && !stopped) {
            self.gate = None;
        }
        Ok(!passes)
    }

    /// Whether a signal has not fired, other than that of the wait that holds up the ring. The newest is asked first,
    /// so a ring at work costs one read.
    fn check_signals(&mut self, memory: &impl TenantMemory, gate: Option<u64>) -> Result<bool, Away> {
        let mut index = self.awaited.len();
        while index > 0 {
            index -= 1;
            let Some(awaited) = self.awaited.get_mut(index) else { continue };
            if Some(awaited.number) == gate {
                continue;
            }
            if !has_fired(awaited.signal, memory)? {
                awaited.armed = true;
                return Ok(true);
            }
            let Awaited { number, ordered, armed, .. } = *awaited;
            index = if ordered == Some(true) { 0 } else { index };
            self.fired(number, ordered);
            self.prove(number, ordered == Some(true), armed);
        }
        Ok(false)
    }

    /// A packet completed: those before it, too, unless they may run beside it.
    fn fired(&mut self, number: u64, ordered: Option<bool>) {
        let before = |other: u64| number.wrapping_sub(other).cast_signed() >= 0;
        let all = ordered == Some(true);
        self.awaited.retain(|awaited| awaited.number != number && !(all && before(awaited.number)));
        if ordered != Some(false) && self.silent.is_some_and(before) {
            self.silent = None;
        }
    }

    /// A packet's signal has fired. Was it armed, that proves its end and, if it was `ordered`, that of all before it.
    fn prove(&mut self, number: u64, ordered: bool, armed: bool) {
        if !armed {
            self.lose_sight(self.unproven.map_or(number, |unproven| unproven.max(number)));
        } else if ordered {
            self.unproven = self.unproven.filter(|unproven| number.wrapping_sub(*unproven).cast_signed() < 0);
        }
    }

    /// No waves of the tenant were on the gpu. What has no signal has ended, unless others had waves: then it may wait
    /// for room, for as long as that is worth believing. What has a signal counts as ended if there are none for a
    /// `lasting` time and, where we saw it come, no other tenant had waves either. What was there before us may have a
    /// signal that is about something else by now. Says whether anything counts as ended that a moment ago did not.
    pub(crate) fn no_waves(&mut self, alone: bool, lasting: bool) -> bool {
        let before = (self.awaited.len(), self.silent);
        self.awaited.retain(|awaited| !lasting || awaited.fresh && !alone);
        self.silent = self.silent.filter(|_| !alone && !lasting);
        self.unproven = self.unproven.filter(|_| !alone && !lasting);
        self.parked = !self.awaited.is_empty() || self.silent.is_some();
        (self.awaited.len(), self.silent) != before
    }

    /// Waves of the tenant were on the gpu. If nothing that was fetched can have them, what comes behind the wait has.
    pub(crate) fn waves(&mut self) {
        self.parked = false;
        if self.awaited.is_empty() && self.silent.is_none() {
            self.gate = None;
        }
    }

    /// Something runs that counted as ended.
    pub(crate) fn revive(&mut self, number: u64) {
        self.silent = Some(number);
        self.lose_sight(number);
    }

    /// Packets without signals count as done: nothing will ever tell.
    pub(crate) fn give_up_on_silence(&mut self) {
        self.silent = None;
    }
}
