//! What a query returns: state and statistics of gpus, jobs and tenants.

use kfd_abi::{flags, numbers, plain};

use crate::BUCKETS;
use crate::event::RawReason;

numbers! {
    /// What a query lists (`gpreempt_query_kind`).
    QueryKind: u32 {
        /// [`GpuRecord`].
        GPUS = 0,
        /// [`JobRecord`].
        JOBS = 1,
        /// [`TenantRecord`].
        TENANTS = 2,
    }
}

/// List what exists (`gpreempt_query`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryArgs {
    /// Size of the structure.
    pub size: u32,
    /// What to list.
    pub kind: QueryKind,
    /// Address that records are written to.
    pub records: u64,
    /// Size of one, as the caller knows it.
    pub record_size: u32,
    /// How many fit.
    pub room: u32,
    /// How many there are, filled; `room` at most were written.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}
plain!(QueryArgs { size, kind, records, record_size, room, count, reserved });

flags! {
    /// State of a gpu.
    GpuFlags: u32 {
        /// Managed (`GPREEMPT_GPU_MANAGED`).
        MANAGED = 1 << 0,
        /// Being reset (`GPREEMPT_GPU_RESETTING`).
        RESETTING = 1 << 1,
        /// Jobs there could get into each other's way (`GPREEMPT_GPU_CONTESTED`).
        CONTESTED = 1 << 2,
        /// A cycle was measured (`GPREEMPT_GPU_MEASURED`).
        MEASURED = 1 << 3,
        /// Its deadline jobs together need more than all of its time (`GPREEMPT_GPU_OVERCOMMITTED`).
        OVERCOMMITTED = 1 << 4,
    }
}

/// Times of one kind (`gpreempt_times`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// A histogram: bucket `n` has those below 2^n microseconds that no earlier bucket has.
    pub buckets: [u64; BUCKETS],
}
plain!(Times { count, sum_ns, max_ns, buckets });

/// State and statistics of a gpu (`gpreempt_gpu_status`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuRecord {
    /// The driver's id.
    pub gpu_id: u32,
    /// Its state.
    pub flags: GpuFlags,
    /// The job that has the gpu reserved, or zero.
    pub holder: u64,
    /// Time of a cycle, measured or estimated.
    pub cycle_ns: u64,
    /// Bursts that met work which they could displace.
    pub inversions: u64,
    /// Tenants stopped.
    pub preempts: u64,
    /// Tenants resumed.
    pub resumes: u64,
    /// Entries of plans that the driver refused.
    pub failures: u64,
    /// Runlist cycles of the module's switches.
    pub cycles: u64,
    /// Switches.
    pub switches: u64,
    /// Times the worker woke.
    pub wakeups: u64,
    /// Because of an armed doorbell.
    pub wakeups_doorbell: u64,
    /// Because of a completion interrupt.
    pub wakeups_completed: u64,
    /// Because queues came, went or were evicted.
    pub wakeups_queues: u64,
    /// Because a period was over.
    pub wakeups_period: u64,
    /// Because the net was due.
    pub wakeups_net: u64,
    /// Because the core had asked for it.
    pub wakeups_core: u64,
    /// Bursts of armed tenants that the net saw first.
    pub missed_by_doorbell: u64,
    /// Tenants looked at.
    pub looks: u64,
    /// Queues looked at.
    pub look_queues: u64,
    /// Looks that met memory which was not there.
    pub away: u64,
    /// Times doorbells were armed.
    pub armed: u64,
    /// Times that failed.
    pub arm_failed: u64,
    /// Times the watchdog resumed everything.
    pub watchdog: u64,
    /// From the last look without work, or the doorbell, to the look that saw it.
    pub detection: Times,
    /// Time of a decision.
    pub decision: Times,
    /// Time of a look at all tenants that were looked at.
    pub look: Times,
    /// From decision to the driver's answer, stops.
    pub preempt: Times,
    /// The same, resumes.
    pub resume: Times,
    /// How long tenants were stopped.
    pub stopped: Times,
}
plain!(GpuRecord {
    gpu_id,
    flags,
    holder,
    cycle_ns,
    inversions,
    preempts,
    resumes,
    failures,
    cycles,
    switches,
    wakeups,
    wakeups_doorbell,
    wakeups_completed,
    wakeups_queues,
    wakeups_period,
    wakeups_net,
    wakeups_core,
    missed_by_doorbell,
    looks,
    look_queues,
    away,
    armed,
    arm_failed,
    watchdog,
    detection,
    decision,
    look,
    preempt,
    resume,
    stopped,
});

