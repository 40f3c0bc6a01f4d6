//! A small KFD runtime: memory, queues, signals and code objects on the driver interface of AMD gpus, and a suite of
//! kernels with the results they must have.
//!
//! It does what the vendor's runtime does, in the same order and with the same rules, and nothing else is between it
//! and the driver. One [`Runtime`] belongs to a process; from it come [`Device`]s, from those [`Buffer`]s, [`Signal`]s
//! and queues. Everything is given back when dropped, queues before the memory they use.
//!
//! ```no_run
//! use kfd_workload::{Bench, Runtime, suite};
//!
//! let runtime = Runtime::open()?;
//! let mut bench = Bench::new(runtime.device(0)?)?;
//! for test in suite::ALL {
//!     let outcome = test.run(&mut bench, 1)?;
//!     println!("{}: {:?}", test.name, outcome.mismatch);
//! }
//! # Ok::<(), kfd_workload::Error>(())
//! ```

mod arguments;
mod bench;
pub mod chain;
mod checksum;
mod code_object;
pub mod corpus;
mod device;
mod driver;
mod error;
mod event;
mod memory;
mod packet;
mod queue;
mod scratch;
mod sdma;
mod signal;
pub mod suite;
mod sys;
mod topology;

pub use arguments::Arguments;
pub use bench::{Bench, Outcome};
pub use checksum::Checksum;
pub use code_object::{CodeObject, CodeObjectError, Descriptor, Executable, Kernel};
pub use device::{Device, Runtime};
pub use driver::KFD;
pub use error::{Error, Result};
pub use memory::{Buffer, GpuAddr, Placement};
pub use packet::{Launch, Order};
pub use queue::Queue;
pub use sdma::CopyQueue;
pub use signal::Signal;
pub use topology::GpuNode;
