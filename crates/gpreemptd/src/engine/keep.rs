//! What was set by hand and outlives the daemon: levels and holds, in its runtime directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

const FILE: &str = "by-hand.json";

/// What was set by hand, by job, and the processes given up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ByHand {
    pub(super) levels: BTreeMap<String, u8>,
    /// Until when, in milliseconds since 1970.
    pub(super) holds: BTreeMap<String, u64>,
    /// By process, with its start time, so that a later one of the same number is not meant.
    pub(super) abandoned: BTreeMap<u32, u64>,
}

/// The file.
#[derive(Debug)]
pub(super) struct Keep {
    path: PathBuf,
    pub(super) by_hand: ByHand,
}

impl Keep {
    /// Reads what an earlier daemon left. A file that cannot be understood is set aside, so that nothing is lost.
    pub(super) fn open(directory: &Path) -> Keep {
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
        Keep { path, by_hand }
    }

    /// Changes what is kept and writes it.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut ByHand)) {
        let before = self.by_hand.clone();
        change(&mut self.by_hand);
        self.by_hand.holds.retain(|_, until| *until > now_ms());
        if before != self.by_hand
            && let Err(error) = self.write()
        {
            tracing::warn!("cannot write {}: {error}; a restart forgets what was set by hand", self.path.display());
        }
    }

    fn write(&self) -> io::Result<()> {
        let aside = self.path.with_extension("json.new");
        fs::write(&aside, serde_json::to_vec_pretty(&self.by_hand)?)?;
        fs::rename(aside, &self.path)
    }

    /// How long a job is still held.
    pub(super) fn held(&self, job: &str) -> Option<Duration> {
        let left = self.by_hand.holds.get(job)?.checked_sub(now_ms())?;
        (left > 0).then(|| Duration::from_millis(left))
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_there_after_a_restart_and_expired_holds_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut keep = Keep::open(directory.path());
        keep.change(|by_hand| {
            by_hand.levels.insert("train".into(), 2);
            by_hand.holds.insert("train".into(), now_ms() + 60_000);
            by_hand.holds.insert("gone".into(), now_ms() - 1);
        });
        let again = Keep::open(directory.path());
        assert_eq!(again.by_hand.levels.get("train"), Some(&2));
        assert!(again.held("train").is_some_and(|left| left.as_secs() >= 58));
        assert_eq!(again.held("gone"), None);
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), "{ no").unwrap();
        assert_eq!(Keep::open(directory.path()).by_hand, ByHand::default());
        assert_eq!(fs::read_to_string(directory.path().join("by-hand.json.bad")).unwrap(), "{ no");
    }
}
