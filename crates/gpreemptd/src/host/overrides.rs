//! Levels and holds set by hand, and unmanaged processes: they outlive the daemon in its runtime directory.
//!
//! The deciding thread changes them in memory. Files are read before it starts and written by a thread of their own
//! (`override_writer`); whether processes have ended is reported by the discovery thread.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use gpreempt_proto::Answer;
use linux_host::clock::wall_ms;
use serde::{Deserialize, Serialize};

use crate::discovery::{ProcessSet, ended};
use crate::identity::Identity;
use crate::inbox::Responder;

use super::override_writer::{self, OverrideWriter};

/// What was set by hand, by job, and the processes that are unmanaged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Overrides {
    pub(super) levels: BTreeMap<String, u8>,
    /// Jobs whose level the operator set: it may be more than the rules allow.
    pub(super) trusted: BTreeSet<String>,
    /// Ends of holds, in milliseconds since 1970.
    pub(super) holds: BTreeMap<String, u64>,
    /// Members of those jobs. An override ends with the last of them and does not apply to a later job of the same
    /// name.
    pub(super) members: BTreeMap<String, ProcessSet>,
    /// Unmanaged processes.
    #[serde(alias = "abandoned")]
    pub(super) unmanaged: ProcessSet,
}

impl Overrides {
    /// Removes processes that have ended, holds that are over, and what depended on them.
    fn remove(&mut self, ended: &ProcessSet) {
        let remove = |processes: &mut ProcessSet| processes.retain(|pid, started| ended.get(pid) != Some(started));
        self.members.values_mut().for_each(remove);
        remove(&mut self.unmanaged);
        self.members.retain(|_, members| !members.is_empty());
        self.levels.retain(|name, _| self.members.contains_key(name));
        self.trusted.retain(|name| self.levels.contains_key(name));
        let now = wall_ms();
        self.holds.retain(|name, until| *until > now && self.members.contains_key(name));
        self.members.retain(|name, _| self.levels.contains_key(name) || self.holds.contains_key(name));
    }

    /// Returns all processes whose end changes something.
    fn processes(&self) -> ProcessSet {
        self.members.values().chain([&self.unmanaged]).flatten().map(|(pid, started)| (*pid, *started)).collect()
    }
}

/// Returns the key of overrides for the job of a process. A job that is named after its process ends with it, and the
/// number may be another's later.
pub(super) fn override_key(job: &str, process: &Identity) -> String {
    if job == format!("pid-{}", process.pid) { format!("{job}@{}", process.started) } else { job.to_owned() }
}

/// The overrides in force. Nothing here waits for a file, except [`OverrideStore::open`] and dropping.
#[derive(Debug)]
pub(super) struct OverrideStore {
    current: Overrides,
    /// Absent if a file could be written by other users.
    writer: Option<OverrideWriter>,
    /// Processes that the discovery thread was last asked to track.
    tracked: ProcessSet,
}

impl OverrideStore {
    /// Reads what an earlier daemon left in `directory`, except what belongs to processes that have ended since.
    pub(super) fn open(directory: &Path) -> OverrideStore {
        let (mut current, writer) = match override_writer::read(directory) {
            Some((path, overrides)) => (overrides, OverrideWriter::start(path)),
            None => (Overrides::default(), None),
        };
        current.remove(&ended(&current.processes()));
        OverrideStore { current, writer, tracked: ProcessSet::new() }
    }

    /// Returns what is in force.
    pub(super) fn current(&self) -> &Overrides {
        &self.current
    }

