//! Names of users and groups.

use std::collections::{BTreeMap, BTreeSet};

use nix::unistd::{Group, User};

/// Names of users from `/etc/passwd` at the time when the configuration was read. Directory services are asked only for
/// names in the file: an answer may take seconds, and the thread that matches processes against rules must not wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Accounts {
    users: BTreeMap<u32, String>,
    taken: BTreeSet<String>,
}

impl Accounts {
    /// Reads `/etc/passwd`.
    pub(super) fn of_this_machine() -> Accounts {
        // Without the list users are called by their numbers.
        let list = std::fs::read("/etc/passwd").unwrap_or_default();
        let mut accounts = Accounts::default();
        for line in String::from_utf8_lossy(&list).lines() {
            let mut fields = line.split(':');
            if let (Some(name), Some(_), Some(Ok(uid))) = (fields.next(), fields.next(), fields.next().map(str::parse))
            {
                accounts.add(uid, name);
            }
        }
        accounts
    }

    /// Adds a name unless the user has one already. Names must be unique, so a name of another user is not added, nor
    /// one that could be a number.
    pub(super) fn add(&mut self, uid: u32, name: &str) {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = !name.contains('/') && !name.chars().any(char::is_control);
        if !is_number && is_plain && !self.users.contains_key(&uid) && self.taken.insert(name.to_string()) {
            self.users.insert(uid, name.to_string());
        }
    }

    /// Returns the name, else the number.
    pub(super) fn user(&self, uid: u32) -> String {
        self.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

/// Looks up the number of a user. The error names the remedy.
pub(super) fn user(name: &str) -> Result<u32, String> {
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!("there is no user {name:?} on this machine; `getent passwd` lists them")),
        Err(error) => Err(format!("looking up user {name:?} failed: {error}; give its number as uid = N instead")),
    }
}

/// Looks up the number of a group. The error names the remedy.
pub(super) fn group(name: &str) -> Result<u32, String> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("there is no group {name:?} on this machine; `getent group` lists them")),
        Err(error) => Err(format!("looking up group {name:?} failed: {error}; give its number as gid = N instead")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_users_have_the_same_name() {
        let mut accounts = Accounts::default();
        for (uid, name) in [(5, "alice"), (6, "alice"), (5, "bob"), (7, "8"), (9, "a/b"), (10, "")] {
            accounts.add(uid, name);
        }
        let names: Vec<String> = (5..=10).map(|uid| accounts.user(uid)).collect();
        assert_eq!(names, ["alice", "6", "7", "8", "9", "10"]);
    }
}
