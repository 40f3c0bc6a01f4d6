//! State that only the running device has, for files that show it.

use super::ProcessKey;

/// State of a process on the device, at the time of the question.
pub trait Observed {
    /// The 64 bits at an address of a process; `None` if they cannot be read.
    fn read(&self, process: ProcessKey, address: u64) -> Option<u64>;

    /// Waves of a process that are on a gpu, on all its XCCs.
    fn waves(&self, process: ProcessKey, gpu: u32) -> u32;

    /// Microseconds that the process's copies on a gpu took.
    fn sdma_us(&self, process: ProcessKey, gpu: u32) -> u64;
}

/// A device without state: files show what the driver itself knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unobserved;

impl Observed for Unobserved {
    fn read(&self, _: ProcessKey, _: u64) -> Option<u64> {
        None
    }

    fn waves(&self, _: ProcessKey, _: u32) -> u32 {
        0
    }

    fn sdma_us(&self, _: ProcessKey, _: u32) -> u64 {
        0
    }
}
