//! Files of a process below `/proc`. Every text that a process may choose is cut to a bounded length.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use kfd::Pid;
use linux_host::process::{self, ProcStat, ProcStatus};

use super::{MAX_KEPT, MAX_VARIABLES, cgroup};

fn invalid(pid: Pid, name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("/proc/{pid}/{name} lacks fields that Linux writes; is /proc that of this kernel?"),
    )
}

/// Reads when a process started, in clock ticks since boot.
pub(crate) fn started(pid: Pid) -> io::Result<u64> {
    let text = process::read(pid.0, "stat")?;
    ProcStat::parse(&String::from_utf8_lossy(&text)).map(|stat| stat.start).ok_or_else(|| invalid(pid, "stat"))
}

/// Reads user, group, tracer and state of a process or thread. Unlike [`ProcStatus::read`] it says why it cannot.
pub(crate) fn status(pid: Pid) -> io::Result<ProcStatus> {
    let text = process::read(pid.0, "status")?;
    ProcStatus::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| invalid(pid, "status"))
}

/// Reads the path of the executable; `None` if this user may not know it.
pub(crate) fn executable(pid: Pid) -> Option<String> {
    Some(kept(fs::read_link(format!("/proc/{pid}/exe")).ok()?.to_string_lossy().into_owned()))
}

/// Reads the path of the control group.
pub(super) fn cgroup(pid: Pid) -> io::Result<String> {
    let text = process::read(pid.0, "cgroup")?;
    Ok(kept(cgroup::path_of(&String::from_utf8_lossy(&text)).to_owned()))
}

/// Reads the words of the command line, [`MAX_KEPT`] bytes of them together.
pub(super) fn command(pid: Pid) -> Vec<String> {
    words(&process::read(pid.0, "cmdline").unwrap_or_default())
}

pub(super) fn words(bytes: &[u8]) -> Vec<String> {
    let end = bytes.len().min(MAX_KEPT);
    let bytes = bytes.get(..end).unwrap_or_default();
    let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Reads the variables with names that are wanted; none if this user may not read them.
pub(super) fn environment(pid: Pid, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    variables(&process::read(pid.0, "environ").unwrap_or_default(), wanted)
}

pub(super) fn variables(bytes: &[u8], wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in bytes.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(entry);
        let Some((name, value)) = text.split_once('=') else { continue };
        if name.len() > MAX_KEPT || !wanted(name) {
            continue;
        }
        // The program itself finds the first of two.
        found.entry(name.to_owned()).or_insert_with(|| kept(value.to_owned()));
        if found.len() == MAX_VARIABLES {
            break;
        }
    }
    found
}

/// Cuts a text to [`MAX_KEPT`] bytes, between two characters.
fn kept(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_KEPT));
    text
}
