//! Turns of aged jobs.
//!
//! A job that was stopped for its age limit is due: it runs for one turn, whichever jobs want its gpus. A gate on each
//! gpu separates turns by as much as they last, so that a waiting job meets at most one of them. Due jobs take their
//! turns oldest first; several whose gates are open run together, and a job with a closed gate prevents younger ones
//! from closing its other gates.

use super::Moment;
use crate::Nanos;
use crate::bounds;
use crate::state::{JobSlot, Phase};
use crate::storage::Tables;

/// Returns when the job is due for a turn.
fn due_at(tables: &Tables<'_>, job: &JobSlot, now: Nanos) -> Nanos {
    if job.phase != Phase::Stopped || now < job.hold_until || job.throttled || mutant!(NoAgeing) {
        return Nanos::NEVER;
    }
    // Without a cause there is no distance of levels.
    let above = tables.view().cause_of(job.stop).map_or(0, |cause| cause.params.level.get());
    let limit = bounds::age_limit(&job.params, above.saturating_sub(job.params.level.get()));
    job.stopped_at.plus(limit)
}

fn gates_open(tables: &Tables<'_>, job: &JobSlot, now: Nanos) -> bool {
    mutant!(OpenGate) || job.now.gpus.into_iter().all(|id| tables.gpu(id).is_none_or(|gpu| now >= gpu.gate))
}

/// Marks the jobs that take a turn now.
pub(super) fn open_turns(tables: &mut Tables<'_>, moment: &mut Moment<'_>) {
    let now = moment.now;
    let mut any_due = false;
    // Claims of the due jobs that wait for a gate.
    for index in 0..tables.jobs.len() {
        let Some(job) = tables.jobs.get(index).filter(|job| job.live && job.phase == Phase::Stopped) else {
            continue;
        };
        let due = due_at(tables, job, now);
        if due > now {
            moment.ask_at(due);
            continue;
        }
        any_due = true;
        if gates_open(tables, job, now) {
            continue;
        }
        for id in job.now.gpus {
            if let Some(gpu) = tables.gpus.get_mut(usize::from(id.0)) {
                gpu.now.claimed = gpu.now.claimed.min(due);
                moment.ask_at(gpu.gate);
            }
        }
    }
    if !any_due {
        return;
    }
    // Turns of the due jobs whose gates are open.
    for index in 0..tables.jobs.len() {
        let Some(job) = tables.jobs.get(index).filter(|job| job.live && job.phase == Phase::Stopped) else {
            continue;
        };
        let due = due_at(tables, job, now);
        if due > now || job.now.pending > 0 || !gates_open(tables, job, now) {
            continue;
        }
        let first = job.now.gpus.into_iter().all(|id| tables.gpu(id).is_none_or(|gpu| due <= gpu.now.claimed));
        if first && let Some(job) = tables.jobs.get_mut(index) {
            job.now.turn = true;
        }
    }
}

/// Closes the gates of a job that takes its turn.
pub(super) fn close_gates(tables: &mut Tables<'_>, index: u32, now: Nanos) {
    let Some(job) = tables.job(index) else { return };
    let (gpus, until) = (job.now.gpus, now.plus(job.params.turn().times(2)));
    for id in gpus {
        if let Some(gpu) = tables.gpu_mut(id) {
            gpu.gate = gpu.gate.max(until);
        }
    }
}
