//! Control groups: which path a process has, and what the path says about it.
//!
//! The only place that interprets such paths. Rules, names of jobs, `gpreempt ps` and warnings ask here, so that a path
//! is shown as what it is grouped as. Systemd gives each user the tree below `/user.slice`, where a user creates groups
//! with names of any choice: a name there proves nothing.

use std::fmt;

use linux_host::process::cgroup_in;

/// The tree that belongs to users.
pub(crate) const USER_SLICE: &str = "/user.slice/";

/// Digits of a container id that tools show.
const SHORT_ID: usize = 12;
/// Digits of a container id.
const FULL_ID: usize = 64;
/// Most digits of the number of a Slurm job.
const MAX_JOB_DIGITS: usize = 20;

/// Prefixes of the id of a container in the name of its control group; `.scope` may follow.
const CONTAINERS: &[&str] =
    &["docker-", "cri-containerd-", "containerd-", "crio-", "libpod-", "nerdctl-", "podman-", ""];
/// Prefixes of the uid of a pod; `.slice` may follow.
const PODS: &[&str] =
    &["kubepods-besteffort-pod", "kubepods-burstable-pod", "kubepods-guaranteed-pod", "kubepods-pod", "pod"];

/// The unit of work that a control group belongs to. Displays as tools call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkUnit<'p> {
    /// A Slurm job by its number: `job_123`.
    SlurmJob(&'p str),
    /// A Kubernetes pod by its uid as it stands in the path: `pod4a1b2c3d-...`.
    Pod(&'p str),
    /// A container by its id of 64 digits, of which 12 are displayed.
    Container(&'p str),
}

impl fmt::Display for WorkUnit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkUnit::SlurmJob(number) => write!(f, "job_{number}"),
            // Systemd takes a dash for a level of the tree, so the path has underscores instead.
            WorkUnit::Pod(uid) => write!(f, "pod{}", uid.replace('_', "-")),
            WorkUnit::Container(id) => f.write_str(&id[..SHORT_ID]),
        }
    }
}

/// Returns the Slurm job, pod or container that a control group belongs to. The outermost counts, because names further
/// down may be chosen by the user.
#[must_use]
pub fn work_unit(path: &str) -> Option<WorkUnit<'_>> {
    let (mut below_slurm, mut below_kubernetes) = (false, false);
    for name in path.split('/') {
        below_kubernetes |= name.starts_with("kubepods");
        let pod = below_kubernetes.then(|| pod(name)).flatten();
        let job = (below_slurm && !is_user_owned(path)).then(|| slurm_job_number(name)).flatten();
        if let Some(unit) = pod.or(job).or_else(|| container(name)) {
            return Some(unit);
        }
        below_slurm |= is_slurm_directory(name);
    }
    None
}

/// Returns the number of the Slurm job that a control group belongs to.
#[must_use]
pub fn slurm_job(path: &str) -> Option<&str> {
    match work_unit(path)? {
        WorkUnit::SlurmJob(number) => Some(number),
        WorkUnit::Pod(_) | WorkUnit::Container(_) => None,
    }
}

/// Returns the part of a path that ends with the Slurm job, pod or container that it belongs to.
#[must_use]
pub fn unit_directory(path: &str) -> Option<&str> {
    let ends = path.char_indices().filter(|(at, letter)| *letter == '/' && *at > 0).map(|(at, _)| at);
    ends.chain([path.len()]).map(|end| &path[..end]).find(|part| work_unit(part).is_some())
}

/// Returns whether a user may have chosen the names in a path.
#[must_use]
pub fn is_user_owned(path: &str) -> bool {
    path.starts_with(USER_SLICE)
}

