//! Learns the arrival pattern of a job, to choose patience and linger.
//!
//! Both are ski-rental problems: keep waiting (and lose the time) or pay for a cycle (and lose its cost). Waiting as
//! long as the cycle costs is never worse than twice the best choice; knowing how recent waits ended does better.

use crate::Nanos;

/// A moving average of a condition: how often it was true recently, in 255ths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likelihood(u8);

impl Likelihood {
    pub(crate) fn note(&mut self, happened: bool) {
        // A weight of one eighth remembers about a dozen samples; the +1 lets the value reach both ends.
        if happened {
            self.0 = self.0.saturating_add((255 - self.0) / 8 + 1);
        } else {
            self.0 = self.0.saturating_sub(self.0 / 8 + 1);
        }
    }

    fn hint(&mut self) {
        self.0 = self.0.saturating_add(2);
    }

    pub(crate) fn likely(self) -> bool {
        self.0 >= 128
    }
}

/// The observed pattern of a job's bursts and gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// How often a burst that met lower jobs ended by itself before a cycle would have paid off.
    self_ending: Likelihood,
    /// How often the next burst came before a resume would have paid off.
    soon_back: Likelihood,
    /// Average of those short gaps, and their mean deviation.
    short_gap: Nanos,
    stray: Nanos,
    /// Average length of a burst.
    burst: Nanos,
    /// Whether the job met lower jobs during this burst, and whether any of them was stopped for it.
    pub(crate) contested: bool,
    pub(crate) acted: bool,
}

fn blend(old: Nanos, new: Nanos, shift: u32) -> Nanos {
    if new >= old { old.plus(Nanos((new.0 - old.0) >> shift)) } else { old.since(Nanos((old.0 - new.0) >> shift)) }
}

impl Habits {
    /// Nothing is known yet.
    pub(crate) const EMPTY: Habits = Habits {
        self_ending: Likelihood(96),
        soon_back: Likelihood(192),
        short_gap: Nanos::ZERO,
        stray: Nanos::ZERO,
        burst: Nanos::ZERO,
        contested: false,
        acted: false,
    };

    /// Notes that a burst ended after `length`; stopping others for it costs `price`.
    pub(crate) fn burst_ended(&mut self, length: Nanos, price: Nanos) {
        self.burst = if self.burst == Nanos::ZERO { length } else { blend(self.burst, length, 3) };
        if self.contested && !self.acted {
            self.self_ending.note(length <= price);
        } else if self.acted && length <= price {
            // Without a wait there is no evidence; but a short burst is a hint that waiting may pay off.
            self.self_ending.hint();
        }
        self.contested = false;
        self.acted = false;
    }

    /// Notes that a job was stopped during this burst, after the patience had passed (`waited`) or at once.
    pub(crate) fn acted(&mut self, waited: bool) {
        if waited && !self.acted {
            self.self_ending.note(false);
        }
        self.acted = true;
    }

    /// Notes that the job came back after `gap`; a resume and the next preemption cost `price`.
    pub(crate) fn came_back(&mut self, gap: Nanos, price: Nanos) {
        self.soon_back.note(gap <= price);
        if gap <= price {
            let off = if gap >= self.short_gap { gap.since(self.short_gap) } else { self.short_gap.since(gap) };
            self.stray = blend(self.stray, off, 2);
            self.short_gap = blend(self.short_gap, gap, 3);
        }
    }

    /// Returns how long it pays to wait before a preemption that costs `price`.
    pub(crate) fn patience(&self, price: Nanos) -> Nanos {
        if self.self_ending.likely() { price } else { Nanos::ZERO }
    }

    /// Returns how long it pays to keep the gpu reserved, when a resume and the next preemption cost `price`.
    pub(crate) fn linger(&self, price: Nanos) -> Nanos {
        let wait = self.short_gap.plus(self.stray.times(4)).min(price);
        let chance = u64::from(self.soon_back.0);
        // The saving if the job comes back in time, against the loss if it does not.
        if price.times(chance) >= wait.times(255 - chance) { wait } else { Nanos::ZERO }
    }

    /// Returns the average length of a burst.
    pub(crate) fn burst(&self) -> Nanos {
        self.burst
    }
}
