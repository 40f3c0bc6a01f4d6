//! Derives the activity of a tenant from its memory: indices, head packets, completion signals.
//!
//! Whether the read index of a queue passes a packet when it is fetched or when it has retired is not documented, and
//! one that passes at fetch may come back while the queue is saved. What is said here is right for each kind. Of each
//! ring it is asked in turn (`ring`):
//!
//! - what the index has passed and is unfinished, by the completion signals of those packets (`in_flight`). A wait that
//!   was fetched holds up everything behind it;
//! - what the index stands at (`packets`): it may not be written yet, wait for a signal that has not fired, be about to
//!   begin, or have begun;
//! - where packets have no signals, or something stays as it is for too long: a sample of the occupancy, which the host
//!   is asked for with [`TenantActivity::unsure`] and hands over with [`TenantProbe::sampled`]. Programs use signals
//!   again, so none is trusted for ever.
//!
//! Where kernels of a tenant were found on the gpu while the index stood at them, the index tells the end of its work
//! alone (`retirement`).
//!
//! A [`TenantProbe`] joins the rings of one tenant. Copy queues are none of its rings: a tenant that only copies is
//! idle.

use gpreempt_core::{Activity, Nanos};
use kfd::ProcessMemory;

mod confidence;
mod in_flight;
mod packets;
mod probe;
mod retirement;
mod ring;

#[cfg(test)]
pub(crate) mod tests;

pub use probe::{TenantProbe, Unreadable};

/// What one poll of a tenant found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantActivity {
    /// What it does.
    pub activity: Activity,
    /// Since when it has, or lacks, work, as far as known.
    pub since: Nanos,
    /// Packets that the read index has not passed.
    pub pending: u64,
    /// Whether only a sample of the occupancy can tell if it still runs.
    pub unsure: bool,
}

/// Every read of a tenant's memory is of an instant of its own, between which the tenant goes on; this is where the
/// next begins, and where tests let it go on.
fn next_instant(memory: &ProcessMemory) -> &ProcessMemory {
    #[cfg(test)]
    tests::instants::pass();
    memory
}
