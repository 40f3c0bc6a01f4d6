//! The environment of a trial: a gpu, programs on it, and a daemon beside them.
//!
//! Everything runs in processes of its own, which end with the trial that started them.

pub(crate) mod block;
pub mod daemon_under_test;
pub(crate) mod gpu_under_test;
pub mod interrupt;
pub(crate) mod managed;
pub(crate) mod measure;
pub(crate) mod other_work;
pub(crate) mod program;
pub(crate) mod tally;
pub(crate) mod training;
pub mod workload;

/// Arguments that make the command start the supervisor of a virtual gpu and leave it in the background.
pub const SUPERVISOR: &[&str] = &["vgpu", "supervise", "--detach"];
