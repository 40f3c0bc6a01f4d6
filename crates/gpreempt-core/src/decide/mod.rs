//! One decision: gather what tenants say into what jobs are, settle what has happened since the last decision, order the
//! jobs, admit them from the top, and write down what has to change.
//!
//! Every step is one pass over tenants or jobs, so a decision costs linear time and no memory.

mod admit;
mod emit;
mod gather;
mod settle;
mod turns;

use crate::cost::Cost;
use crate::order::sort_descending;
use crate::policy;
use crate::state::Tables;
use crate::{GpuSet, Nanos};

/// What a decision carries along.
pub(crate) struct Moment<'a> {
    pub(crate) now: Nanos,
    pub(crate) last: Nanos,
    pub(crate) wake: Nanos,
    pub(crate) cost: &'a dyn Cost,
}

impl Moment<'_> {
    /// Asks for another decision at `at`, if that lies ahead.
    pub(crate) fn ask_at(&mut self, at: Nanos) {
        if at > self.now {
            self.wake = self.wake.min(at);
        }
    }
}

/// Makes a decision over the first `jobs` entries of the order. Returns the number of plan entries.
pub(crate) fn decide(tables: &mut Tables<'_>, moment: &mut Moment<'_>, jobs: usize) -> usize {
    gather::gather(tables, moment);
    settle::settle(tables, moment);
    rank(tables, moment, jobs);
    turns::open_turns(tables, moment);
    admit::admit(tables, moment, jobs);
    emit::emit(tables, moment, jobs)
}

fn rank(tables: &mut Tables<'_>, moment: &mut Moment<'_>, jobs: usize) {
    for job in tables.jobs.iter_mut().filter(|job| job.live) {
        let first = job.now.gpus.first().and_then(|id| tables.gpus.get(usize::from(id.0)));
        let Some(gpu) = first else {
            job.rank = 0;
            continue;
        };
        let policy = policy::of(gpu.params.policy);
        job.rank = policy.rank(job, gpu, moment.now);
        moment.ask_at(policy.next_change(job, gpu, moment.now));
    }
    let Tables { order, jobs: slots, .. } = tables;
    let Some(order) = order.get_mut(..jobs) else {
        return;
    };
    sort_descending(order, |&index| (slots.get(index as usize).map_or(0, |job| job.rank), !index));
}

/// Gpus whose deadline jobs ask for more than there is.
pub(crate) fn overcommitted(tables: &Tables<'_>) -> GpuSet {
    let mut over = GpuSet::EMPTY;
    for index in 0..GpuSet::CAPACITY.min(tables.gpus.len()) {
        let id = crate::GpuId(u8::try_from(index).unwrap_or(u8::MAX));
        let asked: u64 = tables
            .jobs
            .iter()
            .filter(|job| job.live && job.now.gpus.has(id))
            .map(|job| policy::utilisation(&job.params))
            .fold(0, u64::saturating_add);
        if asked > 1000 {
            over = over.with(GpuSet::one(id));
        }
    }
    over
}
