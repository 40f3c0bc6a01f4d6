//! The policy of the scheduler in the kernel: what its host wants of it, and the changes that lead there.
//!
//! The host compares what it wants with what was sent, and sends the changes; the actuator makes them. Their order is
//! safe: a job is there before a process belongs to it, and has none when it is removed.

use std::collections::BTreeMap;

use gpreempt_kernel_abi::{GpuArgs, JobArgs, ModuleSettings, ProcessArgs, ProcessFlags};
use serde::{Deserialize, Serialize};

use super::abi_text::AbiText;

/// What the scheduler in the kernel is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelPolicy {
    /// How it works; absent before it was told.
    pub settings: Option<ModuleSettings>,
    /// By the driver's id.
    pub gpus: BTreeMap<u32, GpuArgs>,
    /// By number.
    pub jobs: BTreeMap<u64, JobArgs>,
    /// By pid. One whose job is zero has none, whatever its control group.
    pub processes: BTreeMap<i32, ProcessArgs>,
    /// By path below the root of version 2.
    pub cgroups: BTreeMap<String, CgroupJob>,
}

/// The job of all processes of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupJob {
    /// Its number; zero: none any more.
    pub job: u64,
    /// Whether they may be stopped.
    pub stoppable: bool,
}

impl CgroupJob {
    /// Returns the flags of the control device.
    #[must_use]
    pub fn flags(self) -> ProcessFlags {
        if self.stoppable { ProcessFlags::STOPPABLE } else { ProcessFlags::EMPTY }
    }
}

/// One call of the control device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyChange {
    /// Set how it works.
    Settings(AbiText<ModuleSettings>),
    /// Set a gpu.
    Gpu(AbiText<GpuArgs>),
    /// Add or set a job.
    Job(AbiText<JobArgs>),
    /// Say the job of a process.
    Process(AbiText<ProcessArgs>),
    /// Say the job of a control group.
    Cgroup {
        /// Its path below the root of version 2.
        path: String,
        /// Its job.
        job: CgroupJob,
    },
    /// End a job.
    RemoveJob {
        /// Its number.
        job: u64,
    },
}

impl KernelPolicy {
    /// Returns the changes that make this policy the one that is wanted, in a safe order. Gpus are never removed: the
    /// driver has them or not.
    #[must_use]
    pub fn changes_to(&self, wanted: &KernelPolicy) -> Vec<PolicyChange> {
        let mut changes = Vec::new();
        let settings = wanted.settings.filter(|settings| self.settings != Some(*settings));
        changes.extend(settings.map(|settings| PolicyChange::Settings(AbiText(settings))));
        changes.extend(differing(&self.gpus, &wanted.gpus).map(|gpu| PolicyChange::Gpu(AbiText(*gpu))));
        changes.extend(differing(&self.jobs, &wanted.jobs).map(|job| PolicyChange::Job(AbiText(*job))));
        changes.extend(
            differing(&self.processes, &wanted.processes).map(|process| PolicyChange::Process(AbiText(*process))),
        );
        let without = |process: &ProcessArgs| ProcessArgs { job: 0, flags: ProcessFlags::EMPTY, ..*process };
        // What has no job is as it would be if it were not known.
        let dropped =
            self.processes.iter().filter(|(pid, process)| process.job != 0 && !wanted.processes.contains_key(pid));
        changes.extend(dropped.map(|(_, process)| PolicyChange::Process(AbiText(without(process)))));
        for (path, job) in &wanted.cgroups {
            if self.cgroups.get(path) != Some(job) {
                changes.push(PolicyChange::Cgroup { path: path.clone(), job: *job });
            }
        }
        for path in self.cgroups.keys().filter(|path| !wanted.cgroups.contains_key(*path)) {
            let job = CgroupJob { job: 0, stoppable: false };
            changes.push(PolicyChange::Cgroup { path: path.clone(), job });
        }
        let ended = self.jobs.keys().filter(|job| !wanted.jobs.contains_key(job));
        changes.extend(ended.map(|&job| PolicyChange::RemoveJob { job }));
        changes
    }

    /// Returns whether a change would change nothing.
    #[must_use]
    pub fn has(&self, change: &PolicyChange) -> bool {
        match change {
            PolicyChange::Settings(AbiText(settings)) => self.settings == Some(*settings),
            PolicyChange::Gpu(AbiText(gpu)) => self.gpus.get(&gpu.gpu_id) == Some(gpu),
            PolicyChange::Job(AbiText(job)) => self.jobs.get(&job.job) == Some(job),
            PolicyChange::Process(AbiText(process)) => self.processes.get(&process.pid) == Some(process),
            PolicyChange::Cgroup { path, job } if job.job == 0 => !self.cgroups.contains_key(path),
            PolicyChange::Cgroup { path, job } => self.cgroups.get(path) == Some(job),
            PolicyChange::RemoveJob { job } => !self.jobs.contains_key(job),
        }
    }

