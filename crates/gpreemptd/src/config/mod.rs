//! The operator's settings: mode, periods, rules, policies. One TOML file, `docs/configuration.md`.
//!
//! ```text
//!   file ── toml_source ──> parse ──> Config ── assign ──> Assignment of a process
//!           (positions)   (ranges)      │
//!                                       ├── warn ───> settings that are valid but unlikely to be intended
//!                                       └── print ──> the file with all defaults and the bounds that follow
//! ```
//!
//! A file is accepted as a whole or not at all: [`Config::load`] reports every mistake in it.

mod accounts;
mod assign;
mod bounds;
mod error;
mod glob;
mod parse;
mod print;
mod rule;
mod warn;

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpreempt_core::{ActuatorKind, GpuParams, JobParams, Level};
use gpreempt_proto::Mode;
use toml_source::{ReadLimits, Source};

use crate::actuate::ActuatorChoice;

pub use self::assign::{JOB_VARIABLE, LEVEL_VARIABLE};
pub use self::error::ConfigError;
pub use self::glob::Glob;
pub use self::rule::{Account, GpuRule, Grouping, Requests, Rule, RuleSettings, Trusted};

use self::accounts::Accounts;

/// The commented file with the defaults that `gpreempt config init` prints.
pub const INIT: &str = include_str!("../../../../deploy/gpreempt.toml");

/// Files that are read. Opening a pipe would wait for a writer, and the daemon reads while it runs.
const LIMITS: ReadLimits = ReadLimits { max_bytes: 1 << 20, regular_only: true };

/// The whole configuration. Without a file [`Config::default`] applies: observe, no rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file that was read, if any.
    pub source: Option<PathBuf>,
    /// Whether processes are stopped, or stops only reported.
    pub mode: Mode,
    /// How processes are stopped.
    pub actuator: ActuatorChoice,
    /// How long the scheduler in the kernel keeps the policy without a daemon.
    pub keep: Duration,
    /// Time between two scans of all processes and queues, 1 to 10 ms.
    pub scan: Duration,
    /// Polling of queues between scans.
    pub watch: Watch,
    /// Grace period of running waves before they are saved, in 1,000 clocks of the gpu; `None`: as the hardware is set.
    pub grace_kiloclocks: Option<u8>,
    /// How long a stopped process runs after a signal that ends it.
    pub term_grace: Duration,
    /// Longest `gpreempt hold`.
    pub hold_max: Duration,
    /// When the daemon pauses on a gpu.
    pub breaker: Breaker,
    /// Events kept for `gpreempt log`.
    pub log_events: usize,
    /// Settings of processes; the first matching rule applies.
    pub rules: Vec<Rule>,
    /// Settings of gpus; the first matching entry applies.
    pub gpus: Vec<GpuRule>,
    /// Names of users, which occur in names of jobs.
    accounts: Accounts,
}

/// Polling of queues (AQL rings) between scans.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// Share of one core that the deciding thread may use, 0.001 to 1; its period follows from that.
    pub cpu: f64,
    /// Shortest period; with [`Watch::fixed`], the period.
    pub period: Duration,
    /// Keep the period whatever share of the core it takes.
    pub fixed: bool,
    /// Poll without sleeping, on this core. For large servers.
    pub spin_core: Option<usize>,
    /// How the scheduler in the kernel learns of new work.
    pub method: WatchMethod,
    /// Time between two looks of the scheduler in the kernel.
    pub kernel_period: Duration,
    /// Time between two looks of the scheduler in the kernel at tenants whose doorbells are armed.
    pub net: Duration,
}

/// How the scheduler in the kernel learns of new work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMethod {
    /// By a page fault of the first store to a doorbell. It looks every period only while work is on the gpu.
    #[default]
    Doorbell,
    /// By looking at the indices of queues every period.
    Poll,
}

impl WatchMethod {
    /// Every method with its word in the configuration.
    pub const WORDS: [(&'static str, WatchMethod); 2] =
        [("doorbell", WatchMethod::Doorbell), ("poll", WatchMethod::Poll)];

    /// Returns its word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            WatchMethod::Doorbell => "doorbell",
            WatchMethod::Poll => "poll",
        }
    }
}

