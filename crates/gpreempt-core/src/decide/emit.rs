//! Writes the entries of the plan, and computes and charges their cycles.

use super::Moment;
use crate::budget::Bucket;
use crate::cost::Batch;
use crate::order::sort_descending;
use crate::plan::{Action, Bound, Entry, Reason, Why};
use crate::state::{JobSlot, NONE, OpenEntry, Phase, TenantSlot};
use crate::storage::Tables;
use crate::{GpuIndex, JobId, Nanos, Permille, TenantId};

/// Returns the action that brings a tenant into the phase of its job.
fn mismatch(job: &JobSlot, tenant: &TenantSlot) -> Option<Action> {
    match job.phase {
        Phase::Stopped if (tenant.can_stop() && tenant.is_loose()) || mutant!(RepeatedStop) => Some(Action::Preempt),
        Phase::Running if tenant.seen.stopped_queues > 0 => Some(Action::Resume),
        _ => None,
    }
}

/// Calls `visit` for every tenant of the job whose gpu is not in reset.
fn each_tenant(tables: &Tables<'_>, index: u32, mut visit: impl FnMut(&TenantSlot)) {
    let mut at = tables.job(index).map_or(u32::MAX, |job| job.tenants);
    while let Some(tenant) = tables.tenants.get(at as usize) {
        if tables.gpu(tenant.gpu).is_some_and(|gpu| !gpu.resetting) {
            visit(tenant);
        }
        at = tenant.next;
    }
}

/// Returns when the retry times of all tenants of the job have passed.
pub(super) fn retry_at(tables: &Tables<'_>, index: u32) -> Nanos {
    let mut latest = Nanos::ZERO;
    each_tenant(tables, index, |tenant| latest = latest.max(tenant.retry_at));
    latest
}

/// Clears the failures and refusals of the job's tenants.
pub(super) fn forgive(tables: &mut Tables<'_>, index: u32) {
    let mut at = tables.job(index).map_or(u32::MAX, |job| job.tenants);
    while let Some(tenant) = tables.tenants.get_mut(at as usize) {
        at = tenant.next;
        tenant.failures = 0;
        tenant.refusals = 0;
        tenant.retry_at = Nanos::ZERO;
    }
}

/// Returns the cycles to stop and to resume the job on the gpu where they are most.
pub(super) fn round_trip(tables: &Tables<'_>, moment: &Moment<'_>, index: u32) -> u32 {
    let mut most = 0;
    let Some(job) = tables.job(index) else {
        return most;
    };
    for id in job.now.loose {
        let batch = loose_on(tables, index, id);
        let both =
            moment.cost.cycles(id, batch, Batch::EMPTY).saturating_add(moment.cost.cycles(id, Batch::EMPTY, batch));
        most = most.max(both);
    }
    most
}

/// Returns the joint occupancy of the job's tenants on a gpu; `None` if one with work was not measured.
pub(super) fn occupancy_on(tables: &Tables<'_>, index: u32, gpu: GpuIndex) -> Option<Permille> {
    let mut sum = Some(0u16);
    each_tenant(tables, index, |tenant| {
        if tenant.gpu == gpu && tenant.has_work() {
            sum = sum.and_then(|sum| tenant.seen.occupancy.map(|share| sum.saturating_add(share.get())));
        }
    });
    sum.map(Permille::new)
}

/// Returns whether a tenant of the job runs on a gpu, or ran a moment ago.
pub(super) fn runs_lately_on(tables: &Tables<'_>, index: u32, gpu: GpuIndex, now: Nanos) -> bool {
    let mut runs = false;
    each_tenant(tables, index, |tenant| runs |= tenant.gpu == gpu && tenant.runs_lately(now));
    runs
}

/// Returns the tenants of the job that would be stopped on a gpu.
pub(super) fn loose_on(tables: &Tables<'_>, index: u32, gpu: GpuIndex) -> Batch {
    let mut batch = Batch::EMPTY;
    each_tenant(tables, index, |tenant| {
        if tenant.gpu == gpu && tenant.is_loose() {
            batch = batch.and(tenant.queues_for(Action::Preempt));
        }
    });
    batch
}

/// Returns whether the budget of every gpu concerned pays for stopping the job and for resuming everything stopped
/// then. If not, the gpus begin to save for it and the core asks for another decision.
pub(super) fn afford(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) -> bool {
    let ready = affordable_at(tables, moment, index);
    let Some(job) = tables.job_mut(index) else {
        return false;
    };
    if ready > moment.now {
        moment.ask_at(ready);
        // Zero means that the job does not wait.
        if job.short_since == Nanos::ZERO {
            job.short_since = moment.now.max(Nanos(1));
        }
        return false;
    }
    true
}

