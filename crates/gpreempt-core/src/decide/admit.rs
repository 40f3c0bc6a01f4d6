//! Decides which jobs run, from the highest rank down.
//!
//! A job that wants a gpu reserves it against lower jobs. A lower job that would disturb a reservation is stopped as a
//! whole when no bound prevents it; a job that is stopped, or about to be, reserves nothing. Therefore a job that holds
//! a gpu holds all gpus it needs, and no two jobs hold parts of what the other needs.

use super::{Moment, emit, reserve, resume};
use crate::bounds;
use crate::cost::Batch;
use crate::plan::{Bound, Reason, Why};
use crate::state::{GpuSlot, JobSlot, Phase, Stop};
use crate::storage::Tables;
use crate::{GpuIndex, GpuSet, Nanos, Patience, Permille};

/// Shortest and longest time until a spared victim is examined again.
const SOONEST_RECHECK: Nanos = Nanos::from_micros(100);
const LATEST_RECHECK: Nanos = Nanos::from_millis(5);

/// The decision about a job that runs.
enum Admission {
    /// No higher job objects, or the job cannot be stopped: it runs and reserves its gpus.
    Runs,
    /// It disturbs a higher job but is not stopped before this instant.
    Waits(Nanos),
    /// It is stopped now.
    Stops(Stop, Why),
}

/// The objection of a higher job, a hold or a limit to a job that runs.
struct Objection {
    stop: Stop,
    /// When the objection takes effect, and the bound that sets this instant.
    at: Nanos,
    bound: Bound,
    since: Nanos,
    /// Time until a victim that is too small is examined again.
    recheck: Nanos,
}

pub(super) fn admit(tables: &mut Tables<'_>, moment: &mut Moment<'_>, jobs: usize) {
    for at in 0..jobs {
        let Some(&index) = tables.order.get(at) else {
            return;
        };
        let Some(job) = tables.job(index) else {
            continue;
        };
        if job.now.gpus.is_empty() {
            continue;
        }
        let runs = match job.phase {
            Phase::Running => running(tables, moment, index),
            Phase::Stopped => resume::stopped(tables, moment, index),
        };
        note_changes(tables, moment, index);
        let about_to_stop = !runs && !mutant!(VictimsReserve);
        if !about_to_stop {
            reserve::reserve(tables, moment, index);
        }
    }
}

/// Notes which passes of `emit` a job needs.
fn note_changes(tables: &Tables<'_>, moment: &mut Moment<'_>, index: u32) {
    let Some(job) = tables.job(index) else { return };
    let found = &mut moment.found;
    match job.phase {
        Phase::Stopped if job.now.why.is_some() => found.stops = true,
        Phase::Stopped => found.late_stops |= !job.now.loose.is_empty() || mutant!(RepeatedStop),
        Phase::Running => found.resumes |= !job.now.stopped.is_empty(),
    }
}

/// Decides about a job that runs. Returns whether it continues and reserves its gpus.
fn running(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) -> bool {
    match admission(tables, moment, index) {
        Admission::Runs => {
            reserve::renew_slice(tables, moment, index);
            true
        }
        Admission::Waits(until) => {
            moment.ask_at(until);
            // It still runs: jobs that are stopped for it stay stopped.
            reserve::keep_stopped(tables, index);
            note_weighing(tables, index, moment.now);
            false
        }
        Admission::Stops(stop, why) => {
            if let Some(cause) = tables.job_mut(stop.cause) {
                cause.habits.acted(why.bound == Bound::Patience);
                cause.now.victims = cause.now.victims.saturating_add(1);
            }
            if let Some(job) = tables.job_mut(index) {
                job.phase = Phase::Stopped;
                job.stopped_at = moment.now;
                job.stop = stop;
                job.now.why = Some(why);
            }
            emit::book_stop(tables, index);
            false
        }
    }
}

