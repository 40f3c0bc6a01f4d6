//! Weighted shares. One job has the gpu at a time, for a slice; the job with the largest deficit is next.
//!
//! While a job has work it earns its share of the elapsed time (its request, and its weight's part of what requests
//! leave over) and is charged for the time it runs; the difference is its deficit. Only jobs with work earn, so the
//! shares of idle jobs go to the others. A job that was idle keeps no old credit, so that it cannot starve the others
//! when it returns. A limit is a second account that fills at the limit's rate; when it is empty the job is stopped
//! even if the gpu is idle.

use super::{CLASS_SHIFT, IN_SLICE, KEY_MASK, Policy, Span, earlier_first, in_slice, slice_end};
use crate::plan::Reason;
use crate::state::{GpuSlot, JobSlot, Phase};
use crate::{GpuParams, JobParams, Nanos, Permille};

pub(super) struct Fair;

/// Class of all fair jobs: on a machine with several policies they rank above the lower half of the levels.
const CLASS: u64 = 8;
/// A job idle for this long loses its debt, and no deficit grows beyond this.
const MEMORY: Nanos = Nanos::from_secs(1);

fn signed(time: Nanos) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

/// Returns the capacity of the limit account.
fn limit_capacity(job: &JobSlot) -> i64 {
    signed(job.params.limit_capacity())
}

impl Policy for Fair {
    fn rank(&self, job: &JobSlot, gpu: &GpuSlot, now: Nanos) -> u64 {
        let class = CLASS << CLASS_SHIFT;
        if in_slice(job, gpu, now) {
            return class | IN_SLICE | earlier_first(job.slice_start);
        }
        // Deficits are within MEMORY of zero, far inside the key.
        let middle = signed(Nanos(KEY_MASK / 2));
        class | u64::try_from(middle.saturating_add(job.account.deficit)).unwrap_or(0).min(KEY_MASK)
    }

    fn displaces(&self, _upper: &JobParams, _lower: &JobParams, _gpu: &GpuParams) -> Option<Reason> {
        Some(Reason::ShareDue)
    }

    fn throttles(&self, job: &JobParams) -> bool {
        job.limit < Permille::ALL
    }

    fn shares_time(&self) -> bool {
        true
    }

    fn default_slice(&self) -> Nanos {
        GpuParams::FAIR_SLICE
    }

    fn work_began(&self, job: &mut JobSlot, idle: Nanos, _now: Nanos) {
        job.account.deficit = if idle >= MEMORY { 0 } else { job.account.deficit.min(0) };
    }

    fn charge(&self, job: &mut JobSlot, span: Span) {
        let used = if span.ran && !mutant!(UnchargedShare) { signed(span.length) } else { 0 };
        let earned = if job.works { signed(span.length.permille(u64::from(span.entitled))) } else { 0 };
        let most = signed(MEMORY);
        let deficit = job.account.deficit.saturating_add(earned).saturating_sub(used);
        job.account.deficit = deficit.clamp(-most, most);

        if job.params.limit == Permille::ALL || mutant!(NoLimit) {
            job.throttled = false;
            return;
        }
        let capacity = limit_capacity(job);
        let refill = signed(span.length.permille(u64::from(job.params.limit.get())));
        let ran = if span.ran { signed(span.length) } else { 0 };
        // Run time that could not be prevented counts against the job for one window at most.
        let credit = job.account.limit_credit.saturating_add(refill).saturating_sub(ran);
        job.account.limit_credit = credit.clamp(capacity.saturating_neg(), capacity);
        if job.account.limit_credit <= 0 {
            job.throttled = true;
        } else if job.account.limit_credit >= capacity / 2 {
            job.throttled = false;
        }
    }

    fn next_change(&self, job: &JobSlot, gpu: &GpuSlot, now: Nanos) -> Nanos {
        let slice = slice_end(job, gpu).filter(|&end| end > now).unwrap_or(Nanos::NEVER);
        slice.min(limit_change(job, now))
    }
}

/// Returns when the limit account will be empty, or full enough again.
fn limit_change(job: &JobSlot, now: Nanos) -> Nanos {
    if job.params.limit == Permille::ALL {
        return Nanos::NEVER;
    }
    if !job.throttled {
        // Only a job that runs uses its limit up.
        if job.phase != Phase::Running || !job.works {
            return Nanos::NEVER;
        }
        // The account drains by what it is not refilled meanwhile.
        let credit = u64::try_from(job.account.limit_credit).unwrap_or(0);
        let drain = 1000 - u64::from(job.params.limit.get());
        let empty = credit.saturating_mul(1000).checked_div(drain).unwrap_or(u64::MAX);
        return now.plus(Nanos(empty.saturating_add(1000)));
    }
    let missing = u64::try_from((limit_capacity(job) / 2).saturating_sub(job.account.limit_credit)).unwrap_or(0);
    // One more nanosecond, because the refill rounds down; a limit of zero never refills.
    let wait = missing.saturating_mul(1000).checked_div(u64::from(job.params.limit.get()));
    wait.map_or(Nanos::NEVER, |wait| now.plus(Nanos(wait.saturating_add(1000))))
}