fn affordable_at(tables: &Tables<'_>, moment: &Moment<'_>, index: u32) -> Nanos {
    let Some(job) = tables.job(index) else {
        return moment.now;
    };
    let mut latest = moment.now;
    for id in job.now.loose {
        let Some(gpu) = tables.gpu(id).filter(|gpu| gpu.params.cycles_per_second > 0) else {
            continue;
        };
        let batch = loose_on(tables, index, id);
        let stop = moment.cost.cycles(id, gpu.now.preempt.plus(batch), gpu.now.resume);
        let resume = moment.cost.cycles(id, Batch::EMPTY, gpu.now.preempt.plus(batch));
        let need = stop.saturating_add(resume).saturating_add(gpu.now.reserve);
        let ready = gpu.bucket.ready_at(&gpu.params, need, moment.now);
        // A stop that needs more than the burst is made when the bucket is full, and then alone.
        let oversized = need > gpu.params.cycle_burst.max(1) && !gpu.now.preempt.is_empty();
        let waiting = job.short_since > Nanos::ZERO;
        let behind = gpu.now.saver != NONE
            && gpu.now.saver != index
            && (!waiting || (gpu.now.saving_since, gpu.now.saver) < (job.short_since, index));
        let next = if oversized || behind { moment.now.plus(gpu.cycle_time().max(Nanos(1))) } else { moment.now };
        latest = latest.max(ready).max(next);
    }
    latest
}

/// Books the stop of a job on its gpus, for the decisions after it.
pub(super) fn book_stop(tables: &mut Tables<'_>, index: u32) {
    let mut at = tables.job(index).map_or(u32::MAX, |job| job.tenants);
    while let Some(tenant) = tables.tenants.get(at as usize) {
        at = tenant.next;
        if let Some(gpu) = tables.gpus.get_mut(usize::from(tenant.gpu.0)).filter(|_| tenant.is_loose()) {
            gpu.now.book(Action::Preempt, tenant.queues_for(Action::Preempt));
        }
    }
}

/// The entries that a pass writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Stops that this decision made.
    Stops,
    /// Stops of tenants that run in jobs that are stopped already.
    LateStops,
    /// Resumes of tenants in jobs that run.
    Resumes,
}

/// Writes an entry for every tenant that is not in the phase of its job. Returns their number.
pub(super) fn emit(tables: &mut Tables<'_>, moment: &mut Moment<'_>, jobs: usize) -> usize {
    for gpu in tables.gpus.iter_mut() {
        // Counted again, from the entries that are written.
        gpu.now.preempt = Batch::EMPTY;
        gpu.now.resume = Batch::EMPTY;
    }
    let mut length = 0;
    let found = moment.found;
    let passes = [(Pass::Stops, found.stops), (Pass::LateStops, found.late_stops), (Pass::Resumes, found.resumes)];
    for (pass, _) in passes.into_iter().filter(|&(_, needed)| needed) {
        for at in 0..jobs {
            let Some(&index) = tables.order.get(at) else {
                break;
            };
            length = emit_job(tables, moment, index, pass, length);
        }
        if pass != Pass::Resumes
            && let Some(preempts) = tables.plan.get_mut(..length)
        {
            sort_descending(preempts, |entry| (entry.weight, entry.job.index));
        }
    }
    charge(tables, moment);
    if found.resumes {
        extend_exempt_times(tables, moment);
    }
    length
}

/// Extends exempt times by the cycles of the plan, during which the resumed jobs cannot run.
fn extend_exempt_times(tables: &mut Tables<'_>, moment: &mut Moment<'_>) {
    let Tables { gpus, jobs, .. } = tables;
    for job in jobs.iter_mut().filter(|job| job.live && job.phase == Phase::Running && job.now.why.is_some()) {
        let mut longest = Nanos::ZERO;
        for id in job.now.gpus {
            let Some(gpu) = gpus.get(usize::from(id.0)) else { continue };
            let cycles = moment.cost.cycles(id, gpu.now.preempt, gpu.now.resume);
            longest = longest.max(gpu.cycle_time().times(u64::from(cycles)));
        }
        job.exempt_until = moment.now.plus(longest).plus(job.exempt_for);
        moment.ask_at(job.exempt_until);
        if job.now.turn {
            // The gate must outlast the extended turn.
            for id in job.now.gpus {
                if let Some(gpu) = gpus.get_mut(usize::from(id.0)) {
                    gpu.gate = gpu.gate.max(job.exempt_until.plus(job.exempt_for));
                }
            }
        }
    }
}

