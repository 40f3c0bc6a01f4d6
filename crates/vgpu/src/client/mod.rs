//! The virtual gpu as a program sees it: the side of the driver that lives in the client process.
//!
//! The preload library calls these functions from its hooks. Questions about files go to the supervisor; so does every
//! ioctl, and what it answers is carried out here: memory is mapped, queues are given to the executors, events are
//! waited for.

mod attached;
mod call;
mod events;
mod files;
mod memory;
mod paths;
mod session;
mod shared;
mod user;

pub use crate::sysfs::{DirEntry, EntryKind, Node};
pub use call::ioctl;
pub(crate) use events::Events;
pub use files::{added_entries, directory_path, lookup, node_of, open, path_of, resolve};
pub(crate) use memory::Memory;
pub use paths::normalise;
pub use session::{is_in_use, mapped_file, unmapped};
