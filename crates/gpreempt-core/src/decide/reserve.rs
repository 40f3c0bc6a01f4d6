//! Who may expect to find a gpu to itself.

use super::Moment;
use crate::policy;
use crate::state::{GpuSlot, JobSlot, NONE, Tables};
use crate::{GpuId, Nanos, PolicyKind};

/// Reserves the gpus the job wants, and for a while those it has just stopped wanting.
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

/// The policy that ranks a job: that of its first gpu.
fn ranked_by(tables: &Tables<'_>, job: &JobSlot) -> Option<PolicyKind> {
    job.now.gpus.first().and_then(|id| tables.gpu(id)).map(|gpu| gpu.params.policy)
}

/// Whether the job stands above the holder of a gpu in the eyes of that gpu's policy. The order of the machine decides who is
/// asked first; where policies differ, it may put a job first that this gpu would put last.
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

/// Keeps stopped what the job keeps stopped, without stopping anything new for it.
pub(super) fn keep_stopped(tables: &mut Tables<'_>, index: u32) {
    let Some(job) = tables.job(index).filter(|job| !job.spent) else {
        return;
    };
    for id in job.now.working {
        linger(tables, id, index);
    }
}

/// Keeps others from resuming on a gpu.
fn linger(tables: &mut Tables<'_>, id: GpuId, index: u32) {
    if let Some(gpu) = tables.gpu_mut(id).filter(|gpu| gpu.now.lingerer == NONE) {
        gpu.now.lingerer = index;
    }
}

/// The job is owed its turn on all its gpus at once: nobody else begins one there, or the moment would never come.
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

/// A job that keeps the gpu at the end of its slice begins another, so that the question comes up again; unless somebody
/// above waits for it to end.
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

/// The slice on the gpu whose policy ranks the job.
pub(super) fn slice_of(tables: &Tables<'_>, job: &JobSlot) -> Nanos {
    job.now.gpus.first().and_then(|id| tables.gpu(id)).map_or(Nanos::ZERO, |gpu| gpu.params.turn_length())
}
