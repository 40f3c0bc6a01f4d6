//! Events: what `log` and `watch` show.

use serde::{Deserialize, Serialize};

use crate::{Action, Bound, Reason};

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Wall clock time in milliseconds since 1970.
    pub at_ms: u64,
    /// The kind of the event, with the keys of that kind.
    #[serde(flatten)]
    pub kind: EventKind,
    /// PCI address of the gpu; absent where the event concerns no gpu.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// The process; absent where the event concerns no process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The job; absent where the event concerns no job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The owner of the process or job. Only this user and the operator see the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A tenant was seen for the first time.
    Appeared {
        /// Its level; absent if no rule gives it one.
        level: Option<u8>,
        /// The rule of the configuration that gives the level; absent if none does.
        rule: Option<String>,
    },
    /// A tenant ended.
    Gone,
    /// A tenant was stopped.
    Preempted {
        /// Why the scheduler stopped it.
        reason: Reason,
        /// The job that caused the stop.
        by: Option<String>,
        /// What determined the moment.
        bound: Bound,
        /// How long the inversion had lasted, in microseconds.
        after_us: f64,
        /// How long the driver took, in microseconds.
        took_us: f64,
        /// Queues stopped.
        queues: u32,
        /// When the poll ended that detected the work which caused the stop, in nanoseconds of `CLOCK_MONOTONIC`.
        /// Absent for holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen_ns: Option<u64>,
    },
    /// A tenant was resumed.
    Resumed {
        /// Why the scheduler resumed it.
        reason: Reason,
        /// How long it was stopped, in microseconds.
        stopped_us: f64,
        /// How long the driver took, in microseconds.
        took_us: f64,
    },
    /// In observe mode: this tenant would have been stopped.
    WouldPreempt {
        /// Why the scheduler would have stopped it.
        reason: Reason,
        /// The job that would have caused the stop.
        by: Option<String>,
    },
    /// In observe mode: an inversion ended by itself.
    InversionEnded {
        /// How long it lasted, in microseconds.
        lasted_us: f64,
        /// Estimate of the time that a stop would have saved, in microseconds: how long the higher work was seen to
        /// wait, less one cycle.
        #[serde(default)]
        winnable_us: f64,
    },
    /// The driver refused or failed.
    Failed {
        /// What the daemon asked of the driver.
        action: Action,
        /// The error, with its remedy.
        message: String,
    },
    /// A user changed the level of a job.
    LevelSet {
        /// The old level.
        from: u8,
        /// The new level.
        to: u8,
        /// The user.
        by_uid: u32,
    },
    /// A user holds a job.
    Held {
        /// For how long.
        seconds: u64,
        /// The user.
        by_uid: u32,
    },
    /// A hold ended.
    Released,
    /// The operator took a process out of scheduling.
    Unmanaged {
        /// The operator.
        by_uid: u32,
    },
    /// The operator returned a process to the rules.
    Managed {
        /// The operator.
        by_uid: u32,
    },
    /// The daemon leaves a gpu to the hardware for a time.
    BackedOff {
        /// Why, for people.
        message: String,
        /// For how long.
        seconds: f64,
    },
    /// The daemon manages a gpu again.
    Recovered,
    /// The actuator process started or ended.
    Actuator {
        /// Which of both, and why, for people.
        message: String,
    },
    /// The configuration was read again.
    Reloaded {
        /// Whether it took effect, for people.
        message: String,
    },
    /// A kind that this version does not know. Its own keys are lost; those of [`Event`] are not.
    #[serde(other)]
    Other,
}