    /// Notes that a change was made.
    pub fn note(&mut self, change: &PolicyChange) {
        match change {
            PolicyChange::Settings(AbiText(settings)) => self.settings = Some(*settings),
            PolicyChange::Gpu(AbiText(gpu)) => drop(self.gpus.insert(gpu.gpu_id, *gpu)),
            PolicyChange::Job(AbiText(job)) => drop(self.jobs.insert(job.job, *job)),
            PolicyChange::Process(AbiText(process)) => drop(self.processes.insert(process.pid, *process)),
            PolicyChange::Cgroup { path, job } if job.job == 0 => drop(self.cgroups.remove(path)),
            PolicyChange::Cgroup { path, job } => drop(self.cgroups.insert(path.clone(), *job)),
            PolicyChange::RemoveJob { job } => drop(self.jobs.remove(job)),
        }
    }

    /// Notes that a change was refused: what it concerns is as if it had not been told.
    pub fn forget(&mut self, change: &PolicyChange) {
        match change {
            PolicyChange::Settings(_) => self.settings = None,
            PolicyChange::Gpu(AbiText(gpu)) => drop(self.gpus.remove(&gpu.gpu_id)),
            PolicyChange::Job(AbiText(job)) => drop(self.jobs.remove(&job.job)),
            PolicyChange::Process(AbiText(process)) => drop(self.processes.remove(&process.pid)),
            PolicyChange::Cgroup { path, .. } => drop(self.cgroups.remove(path)),
            PolicyChange::RemoveJob { .. } => {}
        }
    }
}

/// Returns the values that are not, or not so, in the old map.
fn differing<'w, K: Ord, V: PartialEq>(
    old: &BTreeMap<K, V>,
    wanted: &'w BTreeMap<K, V>,
) -> impl Iterator<Item = &'w V> {
    wanted.iter().filter(move |(key, value)| old.get(*key) != Some(*value)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(jobs: &[u64], processes: &[(i32, u64)]) -> KernelPolicy {
        let process = |&(pid, job)| (pid, ProcessArgs { pid, job, ..ProcessArgs::SIZED });
        KernelPolicy {
            jobs: jobs.iter().map(|&job| (job, JobArgs { job, ..JobArgs::SIZED })).collect(),
            processes: processes.iter().map(process).collect(),
            ..KernelPolicy::default()
        }
    }

    fn words(changes: &[PolicyChange]) -> Vec<String> {
        let word = |change: &PolicyChange| match change {
            PolicyChange::Settings(_) => "settings".to_owned(),
            PolicyChange::Gpu(AbiText(gpu)) => format!("gpu {}", gpu.gpu_id),
            PolicyChange::Job(AbiText(job)) => format!("job {}", job.job),
            PolicyChange::Process(AbiText(process)) => format!("process {} in {}", process.pid, process.job),
            PolicyChange::Cgroup { path, job } => format!("{path} in {}", job.job),
            PolicyChange::RemoveJob { job } => format!("no job {job}"),
        };
        changes.iter().map(word).collect()
    }

    #[test]
    fn a_job_is_there_before_its_processes_and_goes_after_them() {
        let before = with(&[1, 2], &[(10, 1), (20, 2)]);
        let mut wanted = with(&[2, 3], &[(10, 3), (20, 2)]);
        wanted.cgroups.insert("/a".into(), CgroupJob { job: 3, stoppable: true });
        wanted.settings = Some(ModuleSettings::SIZED);
        wanted.gpus.insert(7, GpuArgs { gpu_id: 7, ..GpuArgs::SIZED });
        let said = words(&before.changes_to(&wanted));
        assert_eq!(said, ["settings", "gpu 7", "job 3", "process 10 in 3", "/a in 3", "no job 1"]);
        let back = words(&wanted.changes_to(&before));
        assert_eq!(back, ["job 1", "process 10 in 1", "/a in 0", "no job 3"]);
        assert_eq!(words(&before.changes_to(&with(&[2], &[(20, 2)]))), ["process 10 in 0", "no job 1"]);
    }

    #[test]
    fn what_was_made_is_not_made_again_and_what_was_refused_is() {
        let wanted = with(&[1], &[(10, 1)]);
        let mut sent = KernelPolicy::default();
        let changes = sent.changes_to(&wanted);
        changes.iter().for_each(|change| sent.note(change));
        assert_eq!((sent.clone(), sent.changes_to(&wanted)), (wanted.clone(), Vec::new()));
        assert!(changes.iter().all(|change| sent.has(change)));
        sent.forget(&changes[1]);
        assert_eq!(words(&sent.changes_to(&wanted)), ["process 10 in 1"]);
        let mut empty = wanted.clone();
        wanted.changes_to(&KernelPolicy::default()).iter().for_each(|change| empty.note(change));
        assert!(empty.jobs.is_empty() && empty.processes[&10].job == 0);
        assert_eq!(empty.changes_to(&KernelPolicy::default()), [], "that it has no job is known");
    }
}