/// State of a job (`gpreempt_job_status`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobRecord {
    /// Its number.
    pub job: u64,
    /// 0: runs; 1: stopped.
    pub phase: u32,
    /// Why it is stopped.
    pub reason: RawReason,
    /// Job for which it was stopped, or zero.
    pub cause: u64,
    /// Since when.
    pub stopped_at_ns: u64,
    /// Tenants that it has.
    pub tenants: u32,
    /// Whether it had work at the last decision.
    pub works: u32,
}
plain!(JobRecord { job, phase, reason, cause, stopped_at_ns, tenants, works });

numbers! {
    /// What a tenant does (`gpreempt_activity`): [`gpreempt_core::Activity`].
    RawActivity: u32 {
        /// No unfinished work.
        IDLE = 0,
        /// Unfinished work that gpu time would advance.
        WANTS = 1,
        /// Unfinished work, and waves on the gpu.
        RUNNING = 2,
        /// Its first packets are barriers whose signals have not fired.
        BLOCKED = 3,
        /// The driver took its queues off the gpu.
        EVICTED = 4,
        /// Not looked at: no two jobs compete for the gpu.
        UNKNOWN = 5,
    }
}

flags! {
    /// State of a tenant.
    TenantFlags: u32 {
        /// It may be stopped (`GPREEMPT_TENANT_STOPPABLE`).
        STOPPABLE = 1 << 0,
        /// Its doorbells are armed (`GPREEMPT_TENANT_ARMED`).
        ARMED = 1 << 1,
        /// Its doorbells cannot be armed: it is polled (`GPREEMPT_TENANT_POLLED`).
        POLLED = 1 << 2,
        /// Its memory could not be read at the last look (`GPREEMPT_TENANT_AWAY`).
        AWAY = 1 << 3,
        /// Its read index is known to pass packets only when they have retired (`GPREEMPT_TENANT_RETIRES`).
        RETIRES = 1 << 4,
        /// There was no room for it: it is not managed (`GPREEMPT_TENANT_NO_ROOM`).
        NO_ROOM = 1 << 5,
    }
}

/// State of a process on a gpu (`gpreempt_tenant_status`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantRecord {
    /// The process, in the namespace of the caller; zero if it is not seen there.
    pub pid: i32,
    /// The gpu.
    pub gpu_id: u32,
    /// Start of the process, as in [`crate::ProcessArgs`].
    pub start_time: u64,
    /// Its job, or zero.
    pub job: u64,
    /// What it does.
    pub activity: RawActivity,
    /// Its state.
    pub flags: TenantFlags,
    /// Its compute queues.
    pub queues: u32,
    /// Those that the module has stopped.
    pub stopped_queues: u32,
    /// Since when it has, or lacks, work.
    pub since_ns: u64,
    /// Since when it is stopped, or zero.
    pub stopped_at_ns: u64,
    /// Packets that the read index has not passed.
    pub pending: u64,
    /// How often it was stopped.
    pub preempted: u64,
    /// How long, in all.
    pub stopped_ns: u64,
}
plain!(TenantRecord {
    pid,
    gpu_id,
    start_time,
    job,
    activity,
    flags,
    queues,
    stopped_queues,
    since_ns,
    stopped_at_ns,
    pending,
    preempted,
    stopped_ns,
});
