//! Who runs: from the top of the order down.
//!
//! A job that wants a gpu reserves it against those below. A job below that would disturb a reservation is stopped, whole,
//! when nothing speaks against it; one that is stopped, or about to be, reserves nothing. So whoever holds a gpu holds all
//! it needs, and no two jobs hold parts of each other's.

use super::{Moment, emit, turns};
use crate::plan::{Bound, Reason, Rule};
use crate::policy;
use crate::state::{GpuSlot, JobSlot, NONE, Phase, Stop, Tables};
use crate::{GpuId, Nanos, Patience, Permille};

/// Occupied permille below which nothing is told apart: waves that are there count as at least this much.
const LEAST_OCCUPANCY: u64 = 1;

/// What becomes of a job that runs.
enum Verdict {
    /// Nobody above objects, or it cannot be stopped: it runs and reserves.
    Runs,
    /// It is in the way, but not to be stopped before this instant.
    Waits(Nanos),
    /// It is stopped now.
    Stops(Stop, Reason),
}

/// Somebody above objects to a job.
struct Objection {
    stop: Stop,
    /// When the objection counts, and what it waited for last.
    at: Nanos,
    bound: Bound,
    since: Nanos,
    /// How soon a victim that is too small deserves another look.
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
            Phase::Stopped => stopped(tables, moment, index),
        };
        note_changes(tables, moment, index);
        let about_to_stop = !runs && !mutant!(VictimsReserve);
        if !about_to_stop {
            reserve(tables, moment, index);
        }
    }
}

/// Notes what will have to be written for a job.
fn note_changes(tables: &Tables<'_>, moment: &mut Moment<'_>, index: u32) {
    let Some(job) = tables.job(index) else { return };
    let found = &mut moment.found;
    match job.phase {
        Phase::Stopped if job.now.reason.is_some() => found.stops = true,
        Phase::Stopped => found.late_stops |= !job.now.loose.is_empty() || mutant!(RepeatedStop),
        Phase::Running => found.resumes |= !job.now.stopped.is_empty(),
    }
}

/// Decides about a job that runs; whether it goes on and reserves.
fn running(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) -> bool {
    match verdict(tables, moment, index) {
        Verdict::Runs => {
            renew_slice(tables, moment, index);
            true
        }
        Verdict::Waits(until) => {
            moment.ask_at(until);
            false
        }
        Verdict::Stops(stop, reason) => {
            if let Some(cause) = tables.job_mut(stop.cause) {
                cause.habits.acted(reason.bound == Bound::Patience);
                cause.now.victims = cause.now.victims.saturating_add(1);
            }
            if let Some(job) = tables.job_mut(index) {
                job.phase = Phase::Stopped;
                job.stopped_at = moment.now;
                job.stop = stop;
                job.now.reason = Some(reason);
            }
            emit::book_stop(tables, index);
            false
        }
    }
}

fn verdict(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) -> Verdict {
    let now = moment.now;
    // It waits for the budget only while nothing else keeps it from being stopped.
    let short_since = tables.job_mut(index).map_or(Nanos::ZERO, |job| core::mem::take(&mut job.short_since));
    let Some(job) = tables.job(index) else {
        return Verdict::Runs;
    };
    let immune = job.now.fixed || now < job.spared_until;
    if job.now.loose.is_empty() || immune {
        // Nothing of it is in anybody's way, or nothing can be done about it.
        if immune && now < job.spared_until {
            moment.ask_at(job.spared_until);
        }
        return Verdict::Runs;
    }
    let Some(objection) = objection(tables, moment, index) else {
        return Verdict::Runs;
    };
    if let Some(cause) = tables.job_mut(objection.stop.cause) {
        cause.habits.contested = true;
    }
    let Some(job) = tables.job(index) else {
        return Verdict::Runs;
    };
    let exempt = if mutant!(NoExemptTime) || objection.stop.rule == Rule::Held { now } else { job.exempt_until };
    if job.now.pending > 0 {
        return Verdict::Waits(Nanos::NEVER);
    }
    let mut ready = (objection.at, objection.bound);
    for (at, bound) in [(exempt, Bound::Exempt), (emit::retry_at(tables, index), Bound::Retry)] {
        if at > ready.0 {
            ready = (at, bound);
        }
    }
    if ready.0 > now {
        // How much of the gpu the victim holds changes with every kernel: worth another look before long.
        let soon = if ready.1 == Bound::Small { now.plus(objection.recheck) } else { Nanos::NEVER };
        return Verdict::Waits(ready.0.min(soon));
    }
    if let Some(job) = tables.job_mut(index) {
        job.short_since = short_since;
    }
    if !emit::afford(tables, moment, index) {
        return Verdict::Waits(Nanos::NEVER);
    }
    let broke = tables.job_mut(index).is_some_and(|job| core::mem::take(&mut job.short_since) > Nanos::ZERO);
    let bound = if broke { Bound::Budget } else { ready.1 };
    let cause = tables.job_id(objection.stop.cause);
    let after = now.since(objection.since);
    Verdict::Stops(objection.stop, Reason { cause, rule: objection.stop.rule, bound, after })
}

