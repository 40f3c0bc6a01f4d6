//! Requests of clients and answers of the daemon.

use serde::{Deserialize, Serialize};
use strum::VariantNames;

use crate::{Event, RefusalKind, Stats, Status, VERSION};

/// A line from a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// [`VERSION`].
    pub version: u32,
    /// The request, with its keys beside `version`.
    #[serde(flatten)]
    pub request: Request,
}

impl Call {
    /// Makes a call of this version.
    #[must_use]
    pub fn new(request: Request) -> Call {
        Call { version: VERSION, request }
    }
}

/// The process or job that a request is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A process, by its number in the daemon's own pid namespace (not the number inside a container).
    Pid(u32),
    /// A job, by its name.
    Job(String),
}

/// A request. Every user may ask for status, statistics and events and sees their own; the operator (root, or the user
/// who runs the daemon) sees everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, VariantNames)]
#[serde(tag = "request", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Request {
    /// Asks for the state of gpus, jobs and tenants.
    Status,
    /// Asks for counters and distributions since the daemon started.
    Stats,
    /// Asks for past events, oldest first.
    Log {
        /// Leaves out older events; milliseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_ms: Option<u64>,
        /// Leaves out events about other processes or jobs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Target>,
        /// Leaves out all but this many of the newest events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<usize>,
    },
    /// Asks for events from now on.
    Watch,
    /// Changes the level of a job until it ends. Users may change their own jobs up to the `max_level` of the rule.
    Set {
        /// The job, or a process of it.
        target: Target,
        /// 0 to 15.
        level: u8,
    },
    /// Stops a job for a time.
    Hold {
        /// The job, or a process of it.
        target: Target,
        /// For how long; `hold_max_s` of the configuration is the upper limit.
        seconds: u64,
    },
    /// Ends a hold.
    Release {
        /// The job, or a process of it.
        target: Target,
    },
    /// Leaves a process alone: the daemon detaches from it, never stops it and stops nothing for it. Operator only.
    Unmanage {
        /// The process.
        pid: u32,
    },
    /// Undoes [`Request::Unmanage`]: the rules apply to the process again. Operator only.
    Manage {
        /// The process.
        pid: u32,
    },
    /// Tells the daemon that work was submitted just now. Unknown processes are ignored.
    Notify {
        /// The process that submitted it; absent for the sender itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    /// Reads the configuration again. Operator only.
    Reload,
}

impl Request {
    /// The names of all requests, as in the key `request`.
    pub const NAMES: &'static [&'static str] = <Request as VariantNames>::VARIANTS;
}

/// A line from the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Answers [`Request::Status`].
    Status(Box<Status>),
    /// Answers [`Request::Stats`].
    Stats(Box<Stats>),
    /// Answers [`Request::Log`].
    Log {
        /// Oldest first.
        events: Vec<Event>,
        /// Whether older events exist or existed that were left out.
        truncated: bool,
    },
    /// Follows [`Request::Watch`], any number of times.
    Event(Box<Event>),
    /// Follows [`Request::Watch`] if the client reads too slowly: events were left out.
    Missed {
        /// How many events were left out.
        events: u64,
    },
    /// The request was carried out.
    Done {
        /// What that means, for people; for example that a level was clamped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The request was not carried out.
    Refused(Refusal),
    /// An answer that this version does not know.
    #[serde(other)]
    Other,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The kind, for programs.
    pub kind: RefusalKind,
    /// The error with its remedy, for people.
    pub message: String,
}
