//! Settles the time since the last decision: charges it to the jobs, notes bursts that began or ended, and ranks the
//! jobs.

use super::Moment;
use crate::policy::{self, Span};
use crate::state::{GpuSlot, JobSlot, NONE, Phase, Split};
use crate::storage::Tables;
use crate::{GpuSet, JobParams, Nanos, Permille};

pub(super) fn settle(tables: &mut Tables<'_>, moment: &mut Moment<'_>) {
    let passed = moment.now.since(moment.last);
    share_out(tables);
    let Tables { gpus, jobs, .. } = tables;
    for job in jobs.iter_mut().filter(|job| job.live) {
        let gpu = job.now.gpus.first().and_then(|id| gpus.get(usize::from(id.0)));
        let works = !job.now.working.is_empty();
        if let Some(gpu) = gpu {
            let policy = policy::of(gpu.params.policy);
            let entitled = if policy.shares_time() { entitlement(job, gpus) } else { 0 };
            let span = Span { length: passed, ran: job.works && job.phase == Phase::Running, entitled };
            // The gpu's policy may have changed to one without limits.
            job.throttled &= policy.throttles(&job.params);
            policy.charge(job, span);
            note_bursts(job, gpu, works, moment);
        }
        if works {
            job.work_since = job.now.since.min(moment.now);
        }
        job.works = works;
        count_stop_share(job, passed, moment);
        rank(job, gpu, moment);
    }
}

/// Ranks the job after its accounts are up to date.
fn rank(job: &mut JobSlot, gpu: Option<&GpuSlot>, moment: &mut Moment<'_>) {
    let rank = gpu.map_or(0, |gpu| {
        let policy = policy::of(gpu.params.policy);
        moment.ask_at(policy.next_change(job, gpu, moment.now));
        policy.rank(job, gpu, moment.now)
    });
    moment.found.new_ranks |= rank != job.rank;
    job.rank = rank;
}

fn note_bursts(job: &mut JobSlot, gpu: &GpuSlot, works: bool, moment: &Moment<'_>) {
    let (now, last) = (moment.now, moment.last);
    let price = gpu.cycle_time().times(2 * u64::from(job.now.victims.max(1)));
    let policy = policy::of(gpu.params.policy);
    let began = job.now.since.min(now);
    if works && !job.works {
        let idle = began.since(job.idle_since);
        if job.idle_since > Nanos::ZERO {
            job.habits.came_back(idle, price);
        }
        // A job that pauses briefly gets no new slice while another job waits for its slice to end.
        if job.phase == Phase::Running && gpu.now.waiter == NONE {
            job.slice_start = now;
        }
        policy.work_began(job, idle, began.max(last));
    } else if works && began > last && began > job.work_since {
        // One burst ended and another began between two observations.
        job.habits.burst_ended(began.since(job.work_since), price);
        policy.work_began(job, Nanos::ZERO, began);
    } else if !works && job.works {
        job.idle_since = now;
        job.habits.burst_ended(now.since(job.work_since), price);
    }
}

/// Updates the account of the time for which the job may keep others stopped.
fn count_stop_share(job: &mut JobSlot, passed: Nanos, moment: &mut Moment<'_>) {
    let share = job.params.stop_share;
    if share == Permille::ALL || mutant!(UncountedStopShare) {
        job.spent = false;
        return;
    }
    let rate = u64::from(share.get());
    let capacity = JobParams::STOP_WINDOW.permille(rate);
    job.stop_credit = job.stop_credit.plus(passed.permille(rate)).min(capacity);
    if job.now.victims > 0 {
        job.stop_credit = job.stop_credit.since(passed);
        if !job.spent {
            // The account drains by what it is not refilled meanwhile.
            let empty = job.stop_credit.times(1000).0.checked_div(1000 - rate.min(999)).unwrap_or(u64::MAX);
            moment.ask_at(moment.now.plus(Nanos(empty.saturating_add(1000))));
        }
    }
    let half = Nanos(capacity.0 / 2);
    if job.stop_credit == Nanos::ZERO {
        job.spent = true;
    } else if job.stop_credit >= half {
        job.spent = false;
    }
    if job.spent && job.works {
        let wait = half.since(job.stop_credit).times(1000).0.checked_div(rate);
        if let Some(wait) = wait {
            moment.ask_at(moment.now.plus(Nanos(wait.saturating_add(1000))));
        }
    }
}

/// Splits the time of gpus whose policy has shares by requests and weights.
fn share_out(tables: &mut Tables<'_>) {
    let Tables { gpus, jobs, .. } = tables;
    if !gpus.iter().any(|gpu| gpu.live && policy::of(gpu.params.policy).shares_time()) {
        return;
    }
    for job in jobs.iter().filter(|job| job.live) {
        for id in job.now.working {
            if let Some(gpu) = gpus.get_mut(usize::from(id.0)) {
                gpu.now.weights = gpu.now.weights.saturating_add(u32::from(job.params.weight));
                gpu.now.requests = gpu.now.requests.saturating_add(u32::from(job.params.request.get()));
            }
        }
    }
    for _ in 0..ROUNDS {
        for gpu in gpus.iter_mut() {
            gpu.now.split = core::mem::replace(&mut gpu.now.next_split, Split::EMPTY);
        }
        let mut any_capped = false;
        for job in jobs.iter().filter(|job| job.live) {
            let most = most_usable(job, gpus);
            for id in job.now.working {
                let Some(gpu) = gpus.get_mut(usize::from(id.0)) else { continue };
                let share = share_on(job, gpu);
                if gpu.now.split.spread(share) > most {
                    any_capped = true;
                    gpu.now.next_split.capped = gpu.now.next_split.capped.saturating_add(most);
                } else {
                    gpu.now.next_split.uncapped = gpu.now.next_split.uncapped.saturating_add(share);
                }
            }
        }
        if !any_capped {
            break;
        }
    }
    for gpu in gpus.iter_mut() {
        gpu.now.split = gpu.now.next_split;
    }
}

/// Rounds of the split. A job's unusable share goes to the others, which may then reach their own cap; a few rounds
/// converge.
const ROUNDS: u32 = 4;

/// Returns the largest share of a gpu that a job can use: its limit and, if it runs on several gpus, the least of its
/// shares there, because it runs on all of them or on none.
fn most_usable(job: &JobSlot, gpus: &[GpuSlot]) -> u32 {
    let mut most = u32::from(job.params.limit.get());
    let working = job.now.working;
    if working.first().is_some_and(|first| working != GpuSet::one(first)) {
        for gpu in working.into_iter().filter_map(|id| gpus.get(usize::from(id.0))) {
            most = most.min(share_on(job, gpu));
        }
    }
    most
}

/// Returns the share of a gpu to which the job is entitled, in thousandths.
fn entitlement(job: &JobSlot, gpus: &[GpuSlot]) -> u32 {
    let mut least = most_usable(job, gpus);
    for gpu in job.now.working.into_iter().filter_map(|id| gpus.get(usize::from(id.0))) {
        least = least.min(gpu.now.split.spread(share_on(job, gpu)));
    }
    least
}

/// Returns the nominal share of a gpu by request and weight, in thousandths.
fn share_on(job: &JobSlot, gpu: &GpuSlot) -> u32 {
    let request = u32::from(job.params.request.get());
    let asked = gpu.now.requests;
    if asked >= 1000 {
        return request.saturating_mul(1000).checked_div(asked).unwrap_or(0);
    }
    let by_weight = u32::from(job.params.weight).saturating_mul(1000u32.saturating_sub(asked));
    request.saturating_add(by_weight.checked_div(gpu.now.weights).unwrap_or(0))
}
