//! Kernels with known results for AMD gpus, and the code that runs and judges them.
//!
//! [`suite`] holds hand-written kernels with the results they must have, [`corpus`] compares compiled kernels with the
//! same C functions on the host, and [`chain`] runs one kernel over and over so that lost or repeated work shows in the
//! final state. All of them run through [`kfd_runtime`], on a real gpu and on the virtual one.
//!
//! ```no_run
//! use kfd_runtime::Runtime;
//! use kfd_suite::{Bench, suite};
//!
//! let runtime = Runtime::open()?;
//! let mut bench = Bench::new(runtime.device(0)?)?;
//! for test in suite::ALL {
//!     let outcome = test.run(&mut bench, 1)?;
//!     println!("{}: {:?}", test.name, outcome.mismatch);
//! }
//! # Ok::<(), kfd_runtime::Error>(())
//! ```

mod bench;
pub mod chain;
mod checksum;
pub mod corpus;
pub mod suite;

pub use bench::{Bench, Outcome};
pub use checksum::Checksum;
