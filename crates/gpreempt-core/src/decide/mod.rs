//! One decision: gather the observations of tenants into the state of jobs, settle the time since the last decision,
//! order the jobs, admit them from the highest rank down, and emit the entries of the plan.
//!
//! Every step is one pass over tenants or jobs, so a decision takes linear time and no memory.

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
use crate::storage::Tables;
use crate::{EntryNumber, GpuSet, Nanos};

/// Shortest time between two decisions that the core asks for.
const SHORTEST_NAP: Nanos = Nanos::from_micros(1);

/// The context of one decision.
pub(crate) struct Moment<'a> {
    pub(crate) now: Nanos,
    pub(crate) last: Nanos,
    pub(crate) wake: Nanos,
    pub(crate) cost: &'a dyn Cost,
    /// The number of the last entry that was planned.
    pub(crate) number: EntryNumber,
    /// Findings of the passes so far, so that passes without work can be skipped.
    pub(crate) found: Found,
}

/// Conditions for a further pass over the jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// A job is stopped.
    pub(crate) stopped: bool,
    /// A job waits for a cycle budget.
    pub(crate) short: bool,
    /// The rank of a job changed.
    pub(crate) new_ranks: bool,
    /// A job is to be stopped, a stopped job is not wholly stopped, a job is to be resumed.
    pub(crate) stops: bool,
    pub(crate) late_stops: bool,
    pub(crate) resumes: bool,
}

impl Moment<'_> {
    /// Returns the number of a new entry. 64 bits do not run out.
    fn next_number(&mut self) -> EntryNumber {
        self.number = EntryNumber(self.number.0.wrapping_add(1));
        self.number
    }

    /// Asks for another decision at `at`, if that is in the future.
    pub(crate) fn ask_at(&mut self, at: Nanos) {
        if at > self.now {
            self.wake = self.wake.min(at.max(self.now.plus(SHORTEST_NAP)));
        }
    }
}

/// Makes a decision over the first `jobs` entries of the order and returns the number of plan entries.
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

/// Returns the gpus whose jobs together need more than all of the gpu's time.
pub(crate) fn overcommitted(tables: &Tables<'_>) -> GpuSet {
    let mut over = GpuSet::EMPTY;
    for index in 0..GpuSet::CAPACITY.min(tables.gpus.len()) {
        let id = crate::GpuIndex(u8::try_from(index).unwrap_or(u8::MAX));
        let Some(gpu) = tables.gpu(id) else { continue };
        let policy = policy::of(gpu.params.policy);
        let asked: u64 = tables
            .jobs
            .iter()
            .filter(|job| job.live && job.now.gpus.has(id))
            .map(|job| policy.demand(&job.params))
            .fold(0, u64::saturating_add);
        if asked > 1000 {
            over = over.with(GpuSet::one(id));
        }
    }
    over
}
