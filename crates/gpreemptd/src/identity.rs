//! Who a process is: what the kernel vouches for, and what it says of itself.

mod container;
mod procfs;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

use kfd::Pid;

pub use container::recognise;
pub(crate) use procfs::{Status, executable, started};

/// Variables of the environment that are always kept.
const OWN_VARIABLES: &str = "GPREEMPT_";
/// Most variables that are kept of one process.
const MOST_VARIABLES: usize = 64;
/// Most bytes that are kept of anything that a process says of itself.
const MOST_KEPT: usize = 4096;

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
    /// Reads who a process is. What only its owner may see (executable, environment) is empty for others.
    ///
    /// # Errors
    ///
    /// If the process is gone, or its number passed to another meanwhile.
    pub fn read(pid: Pid, variables: &[String]) -> io::Result<Identity> {
        let begun = started(pid)?;
        let status = Status::read(pid)?;
        let cgroup = procfs::cgroup(pid)?;
        let identity = Identity {
            pid: pid.0,
            started: begun,
            container_pid: status.pid_in_namespace,
            uid: status.uid,
            gid: status.gid,
            container: recognise(&cgroup),
            cgroup,
            executable: executable(pid).unwrap_or_default(),
            command: procfs::command(pid),
            environment: procfs::environment(pid, |name| {
                name.starts_with(OWN_VARIABLES) || variables.iter().any(|wanted| wanted == name)
            }),
        };
        if started(pid)? != begun {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("process {pid} ended and another has its number"),
            ));
        }
        Ok(identity)
    }

    /// Takes what the kernel vouches for as it is now: a process may become another user's, or be moved to another cgroup. What
    /// it says of itself is kept: many programs write over their own environment. Says whether anything changed.
    pub(crate) fn update(&mut self, status: &Status) -> bool {
        let cgroup = procfs::cgroup(self.pid()).unwrap_or_else(|_| self.cgroup.clone());
        let now = (status.uid, status.gid, cgroup);
        if now == (self.uid, self.gid, self.cgroup.clone()) {
            return false;
        }
        (self.uid, self.gid, self.cgroup) = now;
        self.container = recognise(&self.cgroup);
        true
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid(self.pid)
    }

    /// Name of the executable without its directories, safe to print.
    #[must_use]
    pub fn program(&self) -> String {
        let path = if self.executable.is_empty() { self.command.first() } else { Some(&self.executable) };
        let name = path.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        printable(name)
    }

    /// The command line in one piece, safe to print.
    #[must_use]
    pub fn command_line(&self) -> String {
        printable(&self.command.join(" "))
    }
}

/// A text that a process chose, with everything escaped that would change how a terminal or a log shows the rest.
#[must_use]
pub fn printable(text: &str) -> String {
    let misleads = |character: char| {
        character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().fold(String::with_capacity(text.len()), |mut safe, character| {
        if misleads(character) {
            // Writing to a string does not fail.
            let _ = write!(safe, "{}", character.escape_default());
        } else {
            safe.push(character);
        }
        safe
    })
}

#[cfg(test)]
mod tests;
