//! Who a process is: what the kernel vouches for, and what it says of itself.

use std::collections::BTreeMap;

use kfd::Pid;

/// A process, as rules see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its leader, in the namespace of this daemon.
    pub pid: u32,
    /// When it started, in clock ticks since boot: with the pid, unique until the next boot.
    pub started: u64,
    /// The number in its own pid namespace, where that differs.
    pub container_pid: Option<u32>,
    /// Trusted: effective user.
    pub uid: u32,
    /// Trusted: effective group.
    pub gid: u32,
    /// Trusted: its cgroup (v2 path; under v1 that of the `pids` or `memory` controller).
    pub cgroup: String,
    /// What the cgroup is called by people, if recognised: container id (12 digits), pod, Slurm job.
    pub container: Option<String>,
    /// Said by itself: path of its executable.
    pub executable: String,
    /// Said by itself: its command line.
    pub command: Vec<String>,
    /// Said by itself: variables of its environment whose names begin with `GPREEMPT_`, and those that rules ask for.
    pub environment: BTreeMap<String, String>,
}

impl Identity {
    /// The process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid(self.pid)
    }
}
