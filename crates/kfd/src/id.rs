//! Names of processes, queues and gpus. Three kinds of number that must not be mixed up.

use std::fmt;

/// A process: the id of its thread-group leader, in the namespace of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub u32);

/// A queue: unique within its process, over all gpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// A gpu: the id of the topology, not an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuId(pub u32);

impl Pid {
    /// As the C library takes it.
    #[must_use]
    pub fn raw(self) -> libc::pid_t {
        // No process has a number that large; one that does not exist answers the same.
        self.0.try_into().unwrap_or(libc::pid_t::MAX)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for GpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
