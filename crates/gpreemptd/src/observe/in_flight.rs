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
    /// Takes the next packet that was fetched. `header_seen` says that it was read before the processor took its
    /// header.
    pub(super) fn push(&mut self, number: u64, packet: &Packet, header_seen: bool, fresh: bool) {
        self.parked = false;
        let waits = packet.kind.waits();
        // The processor is past a wait when it has fetched what comes after.
        self.gate = waits.then_some(Gate { number, packet: *packet });
        let Some(signal) = packet.completion else {
            if !waits {
                self.silent = Some(number);
            }
            return;
        };
        self.forget(signal);
        if self.awaited.len() == FOLLOWED {
            self.awaited.pop_front();
        }
        let ordered = header_seen.then_some(packet.header.barrier());
        self.awaited.push_back(Awaited { number, signal, ordered, fresh });
    }

    /// A newer packet uses the signal: if it still says "unfinished", it is about that one.
    pub(super) fn forget(&mut self, signal: SignalHandle) {
        self.awaited.retain(|awaited| awaited.signal != signal);
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
            let Some(&Awaited { number, signal, ordered, .. }) = self.awaited.get(index) else { continue };
            if Some(number) == gate {
                continue;
            }
            if !has_fired(signal, memory) {
                return true;
            }
            index = if ordered == Some(true) { 0 } else { index };
            self.fired(number, ordered);
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

    /// No waves of the tenant were on the gpu. What has no signal has ended, unless others had waves: then it may wait
    /// for room, for as long as that is worth believing. What has a signal counts as ended if there are none for a
    /// `lasting` time and, where we saw it come, no other tenant had waves either. What was there before us may have a
    /// signal that is about something else by now. Says whether anything counts as ended that a moment ago did not.
    pub(super) fn no_waves(&mut self, alone: bool, lasting: bool) -> bool {
        let before = (self.awaited.len(), self.silent);
        self.awaited.retain(|awaited| !lasting || awaited.fresh && !alone);
        self.silent = self.silent.filter(|_| !alone && !lasting);
        self.parked = !self.awaited.is_empty() || self.silent.is_some();
        (self.awaited.len(), self.silent) != before
    }

    /// Waves of the tenant were on the gpu.
    pub(super) fn waves(&mut self) {
        self.parked = false;
    }

    /// Something runs that counted as ended.
    pub(super) fn revive(&mut self, number: u64) {
        self.silent = Some(number);
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
