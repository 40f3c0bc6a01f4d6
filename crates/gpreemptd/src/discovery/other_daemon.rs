//! Finds another daemon on the same gpus. Two would undo each other's stops, so the later one only watches.
//!
//! The driver lists every process that has it open, so a foreign actuator shows there whatever directory or socket its
//! daemon uses.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kfd::{Pid, Processes};

/// The subcommand under which an actuator runs.
const ACTUATOR: &[u8] = b"actuator";

/// Returns the actuator of another daemon, if there is one. Only processes of root and of this user count: those of
/// others could pretend.
pub(super) fn find_actuator(processes: &Processes) -> Option<Pid> {
    let uid = nix::unistd::geteuid().as_raw();
    let pids = processes.pids().ok()?;
    pids.into_iter().find(|pid| is_actuator(&Path::new("/proc").join(pid.to_string()), uid))
}

fn is_actuator(process: &Path, uid: u32) -> bool {
    if !fs::metadata(process).is_ok_and(|about| about.uid() == 0 || about.uid() == uid) {
        // The words are in its memory: a process can make the reader wait.
        return false;
    }
    let command = fs::read(process.join("cmdline")).unwrap_or_default();
    let mut words = command.split(|&byte| byte == 0);
    let program = words.next().unwrap_or_default();
    program.ends_with(b"gpreempt") && words.next() == Some(ACTUATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_subcommand_of_a_trusted_user_counts() {
        let directory = tempfile::tempdir().unwrap();
        let uid = nix::unistd::geteuid().as_raw();
        let says = |line: &[u8]| {
            fs::write(directory.path().join("cmdline"), line).unwrap();
            is_actuator(directory.path(), uid)
        };
        assert!(says(b"/usr/bin/gpreempt\0actuator\0"));
        assert!(!says(b"/usr/bin/gpreempt\0daemon\0"));
        assert!(!says(b"/usr/bin/python3\0actuator\0"));
        assert!(!says(b""));
        assert!(uid != 0 || !is_actuator(Path::new("/nonexistent"), uid));
    }
}
