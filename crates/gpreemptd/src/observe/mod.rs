//! Derives the activity of a tenant from its memory: indices, head packets, completion signals.
//!
//! The processor moves the read index when it fetches a packet, not when the work is done, so three things are asked of
//! each ring in turn (`ring`):
//!
//! - what was fetched and is unfinished, by the completion signals of those packets (`in_flight`). A wait that was
//!   fetched holds up everything behind it;
//! - whether the next packet could begin: it may not be written yet, or wait for a signal that has not fired;
//! - where packets have no signals, or a signal stays as it is for too long: a sample of the occupancy, which the host
//!   is asked for with [`TenantActivity::unsure`] and hands over with [`TenantProbe::sampled`]. Programs use signals
//!   again, so none is trusted for ever.
//!
//! A [`TenantProbe`] joins the rings of one tenant. Copy queues are none of its rings: a tenant that only copies is
//! idle.

use gpreempt_core::{Activity, Nanos};
use kfd::ProcessMemory;

mod confidence;
mod in_flight;
mod probe;
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
    /// Packets not yet fetched.
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
