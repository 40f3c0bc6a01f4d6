//! What the policy host sets: gpus, jobs, processes, cgroups.

use kfd_abi::{flags, numbers, plain};

numbers! {
    /// The policy of a gpu (`gpreempt_policy`): [`gpreempt_core::PolicyKind`].
    RawPolicy: u32 {
        /// Strict levels.
        PRIORITY = 0,
        /// Weighted shares.
        FAIR = 1,
        /// Earliest deadline first.
        DEADLINE = 2,
    }
}

/// Settings of a gpu (`gpreempt_gpu_params`): [`gpreempt_core::GpuParams`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawGpuParams {
    /// The policy.
    pub policy: RawPolicy,
    /// Cycles per second; zero: no limit.
    pub cycles_per_second: u32,
    /// Cycles that may accumulate.
    pub cycle_burst: u32,
    /// Share of the gpu below which victims are spared, in thousandths.
    pub small_permille: u16,
    /// 1: victims are weighed; 0: not.
    pub weigh: u16,
    /// Length of a turn.
    pub slice_ns: u64,
    /// Longest reservation.
    pub linger_max_ns: u64,
    /// Assumed time of a cycle.
    pub cycle_estimate_ns: u64,
    /// When an entry without a report counts as lost.
    pub report_timeout_ns: u64,
}
plain!(RawGpuParams {
    policy,
    cycles_per_second,
    cycle_burst,
    small_permille,
    weigh,
    slice_ns,
    linger_max_ns,
    cycle_estimate_ns,
    report_timeout_ns,
});

/// A gpu and its settings (`gpreempt_gpu`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuArgs {
    /// Size of the structure.
    pub size: u32,
    /// The driver's id of the gpu.
    pub gpu_id: u32,
    /// 0: left to the hardware.
    pub managed: u32,
    /// Zero.
    pub reserved: u32,
    /// Its settings.
    pub params: RawGpuParams,
}
plain!(GpuArgs { size, gpu_id, managed, reserved, params });

numbers! {
    /// The kind of a patience (`gpreempt_patience`): [`gpreempt_core::Patience`].
    RawPatience: u8 {
        /// Always `patience_ns`.
        FIXED = 0,
        /// At most `patience_ns`.
        ADAPTIVE = 1,
    }
}

/// Settings of a job (`gpreempt_job_params`): [`gpreempt_core::JobParams`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawJobParams {
    /// 0 to 15.
    pub level: u8,
    /// Kind of the patience.
    pub patience: RawPatience,
    /// Share of time for which others may be kept stopped, in thousandths.
    pub stop_share_permille: u16,
    /// Weight under the fair policy.
    pub weight: u16,
    /// Guaranteed share, in thousandths.
    pub request_permille: u16,
    /// Largest share, in thousandths.
    pub limit_permille: u16,
    /// Zero.
    pub reserved: [u16; 3],
    /// The patience, or its upper limit.
    pub patience_ns: u64,
    /// Exempt time.
    pub min_run_ns: u64,
    /// Longest stop.
    pub max_stop_ns: u64,
    /// Ageing; zero: off.
    pub age_step_ns: u64,
    /// Time between releases; zero: best effort.
    pub period_ns: u64,
    /// From release to deadline; zero: the period.
    pub deadline_ns: u64,
    /// Gpu time for each release; zero: unknown.
    pub runtime_ns: u64,
}
plain!(RawJobParams {
    level,
    patience,
    stop_share_permille,
    weight,
    request_permille,
    limit_permille,
    reserved,
    patience_ns,
    min_run_ns,
    max_stop_ns,
    age_step_ns,
    period_ns,
    deadline_ns,
    runtime_ns,
});

/// A job and its settings (`gpreempt_job`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobArgs {
    /// Size of the structure.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Its number, chosen by the policy host; not zero.
    pub job: u64,
    /// Stopped until then; zero: not held.
    pub hold_until_ns: u64,
    /// Its settings.
    pub params: RawJobParams,
}
plain!(JobArgs { size, reserved, job, hold_until_ns, params });

/// End a job (`gpreempt_remove_job`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoveJobArgs {
    /// Size of the structure.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Its number.
    pub job: u64,
}
plain!(RemoveJobArgs { size, reserved, job });

flags! {
    /// What may be done with a process.
    ProcessFlags: u32 {
        /// It may be stopped (`GPREEMPT_PROCESS_STOPPABLE`). Without it, its job is protected only.
        STOPPABLE = 1 << 0,
    }
}

/// The job of a process (`gpreempt_process`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessArgs {
    /// Size of the structure.
    pub size: u32,
    /// The process, in the namespace of the caller.
    pub pid: i32,
    /// Its start in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub start_time: u64,
    /// Its job; zero: none.
    pub job: u64,
    /// What may be done with it.
    pub flags: ProcessFlags,
    /// Zero.
    pub reserved: u32,
}
plain!(ProcessArgs { size, pid, start_time, job, flags, reserved });

/// The job of a cgroup (`gpreempt_cgroup`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupArgs {
    /// Size of the structure.
    pub size: u32,
    /// A descriptor of a directory of the cgroup v2 file system.
    pub fd: i32,
    /// The job of the processes there and below; zero: none any more.
    pub job: u64,
    /// What may be done with them.
    pub flags: ProcessFlags,
    /// Zero.
    pub reserved: u32,
}
plain!(CgroupArgs { size, fd, job, flags, reserved });
