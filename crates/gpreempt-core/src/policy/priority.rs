//! Strict priority levels. Jobs of one level run together, or take turns of one slice, the longest waiting job first.

use super::{CLASS_SHIFT, IN_SLICE, Policy, earlier_first, in_slice, slice_end};
use crate::plan::Reason;
use crate::state::{GpuSlot, JobSlot, Phase};
use crate::{GpuParams, JobParams, Nanos};

pub(super) struct Priority;

impl Policy for Priority {
    fn rank(&self, job: &JobSlot, gpu: &GpuSlot, now: Nanos) -> u64 {
        let class = u64::from(job.params.level.get()) << CLASS_SHIFT;
        if gpu.params.turn_length() == Nanos::ZERO {
            return class;
        }
        if in_slice(job, gpu, now) {
            return class | IN_SLICE | earlier_first(job.slice_start);
        }
        let last_served = if job.phase == Phase::Stopped { job.stopped_at } else { now };
        class | earlier_first(last_served)
    }

    fn displaces(&self, upper: &JobParams, lower: &JobParams, gpu: &GpuParams) -> Option<Reason> {
        if upper.level > lower.level {
            Some(Reason::HigherWants)
        } else if upper.level == lower.level && gpu.turn_length() > Nanos::ZERO {
            Some(Reason::SliceOver)
        } else {
            None
        }
    }

    fn ranks_by_level(&self) -> bool {
        true
    }

    fn next_change(&self, job: &JobSlot, gpu: &GpuSlot, _now: Nanos) -> Nanos {
        if gpu.params.turn_length() == Nanos::ZERO {
            return Nanos::NEVER;
        }
        slice_end(job, gpu).unwrap_or(Nanos::NEVER)
    }
}