/// Returns the path of a process from the text of `/proc/PID/cgroup`: lines of hierarchy, controllers and path.
///
/// On a machine with version 1 the `pids` or `memory` controller counts, else the unified hierarchy. Slurm may track
/// processes with the `freezer` controller alone; its path counts where only that one names a job.
pub(super) fn path_of(text: &str) -> &str {
    let with = |controller: &str| cgroup_in(text, controller);
    let path = with("pids").or_else(|| with("memory")).or_else(|| with("")).unwrap_or("/");
    let freezer = with("freezer").filter(|freezer| slurm_job(freezer).is_some() && work_unit(path).is_none());
    freezer.unwrap_or(path)
}

fn container(name: &str) -> Option<WorkUnit<'_>> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let is_id = |id: &&str| id.len() == FULL_ID && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = CONTAINERS.iter().find_map(|prefix| name.strip_prefix(prefix).filter(is_id))?;
    Some(WorkUnit::Container(id))
}

fn pod(name: &str) -> Option<WorkUnit<'_>> {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let uid = PODS.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let allowed = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_');
    (uid.len() >= 32 && uid.bytes().all(allowed)).then_some(WorkUnit::Pod(uid))
}

/// `slurm` and `slurm_NODE` are of version 1, `slurmstepd.scope` and `NODE_slurmstepd.scope` of version 2. Names of
/// nodes are there if several daemons of Slurm share a machine.
fn is_slurm_directory(name: &str) -> bool {
    name.starts_with("slurm") || name.ends_with("_slurmstepd.scope")
}

