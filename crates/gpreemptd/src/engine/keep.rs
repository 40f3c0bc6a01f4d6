//! What was set by hand and outlives the daemon: levels and holds, in its runtime directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kfd::Pid;
use serde::{Deserialize, Serialize};

use crate::identity::{Identity, started};

const FILE: &str = "by-hand.json";

/// What was set by hand, by job, and the processes that are unmanaged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ByHand {
    pub(super) levels: BTreeMap<String, u8>,
    /// Jobs whose level the operator set: it may be more than the rules allow.
    pub(super) trusted: BTreeSet<String>,
    /// Until when, in milliseconds since 1970.
    pub(super) holds: BTreeMap<String, u64>,
    /// Who belonged to those jobs: what was set ends with the last of them, and is not for a later job of the same name.
    pub(super) members: BTreeMap<String, Members>,
    /// Unmanaged processes with their start times, so that a later process of the same number is not meant.
    #[serde(alias = "abandoned")]
    pub(super) unmanaged: Members,
}

/// Processes, each with its start time.
pub(super) type Members = BTreeMap<u32, u64>;

impl ByHand {
    /// Forgets what has no meaning any more.
    fn tidy(&mut self) {
        self.members.values_mut().for_each(keep_living);
        self.members.retain(|_, members| !members.is_empty());
        self.levels.retain(|name, _| self.members.contains_key(name));
        self.trusted.retain(|name| self.levels.contains_key(name));
        let now = now_ms();
        self.holds.retain(|name, until| *until > now && self.members.contains_key(name));
        self.members.retain(|name, _| self.levels.contains_key(name) || self.holds.contains_key(name));
        keep_living(&mut self.unmanaged);
    }
}

/// The name under which something is kept for the job of a process. A job that is named after its process ends with it, and
/// the number may be another's later.
pub(super) fn kept_name(job: &str, process: &Identity) -> String {
    if job == format!("pid-{}", process.pid) { format!("{job}@{}", process.started) } else { job.to_owned() }
}

fn keep_living(members: &mut Members) {
    members.retain(|pid, since| started(Pid(*pid)).is_ok_and(|start| start == *since));
}

/// The file.
#[derive(Debug)]
pub(super) struct Keep {
    /// Absent if others could write what is kept there.
    path: Option<PathBuf>,
    pub(super) by_hand: ByHand,
}

impl Keep {
    /// Reads what an earlier daemon left. A file that cannot be understood is set aside, so that nothing is lost.
    pub(super) fn open(directory: &Path) -> Keep {
        if !is_ours(directory) {
            tracing::warn!(
                "others than this user may write to {}: a restart forgets what was set by hand. Give the daemon a socket \
                 in a directory of its own",
                directory.display()
            );
            return Keep { path: None, by_hand: ByHand::default() };
        }
        let path = directory.join(FILE);
        let by_hand = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                let aside = path.with_extension("json.bad");
                tracing::warn!("{} cannot be understood ({error}); it is kept as {}", path.display(), aside.display());
                let _ = fs::rename(&path, aside);
                ByHand::default()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => ByHand::default(),
            Err(error) => {
                tracing::warn!("cannot read {}: {error}; levels and holds set by hand are forgotten", path.display());
                ByHand::default()
            }
        };
        Keep { path: Some(path), by_hand }
    }

    /// Changes what is kept and writes it.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut ByHand)) {
        let before = self.by_hand.clone();
        change(&mut self.by_hand);
        self.by_hand.tidy();
        if let Some(path) = &self.path
            && before != self.by_hand
            && let Err(error) = write(path, &self.by_hand)
        {
            tracing::warn!("cannot write {}: {error}; a restart forgets what was set by hand", path.display());
        }
    }

    /// Forgets what is over, before a job of that name begins.
    pub(super) fn forget_ended(&mut self) {
        self.change(|_| ());
    }

    /// A process belongs to a job; noted where something was set for the job.
    pub(super) fn join(&mut self, job: &str, pid: u32, started: u64) {
        if self.by_hand.members.get(job).is_some_and(|members| members.get(&pid) != Some(&started)) {
            self.change(|by_hand| {
                by_hand.members.entry(job.to_owned()).or_default().insert(pid, started);
            });
        }
    }

    /// Keeps until when a job is held.
    pub(super) fn set_hold(&mut self, job: &str, until_ms: u64, members: Members) {
        self.change(|by_hand| {
            by_hand.holds.insert(job.to_owned(), until_ms);
            by_hand.members.insert(job.to_owned(), members);
        });
    }

    /// Keeps the level of a job.
    pub(super) fn set_level(&mut self, job: &str, level: u8, trusted: bool, members: Members) {
        self.change(|by_hand| {
            by_hand.levels.insert(job.to_owned(), level);
            by_hand.members.insert(job.to_owned(), members);
            if trusted {
                by_hand.trusted.insert(job.to_owned());
            } else {
                by_hand.trusted.remove(job);
            }
        });
    }

    /// How long a job is still held.
    pub(super) fn held(&self, job: &str) -> Option<Duration> {
        let left = self.by_hand.holds.get(job)?.checked_sub(now_ms())?;
        (left > 0).then(|| Duration::from_millis(left))
    }
}

