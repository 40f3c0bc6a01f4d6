//! What an operator decides: mode, periods, rules, policies. One TOML file, `docs/configuration.md`.
//!
//! ```text
//!   file ── read ──> section ──> parse ──> Config ── treat ──> Treatment of a process
//!                (places of     (checks)     │
//!                 all values)                ├── warn ───> what is legal and hardly meant
//!                                            └── print ──> the file again, all defaults filled in, with bounds
//! ```
//!
//! A file is taken as a whole or not at all: [`Config::load`] reports everything that is wrong with it.

mod accounts;
mod error;
mod glob;
mod parse;
mod print;
mod promise;
mod rule;
mod treat;
mod warn;

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpreempt_core::{GpuParams, JobParams, Level};
use gpreempt_proto::Mode;
use toml_source::{ReadLimits, Source};

pub use self::error::ConfigError;
pub use self::glob::Glob;
pub use self::rule::{Account, Gives, GpuRule, Grouping, Requests, Rule, Trusted};
pub use self::treat::{JOB_VARIABLE, LEVEL_VARIABLE};

use self::accounts::Accounts;

/// A commented file with the defaults, to start from.
pub const INIT: &str = include_str!("../../../../deploy/gpreempt.toml");

/// Files that are read. Opening a pipe would wait for a writer, and the daemon reads while it runs.
const LIMITS: ReadLimits = ReadLimits { max_bytes: 1 << 20, regular_only: true };

/// The whole configuration. [`Config::default`] is what holds without a file: observe, no rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file it came from.
    pub source: Option<PathBuf>,
    /// Whether anything is ever stopped.
    pub mode: Mode,
    /// Time between two scans of all processes and queues, 1 to 10 ms.
    pub scan: Duration,
    /// How rings are watched between scans.
    pub watch: Watch,
    /// How long waves may go on by themselves before they are saved, in 1,000 clocks of the gpu; `None`: as the hardware is
    /// set.
    pub grace_kiloclocks: Option<u8>,
    /// How long a stopped process runs after it was sent SIGTERM.
    pub term_grace: Duration,
    /// Longest hold by hand.
    pub hold_max: Duration,
    /// When a gpu is left to the hardware.
    pub breaker: Breaker,
    /// Events kept for `gpreempt log`.
    pub log_events: usize,
    /// Whom to treat how; the first that matches decides.
    pub rules: Vec<Rule>,
    /// Settings of gpus; the first that matches decides.
    pub gpus: Vec<GpuRule>,
    /// Names of users, for names of jobs.
    accounts: Accounts,
}

/// How rings are watched.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// Share of one core that the deciding thread may use; its period follows from that.
    pub cpu: f64,
    /// Shortest period; with [`Watch::fixed`], the period.
    pub period: Duration,
    /// Keep the period whatever it costs.
    pub fixed: bool,
    /// Never sleep, on this core. For large servers.
    pub spin_core: Option<usize>,
}

/// When a gpu is left to the hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct Breaker {
    /// So many failures of the driver within [`Breaker::window`].
    pub failures: u32,
    /// So many calls within the window that took longer than [`Breaker::slow_after`].
    pub slow: u32,
    /// What is slow.
    pub slow_after: Duration,
    /// See above.
    pub window: Duration,
    /// First time of leaving it alone; doubles up to [`Breaker::longest`].
    pub pause: Duration,
    /// See above.
    pub longest: Duration,
    /// Of so many inversions one is left alone, to see what happens without us; 0 for none.
    pub sample_one_in: u32,
}

/// What the rules say of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is scheduled.
    Managed(Treatment),
    /// A rule says `manage = false`: it is never stopped and causes no stop.
    Exempt {
        /// Name of the rule.
        rule: String,
    },
    /// No rule matches: it is never stopped and causes no stop.
    Unmatched,
}

/// What the rules make of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Treatment {
    /// Name of the rule, for people.
    pub rule: String,
    /// Name of its job: processes with the same name stop and run together.
    pub job: String,
    /// The highest level its owner may ask for.
    pub max_level: Level,
    /// Settings of its job, the level included.
    pub params: JobParams,
    /// What the process asked for and did not get, for the log.
    pub notes: Vec<String>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or says something that makes no sense: everything that is wrong, with its place.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let source = Source::read(path, LIMITS)
            .map_err(|error| ConfigError::Unreadable { file: path.display().to_string(), error })?;
        let mut config = parse::config(&source)?;
        config.source = Some(path.to_path_buf());
        Ok(config)
    }

    /// Reads a text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// If it says something that makes no sense: everything that is wrong, with its place.
    pub fn parse(name: &str, text: &str) -> Result<Config, ConfigError> {
        parse::config(&Source::new(name, text))
    }

    /// Settings of the gpu with this PCI address (`0000:c1:00.0`, or `0000:c1:00.0/3` for a partition).
    #[must_use]
    pub fn gpu(&self, address: &str) -> GpuParams {
        self.gpu_rule(address).map_or_else(GpuParams::default, |rule| rule.params)
    }

    /// Whether that gpu is scheduled at all.
    #[must_use]
    pub fn manages(&self, address: &str) -> bool {
        self.gpu_rule(address).is_none_or(|rule| rule.manage)
    }

    fn gpu_rule(&self, address: &str) -> Option<&GpuRule> {
        self.gpus.iter().find(|rule| rule.matches(address))
    }

    /// Name of a user, or the number where the machine's own list of users has none. Never asks a directory service, so
    /// that it may be called where nothing may wait.
    #[must_use]
    pub fn user_name(&self, uid: u32) -> String {
        self.accounts.user(uid)
    }

    /// Names of the environment variables that rules ask for, each once.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.rules.iter().flat_map(|rule| rule.requests.environment.keys().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            source: None,
            mode: Mode::Observe,
            scan: Duration::from_millis(5),
            watch: Watch::default(),
            grace_kiloclocks: None,
            // What container engines grant before SIGKILL.
            term_grace: Duration::from_secs(10),
            hold_max: Duration::from_secs(3600),
            breaker: Breaker::default(),
            log_events: 10_000,
            rules: Vec::new(),
            gpus: Vec::new(),
            accounts: Accounts::default(),
        }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Watch { cpu: 0.03, period: Duration::from_micros(50), fixed: false, spin_core: None }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker {
            failures: 5,
            slow: 20,
            slow_after: Duration::from_millis(50),
            window: Duration::from_secs(10),
            pause: Duration::from_secs(10),
            longest: Duration::from_secs(300),
            sample_one_in: 100,
        }
    }
}

#[cfg(test)]
mod tests;
