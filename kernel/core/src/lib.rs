//! The scheduling core and the rules of observation as the C functions of `gpreempt_core.h`, which describes them.
//!
//! This is the code that is linked into `gpreempt.ko`, so nothing here may panic, allocate, use floating point or take
//! more than 1 KiB of stack; `cargo xtask kernel core --check` reads the object code. The host serialises the calls.
//!
//! Every argument is checked: pointers for null and alignment, numbers for their range, and whether a scheduler lies
//! where one is said to be. What cannot be checked is that the memory behind a pointer is there.
//!
//! - `memory`: pointers of the caller become references, once they are checked
//! - `place`: the scheduler in the memory that the caller provides
//! - `scheduler`: what changes the scheduler
//! - `state`: what only reads it
//! - `probe`: what the queues of a process do, by the rules of `gpreempt-observe`
#![no_std]
#![deny(clippy::float_arithmetic, clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(test)]
extern crate std;

mod errno;
mod memory;
mod place;
mod probe;
mod scheduler;
mod state;
mod types;

pub use place::{Gpc, gpc_init, gpc_size};
pub use probe::{GpcActivity, GpcMemory, GpcProbe, GpcRead, GpcRing, gpc_probe_index, gpc_probe_init};
pub use probe::{gpc_probe_poll, gpc_probe_refute, gpc_probe_sampled, gpc_probe_set_rings, gpc_probe_size};
pub use scheduler::{gpc_add_job, gpc_add_tenant, gpc_decide, gpc_hold, gpc_observe, gpc_remove_gpu, gpc_remove_job};
pub use scheduler::{gpc_remove_tenant, gpc_report, gpc_set_gpu, gpc_set_job, gpc_set_resetting, gpc_set_stoppable};
pub use state::{gpc_could_displace, gpc_could_throttle, gpc_gpu_state, gpc_job_state, gpc_wants_occupancy};
pub use types::{GpcEntry, GpcGpuState, GpcJobState, GpcLook, GpcReport};
