//! The structures and numbers of amdkfd, the compute driver behind `/dev/kfd`, as Linux 6.12 defines them (interface
//! version 1.17), and those of its neighbours that a compute process and a virtual device have to agree on: AQL
//! packets, queue and signal objects, the context save area, the queue descriptor (MQD), the sysfs topology.
//!
//! One module per concern. Names follow the driver's where a name has to be found in its sources; the C name stands in
//! the documentation of each structure. Enumerations and flag sets are newtypes over the integer, so a value that this
//! version does not know passes through unharmed. Nothing here calls the driver and nothing needs `unsafe`: bytes
//! become structures and back through [`Abi`], unions are words with typed views ([`Union`]).
//!
//! ```
//! use kfd_abi::{Abi, debug, ioctl};
//!
//! let suspend = debug::SuspendQueues { num_queues: 2, grace_period: 1, ..Default::default() };
//! let args = debug::DbgTrapArgs::new(4711, suspend);
//! assert_eq!(ioctl::DBG_TRAP.request().0, 0xC020_4B26);
//!
//! let mut bytes = [0; debug::DbgTrapArgs::SIZE];
//! args.encode(&mut bytes).unwrap();
//! let seen = debug::DbgTrapArgs::decode(&bytes).unwrap();
//! assert_eq!(seen.get::<debug::SuspendQueues>(), Some(suspend));
//! assert_eq!(seen.get::<debug::ResumeQueues>(), None);
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("amdkfd refuses 32-bit processes, and its structures are little-endian");

#[macro_use]
mod macros;

pub mod aql;
mod bytes;
pub mod control_stack;
pub mod criu;
pub mod cwsr;
pub mod debug;
pub mod drm;
pub mod event;
pub mod exception;
pub mod hsa;
pub mod ioctl;
pub mod memory;
pub mod mqd;
pub mod process;
pub mod queue;
pub mod save_area;
pub mod sched;
pub mod smi;
pub mod svm;
pub mod sysfs;
pub mod topology;

#[doc(hidden)]
pub use bytes::field_size;
pub use bytes::{Abi, Union};

/// Page size the driver's rules are written in.
pub const PAGE_SIZE: u32 = 4096;

/// `value` rounded up to a multiple of `to`, a power of two.
const fn align_up(value: u64, to: u64) -> u64 {
    (value + to - 1) & !(to - 1)
}