/// When the daemon stops nothing on a gpu for a while, so that the hardware schedules alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Breaker {
    /// Failed driver calls within [`Breaker::window`] that start a pause.
    pub failures: u32,
    /// Slow driver calls within the window that start a pause.
    pub slow: u32,
    /// Duration beyond which a driver call is slow.
    pub slow_after: Duration,
    /// Length of the window in which calls are counted.
    pub window: Duration,
    /// Length of the first pause; each further one is twice as long, up to [`Breaker::longest`].
    pub pause: Duration,
    /// Longest pause.
    pub longest: Duration,
    /// One inversion in so many is not ended, to measure whether stopping helps; 0 for none.
    pub control_one_in: u32,
}

/// Result of matching a process against the rules.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleMatch {
    /// A rule gives it a level: it is scheduled.
    Managed(Assignment),
    /// A rule says `manage = false`: it is never stopped and never protected.
    Exempt {
        /// Name of the rule.
        rule: String,
    },
    /// No rule matches: it is never stopped and never protected.
    Unmatched,
}

/// The job, level and settings that a rule assigns to a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Name of the rule.
    pub rule: String,
    /// Name of its job: processes of one name are stopped and resumed together.
    pub job: String,
    /// Highest level that its owner may request.
    pub max_level: Level,
    /// Settings of its job, the level included.
    pub params: JobParams,
    /// Requests of the process that were refused, one sentence each, for the log.
    pub notes: Vec<String>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read or has mistakes: all of them, with their positions.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let source = Source::read(path, LIMITS)
            .map_err(|error| ConfigError::Unreadable { file: path.display().to_string(), error })?;
        let mut config = parse::config(&source)?;
        config.source = Some(path.to_path_buf());
        Ok(config)
    }

    /// Reads a text; `name` takes the place of the path in messages.
    ///
    /// # Errors
    /// If the text has mistakes: all of them, with their positions.
    pub fn parse(name: &str, text: &str) -> Result<Config, ConfigError> {
        parse::config(&Source::new(name, text))
    }

    /// Returns the actuator whose costs count before one has started. What the driver has is not known then, so `auto`
    /// counts as the debug trap, which costs more.
    #[must_use]
    pub fn expected_actuator(&self) -> ActuatorKind {
        match self.actuator {
            ActuatorChoice::Auto | ActuatorChoice::DebugTrap => ActuatorKind::DebugTrap,
            // The scheduler in the kernel makes the same switches.
            ActuatorChoice::Combined | ActuatorChoice::Kernel => ActuatorKind::Combined,
        }
    }

    /// Returns the settings of the gpu with this PCI address (`0000:c1:00.0`, or `0000:c1:00.0/3` for a partition).
    #[must_use]
    pub fn gpu(&self, address: &str) -> GpuParams {
        self.gpu_rule(address).map_or_else(GpuParams::default, |rule| rule.params)
    }

    /// Returns whether the gpu with this PCI address is scheduled at all.
    #[must_use]
    pub fn manages(&self, address: &str) -> bool {
        self.gpu_rule(address).is_none_or(|rule| rule.manage)
    }

    fn gpu_rule(&self, address: &str) -> Option<&GpuRule> {
        self.gpus.iter().find(|rule| rule.matches(address))
    }

    /// Returns the name of a user, or the number if `/etc/passwd` has no name. Never asks a directory service, so that
    /// the thread that decides may call it.
    #[must_use]
    pub fn user_name(&self, uid: u32) -> String {
        self.accounts.user(uid)
    }

    /// Returns the names of the environment variables that rules match, each once.
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
            actuator: ActuatorChoice::Auto,
            // Longer than a service manager takes to start a daemon again that failed.
            keep: Duration::from_secs(5),
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
        Watch {
            cpu: 0.03,
            period: Duration::from_micros(50),
            fixed: false,
            spin_core: None,
            method: WatchMethod::Doorbell,
            kernel_period: Duration::from_millis(1),
            net: Duration::from_millis(100),
        }
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
            control_one_in: 100,
        }
    }
}

#[cfg(test)]
mod tests;
