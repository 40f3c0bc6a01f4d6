//! Control groups: executors leave that of their program, because a gpu does not freeze with a program.
//!
//! Executors begin in the group of their program. The supervisor moves them to its own group where it may, in the
//! hierarchies in which processes can be frozen: that of cgroup v2, and v1's freezer. A program that runs in the
//! supervisor's group shares it with its executors, which the status tells.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use linux_host::process::{self, ProcStatus, cgroup_in};

/// v1's hierarchies by the controller that freezes; the name of v2's is empty.
const HIERARCHIES: [&str; 2] = ["", "freezer"];

/// The group of the supervisor in one hierarchy.
struct OwnGroup {
    hierarchy: &'static str,
    path: String,
    /// A process whose pid is written here belongs to the group.
    procs: PathBuf,
}

/// Returns the groups of the supervisor. It stays in those in which it began.
fn own_groups() -> &'static [OwnGroup] {
    static GROUPS: OnceLock<Vec<OwnGroup>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let groups = groups_of(std::process::id());
        let own = |hierarchy: &'static str| {
            let path = cgroup_in(&groups, hierarchy)?.to_owned();
            let procs = directory(&mounts, hierarchy, &path)?.join("cgroup.procs");
            Some(OwnGroup { hierarchy, path, procs })
        };
        HIERARCHIES.into_iter().filter_map(own).collect()
    })
}

/// Returns the groups of a process as the kernel lists them; nothing if it is gone.
fn groups_of(pid: u32) -> String {
    process::read(pid, "cgroup").map_or_else(|_| String::new(), |text| String::from_utf8_lossy(&text).into_owned())
}

/// Returns the directory of a group, of the lines of `/proc/PID/mountinfo`.
fn directory(mounts: &str, hierarchy: &str, path: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
        let (root, mounted) = (before.next()?, before.next()?);
        let (kind, options) = (after.next()?, after.nth(1)?);
        let is_it = match hierarchy {
            "" => kind == "cgroup2",
            controller => kind == "cgroup" && options.split(',').any(|option| option == controller),
        };
        // Only a part of the hierarchy may be mounted.
        let below = path.strip_prefix(root.trim_end_matches('/')).filter(|_| is_it)?;
        Some(PathBuf::from(mounted).join(below.trim_start_matches('/')))
    })
}

/// Whether a process in `group` is frozen when the group `frozen` is. The uppermost group cannot be.
fn is_within(group: &str, frozen: &str) -> bool {
    frozen != "/" && group.strip_prefix(frozen).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Executors of one process that were moved, or could not be.
#[derive(Default)]
pub(super) struct Adopted {
    pids: Vec<u32>,
}

impl Adopted {
    /// Moves executors that were not seen before. Those of another user stay: the limits of a user's group are root's
    /// to set, and a process that calls itself an executor would escape from them.
    pub(super) fn adopt(&mut self, executors: &[u32]) {
        for &pid in executors.iter().filter(|pid| !self.pids.contains(pid)) {
            // SAFETY: takes no argument and cannot fail.
            let own = unsafe { libc::geteuid() };
            if ProcStatus::read(pid).is_some_and(|status| status.uid == own) {
                adopt(pid);
            }
        }
        self.pids = executors.to_vec();
    }
}

fn adopt(pid: u32) {
    let groups = groups_of(pid);
    for own in own_groups() {
        if cgroup_in(&groups, own.hierarchy).is_some_and(|group| group != own.path) {
            // Where that is not permitted the executor stays, and the status says so.
            let _ = fs::write(&own.procs, pid.to_string());
        }
    }
}

/// Whether executors would be frozen with the group of their program.
pub(super) fn shares(program: u32, executors: impl Iterator<Item = u32>) -> bool {
    let program = groups_of(program);
    let shares = |executor: &str| {
        let in_hierarchy = |hierarchy: &&str| Some((cgroup_in(executor, hierarchy)?, cgroup_in(&program, hierarchy)?));
        HIERARCHIES.iter().filter_map(in_hierarchy).any(|(group, frozen)| is_within(group, frozen))
    };
    executors.map(groups_of).any(|executor| shares(&executor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_group_is_below_the_mount_of_its_hierarchy() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
            37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime shared:5 - cgroup cgroup rw,freezer\n\
            41 31 0:38 /docker /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let found = |hierarchy, path| directory(mounts, hierarchy, path);
        assert_eq!(found("freezer", "/a/b"), Some("/sys/fs/cgroup/freezer/a/b".into()));
        assert_eq!(found("freezer", "/"), Some("/sys/fs/cgroup/freezer/".into()));
        assert_eq!(found("", "/docker/x"), Some("/sys/fs/cgroup/unified/x".into()));
        assert_eq!((found("", "/other"), found("cpu", "/")), (None, None));
    }

    #[test]
    fn a_process_freezes_with_its_group_and_those_above_except_the_uppermost() {
        assert!(is_within("/a", "/a") && is_within("/a/b", "/a"));
        assert!(!is_within("/ab", "/a") && !is_within("/", "/a") && !is_within("/a", "/") && !is_within("/", "/"));
    }
}
