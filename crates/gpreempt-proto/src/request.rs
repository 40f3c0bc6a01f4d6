//! What clients ask, and what they are told.

use serde::{Deserialize, Serialize};

use crate::{Event, Stats, Status, VERSION};

/// A line from a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// [`VERSION`].
    pub version: u32,
    /// What is asked.
    #[serde(flatten)]
    pub request: Request,
}

impl Call {
    /// A call of this version.
    #[must_use]
    pub fn new(request: Request) -> Call {
        Call { version: VERSION, request }
    }
}

/// Whom a request is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// One process: the number that the machine's own tools show, not that of a container.
    Pid(u32),
    /// A job by its name.
    Job(String),
}

/// What can be asked. Everybody may ask for status, statistics and events and sees what is their own; root sees everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// How everything stands.
    Status,
    /// Counters and distributions since the daemon started.
    Stats,
    /// Past events, oldest first.
    Log {
        /// Not older than this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_ms: Option<u64>,
        /// Only those about this process or job.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Target>,
        /// At most so many, the newest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<usize>,
    },
    /// Events from now on.
    Watch,
    /// Gives a process or a job another level, until it ends. Users may lower their own, and raise it up to what the rules
    /// allow them.
    Set {
        /// Whom.
        target: Target,
        /// 0 to 15.
        level: u8,
    },
    /// Stops a job by hand, for a time.
    Hold {
        /// Whom.
        target: Target,
        /// How long; the daemon has an upper limit.
        seconds: u64,
    },
    /// Ends a hold.
    Release {
        /// Whom.
        target: Target,
    },
    /// Gives a process up: it is detached, never stopped again and causes no stop.
    Abandon {
        /// Which process.
        pid: u32,
    },
    /// Look now: the sender has just submitted work. Unknown processes are ignored.
    Notify {
        /// Who submitted; absent for the sender itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    /// Read the configuration again. Root only.
    Reload,
}

/// A line from the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Stats`].
    Stats(Box<Stats>),
    /// To [`Request::Log`].
    Log {
        /// Oldest first.
        events: Vec<Event>,
        /// Whether older ones were forgotten.
        truncated: bool,
    },
    /// After [`Request::Watch`], any number of these.
    Event(Box<Event>),
    /// After [`Request::Watch`], if the client reads too slowly: so many events were left out.
    Missed {
        /// How many.
        events: u64,
    },
    /// It was done; what that means, in words for the user.
    Done {
        /// For example that a level was clamped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// It was not done.
    Refused(Refusal),
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub kind: RefusalKind,
    /// For people: what was refused and what to do about it.
    pub message: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The call is not understood.
    Malformed,
    /// It is of another version.
    Version,
    /// Not for this user.
    Forbidden,
    /// There is no such process, job or gpu.
    Unknown,
    /// A value is out of range.
    Range,
    /// The configuration was refused; the old one stays.
    Configuration,
    /// Too many clients or calls.
    Busy,
    /// The daemon only observes.
    Observing,
}
