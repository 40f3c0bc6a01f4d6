//! What people call a cgroup.

/// Digits of a container id that tools show.
const SHORT_ID: usize = 12;
/// Digits of a container id.
const FULL_ID: usize = 64;

/// Before the id of a container, in the name of its cgroup; after it may stand `.scope`.
const CONTAINERS: &[&str] =
    &["docker-", "cri-containerd-", "containerd-", "crio-", "libpod-", "nerdctl-", "podman-", ""];
/// Before the uid of a pod; after it may stand `.slice`.
const PODS: &[&str] =
    &["kubepods-besteffort-pod", "kubepods-burstable-pod", "kubepods-guaranteed-pod", "kubepods-pod", "pod"];
const SLURM_JOB: &str = "job_";

/// Container id (12 digits), pod (`pod` and its uid) or Slurm job (`job_123`) that a cgroup belongs to. The outermost
/// counts: what is inside may be named by the user.
#[must_use]
pub fn recognise(cgroup: &str) -> Option<String> {
    let names = || cgroup.split('/').filter(|name| !name.is_empty());
    let under = |part: &str| names().any(|name| name.starts_with(part));
    names().find_map(|name| {
        let pod = || under("kubepods").then(|| pod(name)).flatten();
        let job = || under("slurm").then(|| slurm_job(name)).flatten();
        pod().or_else(job).or_else(|| container(name))
    })
}

fn container(name: &str) -> Option<String> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let is_id = |id: &&str| id.len() == FULL_ID && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = CONTAINERS.iter().find_map(|prefix| name.strip_prefix(prefix).filter(is_id))?;
    Some(id.get(..SHORT_ID)?.to_owned())
}

fn pod(name: &str) -> Option<String> {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let uid = PODS.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let allowed = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_');
    // Systemd takes a dash for a level, so the uid is written without.
    (uid.len() >= 32 && uid.bytes().all(allowed)).then(|| format!("pod{}", uid.replace('_', "-")))
}

fn slurm_job(name: &str) -> Option<String> {
    let number = name.strip_prefix(SLURM_JOB)?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_called_what_people_call_them() {
        const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        const UID: &str = "4a1b2c3d-0001-4e5f-8a9b-0c1d2e3f4a5b";
        const FLAT: &str = "4a1b2c3d_0001_4e5f_8a9b_0c1d2e3f4a5b";
        const STATIC_UID: &str = "0123456789abcdef0123456789abcdef";
        let short = Some("0123456789ab".to_owned());
        let pod = Some(format!("pod{UID}"));
        let job = Some("job_123".to_owned());
        let table = [
            (format!("/docker/{ID}"), short.clone()),
            (format!("/system.slice/docker-{ID}.scope"), short.clone()),
            (format!("/system.slice/docker-{ID}.scope/init"), short.clone()),
            (format!("/system.slice/containerd.service/cri-containerd-{ID}.scope"), short.clone()),
            (format!("/machine.slice/crio-{ID}.scope"), short.clone()),
            (format!("/machine.slice/libpod-{ID}.scope/container"), short.clone()),
            (format!("/libpod_parent/libpod-{ID}"), short.clone()),
            (format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"), short),
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
            ("/system.slice/slurmstepd.scope/job_123/step_batch/user/task_0".to_owned(), job.clone()),
            // A container inside a job belongs to the job.
            (format!("/system.slice/slurmstepd.scope/job_123/step_0/docker-{ID}.scope"), job),
            ("/".to_owned(), None),
            (String::new(), None),
            ("/user.slice/user-1000.slice/session-3.scope".to_owned(), None),
            ("/system.slice/docker.service".to_owned(), None),
            (format!("/machine.slice/libpod-conmon-{ID}.scope"), None),
            ("/docker/0123".to_owned(), None),
            // Names that only look like those of a job or a pod.
            ("/user.slice/job_123".to_owned(), None),
            ("/slurm/job_".to_owned(), None),
            ("/slurm/job_1x".to_owned(), None),
            (format!("/user.slice/pod{UID}"), None),
        ];
        for (cgroup, expected) in table {
            assert_eq!(recognise(&cgroup), expected, "{cgroup}");
        }
    }
}
