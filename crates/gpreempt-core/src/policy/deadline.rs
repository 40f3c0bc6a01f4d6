//! Earliest deadline first over jobs with a period; jobs without one rank below, by level.
//!
//! Work that begins a period or more after the last release is a new release with a new deadline. Work that begins
//! earlier belongs to the same release while its runtime lasts, and then to the next one. A release that uses more than
//! its runtime is postponed by a period (constant bandwidth server), so that the overrun of one job does not make
//! another miss.

use super::{CLASS_SHIFT, Policy, Span, earlier_first};
use crate::plan::Reason;
use crate::state::{GpuSlot, JobSlot, Phase};
use crate::{GpuParams, JobParams, Nanos};

pub(super) struct Deadline;

/// Class of jobs with a deadline: above every level.
const CLASS: u64 = 16;

impl Policy for Deadline {
    fn rank(&self, job: &JobSlot, _gpu: &GpuSlot, _now: Nanos) -> u64 {
        if !job.params.has_deadline() {
            return u64::from(job.params.level.get()) << CLASS_SHIFT;
        }
        let key = earlier_first(job.account.deadline);
        let key = if mutant!(LatestDeadline) { super::KEY_MASK - key } else { key };
        (CLASS << CLASS_SHIFT) | key
    }

    fn displaces(&self, upper: &JobParams, lower: &JobParams, _gpu: &GpuParams) -> Option<Reason> {
        if upper.has_deadline() {
            Some(Reason::EarlierDeadline)
        } else if upper.level > lower.level && !lower.has_deadline() {
            Some(Reason::HigherWants)
        } else {
            None
        }
    }

    fn has_deadlines(&self) -> bool {
        true
    }

    fn demand(&self, job: &JobParams) -> u64 {
        let span = job.period.min(job.relative_deadline());
        job.runtime.times(1000).0.checked_div(span.0).unwrap_or(0)
    }

    fn work_began(&self, job: &mut JobSlot, _idle: Nanos, now: Nanos) {
        let params = job.params;
        let next = job.account.release.plus(params.period);
        if !params.has_deadline() {
            return;
        }
        // A release that was postponed in advance counts from the actual start of its work.
        let put_back = job.account.used == Nanos::ZERO && now > job.account.release;
        if job.account.deadline == Nanos::ZERO || now >= next || put_back {
            release(job, now, &params);
        } else if params.runtime > Nanos::ZERO && job.account.used >= params.runtime {
            release(job, next, &params);
        }
    }

    fn charge(&self, job: &mut JobSlot, span: Span) {
        let params = job.params;
        if !span.ran || !params.has_deadline() {
            return;
        }
        job.account.used = job.account.used.plus(span.length);
        if params.runtime > Nanos::ZERO && job.account.used >= params.runtime && job.works {
            let rest = job.account.used.since(params.runtime);
            release(job, job.account.release.plus(params.period), &params);
            job.account.used = rest;
        }
    }

    fn next_change(&self, job: &JobSlot, _gpu: &GpuSlot, now: Nanos) -> Nanos {
        let params = job.params;
        if !params.has_deadline() || params.runtime == Nanos::ZERO || !job.works || job.phase != Phase::Running {
            return Nanos::NEVER;
        }
        now.plus(params.runtime.since(job.account.used))
    }
}

fn release(job: &mut JobSlot, at: Nanos, params: &JobParams) {
    job.account.release = at;
    job.account.deadline = at.plus(params.relative_deadline());
    job.account.used = Nanos::ZERO;
}
