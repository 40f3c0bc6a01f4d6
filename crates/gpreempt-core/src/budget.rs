//! The cycle budget of a gpu: runlist cycles per second.
//!
//! A token bucket whose unit is the time to earn a token, so that refilling is an addition. A preemption is made only
//! if the budget also pays for the resume of everything stopped: a stopped job never waits for the budget.
//!
//! A plan is charged by the cost function when it is made, and corrected when reports tell the cycles that were spent.
//! What all open entries may give back fits into the bucket at any time: what has spilled over a full bucket since is
//! not given back. So a gpu never spends more than a full bucket and what it earns, unless the cost function says too
//! little.

use crate::{GpuParams, Nanos};

/// The remaining cycles of a gpu, in nanoseconds of refill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    tokens: i64,
    at: Nanos,
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Bucket {
    pub(crate) const EMPTY: Bucket = Bucket { tokens: 0, at: Nanos::ZERO };

    /// Returns a full bucket.
    pub(crate) fn full(params: &GpuParams, now: Nanos) -> Bucket {
        Bucket { tokens: Bucket::capacity(params), at: now }
    }

    /// Returns the price of `cycles`; zero if the gpu has no limit.
    pub(crate) fn price(params: &GpuParams, cycles: u32) -> i64 {
        let each = 1_000_000_000u64.checked_div(u64::from(params.cycles_per_second)).unwrap_or(0);
        signed(each.saturating_mul(u64::from(cycles)))
    }

    fn capacity(params: &GpuParams) -> i64 {
        Bucket::price(params, params.cycle_burst.max(1))
    }

    pub(crate) fn refill(&mut self, params: &GpuParams, now: Nanos) {
        let earned = signed(now.since(self.at).0);
        self.tokens = self.tokens.saturating_add(earned).min(Bucket::capacity(params));
        self.at = now;
    }

    /// Returns when `cycles` can be spent: now or later. More than the bucket's capacity can be spent when it is full.
    pub(crate) fn ready_at(&self, params: &GpuParams, cycles: u32, now: Nanos) -> Nanos {
        let wanted = Bucket::price(params, cycles).min(Bucket::capacity(params));
        let missing = wanted.saturating_sub(self.tokens);
        u64::try_from(missing).map_or(now, |missing| now.plus(Nanos(missing)))
    }

    pub(crate) fn spend(&mut self, params: &GpuParams, cycles: u32) {
        if !mutant!(UnchargedCycles) {
            self.tokens = self.tokens.saturating_sub(Bucket::price(params, cycles));
        }
    }

    /// Returns what the bucket can still take.
    pub(crate) fn room(&self, params: &GpuParams) -> i64 {
        Bucket::capacity(params).saturating_sub(self.tokens)
    }

    /// Corrects a charge of `planned` cycles of which `spent` were spent. Gives back `most` at most.
    pub(crate) fn settle(&mut self, params: &GpuParams, planned: u32, spent: u32, most: i64) {
        let correction = Bucket::price(params, planned).saturating_sub(Bucket::price(params, spent));
        if !mutant!(BelievesCosts) {
            self.tokens = self.tokens.saturating_add(correction.min(most));
        }
    }
}
