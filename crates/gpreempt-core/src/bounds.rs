//! The promises of SPECIFICATION.md as formulas. The proofs evaluate these functions and the tools print their values.

use crate::{GpuParams, JobParams, Nanos, Permille};

/// Terms of the longest inversion: the time in which a job wants a gpu on which a lower job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inversion {
    /// Time between two observations of the host.
    pub detection: Nanos,
    /// Longest patience of the waiting job.
    pub patience: Nanos,
    /// Exempt time of the lower job, and the cycles of the plan that resumed it.
    pub exempt: Nanos,
    /// Time to refill the gpu's cycle budget.
    pub refill: Nanos,
    /// Time to execute the plan.
    pub cost: Nanos,
    /// One turn of an aged job, and its cycles.
    pub turn: Nanos,
    /// Longest time a small victim is spared; see [`small`].
    pub small: Nanos,
}

/// Returns the longest inversion: in the worst case the terms follow one another.
#[must_use]
pub fn inversion(terms: &Inversion) -> Nanos {
    [terms.patience, terms.exempt, terms.refill, terms.cost, terms.turn, terms.small]
        .into_iter()
        .fold(terms.detection, Nanos::plus)
}

/// Most times its price for which a victim is spared, however little of the gpu it occupies.
pub const LONGEST_SPARING: u64 = 20;

/// Returns how long a victim is spared that occupies `occupancy` of the gpu and costs `price` to stop and resume: until
/// the time it took from others equals its price. An occupancy of `None` is the worst case.
#[must_use]
pub fn small(price: Nanos, occupancy: Option<Permille>) -> Nanos {
    let share = occupancy.map_or(0, |share| u64::from(share.get()));
    let worth = price.times(1000).0.checked_div(share).map_or(Nanos::NEVER, Nanos);
    worth.min(price.times(LONGEST_SPARING))
}

/// Terms of the longest time for which a job with work stays stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starvation {
    /// `max_stop`, or less through ageing; see [`age_limit`].
    pub age_limit: Nanos,
    /// Number of other jobs on its gpus that may be due before it.
    pub jobs_ahead: u32,
    /// Longest turn of any of them.
    pub turn: Nanos,
    /// Time between two observations of the host.
    pub detection: Nanos,
    /// Time of one cycle: executing the resume.
    pub cycle: Nanos,
}

/// Returns the longest stop: the age limit, a turn and the gate after it for every job ahead, and two cycles.
#[must_use]
pub fn starvation(terms: &Starvation) -> Nanos {
    let slot = terms.turn.times(2);
    terms
        .age_limit
        .plus(slot.times(u64::from(terms.jobs_ahead).saturating_add(1)))
        .plus(terms.cycle.times(2))
        .plus(terms.detection)
}

/// Returns the longest stop before a job is due for a turn, when the job that caused the stop is `distance` levels
/// higher.
#[must_use]
pub fn age_limit(params: &JobParams, distance: u8) -> Nanos {
    if params.age_step == Nanos::ZERO {
        return params.max_stop;
    }
    params.max_stop.min(params.age_step.times(u64::from(distance.max(1))))
}

/// Returns the most cycles that a gpu spends within `window`. `largest` is the number of cycles to stop all of its
/// tenants and to resume them one by one: a stop that, with its resumes, needs more than the burst is made when the
/// bucket is full, and its resumes are borrowed.
#[must_use]
pub fn cycles(params: &GpuParams, window: Nanos, largest: u32) -> u64 {
    if params.cycles_per_second == 0 {
        return u64::MAX;
    }
    let rate = u64::from(params.cycles_per_second);
    let burst = u64::from(params.cycle_burst.max(1));
    let earned = (window.0 / 1_000_000_000)
        .saturating_mul(rate)
        .saturating_add((window.0 % 1_000_000_000).saturating_mul(rate) / 1_000_000_000)
        .saturating_add(1);
    earned.saturating_add(burst).saturating_add(if u64::from(largest) > burst { u64::from(largest) } else { 0 })
}

/// Returns the longest time until the budget of a gpu pays for `cycles`, all resumes included, when the turns of aged
/// jobs take `ageing` cycles per second of it. Cycles beyond the burst are borrowed from a full bucket and must be
/// earned, too. [`Nanos::NEVER`] if ageing takes the whole budget: such a budget promises nothing.
#[must_use]
pub fn refill(params: &GpuParams, cycles: u32, ageing: u32) -> Nanos {
    if params.cycles_per_second == 0 {
        return Nanos::ZERO;
    }
    let rate = u64::from(params.cycles_per_second.saturating_sub(ageing));
    let each = 1_000_000_000u64.checked_div(rate).map_or(Nanos::NEVER, Nanos);
    each.times(u64::from(cycles.max(params.cycle_burst)).saturating_add(1))
}

/// Returns the cycles per second that the turns of an aged job take, when its stop and resume cost `round_trip` cycles.
#[must_use]
pub fn ageing(params: &JobParams, round_trip: u32) -> u32 {
    let pace = age_limit(params, 1).plus(params.turn()).0.max(1);
    let cycles = u64::from(round_trip).saturating_mul(1_000_000_000).div_ceil(pace);
    u32::try_from(cycles).unwrap_or(u32::MAX)
}

/// Returns how far, under the fair policy, a job's run time may deviate from its share while `jobs` jobs always have
/// work.
#[must_use]
pub fn share_error(jobs: u32, slice: Nanos, detection: Nanos, cycle: Nanos) -> Nanos {
    slice.plus(detection).plus(cycle.times(2)).times(u64::from(jobs).saturating_add(1))
}

/// Returns the longest time for which a job keeps others stopped within `window`.
#[must_use]
pub fn stop_time(params: &JobParams, window: Nanos, detection: Nanos, cycle: Nanos) -> Nanos {
    let share = u64::from(params.stop_share.get());
    window.plus(JobParams::STOP_WINDOW).permille(share).plus(detection).plus(cycle.times(2))
}

/// Returns the longest time for which a job with a limit runs within `window`, when the host observes every
/// `detection`.
#[must_use]
pub fn limit_time(params: &JobParams, window: Nanos, detection: Nanos, cycle: Nanos) -> Nanos {
    let share = u64::from(params.limit.get());
    window.plus(JobParams::LIMIT_WINDOW).permille(share).plus(params.min_run).plus(detection).plus(cycle.times(2))
}