fn admission(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) -> Admission {
    let now = moment.now;
    // The wait for the budget counts only while nothing else prevents the stop.
    let short_since = tables.job_mut(index).map_or(Nanos::ZERO, |job| core::mem::take(&mut job.short_since));
    let Some(job) = tables.job(index) else {
        return Admission::Runs;
    };
    let immune = job.now.fixed || now < job.spared_until;
    if job.now.loose.is_empty() || immune {
        // The job disturbs no other, or it cannot be stopped.
        if immune && now < job.spared_until {
            moment.ask_at(job.spared_until);
        }
        return Admission::Runs;
    }
    let Some(objection) = objection(tables, moment, index) else {
        return Admission::Runs;
    };
    if let Some(cause) = tables.job_mut(objection.stop.cause) {
        cause.habits.contested = true;
    }
    let Some(job) = tables.job(index) else {
        return Admission::Runs;
    };
    let exempt = if mutant!(NoExemptTime) || objection.stop.reason == Reason::Held { now } else { job.exempt_until };
    if job.now.pending > 0 {
        return Admission::Waits(Nanos::NEVER);
    }
    let mut ready = (objection.at, objection.bound);
    for (at, bound) in [(exempt, Bound::Exempt), (emit::retry_at(tables, index), Bound::Retry)] {
        if at > ready.0 {
            ready = (at, bound);
        }
    }
    if ready.0 > now {
        // The occupancy of the victim changes with every kernel, so it is examined again soon.
        let soon = if ready.1 == Bound::Small { now.plus(objection.recheck) } else { Nanos::NEVER };
        return Admission::Waits(ready.0.min(soon));
    }
    if let Some(job) = tables.job_mut(index) {
        job.short_since = short_since;
    }
    if !emit::afford(tables, moment, index) {
        return Admission::Waits(Nanos::NEVER);
    }
    let broke = tables.job_mut(index).is_some_and(|job| core::mem::take(&mut job.short_since) > Nanos::ZERO);
    let bound = if broke { Bound::Budget } else { ready.1 };
    let cause = tables.view().job_id(objection.stop.cause);
    let after = now.since(objection.since);
    Admission::Stops(objection.stop, Why { cause, reason: objection.stop.reason, bound, after })
}

/// Returns the objection that takes effect first.
fn objection(tables: &Tables<'_>, moment: &Moment<'_>, index: u32) -> Option<Objection> {
    let now = moment.now;
    let job = tables.job(index)?;
    let for_reason = |reason| {
        let stop = Stop { reason, ..Stop::EMPTY };
        Some(Objection { stop, at: now, bound: Bound::Detection, since: now, recheck: Nanos::NEVER })
    };
    if now < job.hold_until {
        return for_reason(Reason::Held);
    }
    if job.throttled {
        return for_reason(Reason::LimitReached);
    }
    let mut first: Option<Objection> = None;
    for id in job.now.loose {
        let Some((gpu, upper, reason)) = objector(tables, index, id) else {
            continue;
        };
        let stop = Stop { cause: gpu.now.holder, cause_generation: upper.generation, reason };
        let since = upper.work_since.max(job.work_since).max(job.resumed_at);
        let mut found = Objection {
            stop,
            at: since,
            bound: Bound::Detection,
            since,
            recheck: Nanos(now.since(since).0 / 8).clamp(SOONEST_RECHECK, LATEST_RECHECK),
        };
        if is_turn(reason) {
            found.bound = Bound::Slice;
        } else {
            // Patience counts from when the upper job began to want the gpu: a victim with many short bursts does not
            // restart it with each.
            let in_the_way = upper.work_since.max(job.resumed_at);
            let patience = in_the_way.plus(patience(upper, gpu));
            if patience > found.at {
                (found.at, found.bound) = (patience, Bound::Patience);
            }
            let worth = worth_at(tables, moment, index, id, upper, in_the_way);
            if worth > found.at {
                (found.at, found.bound) = (worth, Bound::Small);
            }
        }
        if first.as_ref().is_none_or(|first| found.at < first.at) {
            first = Some(found);
        }
    }
    first
}

