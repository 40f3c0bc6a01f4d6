//! What the core learns about a job's arrivals, to choose patience and linger.
//!
//! Both are ski-rental problems: keep waiting (and lose the time) or pay for a cycle (and lose its cost). Waiting as long as
//! the cycle costs is never worse than twice the best choice; knowing how the last waits ended does better.

use crate::Nanos;

/// A moving share: how often something was true lately, in 255ths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likelihood(u8);

impl Likelihood {
    pub(crate) fn note(&mut self, happened: bool) {
        // A shift of three keeps the last dozen or so in sight; the +1 lets it reach both ends.
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

/// A job's habits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// How often a burst met by lower jobs ended by itself before a cycle would have paid.
    self_ending: Likelihood,
    /// How often the next burst came before a resume would have paid.
    soon_back: Likelihood,
    /// Average of those short gaps, and how far they stray.
    short_gap: Nanos,
    stray: Nanos,
    /// Average length of a burst.
    burst: Nanos,
    /// The job has been met by lower jobs during this burst, and whether anything was stopped for it.
    pub(crate) contested: bool,
    pub(crate) acted: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Habits {
            self_ending: Likelihood(96),
            soon_back: Likelihood(192),
            short_gap: Nanos::ZERO,
            stray: Nanos::ZERO,
            burst: Nanos::ZERO,
            contested: false,
            acted: false,
        }
    }
}

fn blend(old: Nanos, new: Nanos, shift: u32) -> Nanos {
    if new >= old { old.plus(Nanos((new.0 - old.0) >> shift)) } else { old.since(Nanos((old.0 - new.0) >> shift)) }
}

impl Habits {
    /// A burst ended after `length`; acting on its behalf costs `price`.
    pub(crate) fn burst_ended(&mut self, length: Nanos, price: Nanos) {
        self.burst = if self.burst == Nanos::ZERO { length } else { blend(self.burst, length, 3) };
        if self.contested && !self.acted {
            self.self_ending.note(length <= price);
        } else if self.acted && length <= price {
            // Nothing was waited for, so nothing was shown; but a short burst is worth another try some day.
            self.self_ending.hint();
        }
        self.contested = false;
        self.acted = false;
    }

    /// Something was stopped during this burst, after its patience had been waited for, or at once.
    pub(crate) fn acted(&mut self, waited: bool) {
        if waited && !self.acted {
            self.self_ending.note(false);
        }
        self.acted = true;
    }

    /// The job came back after `gap`; a resume and the next preemption cost `price`.
    pub(crate) fn came_back(&mut self, gap: Nanos, price: Nanos) {
        self.soon_back.note(gap <= price);
        if gap <= price {
            let off = if gap >= self.short_gap { gap.since(self.short_gap) } else { self.short_gap.since(gap) };
            self.stray = blend(self.stray, off, 2);
            self.short_gap = blend(self.short_gap, gap, 3);
        }
    }

    /// How long it pays to wait before acting, when acting costs `price`.
    pub(crate) fn patience(&self, price: Nanos) -> Nanos {
        if self.self_ending.likely() { price } else { Nanos::ZERO }
    }

    /// How long it pays to keep the gpu reserved, when a resume and the next preemption cost `price`.
    pub(crate) fn linger(&self, price: Nanos) -> Nanos {
        let wait = self.short_gap.plus(self.stray.times(4)).min(price);
        let chance = u64::from(self.soon_back.0);
        // Saved if it comes back in time, against lost if it does not.
        if price.times(chance) >= wait.times(255 - chance) { wait } else { Nanos::ZERO }
    }

    /// How long the job usually works at a stretch.
    pub(crate) fn burst(&self) -> Nanos {
        self.burst
    }
}
