//! What `read` returns: events, and the reasons and bounds of plans in them.

use kfd_abi::{numbers, plain};

use crate::status::RawActivity;

numbers! {
    /// Why an entry was planned (`gpreempt_reason`): [`gpreempt_core::Reason`].
    RawReason: u32 {
        /// A job of a higher level wants the gpu.
        HIGHER_WANTS = 0,
        /// The slice is over.
        SLICE_OVER = 1,
        /// Another job is owed its share.
        SHARE_DUE = 2,
        /// The limit is used up.
        LIMIT_REACHED = 3,
        /// A job with an earlier deadline wants the gpu.
        EARLIER_DEADLINE = 4,
        /// Held by the operator.
        HELD = 5,
        /// A stopped job has a new queue or tenant.
        JOB_STOPPED = 6,
        /// No job above wants the gpu any more.
        NOTHING_ABOVE = 7,
        /// The turn or share is due.
        TURN_DUE = 8,
        /// Stopped for the age limit.
        AGED = 9,
        /// The cause used up its share of stopping time.
        STOP_SHARE_SPENT = 10,
        /// The hold ended.
        RELEASED = 11,
        /// Part of the job could not be stopped.
        GAVE_UP = 12,
    }
}

numbers! {
    /// What set the time of an entry (`gpreempt_bound`): [`gpreempt_core::Bound`].
    RawBound: u32 {
        /// The look of the module.
        DETECTION = 0,
        /// Patience of the waiting job.
        PATIENCE = 1,
        /// Exempt time of the victim.
        EXEMPT = 2,
        /// The budget of cycles.
        BUDGET = 3,
        /// The victim held too little of the gpu.
        SMALL = 4,
        /// The gpu stayed reserved.
        LINGER = 5,
        /// The end of a slice.
        SLICE = 6,
        /// Age limit or ageing.
        AGE = 7,
        /// The wait after a refusal or a loss.
        RETRY = 8,
    }
}

numbers! {
    /// What happened (`gpreempt_event_kind`).
    ModuleEventKind: u32 {
        /// A tenant was stopped.
        PREEMPTED = 0,
        /// A tenant was resumed.
        RESUMED = 1,
        /// In observe mode: a tenant would have been stopped.
        WOULD_PREEMPT = 2,
        /// The driver refused an entry.
        FAILED = 3,
        /// What a tenant does has changed.
        ACTIVITY = 4,
        /// A process has its first queue on a gpu.
        TENANT_NEW = 5,
        /// A process has its last queue on a gpu no more, or ended.
        TENANT_GONE = 6,
        /// A gpu is being reset.
        RESET = 7,
        /// Its reset is over.
        RECOVERED = 8,
        /// The worker of a gpu did not answer: everything was resumed.
        WATCHDOG = 9,
        /// The policy host is gone for longer than it asked to be waited for: everything was resumed.
        EXPIRED = 10,
    }
}

/// Something that happened (`gpreempt_event`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleEvent {
    /// When.
    pub at_ns: u64,
    /// Its number.
    pub sequence: u64,
    /// Events before it that this descriptor did not read in time.
    pub lost: u32,
    /// What happened.
    pub kind: ModuleEventKind,
    /// The process, in the namespace of the caller, or zero.
    pub pid: i32,
    /// The gpu.
    pub gpu_id: u32,
    /// Start of the process.
    pub start_time: u64,
    /// Job of the process, or zero.
    pub job: u64,
    /// Job for which it was stopped, or zero.
    pub cause: u64,
    /// The rule of the scheduler behind it.
    pub reason: RawReason,
    /// What set the time.
    pub bound: RawBound,
    /// How long the inversion, or the stop, had lasted.
    pub after_ns: u64,
    /// From the decision to the answer of the driver.
    pub took_ns: u64,
    /// When the work of `cause` was seen, or zero.
    pub seen_ns: u64,
    /// Cycles of the switch; of its entries, one has them.
    pub cycles: u32,
    /// Queues that changed.
    pub queues: u32,
    /// What the tenant does.
    pub activity: RawActivity,
    /// Negative error number.
    pub status: i32,
}
plain!(ModuleEvent {
    at_ns,
    sequence,
    lost,
    kind,
    pid,
    gpu_id,
    start_time,
    job,
    cause,
    reason,
    bound,
    after_ns,
    took_ns,
    seen_ns,
    cycles,
    queues,
    activity,
    status,
});
