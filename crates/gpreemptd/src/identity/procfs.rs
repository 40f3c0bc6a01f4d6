//! Files of a process under `/proc`. Whatever a process may choose is cut to a bounded length.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};

use kfd::Pid;

use super::{MOST_KEPT, MOST_VARIABLES};

/// Most bytes that are read of a file.
const MOST_READ: u64 = 64 << 10;

/// The beginning of a file of a process. The error names the file.
fn read(pid: Pid, name: &str) -> io::Result<Vec<u8>> {
    let path = format!("/proc/{pid}/{name}");
    let mut bytes = Vec::with_capacity(2048);
    let read = File::open(&path).and_then(|file| file.take(MOST_READ).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot read {path}: {error}"))),
    }
}

fn invalid(pid: Pid, name: &str, lacks: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("/proc/{pid}/{name} has no {lacks}; is /proc that of this kernel?"),
    )
}

/// When a process started, in clock ticks since boot.
pub(crate) fn started(pid: Pid) -> io::Result<u64> {
    let text = read(pid, "stat")?;
    start_time(&String::from_utf8_lossy(&text)).ok_or_else(|| invalid(pid, "stat", "start time"))
}

/// The second field is the program's name in parentheses, and may hold blanks and parentheses itself.
pub(super) fn start_time(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    // The state is field 3, the start field 22.
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Path of the executable; absent if it may not be known.
pub(crate) fn executable(pid: Pid) -> Option<String> {
    Some(kept(fs::read_link(format!("/proc/{pid}/exe")).ok()?.to_string_lossy().into_owned()))
}

/// What the kernel says of the leader of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// One letter; Z and X are dead.
    pub(crate) state: char,
    /// The process that the asked thread belongs to.
    pub(crate) group: u32,
    /// The thread that traces it.
    pub(crate) tracer: Option<u32>,
    /// Effective user.
    pub(crate) uid: u32,
    /// Effective group.
    pub(crate) gid: u32,
    /// Its number in its own namespace, if it has one.
    pub(crate) pid_in_namespace: Option<u32>,
    /// Signals that wait to be taken, as bits from signal 1.
    pub(crate) pending: u64,
}

impl Status {
    pub(crate) fn read(pid: Pid) -> io::Result<Status> {
        let text = read(pid, "status")?;
        Status::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| invalid(pid, "status", "user or state"))
    }

    pub(super) fn parse(text: &str) -> Option<Status> {
        let mut status = Status::default();
        let mut seen = 0;
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let mut words = value.split_ascii_whitespace();
            match name {
                "State" => status.state = words.next()?.chars().next()?,
                "Tgid" => status.group = words.next()?.parse().ok()?,
                "TracerPid" => status.tracer = words.next()?.parse().ok().filter(|tracer| *tracer != 0),
                "Uid" => status.uid = words.nth(1)?.parse().ok()?,
                "Gid" => status.gid = words.nth(1)?.parse().ok()?,
                // From the namespace of the reader to that of the process.
                "NSpid" => status.pid_in_namespace = words.skip(1).last().and_then(|word| word.parse().ok()),
                "SigPnd" | "ShdPnd" => status.pending |= u64::from_str_radix(words.next()?, 16).ok()?,
                _ => continue,
            }
            seen |= u32::from(matches!(name, "Uid")) | u32::from(matches!(name, "State")) << 1;
        }
        (seen == 3).then_some(status)
    }

    /// Whether the leader has ended.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

pub(super) fn cgroup(pid: Pid) -> io::Result<String> {
    Ok(cgroup_path(&String::from_utf8_lossy(&read(pid, "cgroup")?)))
}

/// Lines of hierarchy, controllers and path. A machine with both versions keeps its processes in the first.
pub(super) fn cgroup_path(text: &str) -> String {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let with = |wanted: &str| lines().find(|(names, _)| names.split(',').any(|name| name == wanted));
    let path = with("pids").or_else(|| with("memory")).or_else(|| with(""));
    kept(path.map_or("/", |(_, path)| path).to_owned())
}

/// The words of the command line, together not more than is kept.
pub(super) fn command(pid: Pid) -> Vec<String> {
    words(&read(pid, "cmdline").unwrap_or_default())
}

pub(super) fn words(bytes: &[u8]) -> Vec<String> {
    let end = bytes.len().min(MOST_KEPT);
    let bytes = bytes.get(..end).unwrap_or_default();
    let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Variables with names that are wanted. None if this user may not read them.
pub(super) fn environment(pid: Pid, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    variables(&read(pid, "environ").unwrap_or_default(), wanted)
}

pub(super) fn variables(bytes: &[u8], wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in bytes.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(entry);
        let Some((name, value)) = text.split_once('=') else { continue };
        if name.len() > MOST_KEPT || !wanted(name) {
            continue;
        }
        // The program itself finds the first of two.
        found.entry(name.to_owned()).or_insert_with(|| kept(value.to_owned()));
        if found.len() == MOST_VARIABLES {
            break;
        }
    }
    found
}

/// A text cut to what is kept, between two characters.
fn kept(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MOST_KEPT));
    text
}
