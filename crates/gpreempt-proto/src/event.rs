//! What happened.

use serde::{Deserialize, Serialize};

/// Something that happened, as `log` and `watch` show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
    /// The gpu, by PCI address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// The process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Whose process it is: others than the owner and root do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A tenant was seen for the first time.
    Appeared {
        /// Its level; absent if no rule matches.
        level: Option<u8>,
        /// The rule that matched.
        rule: Option<String>,
    },
    /// A tenant, or its process, is gone.
    Gone,
    /// A tenant was stopped.
    Preempted {
        /// The rule.
        rule: String,
        /// The job on whose account.
        by: Option<String>,
        /// What set the moment.
        bound: String,
        /// How long the inversion had lasted.
        after_us: f64,
        /// How long the driver took.
        took_us: f64,
        /// Queues stopped.
        queues: u32,
        /// When the look had ended that saw the work for which it was stopped: the machine's monotonic clock, nanoseconds.
        /// Absent for holds by hand.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen_ns: Option<u64>,
    },
    /// A tenant runs again.
    Resumed {
        /// The rule.
        rule: String,
        /// How long it was stopped.
        stopped_us: f64,
        /// How long the driver took.
        took_us: f64,
    },
    /// Only observing: this would have been stopped.
    WouldPreempt {
        /// The rule.
        rule: String,
        /// The job on whose account.
        by: Option<String>,
    },
    /// Only observing: the inversion ended by itself.
    InversionEnded {
        /// How long it lasted.
        lasted_us: f64,
        /// An estimate of what stopping would have won: for how long the higher work was seen to wait, less a cycle.
        #[serde(default)]
        winnable_us: f64,
    },
    /// The driver refused, or failed.
    Failed {
        /// What was tried.
        action: String,
        /// In words, with the remedy.
        message: String,
    },
    /// A level was changed by hand.
    LevelSet {
        /// From.
        from: u8,
        /// To.
        to: u8,
        /// By this user.
        by_uid: u32,
    },
    /// A job is held by hand.
    Held {
        /// For so long.
        seconds: u64,
        /// By this user.
        by_uid: u32,
    },
    /// A hold ended.
    Released,
    /// A gpu is left to the hardware for a time.
    BackedOff {
        /// In words.
        reason: String,
        /// For how long.
        seconds: f64,
    },
    /// A gpu is managed again.
    Recovered,
    /// The actuator was started, or ended.
    Actuator {
        /// In words.
        message: String,
    },
    /// The configuration was read again.
    Reloaded {
        /// Whether it was taken, or why not.
        message: String,
    },
}
