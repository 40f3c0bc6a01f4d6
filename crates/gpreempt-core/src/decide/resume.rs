//! Decides when a stopped job runs again.

use super::{Moment, emit, reserve, turns};
use crate::Nanos;
use crate::plan::{Bound, Reason, Why};
use crate::state::{JobSlot, Phase, Stop};
use crate::storage::Tables;

/// Time for which a job is not stopped after part of it refused.
const SPARED: Nanos = Nanos::from_secs(1);

/// Decides about a job that is stopped. Returns whether it runs again and reserves its gpus.
pub(super) fn stopped(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) -> bool {
    let now = moment.now;
    let Some(job) = tables.job(index) else {
        return false;
    };
    if now < job.hold_until {
        moment.ask_at(job.hold_until);
    }
    let (reason, bound) = if job.now.refused || job.now.fixed {
        (Reason::GaveUp, Bound::Retry)
    } else if now < job.hold_until || job.throttled {
        let reason = if now < job.hold_until { Reason::Held } else { Reason::LimitReached };
        stays(tables, index, Stop { reason, ..Stop::EMPTY });
        return false;
    } else if job.now.turn {
        (Reason::Aged, Bound::Age)
    } else if let Some(stop) = in_the_way_of(tables, index) {
        stays(tables, index, stop);
        return false;
    } else if mutant!(ForgottenResume) {
        return false;
    } else {
        why_resumed(tables, job)
    };
    if job.now.pending > 0 {
        return false;
    }
    resume(tables, moment, index, reason, bound);
    // A job on its turn disturbs a higher job: it runs, and reserves nothing.
    reason != Reason::Aged
}

/// Keeps the job stopped, from now on for the cause and reason of `stop`.
fn stays(tables: &mut Tables<'_>, index: u32, stop: Stop) {
    if let Some(job) = tables.job_mut(index) {
        job.stop = stop;
    }
    if matches!(stop.reason, Reason::SliceOver | Reason::ShareDue) {
        reserve::await_turn(tables, index);
    }
}

fn resume(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32, reason: Reason, bound: Bound) {
    let now = moment.now;
    let Some(job) = tables.job(index) else {
        return;
    };
    let after = now.since(job.stopped_at);
    let cause = tables.view().cause_id(job.stop);
    let slice = reserve::slice_of(tables, job);
    if reason == Reason::Aged {
        turns::close_gates(tables, index, now);
    }
    if reason == Reason::GaveUp {
        emit::forgive(tables, index);
    }
    let Some(job) = tables.job_mut(index) else {
        return;
    };
    job.phase = Phase::Running;
    job.resumed_at = now;
    job.slice_start = now;
    job.exempt_for = if reason == Reason::Aged { job.params.turn() } else { job.params.min_run };
    job.exempt_until = now.plus(job.exempt_for);
    if job.now.refused {
        job.spared_until = now.plus(SPARED);
    }
    job.now.why = Some(Why { cause, reason, bound, after });
    // There may be no queue to resume, and then no report causes the next decision.
    moment.ask_at(job.exempt_until);
    if slice > Nanos::ZERO {
        moment.ask_at(now.plus(slice));
    }
}

/// Returns the job whose reservation the stopped job would disturb if it ran, and the reason.
fn in_the_way_of(tables: &Tables<'_>, index: u32) -> Option<Stop> {
    let job = tables.job(index)?;
    for id in job.now.working.with(job.now.stopped) {
        let Some(gpu) = tables.gpu(id) else { continue };
        for cause in [gpu.now.holder, gpu.now.lingerer] {
            if cause != index
                && let Some(upper) = tables.job(cause)
                && let Some(reason) = gpu.params.could_displace(&upper.params, &job.params)
            {
                return Some(Stop { cause, cause_generation: upper.generation, reason });
            }
        }
    }
    None
}

fn why_resumed(tables: &Tables<'_>, job: &JobSlot) -> (Reason, Bound) {
    match (job.stop.reason, tables.view().cause_of(job.stop)) {
        (Reason::Held, _) => (Reason::Released, Bound::Detection),
        (Reason::SliceOver | Reason::ShareDue | Reason::LimitReached, _) => (Reason::TurnDue, Bound::Slice),
        (_, Some(cause)) if cause.spent => (Reason::StopShareSpent, Bound::Detection),
        (_, Some(cause)) if !cause.works => (Reason::NothingAbove, Bound::Linger),
        _ => (Reason::NothingAbove, Bound::Detection),
    }
}
