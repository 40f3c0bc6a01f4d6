//! Reservations: which job holds a gpu against lower jobs.

use super::Moment;
use crate::policy;
use crate::state::{GpuSlot, JobSlot, NONE};
use crate::storage::Tables;
use crate::{GpuIndex, Nanos, PolicyKind};

/// Reserves the gpus that the job wants, and for the linger time those it has stopped wanting.
pub(super) fn reserve(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) {
    let Some(job) = tables.job(index) else { return };
    if job.spent {
        return;
    }
    let (working, victims, mut at) = (job.now.working, job.now.victims, job.tenants);
    let habits = job.habits;
    for id in working {
        let Some(gpu) = tables.gpu(id) else { continue };
        let mine = gpu.now.holder == NONE || outranks_here(tables, gpu, index, moment.now);
        if let Some(gpu) = tables.gpu_mut(id).filter(|_| mine) {
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

/// Returns the policy that ranks a job: that of its first gpu.
fn ranked_by(tables: &Tables<'_>, job: &JobSlot) -> Option<PolicyKind> {
    job.now.gpus.first().and_then(|id| tables.gpu(id)).map(|gpu| gpu.params.policy)
}

/// Returns whether the policy of a gpu ranks the job above the gpu's holder. The order of the machine decides which job
/// is examined first; where policies differ, it may examine a job first that this gpu ranks last.
fn outranks_here(tables: &Tables<'_>, gpu: &GpuSlot, index: u32, now: Nanos) -> bool {
    let (Some(job), Some(holder)) = (tables.job(index), tables.job(gpu.now.holder)) else {
        return false;
    };
    let local = Some(gpu.params.policy);
    if ranked_by(tables, job) == local && ranked_by(tables, holder) == local {
        return false;
    }
    let policy = policy::of(gpu.params.policy);
    policy.rank(job, gpu, now) > policy.rank(holder, gpu, now)
}

/// Keeps the victims of the job stopped, without stopping others for it.
pub(super) fn keep_stopped(tables: &mut Tables<'_>, index: u32) {
    let Some(job) = tables.job(index).filter(|job| !job.spent) else {
        return;
    };
    for id in job.now.working {
        linger(tables, id, index);
    }
}

/// Prevents lower jobs from resuming on a gpu.
fn linger(tables: &mut Tables<'_>, id: GpuIndex, index: u32) {
    if let Some(gpu) = tables.gpu_mut(id).filter(|gpu| gpu.now.lingerer == NONE) {
        gpu.now.lingerer = index;
    }
}

/// Notes that the job waits for its turn on all its gpus at once. No other job begins a turn there, or the gpus would
/// never be free at the same time.
pub(super) fn await_turn(tables: &mut Tables<'_>, index: u32) {
    let Some(job) = tables.job(index).filter(|job| !job.spent) else {
        return;
    };
    for id in job.now.working.with(job.now.stopped) {
        if let Some(gpu) = tables.gpu_mut(id)
            && gpu.waiter == NONE
        {
            gpu.waiter = index;
        }
        linger(tables, id, index);
    }
}

/// Begins another slice for a job that keeps its gpu at the end of a slice, unless a higher job waits for that end. The
/// end of the new slice causes the next decision.
pub(super) fn renew_slice(tables: &mut Tables<'_>, moment: &mut Moment<'_>, index: u32) {
    let Some(job) = tables.job(index).filter(|job| job.works) else {
        return;
    };
    let slice = slice_of(tables, job);
    if slice == Nanos::ZERO || moment.now < job.slice_start.plus(slice) {
        return;
    }
    let awaited =
        |id| tables.gpu(id).and_then(|gpu| tables.job(gpu.now.waiter)).is_some_and(|waiter| waiter.rank > job.rank);
    if job.now.gpus.into_iter().any(awaited) {
        return;
    }
    if let Some(job) = tables.job_mut(index) {
        job.slice_start = moment.now;
    }
    moment.ask_at(moment.now.plus(slice));
}

/// Returns the slice of the gpu whose policy ranks the job.
pub(super) fn slice_of(tables: &Tables<'_>, job: &JobSlot) -> Nanos {
    job.now.gpus.first().and_then(|id| tables.gpu(id)).map_or(Nanos::ZERO, |gpu| gpu.params.turn_length())
}
