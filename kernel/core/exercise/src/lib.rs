//! Random decisions of the core through its C functions, and a checksum of all that it answered.
//!
//! The same code runs in a program and in a module of the kernel (`gpreempt_core_exercise.h`): equal checksums show
//! that the object for the kernel decides as the core does elsewhere. Hence nothing here may depend on addresses, on a
//! clock or on anything else that differs between the two; like the core, it does not panic and has no state on the
//! stack.
//!
//! Machines are small, and everything happens to them: gpus change their policy and are reset, jobs and tenants come
//! and go, reports are late, lost or refusals, calls name what does not exist. Beside them, a process writes packets,
//! has them fetched and finished, and is looked at by a probe; its memory is away or gone at times.
#![no_std]
#![deny(clippy::float_arithmetic, clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod interface;
mod machine;
mod numbers;
mod process;
mod settings;

pub use interface::{GpcxResult, gpcx_init, gpcx_result, gpcx_run, gpcx_size};
pub use machine::Machine;
