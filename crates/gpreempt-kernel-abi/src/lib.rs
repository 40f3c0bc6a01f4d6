//! The structures and numbers of `/dev/gpreempt`, the control device of the scheduler in the kernel, as
//! `kernel/gpreempt/uapi/gpreempt.h` defines them, and their conversions to and from the types of the scheduling core.
//!
//! The header describes the calls. Structures are bytes through [`Abi`], requests come from [`Argument::COMMAND`].
//! Enumerations and flag sets are newtypes, so that a value of a newer module passes through. Towards the core every
//! value is checked: what the core has no word for is [`Invalid`].
//!
//! ```
//! use gpreempt_core::{JobParams, Level};
//! use gpreempt_kernel_abi::{Argument, Invalid, JobArgs, RawJobParams};
//!
//! let params = JobParams { level: Level::MAX, ..JobParams::default() };
//! let args = JobArgs { job: 7, params: params.into(), ..JobArgs::SIZED };
//! assert_eq!(JobArgs::COMMAND.request().0, 0x4060_B905);
//! assert_eq!(JobParams::try_from(args.params), Ok(params));
//!
//! let wrong = RawJobParams { level: 16, ..args.params };
//! assert_eq!(JobParams::try_from(wrong), Err(Invalid("level")));
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod control;
mod convert;
mod event;
mod policy;
mod status;

pub use control::{
    CLAIM, CLEAR, COMMANDS, QUERY, REMOVE_JOB, SET_CGROUP, SET_GPU, SET_JOB, SET_PROCESS, SETTINGS, VERSION,
};
pub use control::{Claim, Features, ModuleMode, ModuleSettings, ModuleVersion, ModuleWatch};
pub use convert::Invalid;
pub use event::{ModuleEvent, ModuleEventKind, RawBound, RawReason};
pub use kfd_abi::Abi;
pub use kfd_abi::ioctl::{Argument, Command, Request};
pub use policy::{CgroupArgs, GpuArgs, JobArgs, ProcessArgs, ProcessFlags, RemoveJobArgs};
pub use policy::{RawGpuParams, RawJobParams, RawPatience, RawPolicy};
pub use status::{GpuFlags, GpuRecord, JobRecord, QueryArgs, QueryKind, RawActivity, TenantFlags, TenantRecord, Times};

/// Path of the control device.
pub const DEVICE: &str = "/dev/gpreempt";
/// Version of the interface (`GPREEMPT_ABI_VERSION`).
pub const ABI_VERSION: u32 = 1;
/// Most gpus of a policy (`GPREEMPT_MAX_GPUS`).
pub const MAX_GPUS: usize = 64;
/// Most jobs of a policy (`GPREEMPT_MAX_JOBS`).
pub const MAX_JOBS: usize = 1024;
/// Most tenants of a policy (`GPREEMPT_MAX_TENANTS`).
pub const MAX_TENANTS: usize = 4096;
/// Most cgroups of a policy (`GPREEMPT_MAX_CGROUPS`).
pub const MAX_CGROUPS: usize = 256;
/// Buckets of a histogram (`GPREEMPT_BUCKETS`).
pub const BUCKETS: usize = 24;
/// The driver's own grace period, as a value of [`ModuleSettings::grace`].
pub const GRACE_DEFAULT: u32 = u32::MAX;