fn slurm_job_number(name: &str) -> Option<WorkUnit<'_>> {
    let number = name.strip_prefix("job_")?;
    let is_number = (1..=MAX_JOB_DIGITS).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(WorkUnit::SlurmJob(number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "4a1b2c3d-0001-4e5f-8a9b-0c1d2e3f4a5b";
    const FLAT: &str = "4a1b2c3d_0001_4e5f_8a9b_0c1d2e3f4a5b";
    const STATIC_UID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_unit_has_a_directory_with_all_of_it_below() {
        let step = "/system.slice/slurmstepd.scope/job_123/step_0/user/task_0";
        assert_eq!(unit_directory(step), Some("/system.slice/slurmstepd.scope/job_123"));
        let scope = format!("/system.slice/docker-{ID}.scope");
        assert_eq!(unit_directory(&format!("{scope}/init")), Some(scope.as_str()));
        assert_eq!(unit_directory(&scope), Some(scope.as_str()));
        assert_eq!(
            (unit_directory("/system.slice/a.service"), unit_directory("/"), unit_directory("")),
            (None, None, None)
        );
    }

    #[test]
    fn cgroups_are_called_what_people_call_them() {
        let container = Some("0123456789ab".to_owned());
        let pod = Some(format!("pod{UID}"));
        let job = Some("job_123".to_owned());
        let table = [
            (format!("/docker/{ID}"), container.clone()),
            (format!("/system.slice/docker-{ID}.scope"), container.clone()),
            (format!("/system.slice/docker-{ID}.scope/init"), container.clone()),
            (format!("/system.slice/containerd.service/cri-containerd-{ID}.scope"), container.clone()),
            (format!("/machine.slice/crio-{ID}.scope"), container.clone()),
            (format!("/machine.slice/libpod-{ID}.scope/container"), container.clone()),
            (format!("/libpod_parent/libpod-{ID}"), container.clone()),
            (format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"), container.clone()),
            (format!("/kubepods/burstable/pod{UID}/{ID}"), pod.clone()),
            (format!("/kubepods/pod{UID}/{ID}"), pod.clone()),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FLAT}.slice/cri-containerd-{ID}.scope"
                ),
                pod.clone(),
            ),
            (format!("/kubepods.slice/kubepods-pod{FLAT}.slice/crio-{ID}.scope"), pod),
            (format!("/kubepods/besteffort/pod{STATIC_UID}/{ID}"), Some(format!("pod{STATIC_UID}"))),
            ("/slurm/uid_1000/job_123/step_0/task_0".to_owned(), job.clone()),
            ("/slurm_node1/uid_1000/job_123/step_batch".to_owned(), job.clone()),
            ("/system.slice/slurmstepd.scope/job_123/step_batch/user/task_0".to_owned(), job.clone()),
            ("/system.slice/node1_slurmstepd.scope/job_123/step_0/user/task_0".to_owned(), job.clone()),
            // A container inside a job belongs to the job, a job inside a container to the container.
            (format!("/system.slice/slurmstepd.scope/job_123/step_0/docker-{ID}.scope"), job),
            (format!("/system.slice/docker-{ID}.scope/slurm/job_123"), container),
            ("/".to_owned(), None),
            (String::new(), None),
            ("/user.slice/user-1000.slice/session-3.scope".to_owned(), None),
            ("/system.slice/docker.service".to_owned(), None),
            (format!("/machine.slice/libpod-conmon-{ID}.scope"), None),
            ("/docker/0123".to_owned(), None),
            // Names that only look like those of a job or a pod.
            ("/user.slice/job_123".to_owned(), None),
            ("/user.slice/user-1000.slice/user@1000.service/slurm/job_123".to_owned(), None),
            ("/system.slice/job_123/slurmstepd.scope".to_owned(), None),
            ("/slurm/job_".to_owned(), None),
            ("/slurm/job_1x".to_owned(), None),
            ("/slurm/job_123456789012345678901".to_owned(), None),
            (format!("/user.slice/pod{UID}"), None),
        ];
        for (path, expected) in table {
            assert_eq!(work_unit(&path).map(|unit| unit.to_string()), expected, "{path}");
            let job = expected.as_deref().and_then(|shown| shown.strip_prefix("job_"));
            assert_eq!(slurm_job(&path), job, "{path}: shown and grouped alike");
        }
    }

    #[test]
    fn the_cgroup_is_found_under_both_versions() {
        assert_eq!(path_of("0::/user.slice/a:b\n"), "/user.slice/a:b");
        let first = "12:cpu,cpuacct:/x\n9:pids:/job\n4:memory:/m\n1:name=systemd:/s\n0::/\n";
        assert_eq!(path_of(first), "/job");
        assert_eq!(path_of("4:memory:/m\n0::/u\n"), "/m");
        assert_eq!((path_of(""), path_of("nonsense")), ("/", "/"));
    }

    #[test]
    fn a_job_that_only_the_freezer_knows_is_found() {
        let freezer = "9:pids:/system.slice/slurmd.service\n7:freezer:/slurm/uid_1000/job_5/step_0\n0::/\n";
        assert_eq!(path_of(freezer), "/slurm/uid_1000/job_5/step_0");
        assert_eq!(path_of("9:pids:/system.slice/a.service\n7:freezer:/frozen\n"), "/system.slice/a.service");
        let both = "9:pids:/slurm/uid_1/job_6\n7:freezer:/slurm/uid_1/job_5\n";
        assert_eq!(slurm_job(path_of(both)), Some("6"));
    }

    proptest! {
        #[test]
        fn no_path_is_too_strange(path in "[/a-z_.0-9ä-]{0,80}") {
            let _ = work_unit(&path).map(|unit| unit.to_string());
        }

        #[test]
        fn whatever_users_put_below_their_slice_is_no_job(
            directories in prop::collection::vec("slurm|job_1|slurmstepd.scope|n_slurmstepd.scope|[a-z]{1,5}", 0..6)
        ) {
            let path = format!("/user.slice/{}", directories.join("/"));
            prop_assert_eq!(slurm_job(&path), None);
        }

        #[test]
        fn a_job_is_found_however_deep_its_processes_are(
            number in 1u64.., directories in prop::collection::vec("step_[0-9]|user|task_[0-9]|job_9", 0..4)
        ) {
            let number = number.to_string();
            for slurm in ["/slurm/uid_7", "/system.slice/slurmstepd.scope", "/system.slice/n1_slurmstepd.scope"] {
                let path = format!("{slurm}/job_{number}/{}", directories.join("/"));
                prop_assert_eq!(slurm_job(&path), Some(number.as_str()));
            }
        }
    }
}