fn emit_job(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32, pass: Pass, mut length: usize) -> usize {
    let Some(job) = tables.job(index) else {
        return length;
    };
    let late = job.now.why.is_none();
    let wanted = match (job.phase, pass) {
        (Phase::Stopped, Pass::Stops) => !late,
        (Phase::Stopped, Pass::LateStops) => late && (!job.now.loose.is_empty() || mutant!(RepeatedStop)),
        (Phase::Running, Pass::Resumes) => !job.now.stopped.is_empty(),
        _ => false,
    };
    if !wanted {
        return length;
    }
    if pass == Pass::LateStops {
        if !afford(tables, moment, index) {
            return length;
        }
        if let Some(job) = tables.job_mut(index) {
            job.short_since = Nanos::ZERO;
        }
    }
    let Some(job) = tables.job(index).copied() else {
        return length;
    };
    let action = if pass == Pass::Resumes { Action::Resume } else { Action::Preempt };
    let why = job.now.why.unwrap_or_else(|| late_why(tables, &job, action, moment.now));
    let id = JobId { index, generation: job.generation };
    let mut at = job.tenants;
    while let Some(tenant) = tables.tenants.get_mut(at as usize) {
        let here = at;
        at = tenant.next;
        let Some(gpu) = tables.gpus.get_mut(usize::from(tenant.gpu.0)).filter(|gpu| gpu.live && !gpu.resetting) else {
            continue;
        };
        if tenant.pending().is_some() || mismatch(&job, tenant) != Some(action) {
            continue;
        }
        if moment.now < tenant.retry_at {
            moment.ask_at(tenant.retry_at);
            continue;
        }
        if mutant!(PartialStop) && action == Action::Preempt && here != job.tenants {
            continue;
        }
        if mutant!(HoldsParts) && action == Action::Preempt && (u32::from(tenant.gpu.0) ^ index) & 1 == 1 {
            continue;
        }
        let Some(slot) = tables.plan.get_mut(length) else {
            return length;
        };
        let number = moment.next_number();
        *slot = Entry {
            number,
            tenant: TenantId { index: here, generation: tenant.generation },
            job: id,
            gpu: tenant.gpu,
            action,
            why,
            weight: victim_weight(&job),
        };
        let before = moment.cost.cycles(tenant.gpu, gpu.now.preempt, gpu.now.resume);
        gpu.now.book(action, tenant.queues_for(action));
        // What it adds to the plan: the cycles of all entries together are those of the plan.
        let cycles = moment.cost.cycles(tenant.gpu, gpu.now.preempt, gpu.now.resume).saturating_sub(before);
        let refundable = Bucket::price(&gpu.params, cycles);
        tenant.open = Some(OpenEntry { number, action, planned_at: moment.now, cycles, refundable, awaited: true });
        moment.ask_at(moment.now.plus(gpu.params.report_timeout));
        length += 1;
    }
    length
}

/// Returns the sort key of a victim: larger victims free more and go first. Unknown occupancy counts as largest.
fn victim_weight(job: &JobSlot) -> u64 {
    let known = job.now.occupancy.filter(|_| !job.now.occupancy_unknown);
    let weight = known.map_or(1001, |share| u64::from(share.get()));
    if mutant!(SmallestFirst) { 1001 - weight } else { weight }
}

fn late_why(tables: &Tables<'_>, job: &JobSlot, action: Action, now: Nanos) -> Why {
    let cause = tables.view().cause_id(job.stop);
    match action {
        Action::Preempt => Why { cause, reason: Reason::JobStopped, bound: Bound::Detection, after: Nanos::ZERO },
        Action::Resume => {
            Why { cause, reason: Reason::NothingAbove, bound: Bound::Retry, after: now.since(job.stopped_at) }
        }
    }
}

/// Charges the plan to the cycle budgets.
fn charge(tables: &mut Tables<'_>, moment: &Moment<'_>) {
    for (index, gpu) in tables.gpus.iter_mut().enumerate().filter(|(_, gpu)| gpu.live) {
        if gpu.now.preempt.is_empty() && gpu.now.resume.is_empty() {
            continue;
        }
        let id = GpuIndex(u8::try_from(index).unwrap_or(u8::MAX));
        let cycles = moment.cost.cycles(id, gpu.now.preempt, gpu.now.resume);
        gpu.spend(cycles);
    }
}
