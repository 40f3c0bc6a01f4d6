//! The identity of a process: facts from the kernel, which rules may trust, and claims of the process itself.

pub mod cgroup;
mod procfs;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

use kfd::Pid;
use linux_host::process::ProcStatus;

pub(crate) use procfs::{executable, started, status};

/// Prefix of the environment variables that are always kept.
const OWN_VARIABLES: &str = "GPREEMPT_";
/// Most environment variables that are kept of one process.
const MAX_VARIABLES: usize = 64;
/// Most bytes that are kept of a text that the process chooses.
const MAX_KEPT: usize = 4096;

/// A process, as rules see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Process number in the namespace of the daemon.
    pub pid: u32,
    /// Start time in clock ticks since boot: with the pid, unique until the next boot.
    pub started: u64,
    /// Process number in its own pid namespace, if that is another.
    pub container_pid: Option<u32>,
    /// Trusted: effective user.
    pub uid: u32,
    /// Trusted: effective group.
    pub gid: u32,
    /// Trusted: path of the control group. Under version 1 that of the `pids` or `memory` controller.
    pub cgroup: String,
    /// [`cgroup::WorkUnit`] of the control group as tools call it: Slurm job, pod, or container id of 12 digits.
    pub container: Option<String>,
    /// Claimed: path of the executable.
    pub executable: String,
    /// Claimed: command line.
    pub command: Vec<String>,
    /// Claimed: environment variables whose names begin with `GPREEMPT_`, and those that rules match.
    pub environment: BTreeMap<String, String>,
}

impl Identity {
    /// Reads the identity of a process. Executable and environment are empty if this user may not see them.
    ///
    /// # Errors
    ///
    /// If the process is gone, or its number belongs to another process meanwhile.
    pub fn read(pid: Pid, variables: &[String]) -> io::Result<Identity> {
        let begun = started(pid)?;
        let status = status(pid)?;
        let cgroup = procfs::cgroup(pid)?;
        let identity = Identity {
            pid: pid.0,
            started: begun,
            container_pid: status.pid_in_namespace,
            uid: status.uid,
            gid: status.gid,
            container: container(&cgroup),
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

    /// Takes over user, group and control group as they are now: a process may change user or be moved. Claims are
    /// kept, because many programs overwrite their own environment. Returns whether anything changed.
    pub(crate) fn update(&mut self, status: &ProcStatus) -> bool {
        let cgroup = procfs::cgroup(self.pid()).unwrap_or_else(|_| self.cgroup.clone());
        let now = (status.uid, status.gid, cgroup);
        if now == (self.uid, self.gid, self.cgroup.clone()) {
            return false;
        }
        (self.uid, self.gid, self.cgroup) = now;
        self.container = container(&self.cgroup);
        true
    }

    /// Returns the process number.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid(self.pid)
    }

    /// Returns the name of the executable without its directories, safe to print.
    #[must_use]
    pub fn program(&self) -> String {
        let path = if self.executable.is_empty() { self.command.first() } else { Some(&self.executable) };
        let name = path.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        printable(name)
    }
}

/// Returns what tools call a control group.
fn container(cgroup: &str) -> Option<String> {
    cgroup::work_unit(cgroup).map(|unit| unit.to_string())
}

/// Escapes every character of a text chosen by a process that would change how a terminal or log shows the rest.
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
