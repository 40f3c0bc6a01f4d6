//! One decision: gather what tenants say into what jobs are, settle what has happened since the last decision, order the
//! jobs, admit them from the top, and write down what has to change.
//!
//! Every step is one pass over tenants or jobs, so a decision costs linear time and no memory.

mod admit;
mod emit;
mod gather;
mod reserve;
mod resume;
mod settle;
mod turns;

use crate::cost::Cost;
use crate::order::sort_descending;
use crate::policy;
use crate::state::Tables;
use crate::{GpuSet, Nanos, PolicyKind};

/// Nothing is worth another decision sooner than this.
const SHORTEST_NAP: Nanos = Nanos::from_micros(1);

/// What a decision carries along.
pub(crate) struct Moment<'a> {
    pub(crate) now: Nanos,
    pub(crate) last: Nanos,
    pub(crate) wake: Nanos,
    pub(crate) cost: &'a dyn Cost,
    /// What the passes so far have found, so that those with nothing to do can be left out.
    pub(crate) found: Found,
}

/// Reasons for a further pass over the jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Jobs that are stopped.
    pub(crate) stopped: bool,
    /// Jobs that wait for a budget.
    pub(crate) short: bool,
    /// Jobs whose rank is another than before.
    pub(crate) new_ranks: bool,
    /// Jobs that are stopped now, jobs that are stopped already but not wholly, and jobs to resume.
    pub(crate) stops: bool,
    pub(crate) late_stops: bool,
    pub(crate) resumes: bool,
}

impl Moment<'_> {
    /// Asks for another decision at `at`, if that lies ahead.
    pub(crate) fn ask_at(&mut self, at: Nanos) {
        if at > self.now {
            self.wake = self.wake.min(at.max(self.now.plus(SHORTEST_NAP)));
        }
    }
}

/// Makes a decision over the first `jobs` entries of the order. Returns the number of plan entries.
pub(crate) fn decide(tables: &mut Tables<'_>, moment: &mut Moment<'_>, jobs: usize) -> usize {
    gather::gather(tables, moment);
    settle::settle(tables, moment);
    if moment.found.new_ranks {
        order(tables, jobs);
    }
    if moment.found.stopped {
        turns::open_turns(tables, moment);
    }
    admit::admit(tables, moment, jobs);
    emit::emit(tables, moment, jobs)
}

fn order(tables: &mut Tables<'_>, jobs: usize) {
    let Tables { order, jobs: slots, .. } = tables;
    let Some(order) = order.get_mut(..jobs) else { return };
    sort_descending(order, |&index| (slots.get(index as usize).map_or(0, |job| job.rank), !index));
}

/// Gpus whose deadline jobs ask for more than there is.
pub(crate) fn overcommitted(tables: &Tables<'_>) -> GpuSet {
    let mut over = GpuSet::EMPTY;
    for index in 0..GpuSet::CAPACITY.min(tables.gpus.len()) {
        let id = crate::GpuId(u8::try_from(index).unwrap_or(u8::MAX));
        if tables.gpu(id).is_none_or(|gpu| gpu.params.policy != PolicyKind::Deadline) {
            continue;
        }
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
