//! The promises, as formulas. Tests evaluate exactly these functions and tools print their values.

use crate::{GpuParams, JobParams, Nanos, Permille};

/// Terms of the longest time a job that wants can meet a lower job that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inversion {
    /// Time between two looks of the host.
    pub detection: Nanos,
    /// Longest patience of the waiting job.
    pub patience: Nanos,
    /// Exempt time of the lower job, and the cycles of the plan that resumed it.
    pub exempt: Nanos,
    /// Refill of the gpu's cycle budget.
    pub refill: Nanos,
    /// Carrying out the plan.
    pub cost: Nanos,
    /// One turn of an aged job, and the cycles around it.
    pub turn: Nanos,
    /// How long a small victim is spared; see [`small`].
    pub small: Nanos,
}

/// The longest inversion. The terms do not all occur at once, but in the worst case one after the other.
#[must_use]
pub fn inversion(terms: &Inversion) -> Nanos {
    [terms.patience, terms.exempt, terms.refill, terms.cost, terms.turn, terms.small]
        .into_iter()
        .fold(terms.detection, Nanos::plus)
}

/// Times its price that a victim is spared at most, however little it holds.
pub const LONGEST_SPARING: u64 = 20;

/// How long a victim is spared that holds `occupancy` of the gpu, when stopping and resuming it costs `price`: until it has
/// held up others for as much as it costs. `None` is the worst case.
#[must_use]
pub fn small(price: Nanos, occupancy: Option<Permille>) -> Nanos {
    let share = occupancy.map_or(0, |share| u64::from(share.get()));
    let worth = price.times(1000).0.checked_div(share).map_or(Nanos::NEVER, Nanos);
    worth.min(price.times(LONGEST_SPARING))
}

/// Terms of the longest time a job stays stopped although it has work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starvation {
    /// `max_stop`, or what ageing makes of it; see [`age_limit`].
    pub age_limit: Nanos,
    /// Other jobs on its gpus that may be due before it.
    pub jobs_ahead: u32,
    /// The longest turn of any of them.
    pub turn: Nanos,
    /// Time between two looks of the host.
    pub detection: Nanos,
    /// One cycle: carrying out the resume.
    pub cycle: Nanos,
}

/// The longest stop: the age limit, a turn and the gate behind it for every job ahead, and two cycles.
#[must_use]
pub fn starvation(terms: &Starvation) -> Nanos {
    let slot = terms.turn.times(2);
    terms
        .age_limit
        .plus(slot.times(u64::from(terms.jobs_ahead).saturating_add(1)))
        .plus(terms.cycle.times(2))
        .plus(terms.detection)
}

/// Longest stop before a job is due, when the job that causes it stands `distance` levels higher.
#[must_use]
pub fn age_limit(params: &JobParams, distance: u8) -> Nanos {
    if params.age_step == Nanos::ZERO {
        return params.max_stop;
    }
    params.max_stop.min(params.age_step.times(u64::from(distance.max(1))))
}

/// Most cycles a gpu spends within `window`. `largest` is what it takes there to stop everything and to resume it one by one:
/// a stop that cannot be paid together with all resumes after it, because that is more than the burst, is made when the
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

/// Longest time until the budget of a gpu pays for `cycles`, the resume of everything included, when the turns of aged jobs
/// take `ageing` cycles per second of it. What exceeds the burst was, or will be, borrowed from a full bucket and has to be
/// earned too. [`Nanos::NEVER`] if ageing takes all there is: such a budget promises nothing.
#[must_use]
pub fn refill(params: &GpuParams, cycles: u32, ageing: u32) -> Nanos {
    if params.cycles_per_second == 0 {
        return Nanos::ZERO;
    }
    let rate = u64::from(params.cycles_per_second.saturating_sub(ageing));
    let each = 1_000_000_000u64.checked_div(rate).map_or(Nanos::NEVER, Nanos);
    each.times(u64::from(cycles.max(params.cycle_burst)).saturating_add(1))
}

/// Cycles per second that the turns of an aged job take, when a stop and a resume of it cost `round_trip`.
#[must_use]
pub fn ageing(params: &JobParams, round_trip: u32) -> u32 {
    let pace = age_limit(params, 1).plus(params.turn()).0.max(1);
    let cycles = u64::from(round_trip).saturating_mul(1_000_000_000).div_ceil(pace);
    u32::try_from(cycles).unwrap_or(u32::MAX)
}

/// How far, under the fair policy, the time a job got may stray from its share while `jobs` have work all the time.
#[must_use]
pub fn share_error(jobs: u32, slice: Nanos, detection: Nanos, cycle: Nanos) -> Nanos {
    slice.plus(detection).plus(cycle.times(2)).times(u64::from(jobs).saturating_add(1))
}

/// Longest time a job may keep others stopped within `window`.
#[must_use]
pub fn stop_time(params: &JobParams, window: Nanos, detection: Nanos, cycle: Nanos) -> Nanos {
    let share = u64::from(params.stop_share.get());
    window.plus(JobParams::STOP_WINDOW).permille(share).plus(detection).plus(cycle.times(2))
}

/// Longest time a job with a limit runs within `window`, when the host looks every `detection`.
#[must_use]
pub fn limit_time(params: &JobParams, window: Nanos, detection: Nanos, cycle: Nanos) -> Nanos {
    let share = u64::from(params.limit.get());
    window.plus(JobParams::LIMIT_WINDOW).permille(share).plus(params.min_run).plus(detection).plus(cycle.times(2))
}
