//! The laboratory: gpus, workloads and preemption mechanisms in virtual time.
//!
//! A run is a pure function of profile, workload, mechanism and seed: equal input gives equal bytes of output.
#![forbid(unsafe_code)]

pub mod experiment;
pub mod input;
pub mod machine;
pub mod mechanism;
pub mod outcome;
pub mod perfetto;
pub mod profile;
pub mod workload;

pub use outcome::RunOutcome;
pub use profile::Profile;
pub use workload::Workload;
