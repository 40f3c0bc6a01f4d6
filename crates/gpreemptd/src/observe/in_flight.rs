//! Packets that the command processor has fetched from a ring and may not have completed.

use std::collections::VecDeque;

use kfd::ProcessMemory;
use kfd::aql::{self, Packet, SignalHandle};

use super::next_instant;

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
    packet: Packet,
}

/// Packets fetched by the command processor that may not have completed.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    /// The oldest first.
    awaited: VecDeque<Awaited>,
    gate: Option<Gate>,
    /// The newest packet with work and without a signal.
    silent: Option<u64>,
    /// The newest packet whose end nothing proves, whether or not it counts as ended.
    unproven: Option<u64>,
    /// Waves were looked for and not found, while others had theirs on the gpu.
    parked: bool,
}

/// What is unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unfinished {
    /// A wait whose signals have not fired holds up the ring.
    pub(super) blocked: bool,
    /// A completion signal has not fired.
    pub(super) signalled: bool,
    /// There are packets that nothing tells the end of.
    pub(super) silent: bool,
    /// Its waves are known not to be on the gpu.
    pub(super) parked: bool,
    /// A signal fired since the last look.
    pub(super) progress: bool,
}

impl InFlight {
    /// Whatever came before this packet may run, for all that is known.
    pub(super) fn begin_at(&mut self, number: u64) {
        if number != 0 {
            self.lose_sight(number.wrapping_sub(1));
        }
    }

    /// Nothing will prove that this packet and those before it have ended.
    pub(super) fn lose_sight(&mut self, number: u64) {
        self.unproven = Some(number);
    }

    /// Takes the next packet that was fetched. `seen`: it was read before the processor took its header, and whether
    /// its signal was found unfired then.
    pub(super) fn push(&mut self, number: u64, packet: &Packet, seen: Option<bool>, fresh: bool) {
        self.parked = false;
        let waits = packet.kind.waits();
        // The processor is past a wait when it has fetched what comes after.
        self.gate = waits.then_some(Gate { number, packet: *packet });
        let Some(signal) = packet.completion else {
            if !waits {
                self.silent = Some(number);
                self.lose_sight(number);
            }
            return;
        };
        self.forget(signal);
        if self.awaited.len() == FOLLOWED
            && let Some(lost) = self.awaited.pop_front()
        {
            self.unproven = self.unproven.or(Some(lost.number));
        }
        let ordered = seen.map(|_| packet.header.barrier());
        // A wait has no waves, whatever its signal tells.
        let armed = waits || seen == Some(true);
        self.awaited.push_back(Awaited { number, signal, ordered, armed, fresh });
    }

    /// Takes the next packet that was fetched, which has completed.
    pub(super) fn skip(&mut self, number: u64) {
        self.gate = None;
        self.lose_sight(self.unproven.map_or(number, |unproven| unproven.max(number)));
    }

    /// Whether a packet in flight has this completion signal.
    pub(super) fn awaits(&self, signal: SignalHandle) -> bool {
        self.awaited.iter().any(|awaited| awaited.signal == signal)
    }

    /// Whether a wait was fetched and may not have passed.
    pub(super) fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// Returns the wait of this number that was fetched and may not have passed.
    pub(super) fn gate_at(&self, number: u64) -> Option<Packet> {
        self.gate.filter(|gate| gate.number == number).map(|gate| gate.packet)
    }

