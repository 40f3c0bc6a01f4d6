//! Structures of `gpreempt_core.h`.

use gpreempt_core::{Action, Entry, JobId, Nanos, Observation, Permille, Report};
use gpreempt_kernel_abi::{Invalid, RawActivity, RawBound, RawReason};

/// What was seen of a tenant (`gpc_look`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpcLook {
    /// When.
    pub at_ns: u64,
    /// Since when it has, or lacks, work.
    pub since_ns: u64,
    /// What it does; not unknown.
    pub activity: RawActivity,
    /// Share of the gpu in thousandths, or -1.
    pub occupancy: i32,
    /// Its queues.
    pub queues: u16,
    /// Those that are stopped.
    pub stopped: u16,
    /// Zero.
    pub reserved: u32,
}

impl TryFrom<GpcLook> for Observation {
    type Error = Invalid;

    fn try_from(look: GpcLook) -> Result<Observation, Invalid> {
        let occupancy = match look.occupancy {
            -1 => None,
            share => match u16::try_from(share) {
                Ok(share) if share <= Permille::ALL.get() => Some(Permille::new(share)),
                _ => return Err(Invalid("occupancy")),
            },
        };
        if look.reserved != 0 {
            return Err(Invalid("reserved"));
        }
        Ok(Observation {
            at: Nanos(look.at_ns),
            activity: look.activity.try_into()?,
            since: Nanos(look.since_ns),
            occupancy,
            queues: look.queues,
            stopped_queues: look.stopped,
        })
    }
}

/// An entry of a plan (`gpc_entry`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpcEntry {
    /// Its number.
    pub number: u64,
    /// The tenant to act on.
    pub tenant: u64,
    /// The tenant's job.
    pub job: u64,
    /// The job for which the entry is made, or zero.
    pub cause: u64,
    /// Index of the gpu.
    pub gpu: u32,
    /// 1: preempt; 0: resume.
    pub preempt: u32,
    /// The rule of the scheduler behind it.
    pub reason: RawReason,
    /// The condition that set its time.
    pub bound: RawBound,
    /// How long the inversion, or the stop, has lasted.
    pub after_ns: u64,
}

impl From<&Entry> for GpcEntry {
    fn from(entry: &Entry) -> GpcEntry {
        GpcEntry {
            number: entry.number.0,
            tenant: entry.tenant.to_bits(),
            job: entry.job.to_bits(),
            cause: entry.why.cause.map_or(0, JobId::to_bits),
            gpu: u32::from(entry.gpu.0),
            preempt: u32::from(entry.action == Action::Preempt),
            reason: entry.why.reason.into(),
            bound: entry.why.bound.into(),
            after_ns: entry.why.after.0,
        }
    }
}

/// The result of an entry (`gpc_report`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpcReport {
    /// When the driver answered.
    pub at_ns: u64,
    /// How long it took.
    pub took_ns: u64,
    /// Cycles that it spent; negative if that is not known.
    pub cycles: i32,
    /// Queues of the tenant that are stopped now; negative if the driver refused.
    pub stopped: i32,
}

impl TryFrom<GpcReport> for Report {
    type Error = Invalid;

    fn try_from(report: GpcReport) -> Result<Report, Invalid> {
        let stopped_queues = match report.stopped {
            i32::MIN..0 => None,
            stopped => Some(u16::try_from(stopped).map_err(|_| Invalid("stopped"))?),
        };
        let (at, took) = (Nanos(report.at_ns), Nanos(report.took_ns));
        Ok(Report { at, took, cycles: u32::try_from(report.cycles).ok(), stopped_queues })
    }
}

/// State of a job (`gpc_job_state`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpcJobState {
    /// The job for which it was stopped, or zero.
    pub cause: u64,
    /// When; meaningless while it runs.
    pub stopped_at_ns: u64,
    /// Whether it is stopped.
    pub stopped: u32,
    /// The rule that stopped it; meaningless while it runs.
    pub reason: RawReason,
    /// Whether it had work at the last decision.
    pub works: u32,
    /// Zero.
    pub reserved: u32,
}

/// State of a gpu (`gpc_gpu_state`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpcGpuState {
    /// The job that has it reserved, or zero.
    pub holder: u64,
    /// Time of a cycle: measured, or the operator's estimate.
    pub cycle_ns: u64,
    /// Cycles that plans have cost so far.
    pub cycles: u64,
    /// Whether a cycle was measured.
    pub measured: u32,
    /// Whether its deadline jobs together need more than all of its time.
    pub overcommitted: u32,
}
