//! Gathers the observations of tenants into the working state of their jobs and gpus.

use super::Moment;
use crate::Nanos;
use crate::cost::Batch;
use crate::state::{GpuNow, GpuSlot, JobNow, JobSlot, NONE, Phase, TenantSlot};
use crate::storage::Tables;
use crate::{Action, GpuSet, Permille};

/// Consecutive refusals after which a tenant counts as one that cannot be stopped for now.
const REFUSALS: u8 = 2;

pub(super) fn gather(tables: &mut Tables<'_>, moment: &mut Moment<'_>) {
    let Tables { gpus, jobs, tenants, .. } = tables;
    for gpu in gpus.iter_mut() {
        gpu.now = GpuNow { waiter: core::mem::replace(&mut gpu.waiter, NONE), ..GpuNow::EMPTY };
        gpu.bucket.refill(&gpu.params, moment.now);
        gpu.now.room = gpu.bucket.room(&gpu.params);
    }
    for job in jobs.iter_mut().filter(|job| job.live) {
        job.now = JobNow::EMPTY;
        moment.found.stopped |= job.phase == Phase::Stopped;
        moment.found.short |= job.short_since > Nanos::ZERO;
        if job.resumed_at > moment.now {
            // The report was from the future: the resume counts from now.
            job.resumed_at = moment.now;
            job.slice_start = job.slice_start.min(moment.now);
            job.exempt_until = moment.now.plus(job.exempt_for);
        }
    }
    for tenant in tenants.iter_mut().filter(|tenant| tenant.live) {
        // An observation from the future would make every later one seem old.
        tenant.seen.at = tenant.seen.at.min(moment.now);
        let Some(gpu) = gpus.get_mut(usize::from(tenant.gpu.0)).filter(|gpu| gpu.live) else {
            continue;
        };
        if let Some(open) = tenant.open.as_mut().filter(|_| !mutant!(GivesBackTwice)) {
            open.refundable = open.refundable.min(gpu.now.room);
            gpu.now.room = gpu.now.room.saturating_sub(open.refundable);
        }
        if gpu.resetting {
            continue;
        }
        let Some(job) = jobs.get_mut(tenant.job as usize) else {
            continue;
        };
        add(job, tenant);
        if tenant.has_work() && tenant.seen.stopped_queues < tenant.seen.queues {
            gpu.now.loose = gpu.now.loose.and(tenant.queues_for(Action::Preempt));
            match tenant.seen.occupancy {
                Some(share) => gpu.now.occupied = gpu.now.occupied.saturating_add(u32::from(share.get())),
                None => gpu.now.unmeasured = true,
            }
        }
        if let Some(open) = tenant.open.filter(|open| open.awaited) {
            let lost_at = open.planned_at.plus(gpu.params.report_timeout);
            if moment.now >= lost_at && !mutant!(WaitsForever) {
                tenant.stop_waiting();
            } else {
                job.now.pending = job.now.pending.saturating_add(1);
                moment.ask_at(lost_at);
            }
        }
        // A tenant that is being stopped has to be resumed later.
        let held =
            if tenant.pending() == Some(Action::Preempt) { tenant.seen.queues } else { tenant.seen.stopped_queues };
        if held > 0 {
            let cycles = moment.cost.cycles(tenant.gpu, Batch::EMPTY, Batch::EMPTY.and(held));
            gpu.now.reserve = gpu.now.reserve.saturating_add(cycles);
        }
    }
    if moment.found.stopped {
        count_victims(jobs, moment.now);
    }
    if moment.found.short {
        save_up(gpus, jobs);
    }
}

fn add(job: &mut JobSlot, tenant: &TenantSlot) {
    let here = GpuSet::one(tenant.gpu);
    let now = &mut job.now;
    now.gpus = now.gpus.with(here);
    if tenant.has_work() {
        now.working = now.working.with(here);
        now.since = now.since.min(tenant.seen.since);
        match tenant.seen.occupancy {
            Some(share) => {
                let sum = now.occupancy.map_or(0, Permille::get).saturating_add(share.get());
                now.occupancy = Some(Permille::new(sum));
            }
            None => now.occupancy_unknown = true,
        }
    }
    if tenant.is_loose() {
        now.loose = now.loose.with(here);
    }
    if tenant.seen.stopped_queues > 0 {
        now.stopped = now.stopped.with(here);
    }
    now.fixed |= !tenant.can_stop();
    now.refused |= tenant.refusals >= REFUSALS && job.phase == Phase::Stopped;
}

/// Counts for every job the jobs that are stopped for it.
fn count_victims(jobs: &mut [JobSlot], now: Nanos) {
    for index in 0..jobs.len() {
        // A job that a hold, a limit or a reset keeps stopped is no longer the victim of another job.
        let on_account = |job: &&JobSlot| {
            job.live
                && job.phase == Phase::Stopped
                && now >= job.hold_until
                && !job.throttled
                && !job.now.gpus.is_empty()
        };
        let Some(victim) = jobs.get(index).filter(on_account) else {
            continue;
        };
        let stop = victim.stop;
        if let Some(cause) = jobs.get_mut(stop.cause as usize)
            && cause.live
            && cause.generation == stop.cause_generation
        {
            cause.now.victims = cause.now.victims.saturating_add(1);
        }
    }
}

/// Finds the job for which each gpu saves cycles: the one that has waited longest. Otherwise small stops would always
/// spend the cycles that a large one needs.
fn save_up(gpus: &mut [GpuSlot], jobs: &[JobSlot]) {
    for (index, job) in jobs.iter().enumerate() {
        if !job.live || job.short_since == Nanos::ZERO {
            continue;
        }
        for id in job.now.loose {
            if let Some(gpu) = gpus.get_mut(usize::from(id.0))
                && job.short_since < gpu.now.saving_since
            {
                gpu.now.saving_since = job.short_since;
                gpu.now.saver = u32::try_from(index).unwrap_or(NONE);
            }
        }
    }
}
