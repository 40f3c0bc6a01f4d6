//! A small KFD runtime: memory, queues, signals and code objects on the driver interface of AMD gpus.
//!
//! It makes the calls of the vendor's runtime, in the same order and under the same rules, with no library between it
//! and the driver. A process opens one [`Runtime`]; it yields [`Device`]s, and those yield [`Buffer`]s, [`Signal`]s and
//! queues. Every object is given back when dropped, queues before the memory they use.

mod arguments;
mod code_object;
mod device;
mod driver;
mod error;
mod event;
mod mapping;
mod memory;
mod node;
mod packet;
mod queue;
mod scratch;
mod sdma;
mod signal;

pub use arguments::Arguments;
pub use code_object::{CodeObject, CodeObjectError, Descriptor, Executable, Kernel};
pub use device::{Device, Runtime};
pub use error::{Error, Result};
pub use memory::{Buffer, GpuAddr, Placement};
pub use node::GpuNode;
pub use packet::{Launch, Order};
pub use queue::Queue;
pub use sdma::CopyQueue;
pub use signal::Signal;
