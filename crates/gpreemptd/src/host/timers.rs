//! When the deciding thread has to act although nothing is heard.

use gpreempt_core::Nanos;

use crate::actuate::BEAT;
use crate::config::Watch;

use super::pacer::PollPacer;

/// All instants the deciding thread waits for. Only the earliest of those given to [`Timers::wake_at`] is remembered;
/// what lies behind it is asked for again when it has passed (`Host::rearm_timer`).
#[derive(Debug)]
pub(super) struct Timers {
    /// The earliest instant of the host's own.
    due: Nanos,
    /// When the core wants to decide again.
    core_wake: Nanos,
    /// When the guardian wants the next sign of life.
    beat_at: Nanos,
    pacer: PollPacer,
}

impl Timers {
    pub(super) fn new() -> Timers {
        Timers { due: Nanos::NEVER, core_wake: Nanos::NEVER, beat_at: Nanos::ZERO, pacer: PollPacer::new() }
    }

    /// Returns the earliest instant; that of the next beat counts only while there is a guardian.
    pub(super) fn next(&self, has_guardian: bool) -> Nanos {
        let beat = if has_guardian { self.beat_at } else { Nanos::NEVER };
        self.pacer.next().min(self.core_wake).min(self.due).min(beat)
    }

    /// Asks to act at `at` at the latest.
    pub(super) fn wake_at(&mut self, at: Nanos) {
        self.due = self.due.min(at);
    }

    /// Returns whether an instant given to [`Timers::wake_at`] has passed, and forgets it.
    pub(super) fn take_due(&mut self, now: Nanos) -> bool {
        let passed = now >= self.due;
        if passed {
            self.due = Nanos::NEVER;
        }
        passed
    }

    /// Returns the instant that [`Timers::take_due`] waits for.
    #[cfg(test)]
    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// Sets when the core wants to decide again.
    pub(super) fn set_core_wake(&mut self, at: Nanos) {
        self.core_wake = at;
    }

    /// Returns whether the core asked to decide by now.
    pub(super) fn is_core_due(&self, now: Nanos) -> bool {
        now >= self.core_wake
    }

    /// Returns whether a sign of life is due, and sets when the next is.
    pub(super) fn take_beat(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.beat_at;
        if is_due {
            self.beat_at = now.plus(Nanos::from(BEAT));
        }
        is_due
    }

    /// Begins or ends the polling of rings.
    pub(super) fn set_polling(&mut self, polling: bool, now: Nanos, config: &Watch) {
        self.pacer.watch(polling, now, config);
    }

    /// Returns whether rings are polled at all.
    pub(super) fn is_polling(&self) -> bool {
        self.pacer.next() < Nanos::NEVER
    }

    /// Returns whether rings are to be polled by now.
    pub(super) fn is_poll_due(&self, now: Nanos) -> bool {
        now >= self.pacer.next()
    }

    /// Notes that rings were polled.
    pub(super) fn polled(&mut self, now: Nanos, config: &Watch) {
        self.pacer.looked(now, config);
    }

    /// Returns the time between two polls; `None` while nothing is polled.
    pub(super) fn poll_period(&self) -> Option<Nanos> {
        self.pacer.period()
    }
}
