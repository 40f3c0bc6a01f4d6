//! The closed vocabularies of the protocol: each value is one snake_case word on the wire.
//!
//! Every vocabulary ends in `Other`: a value that a newer daemon of the same version added. Clients print it as `other`
//! and otherwise treat it as a value they have no rule for; they never fail because of it. The daemon sends no `other`.

use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

/// Whether the daemon acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Mode {
    /// It reports inversions and the stops it would have made. Nothing is traced, nothing is stopped.
    #[default]
    Observe,
    /// It stops and resumes.
    Enforce,
    /// A mode that this version does not know.
    #[serde(other)]
    Other,
}

/// How queues are stopped and resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ActuatorKind {
    /// Through the driver's debug interface: one cycle for each process and gpu, each way.
    DebugTrap,
    /// Through the interface of a patched driver: one cycle for each plan and gpu.
    Combined,
    /// By the scheduler in the kernel, which watches and decides by itself: one cycle for each plan and gpu.
    Kernel,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

impl ActuatorKind {
    /// Returns its name for people.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            ActuatorKind::DebugTrap => "debug trap",
            ActuatorKind::Combined => "combined",
            ActuatorKind::Kernel => "kernel",
            ActuatorKind::Other => "one that this release does not know",
        }
    }
}

/// The policy of a gpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PolicyKind {
    /// Strict levels, turns among equals.
    #[default]
    Priority,
    /// Shares by weight.
    Fair,
    /// Earliest deadline first.
    Deadline,
    /// A policy that this version does not know.
    #[serde(other)]
    Other,
}

/// Why the scheduler stopped or resumed a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// Stop: a job of a higher level wants the gpu.
    HigherWants,
    /// Stop: it is the turn of a job of the same level.
    SliceOver,
    /// Stop: the share of another job is due.
    ShareDue,
    /// Stop: the job used up its limit.
    LimitReached,
    /// Stop: another job has an earlier deadline.
    EarlierDeadline,
    /// Stop: a user holds the job.
    Held,
    /// Stop: the rest of the job is stopped already.
    JobStopped,
    /// Resume: no higher job wants the gpus of this job any more.
    NothingAbove,
    /// Resume: the job's turn or share is due.
    TurnDue,
    /// Resume: the job was stopped for as long as it may be; it runs for a turn.
    Aged,
    /// Resume: the job that caused the stop used up its share of stopping time.
    StopShareSpent,
    /// Resume: the hold ended.
    Released,
    /// Resume: part of the job could not be stopped, so none of it stays stopped.
    GaveUp,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

/// What determined the moment of a stop: the bound that expired last before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Bound {
    /// The stop waited for nothing but the detection of the work.
    Detection,
    /// The patience of the waiting job.
    Patience,
    /// The exempt time of the victim.
    Exempt,
    /// The cycle budget of the gpu.
    Budget,
    /// The victim was too small to be worth a cycle until now.
    Small,
    /// The gpu stayed reserved for its holder.
    Linger,
    /// A slice.
    Slice,
    /// `max_stop`, or ageing.
    Age,
    /// An earlier attempt had to be settled first.
    Retry,
    /// A bound that this version does not know.
    #[serde(other)]
    Other,
}

/// What the daemon asked of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Action {
    /// To open a debug session with a process.
    Attach,
    /// To stop queues.
    Preempt,
    /// To resume queues.
    Resume,
    /// An action that this version does not know.
    #[serde(other)]
    Other,
}

/// What a tenant does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum State {
    /// It has no unfinished work.
    #[default]
    Idle,
    /// It has work that waits for the gpu.
    Wants,
    /// It has work on the gpu.
    Running,
    /// Its next packet is a barrier whose signal has not fired.
    Blocked,
    /// The driver took it off the gpu for memory reasons.
    Evicted,
    /// gpreempt stopped it.
    Stopped,
    /// Not polled: no other job competes with it on the gpu, or its rings are not known or not polled yet.
    Unknown,
    /// A state that this version does not know.
    #[serde(other)]
    Other,
}

/// What a queue is for, as the driver has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum QueueClass {
    /// Kernels, as AQL packets.
    #[default]
    Compute,
    /// Copies.
    Sdma,
    /// A class that this version does not know.
    #[serde(other)]
    Other,
}

/// Why a request was refused, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RefusalKind {
    /// The line is not a call.
    Malformed,
    /// The call is of another version.
    Version,
    /// This user may not ask for it.
    Forbidden,
    /// There is no such process, job or gpu.
    Unknown,
    /// A value is out of range.
    Range,
    /// The configuration has an error; the old one stays in effect.
    Configuration,
    /// Too many clients or calls, or the daemon is too slow or ends.
    Busy,
    /// The daemon only observes.
    Observing,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}
