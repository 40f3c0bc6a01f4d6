//! Rules: the processes that they match, and the settings that they assign.

use std::collections::BTreeMap;

use gpreempt_core::{GpuParams, JobParams, Level};

use super::Glob;
use crate::identity::{Identity, cgroup};

/// A `[[rule]]`. It matches a process if all its keys match.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Name, unique in the file.
    pub name: String,
    /// Facts from the kernel; at least one is given.
    pub trusted: Trusted,
    /// Claims of the process itself.
    pub requests: Requests,
    /// Settings of matching processes; `None` for `manage = false`.
    pub settings: Option<RuleSettings>,
}

/// Keys that match what a process cannot choose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trusted {
    /// Effective user.
    pub user: Option<Account>,
    /// Effective group.
    pub group: Option<Account>,
    /// Path of the control group.
    pub cgroup: Option<Glob>,
    /// Slurm job, pod or container of the control group.
    pub container: Option<Glob>,
}

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// `"*"`: all of them, stated explicitly.
    Any,
    /// One account, written as a name or as a number.
    One {
        /// The number.
        id: u32,
        /// The name in the file; `None` if the file has the number.
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

/// Keys that match what a process chooses itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    /// Executable: the path if the pattern has a slash, else the name of the file.
    pub executable: Option<Glob>,
    /// Command line, joined by spaces.
    pub command: Option<Glob>,
    /// Environment variables; all of them must match.
    pub environment: BTreeMap<String, Glob>,
}

/// Settings that a rule assigns to its processes.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSettings {
    /// Highest level that a process may request.
    pub max_level: Level,
    /// Which processes form a job.
    pub grouping: Grouping,
    /// Settings of the job.
    pub params: JobParams,
}

impl RuleSettings {
    /// Returns the level of a process that requests none.
    #[must_use]
    pub fn level(&self) -> Level {
        self.params.level.min(self.max_level)
    }
}

/// Which processes form a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Each process is a job of its own.
    #[default]
    Process,
    /// Processes of one control group.
    Cgroup,
    /// Processes of one user.
    User,
    /// Processes of one Slurm job.
    Slurm,
    /// Processes for which this name is the same after its [`Grouping::PLACEHOLDERS`] are replaced.
    Named(String),
}

impl Grouping {
    /// Parts of a name that are replaced for each process.
    pub const PLACEHOLDERS: [&str; 4] = ["{user}", "{uid}", "{cgroup}", "{slurm}"];

    /// Returns how a file writes it.
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
    /// Returns whether the rule matches a process.
    #[must_use]
    pub fn matches(&self, process: &Identity) -> bool {
        self.trusted.matches(process) && self.requests.matches(process)
    }
}

impl Rule {
    /// Returns whether the rule could match a process of a control group, or of one below it. Certain only if false.
    pub(super) fn could_match_below(&self, path: &str) -> bool {
        let cgroup = self.trusted.cgroup.as_ref().is_none_or(|pattern| {
            let prefix = pattern.prefix();
            pattern.matches(path) || prefix.starts_with(path) || path.starts_with(&prefix)
        });
        // The outermost container counts, so that of a path is that of all paths below.
        let container = self
            .trusted
            .container
            .as_ref()
            .is_none_or(|pattern| cgroup::work_unit(path).is_none_or(|unit| pattern.matches(&unit.to_string())));
        cgroup && container
    }

    /// Returns whether the rule certainly matches every process of a control group and below.
    pub(super) fn matches_all_below(&self, path: &str) -> bool {
        let Trusted { user, group, cgroup, container } = &self.trusted;
        let anyone = |account: &Option<Account>| !matches!(account, Some(Account::One { .. }));
        // What ends with a star matches all that is longer.
        let cgroup_matches =
            cgroup.as_ref().is_none_or(|pattern| pattern.matches(path) && pattern.as_str().ends_with('*'));
        let container_matches = container
            .as_ref()
            .is_none_or(|pattern| cgroup::work_unit(path).is_some_and(|unit| pattern.matches(&unit.to_string())));
        (cgroup.is_some() || container.is_some())
            && anyone(user)
            && anyone(group)
            && self.requests == Requests::default()
            && cgroup_matches
            && container_matches
    }
}

impl Trusted {
    /// Returns whether a certain user or group is named.
    pub(super) fn names_an_account(&self) -> bool {
        let one = |account: &Option<Account>| matches!(account, Some(Account::One { .. }));
        one(&self.user) || one(&self.group)
    }

    fn matches(&self, process: &Identity) -> bool {
        let user = self.user.as_ref().is_none_or(|user| user.matches(process.uid));
        let group = self.group.as_ref().is_none_or(|group| group.matches(process.gid));
        let cgroup = self.cgroup.as_ref().is_none_or(|cgroup| cgroup.matches(&process.cgroup));
        // Users choose the names of their own control groups, so the name of a container proves nothing there unless
        // the rule also names the owner.
        let container = self.container.as_ref().is_none_or(|pattern| {
            let is_trusted = self.names_an_account() || !cgroup::is_user_owned(&process.cgroup);
            is_trusted && process.container.as_ref().is_some_and(|name| pattern.matches(name))
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

/// A `[[gpu]]`: settings of gpus.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuRule {
    /// Pattern of PCI addresses, in lower case.
    pub gpu: Glob,
    /// Whether the gpus are scheduled at all.
    pub manage: bool,
    /// Policy and limits.
    pub params: GpuParams,
}

impl GpuRule {
    /// Returns whether the entry matches a PCI address. A pattern for a device matches its partitions, too.
    #[must_use]
    pub fn matches(&self, address: &str) -> bool {
        let address = address.to_ascii_lowercase();
        let device = address.split('/').next().unwrap_or_default();
        self.gpu.matches(&address) || self.gpu.matches(device)
    }
}
