//! A safe client of amdkfd, the compute driver behind `/dev/kfd`, for programs that observe and suspend the queues of
//! other processes.
//!
//! [`topology::gpus`] lists the gpus of the machine, [`process::list`] the processes that use them. A [`Tracer`] is a
//! debug session with one process: it holds the ptrace relation, reports new queues, and takes queues off the gpu and
//! puts them back. [`ProcessMemory`] reads what the driver does not report, such as the indices of a ring. [`Kfd`] has
//! one function for each debug operation of the driver, and [`device`] the one `ioctl` under all of them. A
//! [`Switcher`] stops and resumes queues of many processes in one cycle, where the driver has the patch for it. A
//! [`KernelScheduler`] is the scheduler in the kernel, which decides by itself.
//!
//! Nothing here starts work on a gpu or allocates video memory.
#![cfg(target_os = "linux")]

pub mod debugfs;
pub mod device;
mod driver;
mod error;
mod id;
mod kernel_scheduler;
pub mod memory;
pub mod process;
pub mod ptrace;
mod queues;
pub mod sched;
mod switch;
mod sys;
pub mod topology;
mod tracer;
pub mod waiting;

pub use device::{KFD, KfdDevice, Version};
pub use driver::{Kfd, Raised};
pub use error::{Error, Result};
pub use id::{GpuId, Pid, QueueId};
pub use kernel_scheduler::KernelScheduler;
pub use memory::ProcessMemory;
pub use process::Processes;
pub use queues::{Batch, Grace, QueueResult};
pub use switch::{SwitchAction, SwitchEntry, Switched, Switcher};
pub use tracer::{Calls, Event, Tracer};

pub use kfd_abi::debug::{QueueSnapshotEntry, RuntimeInfo, RuntimeState, TrapOp};
pub use kfd_abi::exception::ExceptionMask;
pub use kfd_abi::queue::QueueType;
pub use kfd_abi::sched::{CONTEXT_PRIMARY, Queue as SwitchQueue, QueueFlags};
pub use kfd_abi::sysfs::SysfsQueueType;
pub use kfd_abi::topology::{Capability, GfxVersion};