/// Returns a gpu, the job that holds it, and the reason for which that job may stop the job `index` there.
fn objector<'a>(tables: &'a Tables<'_>, index: u32, id: GpuIndex) -> Option<(&'a GpuSlot, &'a JobSlot, Reason)> {
    let gpu = tables.gpu(id).filter(|gpu| gpu.now.holder != index)?;
    let upper = tables.job(gpu.now.holder)?;
    let reason = gpu.params.could_displace(&upper.params, &tables.job(index)?.params)?;
    Some((gpu, upper, reason))
}

/// Returns whether a stop for this reason is due at the end of a turn, whatever the victim occupies.
fn is_turn(reason: Reason) -> bool {
    matches!(reason, Reason::SliceOver | Reason::ShareDue)
}

/// Notes the gpus on which the stop of the job, which waits, depends on what tenants occupy. That of a job which is
/// held or throttled does not.
fn note_weighing(tables: &mut Tables<'_>, index: u32, now: Nanos) {
    let weighed = |job: &&JobSlot| now >= job.hold_until && !job.throttled;
    for id in tables.job(index).filter(weighed).map_or(GpuSet::EMPTY, |job| job.now.loose) {
        let weighs = |(gpu, _, reason): (&GpuSlot, _, _)| gpu.params.spares() && !is_turn(reason);
        if objector(tables, index, id).is_some_and(weighs) {
            if let Some(gpu) = tables.gpu_mut(id) {
                gpu.now.weighs = true;
            }
            if let Some(job) = tables.job_mut(index) {
                job.now.weighed = job.now.weighed.with(GpuSet::one(id));
            }
        }
    }
}

/// Returns how long `upper` waits before a cycle is spent on it.
fn patience(upper: &JobSlot, gpu: &GpuSlot) -> Nanos {
    if mutant!(EndlessPatience) {
        return Nanos::NEVER;
    }
    match upper.params.patience {
        Patience::Fixed(time) => time,
        Patience::Adaptive { max } => upper.habits.patience(gpu.cycle_time().times(2)).min(max),
    }
}

/// Returns whether the lower jobs on a gpu delay the upper job by less time than stopping them all would take. Only if
/// the upper job is running: otherwise the kernels of the lower jobs may delay it for as long as they last.
fn is_cheaper_left(tables: &Tables<'_>, moment: &Moment<'_>, id: GpuIndex, upper: &JobSlot, since: Nanos) -> bool {
    let Some(gpu) = tables.gpu(id).filter(|gpu| gpu.params.weigh && !gpu.now.unmeasured) else {
        return false;
    };
    let Some(own) = emit::occupancy_on(tables, gpu.now.holder, id) else {
        return false;
    };
    if !emit::runs_lately_on(tables, gpu.now.holder, id, moment.now) {
        return false;
    }
    let others = gpu.now.occupied.saturating_sub(u32::from(own.get()));
    let left_over = 1000u32.saturating_sub(others);
    let work = upper.habits.burst().max(moment.now.since(since));
    let beside_them = work.times(1000).0.checked_div(u64::from(left_over)).map_or(Nanos::NEVER, Nanos);
    let victims = gpu.now.loose.without(emit::loose_on(tables, gpu.now.holder, id));
    let cycles = moment.cost.cycles(id, victims, Batch::EMPTY);
    beside_them <= work.plus(gpu.cycle_time().times(u64::from(cycles)))
}

/// Returns when stopping the job frees more of the gpu than it costs. The gain grows with the time for which `upper`
/// has waited, so the instant is finite.
fn worth_at(
    tables: &Tables<'_>,
    moment: &Moment<'_>,
    index: u32,
    id: GpuIndex,
    upper: &JobSlot,
    since: Nanos,
) -> Nanos {
    let Some(gpu) = tables.gpu(id) else {
        return since;
    };
    let Some(occupancy) = emit::occupancy_on(tables, index, id) else {
        return since;
    };
    let small = occupancy <= gpu.params.small && gpu.params.small > Permille::NONE;
    if !small && !is_cheaper_left(tables, moment, id, upper, since) {
        return since;
    }
    let price = gpu.cycle_time().times(u64::from(emit::round_trip(tables, moment, index)));
    if upper.habits.burst().permille(u64::from(occupancy.get())) >= price {
        return since;
    }
    since.plus(bounds::small(price, Some(occupancy)))
}
