//! Rules: whom they match, and what they give.

use std::collections::BTreeMap;

use gpreempt_core::{GpuParams, JobParams, Level};

use super::Glob;
use crate::identity::Identity;

/// Whom to treat how. All that is given must match.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, unique in the file.
    pub name: String,
    /// What the kernel vouches for; at least one of these is given.
    pub trusted: Trusted,
    /// What a process says of itself.
    pub requests: Requests,
    /// What matching processes get; `None` for `manage = false`.
    pub gives: Option<Gives>,
}

/// Keys that a process cannot choose for itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trusted {
    /// Its effective user.
    pub user: Option<Account>,
    /// Its effective group.
    pub group: Option<Account>,
    /// Path of its control group.
    pub cgroup: Option<Glob>,
    /// What its control group is called by people.
    pub container: Option<Glob>,
}

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// `"*"`: everybody, by explicit decision.
    Any,
    /// This one, written as a name or as a number.
    One {
        /// The number.
        id: u32,
        /// The name it was found by.
        name: Option<String>,
    },
}

impl Account {
    pub(super) fn matches(&self, number: u32) -> bool {
        match self {
            Account::Any => true,
            Account::One { id, .. } => *id == number,
        }
    }
}

/// Keys that a process chooses for itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    /// Its executable: the path if the pattern has a slash, else the name of the file.
    pub executable: Option<Glob>,
    /// Its command line, joined by spaces.
    pub command: Option<Glob>,
    /// Variables of its environment.
    pub environment: BTreeMap<String, Glob>,
}

/// What a rule gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Gives {
    /// The highest level a process may ask for.
    pub max_level: Level,
    /// Which processes form a job.
    pub grouping: Grouping,
    /// Settings of the job.
    pub params: JobParams,
}

impl Gives {
    /// The level of a process that asks for none.
    #[must_use]
    pub fn level(&self) -> Level {
        self.params.level.min(self.max_level)
    }
}

/// Which processes form a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Each is a job of its own.
    #[default]
    Process,
    /// Those in the same control group.
    Cgroup,
    /// Those of the same user.
    User,
    /// Those of the same Slurm job.
    Slurm,
    /// Those for which this name comes out the same; see [`Grouping::PLACEHOLDERS`].
    Named(String),
}

impl Grouping {
    /// What a name may contain to be filled in for each process.
    pub const PLACEHOLDERS: [&str; 4] = ["{user}", "{uid}", "{cgroup}", "{slurm}"];

    /// As it is written in a file.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Grouping::Process => "process",
            Grouping::Cgroup => "cgroup",
            Grouping::User => "user",
            Grouping::Slurm => "slurm",
            Grouping::Named(name) => name,
        }
    }
}

impl Rule {
    /// Whether the process is meant.
    #[must_use]
    pub fn matches(&self, process: &Identity) -> bool {
        self.trusted.matches(process) && self.requests.matches(process)
    }
}

impl Trusted {
    /// Whether a user or a group is named.
    pub(super) fn names_an_account(&self) -> bool {
        let one = |account: &Option<Account>| matches!(account, Some(Account::One { .. }));
        one(&self.user) || one(&self.group)
    }

    fn matches(&self, process: &Identity) -> bool {
        let user = self.user.as_ref().is_none_or(|user| user.matches(process.uid));
        let group = self.group.as_ref().is_none_or(|group| group.matches(process.gid));
        let cgroup = self.cgroup.as_ref().is_none_or(|cgroup| cgroup.matches(&process.cgroup));
        // Below /user.slice users make control groups with names of their choice, so a container's name proves nothing
        // there unless the rule also says whose it must be.
        let container = self.container.as_ref().is_none_or(|pattern| {
            let vouched = self.names_an_account() || !process.cgroup.starts_with("/user.slice/");
            vouched && process.container.as_ref().is_some_and(|name| pattern.matches(name))
        });
        user && group && cgroup && container
    }
}

impl Requests {
    fn matches(&self, process: &Identity) -> bool {
        let executable = self.executable.as_ref().is_none_or(|pattern| {
            let path = process.executable.as_str();
            let name = path.rsplit('/').next().unwrap_or(path);
            pattern.matches(if pattern.as_str().contains('/') { path } else { name })
        });
        let command = self.command.as_ref().is_none_or(|pattern| pattern.matches(&process.command.join(" ")));
        let environment = self
            .environment
            .iter()
            .all(|(name, pattern)| process.environment.get(name).is_some_and(|value| pattern.matches(value)));
        executable && command && environment
    }
}

/// Settings of gpus.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuRule {
    /// PCI addresses.
    pub gpu: Glob,
    /// Whether they are scheduled at all.
    pub manage: bool,
    /// How.
    pub params: GpuParams,
}

impl GpuRule {
    /// Whether the gpu with this PCI address is meant. A pattern for a whole device means its partitions, too.
    #[must_use]
    pub fn matches(&self, address: &str) -> bool {
        let address = address.to_ascii_lowercase();
        let device = address.split('/').next().unwrap_or_default();
        self.gpu.matches(&address) || self.gpu.matches(device)
    }
}