    /// Changes what is in force, and has it written.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Overrides)) {
        self.change_without(&ProcessSet::new(), change);
    }

    /// Removes processes that have ended, and what was set for jobs without another member.
    pub(super) fn processes_ended(&mut self, ended: &ProcessSet) {
        self.change_without(ended, |_| ());
    }

    fn change_without(&mut self, ended: &ProcessSet, change: impl FnOnce(&mut Overrides)) {
        let before = self.current.clone();
        change(&mut self.current);
        self.current.remove(ended);
        if before != self.current
            && let Some(writer) = &self.writer
        {
            writer.write(self.current.clone());
        }
    }

    /// Sends an answer once what was changed for it is in the file.
    pub(super) fn answer_when_written(&self, responder: Responder, answer: Answer) {
        match &self.writer {
            Some(writer) => writer.answer(responder, answer),
            None => responder.send(answer),
        }
    }

    /// Returns the processes whose end has to be reported, if these are others than at the last call.
    pub(super) fn newly_tracked(&mut self) -> Option<ProcessSet> {
        let processes = self.current.processes();
        if processes == self.tracked {
            return None;
        }
        self.tracked.clone_from(&processes);
        Some(processes)
    }

    /// Notes a member of a job that has overrides.
    pub(super) fn join(&mut self, key: &str, pid: u32, started: u64) {
        if self.current.members.get(key).is_some_and(|members| members.get(&pid) != Some(&started)) {
            self.change(|overrides| {
                overrides.members.entry(key.to_owned()).or_default().insert(pid, started);
            });
        }
    }

    /// Sets the end of a hold.
    pub(super) fn set_hold(&mut self, key: &str, until_ms: u64, members: ProcessSet) {
        self.change(|overrides| {
            overrides.holds.insert(key.to_owned(), until_ms);
            overrides.members.insert(key.to_owned(), members);
        });
    }

    /// Sets the level of a job.
    pub(super) fn set_level(&mut self, key: &str, level: u8, trusted: bool, members: ProcessSet) {
        self.change(|overrides| {
            overrides.levels.insert(key.to_owned(), level);
            overrides.members.insert(key.to_owned(), members);
            if trusted {
                overrides.trusted.insert(key.to_owned());
            } else {
                overrides.trusted.remove(key);
            }
        });
    }

    /// Returns how long a job is still held.
    pub(super) fn held(&self, key: &str) -> Option<Duration> {
        let left = self.current.holds.get(key)?.checked_sub(wall_ms())?;
        (left > 0).then(|| Duration::from_millis(left))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use linux_host::process::ProcStat;

    use super::super::override_writer::FILE;
    use super::*;

    fn started(pid: u32) -> u64 {
        ProcStat::read(pid).unwrap().start
    }

    fn ourselves() -> ProcessSet {
        let pid = std::process::id();
        [(pid, started(pid))].into()
    }

    /// Reports the end of processes as the discovery thread does.
    fn check(store: &mut OverrideStore) {
        let ended = ended(&store.current.processes());
        store.processes_ended(&ended);
    }

    #[test]
    fn what_was_set_is_there_after_a_restart_and_expired_holds_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = OverrideStore::open(directory.path());
        store.set_level("train", 2, false, ourselves());
        store.set_hold("train", wall_ms() + 60_000, ourselves());
        store.set_hold("gone", wall_ms() - 1, ourselves());
        drop(store);
        let again = OverrideStore::open(directory.path());
        assert_eq!(again.current.levels.get("train"), Some(&2));
        assert!(again.held("train").is_some_and(|left| left.as_secs() >= 58));
        assert_eq!((again.held("gone"), again.current.members.len()), (None, 1));
    }

    #[test]
    fn a_later_job_of_the_same_name_gets_nothing_of_what_was_set_for_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = OverrideStore::open(directory.path());
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        store.set_level("alice/sweep", 15, true, [(pid, started(pid))].into());
        assert_eq!(store.newly_tracked(), Some([(pid, started(pid))].into()));
        assert_eq!(store.newly_tracked(), None);
        check(&mut store);
        assert_eq!(store.current.levels.get("alice/sweep"), Some(&15));
        // A process that joins keeps it going.
        let (own, since) = ourselves().pop_first().unwrap();
        store.join("alice/sweep", own, since);
        child.kill().unwrap();
        child.wait().unwrap();
        check(&mut store);
        assert_eq!(store.current.levels.get("alice/sweep"), Some(&15));
        store.current.members.insert("alice/sweep".into(), [(own, since - 1)].into());
        check(&mut store);
        assert_eq!(store.current, Overrides::default());
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), "{ no").unwrap();
        assert_eq!(OverrideStore::open(directory.path()).current, Overrides::default());
        assert_eq!(fs::read_to_string(directory.path().join("by-hand.json.bad")).unwrap(), "{ no");
    }

    #[test]
    fn what_belongs_to_a_process_ends_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = OverrideStore::open(directory.path());
        let pid = std::process::id();
        let own = Identity { pid, started: started(pid), ..Identity::default() };
        let earlier = Identity { started: own.started - 1, ..own.clone() };
        let job = format!("pid-{pid}");
        assert_ne!(override_key(&job, &own), override_key(&job, &earlier));
        assert_eq!(override_key("alice/train", &own), "alice/train");
        for process in [&own, &earlier] {
            store.set_level(&override_key(&job, process), 3, true, [(pid, process.started)].into());
        }
        store.set_hold(&override_key(&job, &earlier), wall_ms() + 60_000, [(pid, earlier.started)].into());
        store.change(|overrides| overrides.unmanaged = [(pid, earlier.started)].into());
        let expected = Overrides {
            levels: [(override_key(&job, &own), 3)].into(),
            trusted: [override_key(&job, &own)].into(),
            members: [(override_key(&job, &own), ourselves())].into(),
            ..Overrides::default()
        };
        drop(store);
        assert_eq!(OverrideStore::open(directory.path()).current, expected);
    }

    #[test]
    fn nothing_is_read_or_written_where_others_may_write() {
        let directory = tempfile::tempdir().unwrap();
        OverrideStore::open(directory.path()).set_level("train", 2, false, ourselves());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&directory.path().join(FILE)), 0o600);
        fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let mut store = OverrideStore::open(directory.path());
        assert_eq!(store.current, Overrides::default());
        store.set_level("serve", 9, false, ourselves());
        drop(store);
        let kept = fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert!(kept.contains("train") && !kept.contains("serve"), "{kept}");
    }

    #[test]
    fn an_answer_comes_after_the_file_and_without_a_file_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = OverrideStore::open(directory.path());
        for level in 0..20 {
            store.set_level("train", level, false, ourselves());
            let (responder, answers) = Responder::channel();
            store.answer_when_written(responder, Answer::Done { note: None });
            assert!(matches!(answers.recv(), Ok(Answer::Done { .. })));
            let kept = fs::read_to_string(directory.path().join(FILE)).unwrap();
            assert!(kept.contains(&format!("\"train\": {level}")), "{kept}");
        }
        let (responder, answers) = Responder::channel();
        OverrideStore::open(Path::new("/nonexistent")).answer_when_written(responder, Answer::Done { note: None });
        assert!(matches!(answers.recv(), Ok(Answer::Done { .. })));
    }
}