    /// Whether everything that was fetched is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.awaited.is_empty() && self.gate.is_none() && self.silent.is_none() && self.unproven.is_none()
    }

    /// All packets before this one have retired.
    pub(super) fn retired_before(&mut self, number: u64) {
        let stays = |other: u64| number.wrapping_sub(other).cast_signed() <= 0;
        self.awaited.retain(|awaited| stays(awaited.number));
        self.gate = self.gate.filter(|gate| stays(gate.number));
        self.silent = self.silent.filter(|silent| stays(*silent));
        self.unproven = self.unproven.filter(|unproven| stays(*unproven));
    }

    /// A newer packet uses the signal: if it still says "unfinished", it is about that one.
    pub(super) fn forget(&mut self, signal: SignalHandle) {
        let lost = self.awaited.iter().find(|awaited| awaited.signal == signal).map(|awaited| awaited.number);
        if let Some(lost) = lost {
            self.lose_sight(self.unproven.map_or(lost, |unproven| unproven.max(lost)));
            self.awaited.retain(|awaited| awaited.signal != signal);
        }
    }

    /// What is unfinished now. Queues that are stopped do not pass a wait even if they could.
    pub(super) fn unfinished(&mut self, memory: &ProcessMemory, stopped: bool) -> Unfinished {
        let before = self.awaited.len();
        let blocked = self.check_gate(memory, stopped);
        let gate = self.gate.map(|gate| gate.number).filter(|_| blocked);
        let signalled = self.check_signals(memory, gate);
        let progress = self.awaited.len() != before;
        self.parked &= !progress && (signalled || self.silent.is_some());
        Unfinished { blocked, signalled, silent: self.silent.is_some(), parked: self.parked, progress }
    }

    /// Whether a wait holds up the ring.
    fn check_gate(&mut self, memory: &ProcessMemory, stopped: bool) -> bool {
        let Some(Gate { number, packet }) = self.gate else { return false };
        let completed = packet.completion.is_some_and(|signal| has_fired(signal, memory));
        // A signal that cannot be read any more cannot be waited for.
        let passes = completed || aql::passes(&packet.kind, next_instant(memory)).unwrap_or(true);
        if completed {
            self.fired(number, None);
        }
        if completed || (passes && !stopped) {
            self.gate = None;
        }
        !passes
    }

    /// Whether a signal has not fired, other than that of the wait that holds up the ring. The newest is asked first,
    /// so a ring at work costs one read.
    fn check_signals(&mut self, memory: &ProcessMemory, gate: Option<u64>) -> bool {
        let mut index = self.awaited.len();
        while index > 0 {
            index -= 1;
            let Some(awaited) = self.awaited.get_mut(index) else { continue };
            if Some(awaited.number) == gate {
                continue;
            }
            if !has_fired(awaited.signal, memory) {
                awaited.armed = true;
                return true;
            }
            let Awaited { number, ordered, armed, .. } = *awaited;
            index = if ordered == Some(true) { 0 } else { index };
            self.fired(number, ordered);
            self.prove(number, ordered == Some(true), armed);
        }
        false
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
    pub(super) fn no_waves(&mut self, alone: bool, lasting: bool) -> bool {
        let before = (self.awaited.len(), self.silent);
        self.awaited.retain(|awaited| !lasting || awaited.fresh && !alone);
        self.silent = self.silent.filter(|_| !alone && !lasting);
        self.unproven = self.unproven.filter(|_| !alone && !lasting);
        self.parked = !self.awaited.is_empty() || self.silent.is_some();
        (self.awaited.len(), self.silent) != before
    }

    /// Waves of the tenant were on the gpu. If nothing that was fetched can have them, what comes behind the wait has.
    pub(super) fn waves(&mut self) {
        self.parked = false;
        if self.awaited.is_empty() && self.silent.is_none() {
            self.gate = None;
        }
    }

    /// Something runs that counted as ended.
    pub(super) fn revive(&mut self, number: u64) {
        self.silent = Some(number);
        self.lose_sight(number);
    }

    /// Packets without signals count as done: nothing will ever tell.
    pub(super) fn give_up_on_silence(&mut self) {
        self.silent = None;
    }
}

/// Whether a completion signal has fired. One that cannot be read is no longer waited for.
fn has_fired(signal: SignalHandle, memory: &ProcessMemory) -> bool {
    aql::signal_value(signal, next_instant(memory)).map_or(true, |value| value <= 0)
}
