//! What `gpreempt demo`, `bench` and `soak` have in common: a gpu, programs on it, and a daemon beside them.
//!
//! Everything runs in processes of its own, which end with the command that started them.

pub(crate) mod block;
pub(crate) mod daemon;
pub(crate) mod interrupt;
pub(crate) mod measure;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod tally;
pub(crate) mod workload;