/// The objection that counts first.
fn objection(tables: &Tables<'_>, moment: &Moment<'_>, index: u32) -> Option<Objection> {
    let now = moment.now;
    let job = tables.job(index)?;
    let by_rule = |rule| {
        let stop = Stop { rule, ..Stop::default() };
        Some(Objection { stop, at: now, bound: Bound::Detection, since: now, recheck: Nanos::NEVER })
    };
    if now < job.hold_until {
        return by_rule(Rule::Held);
    }
    if job.throttled {
        return by_rule(Rule::LimitReached);
    }
    let mut first: Option<Objection> = None;
    for id in job.now.loose {
        let Some(gpu) = tables.gpu(id) else { continue };
        let Some(upper) = tables.job(gpu.now.holder).filter(|_| gpu.now.holder != index) else {
            continue;
        };
        let Some(rule) = policy::of(gpu.params.policy).displaces(upper, job, gpu) else {
            continue;
        };
        let stop = Stop { cause: gpu.now.holder, cause_generation: upper.generation, rule };
        let since = upper.work_since.max(job.work_since).max(job.resumed_at);
        let mut found = Objection {
            stop,
            at: since,
            bound: Bound::Detection,
            since,
            recheck: gpu.cycle_time().max(Nanos::from_micros(100)),
        };
        if matches!(rule, Rule::SliceOver | Rule::ShareDue) {
            found.bound = Bound::Slice;
        } else {
            let patience = since.plus(patience(upper, gpu));
            if patience > found.at {
                (found.at, found.bound) = (patience, Bound::Patience);
            }
            let worth = worth_at(tables, moment, index, id, upper, since);
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

/// How long `upper` waits before a cycle is spent on it.
fn patience(upper: &JobSlot, gpu: &GpuSlot) -> Nanos {
    if mutant!(EndlessPatience) {
        return Nanos::NEVER;
    }
    match upper.params.patience {
        Patience::Fixed(time) => time,
        Patience::Adaptive { max } => upper.habits.patience(gpu.cycle_time().times(2)).min(max),
    }
}

/// When stopping the job frees more of the gpu than it costs. The gain grows with the time `upper` has waited, so the instant
/// comes.
fn worth_at(tables: &Tables<'_>, moment: &Moment<'_>, index: u32, id: GpuId, upper: &JobSlot, since: Nanos) -> Nanos {
    let Some(gpu) = tables.gpu(id) else {
        return since;
    };
    let Some(occupancy) = emit::occupancy_on(tables, index, id) else {
        return since;
    };
    if occupancy > gpu.params.small || gpu.params.small == Permille::NONE {
        return since;
    }
    let price = gpu.cycle_time().times(u64::from(emit::round_trip(tables, moment, index)));
    let share = u64::from(occupancy.get()).max(LEAST_OCCUPANCY);
    if upper.habits.burst().permille(share) >= price {
        return since;
    }
    since.plus(Nanos(price.times(1000).0.checked_div(share).unwrap_or(u64::MAX)))
}

/// A job that keeps the gpu at the end of its slice begins another, so that the question comes up again.
fn renew_slice(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) {
    let Some(job) = tables.job(index).filter(|job| job.works) else {
        return;
    };
    let slice = slice_of(tables, job);
    if slice == Nanos::ZERO || moment.now < job.slice_start.plus(slice) {
        return;
    }
    if let Some(job) = tables.job_mut(index) {
        job.slice_start = moment.now;
    }
    moment.ask_at(moment.now.plus(slice));
}

/// The slice on the gpu whose policy ranks the job.
fn slice_of(tables: &Tables<'_>, job: &JobSlot) -> Nanos {
    job.now.gpus.first().and_then(|id| tables.gpu(id)).map_or(Nanos::ZERO, |gpu| gpu.params.slice)
}

/// Decides about a job that is stopped; whether it runs again.
fn stopped(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) -> bool {
    let now = moment.now;
    let Some(job) = tables.job(index) else {
        return false;
    };
    if now < job.hold_until {
        moment.ask_at(job.hold_until);
    }
    let (rule, bound) = if job.now.refused {
        (Rule::GaveUp, Bound::Retry)
    } else if now < job.hold_until || (job.throttled && job.stop.rule == Rule::LimitReached) {
        return false;
    } else if job.now.turn {
        (Rule::Aged, Bound::Age)
    } else if is_in_the_way(tables, index) || mutant!(ForgottenResume) {
        return false;
    } else {
        why_resumed(tables, job)
    };
    if job.now.pending > 0 {
        return false;
    }
    let (cause, after) = (tables.cause_of(job.stop).map(|_| job.stop.cause), now.since(job.stopped_at));
    let cause = cause.and_then(|cause| tables.job_id(cause));
    if rule == Rule::Aged {
        turns::close_gates(tables, index, now);
    }
    if let Some(job) = tables.job_mut(index) {
        job.phase = Phase::Running;
        job.resumed_at = now;
        job.slice_start = now;
        let exempt = if rule == Rule::Aged { job.params.turn() } else { job.params.min_run };
        job.exempt_until = now.plus(exempt);
        if rule == Rule::GaveUp {
            job.spared_until = now.plus(SPARED);
        }
        job.now.reason = Some(Reason { cause, rule, bound, after });
    }
    if rule == Rule::GaveUp {
        emit::forgive(tables, index);
    }
    // Nothing may be left to resume, and then no report brings the next decision about.
    moment.ask_at(tables.job(index).map_or(now, |job| job.exempt_until));
    if let Some(job) = tables.job(index) {
        let slice = slice_of(tables, job);
        if slice > Nanos::ZERO {
            moment.ask_at(now.plus(slice));
        }
    }
    // A job on its turn is in the way of somebody above: it runs, and reserves nothing.
    rule != Rule::Aged
}

/// How long a job is left alone after part of it refused to be stopped.
const SPARED: Nanos = Nanos::from_secs(1);

/// Whether the stopped job would disturb a reservation if it ran.
fn is_in_the_way(tables: &Tables<'_>, index: u32) -> bool {
    let Some(job) = tables.job(index) else {
        return false;
    };
    job.now.working.with(job.now.stopped).into_iter().any(|id| {
        tables.gpu(id).is_some_and(|gpu| {
            [gpu.now.holder, gpu.now.lingerer].into_iter().any(|above| {
                above != index
                    && tables
                        .job(above)
                        .is_some_and(|upper| policy::of(gpu.params.policy).displaces(upper, job, gpu).is_some())
            })
        })
    })
}

fn why_resumed(tables: &Tables<'_>, job: &JobSlot) -> (Rule, Bound) {
    match (job.stop.rule, tables.cause_of(job.stop)) {
        (Rule::Held, _) => (Rule::Released, Bound::Detection),
        (Rule::SliceOver | Rule::ShareDue | Rule::LimitReached, _) => (Rule::TurnDue, Bound::Slice),
        (_, Some(cause)) if cause.spent => (Rule::StopShareSpent, Bound::Detection),
        (_, Some(cause)) if !cause.works => (Rule::NothingAbove, Bound::Linger),
        _ => (Rule::NothingAbove, Bound::Detection),
    }
}

/// Reserves the gpus the job wants, and for a while those it has just stopped wanting.
fn reserve(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) {
    let Some(job) = tables.job(index) else { return };
    if job.spent {
        return;
    }
    let (working, victims, mut at) = (job.now.working, job.now.victims, job.tenants);
    let habits = job.habits;
    for id in working {
        if let Some(gpu) = tables.gpu_mut(id)
            && gpu.now.holder == NONE
        {
            gpu.now.holder = index;
        }
    }
    if victims == 0 {
        return;
    }
    while let Some(tenant) = tables.tenants.get(at as usize) {
        at = tenant.next;
        let Some(gpu) = tables.gpus.get_mut(usize::from(tenant.gpu.0)) else {
            continue;
        };
        let price = gpu.cycle_time().times(2 * u64::from(victims));
        let until = tenant.seen.since.plus(habits.linger(price).min(gpu.params.linger_max));
        if !working.has(tenant.gpu) && moment.now < until && gpu.now.lingerer == NONE {
            gpu.now.lingerer = index;
            moment.ask_at(until);
        }
    }
}
