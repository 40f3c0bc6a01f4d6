//! What an operator decides: mode, periods, rules, policies. One TOML file, `docs/configuration.md`.

use std::path::PathBuf;
use std::time::Duration;

use gpreempt_core::{JobParams, Level};
use gpreempt_proto::Mode;

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
}
