//! Scheduling policies. A policy is one file that implements [`Policy`].
//!
//! A policy answers two questions: the rank of a job in the total order of jobs, and whether a job that wants a gpu may
//! stop a job of lower rank there. The other methods have defaults for policies without shares, limits and deadlines;
//! no other module asks which policy it is. Everything else (patience, exempt time, budgets, turns of aged jobs,
//! failures) is common to all policies and belongs to `decide`.

mod deadline;
mod fair;
mod priority;

use crate::plan::Reason;
use crate::state::{GpuSlot, JobSlot, Phase};
use crate::{GpuParams, JobParams, Nanos, PolicyKind};

/// The time since the last decision, as a job spent it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Its length.
    pub(crate) length: Nanos,
    /// Whether the job ran during it.
    pub(crate) ran: bool,
    /// The share of the gpu to which the job is entitled beside the other jobs with work, in thousandths.
    pub(crate) entitled: u32,
}

/// A scheduling policy.
pub(crate) trait Policy: Sync {
    /// Returns the rank of the job; larger goes first. The slot's index breaks ties, so the order is total.
    fn rank(&self, job: &JobSlot, gpu: &GpuSlot, now: Nanos) -> u64;

    /// Returns the reason for which `upper`, if it ranks higher and wants the gpu, may stop `lower` on `gpu`.
    fn displaces(&self, upper: &JobParams, lower: &JobParams, gpu: &GpuParams) -> Option<Reason>;

    /// Returns whether the policy may stop `job` although no other job wants its gpu.
    fn throttles(&self, _job: &JobParams) -> bool {
        false
    }

    /// Returns whether levels alone decide which job goes first: only then is there a bound on inversions.
    fn ranks_by_level(&self) -> bool {
        false
    }

    /// Returns whether the policy divides a gpu's time into shares: only then is [`Span::entitled`] computed.
    fn shares_time(&self) -> bool {
        false
    }

    /// Returns whether the policy reads the period, the deadline and the runtime of jobs.
    fn has_deadlines(&self) -> bool {
        false
    }

    /// Returns the thousandths of a gpu that the job needs at all events; jobs that together need more than the gpu has
    /// overcommit it.
    fn demand(&self, _job: &JobParams) -> u64 {
        0
    }

    /// Returns the length of a turn where the operator sets none; zero if jobs need not take turns.
    fn default_slice(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Notes that the job has work again after being idle for `idle`.
    fn work_began(&self, _job: &mut JobSlot, _idle: Nanos, _now: Nanos) {}

    /// Updates the job's account; called for every job in every decision.
    fn charge(&self, _job: &mut JobSlot, _span: Span) {}

    /// Returns when the policy's answers may change without an observation.
    fn next_change(&self, _job: &JobSlot, _gpu: &GpuSlot, _now: Nanos) -> Nanos {
        Nanos::NEVER
    }
}

/// Returns the implementation of a policy.
pub(crate) fn of(kind: PolicyKind) -> &'static dyn Policy {
    match kind {
        PolicyKind::Priority => &priority::Priority,
        PolicyKind::Fair => &fair::Fair,
        PolicyKind::Deadline => &deadline::Deadline,
    }
}

// A rank is a class, a bit for "within its slice", and a key.
const CLASS_SHIFT: u32 = 56;
const IN_SLICE: u64 = 1 << 55;
const KEY_MASK: u64 = IN_SLICE - 1;

/// Returns a key that is larger for earlier instants.
fn earlier_first(at: Nanos) -> u64 {
    KEY_MASK - at.0.min(KEY_MASK)
}

/// Returns the end of the slice of a job that runs.
fn slice_end(job: &JobSlot, gpu: &GpuSlot) -> Option<Nanos> {
    (job.phase == Phase::Running && job.works).then(|| job.slice_start.plus(gpu.params.turn_length()))
}

fn in_slice(job: &JobSlot, gpu: &GpuSlot, now: Nanos) -> bool {
    slice_end(job, gpu).is_some_and(|end| now < end)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::string::String;
    use std::vec::Vec;

    /// Returns the files below `directory` that name a variant of `PolicyKind`, without proofs and this directory.
    fn naming_variants(directory: &Path, found: &mut Vec<String>) {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.ends_with("src/proofs") || path.ends_with("src/policy") {
                continue;
            }
            if path.is_dir() {
                naming_variants(&path, found);
            } else if fs::read_to_string(&path).unwrap().contains("PolicyKind::") {
                found.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn a_new_policy_is_a_file_and_a_word_of_the_settings() {
        let mut found = Vec::new();
        naming_variants(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert_eq!(found, ["params.rs"]);
    }
}