/// Whether nobody but this user, or root, can put a file there.
fn is_ours(directory: &Path) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    fs::metadata(directory).is_ok_and(|about| (about.uid() == own || about.uid() == 0) && about.mode() & 0o022 == 0)
}

/// Names of jobs are not for everybody.
fn write(path: &Path, by_hand: &ByHand) -> io::Result<()> {
    let aside = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    file.write_all(&serde_json::to_vec_pretty(by_hand)?)?;
    fs::rename(aside, path)
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ourselves() -> Members {
        let pid = std::process::id();
        [(pid, started(Pid(pid)).unwrap())].into()
    }

    #[test]
    fn what_was_set_is_there_after_a_restart_and_expired_holds_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut keep = Keep::open(directory.path());
        keep.set_level("train", 2, false, ourselves());
        keep.set_hold("train", now_ms() + 60_000, ourselves());
        keep.set_hold("gone", now_ms() - 1, ourselves());
        let again = Keep::open(directory.path());
        assert_eq!(again.by_hand.levels.get("train"), Some(&2));
        assert!(again.held("train").is_some_and(|left| left.as_secs() >= 58));
        assert_eq!((again.held("gone"), again.by_hand.members.len()), (None, 1));
    }

    #[test]
    fn a_later_job_of_the_same_name_gets_nothing_of_what_was_set_for_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let mut keep = Keep::open(directory.path());
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        keep.set_level("alice/sweep", 15, true, [(pid, started(Pid(pid)).unwrap())].into());
        keep.forget_ended();
        assert_eq!(keep.by_hand.levels.get("alice/sweep"), Some(&15));
        // Somebody who joins keeps it going.
        let (own, since) = ourselves().pop_first().unwrap();
        keep.join("alice/sweep", own, since);
        child.kill().unwrap();
        child.wait().unwrap();
        keep.forget_ended();
        assert_eq!(keep.by_hand.levels.get("alice/sweep"), Some(&15));
        keep.by_hand.members.insert("alice/sweep".into(), [(own, since - 1)].into());
        keep.forget_ended();
        assert_eq!(keep.by_hand, ByHand::default());
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), "{ no").unwrap();
        assert_eq!(Keep::open(directory.path()).by_hand, ByHand::default());
        assert_eq!(fs::read_to_string(directory.path().join("by-hand.json.bad")).unwrap(), "{ no");
    }

    #[test]
    fn what_belongs_to_a_process_ends_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut keep = Keep::open(directory.path());
        let pid = std::process::id();
        let own = Identity { pid, started: started(Pid(pid)).unwrap(), ..Identity::default() };
        let earlier = Identity { started: own.started - 1, ..own.clone() };
        let job = format!("pid-{pid}");
        assert_ne!(kept_name(&job, &own), kept_name(&job, &earlier));
        assert_eq!(kept_name("alice/train", &own), "alice/train");
        for process in [&own, &earlier] {
            keep.set_level(&kept_name(&job, process), 3, true, [(pid, process.started)].into());
        }
        keep.set_hold(&kept_name(&job, &earlier), now_ms() + 60_000, [(pid, earlier.started)].into());
        keep.change(|by_hand| by_hand.unmanaged = [(pid, earlier.started)].into());
        let expected = ByHand {
            levels: [(kept_name(&job, &own), 3)].into(),
            trusted: [kept_name(&job, &own)].into(),
            members: [(kept_name(&job, &own), ourselves())].into(),
            ..ByHand::default()
        };
        assert_eq!(Keep::open(directory.path()).by_hand, expected);
    }

    #[test]
    fn nothing_is_read_or_written_where_others_may_write() {
        let directory = tempfile::tempdir().unwrap();
        Keep::open(directory.path()).set_level("train", 2, false, ourselves());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&directory.path().join(FILE)), 0o600);
        fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let mut keep = Keep::open(directory.path());
        assert_eq!(keep.by_hand, ByHand::default());
        keep.set_level("serve", 9, false, ourselves());
        let kept = fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert!(kept.contains("train") && !kept.contains("serve"), "{kept}");
    }
}
