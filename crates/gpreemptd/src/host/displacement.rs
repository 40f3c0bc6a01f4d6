//! Which jobs could displace which on one gpu, as the core answers.
//!
//! The host knows no policy. It asks the core about every pair of jobs once after members, levels or parameters have
//! changed, and reads the answers when it chooses sessions, watch sets and, in observe mode, the stops it reports.

use std::collections::{HashMap, HashSet};

use gpreempt_core::{GpuIndex, JobId, Reason};

use super::world::Core;

/// The answers of the core for the jobs of one gpu.
#[derive(Debug, Default)]
pub(super) struct Displacements {
    /// Why the first job of a pair could stop the second.
    reasons: HashMap<(JobId, JobId), Reason>,
    /// Jobs that could stop another.
    displacing: HashSet<JobId>,
    /// Jobs that could be stopped: for another, or because of a limit of their own.
    stoppable: HashSet<JobId>,
    /// Jobs that could be stopped although no other job wants the gpu.
    throttled: HashSet<JobId>,
}

impl Displacements {
    /// Asks the core about all pairs of `jobs`, which have tenants on `gpu`.
    pub(super) fn ask(core: &Core, gpu: GpuIndex, jobs: &HashSet<JobId>) -> Displacements {
        let mut answers = Displacements::default();
        for &lower in jobs {
            if core.could_throttle(lower, gpu) {
                answers.throttled.insert(lower);
                answers.stoppable.insert(lower);
            }
            for &upper in jobs {
                if let Some(reason) = core.could_displace(upper, lower, gpu) {
                    answers.reasons.insert((upper, lower), reason);
                    answers.displacing.insert(upper);
                    answers.stoppable.insert(lower);
                }
            }
        }
        answers
    }

    /// Returns why `upper` could stop `lower`; `None` if it never would.
    pub(super) fn reason(&self, upper: JobId, lower: JobId) -> Option<Reason> {
        self.reasons.get(&(upper, lower)).copied()
    }

    /// Returns whether `upper` could stop `lower` and never the other way round. Jobs that take turns displace each
    /// other.
    pub(super) fn is_one_way(&self, upper: JobId, lower: JobId) -> bool {
        self.reason(upper, lower).is_some() && self.reason(lower, upper).is_none()
    }

    /// Returns whether the policy could ever stop the job.
    pub(super) fn could_be_stopped(&self, job: JobId) -> bool {
        self.stoppable.contains(&job)
    }

    /// Returns whether the policy could stop any job although no other job wants the gpu.
    pub(super) fn any_throttled(&self) -> bool {
        !self.throttled.is_empty()
    }

    /// Returns whether a decision depends on when work of the job comes: it could stop another job, or use its limit
    /// up.
    pub(super) fn must_be_watched(&self, job: JobId) -> bool {
        self.displacing.contains(&job) || self.throttled.contains(&job)
    }
}
