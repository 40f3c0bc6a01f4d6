//! Says what a tenant does, from its memory: indices, head packets, completion signals.
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
//!
//! # Hosts
//!
//! The rules are the same in the daemon and in a kernel, so they exist here and nowhere else. The host provides the
//! memory of the tenant ([`TenantMemory`]), memory for the states of rings ([`RingStorage`]) and working memory
//! ([`Scratch`]); it has the clock, and serialises the calls for one probe. Nothing here has a clock, allocates, waits,
//! uses floating point or panics, and no function takes more than 1 KiB of stack: a kernel may call it with a lock
//! held. What a tenant writes to its memory, while it is read or otherwise, changes what is said about that tenant, and
//! neither the time that a poll takes at most nor anything else.
//!
//! Memory may be *gone* or *away* ([`ReadFailure`]). What is gone is waited for no longer. What is away changes no
//! conclusion: the poll is [`PollError::Away`], what was told last holds, and the next poll goes on where this one
//! could not.
//!
//! Nothing that is large is moved. In a kernel the storage is a borrowed slice, into each slot of which
//! [`RingState::EMPTY`] was written in place, and the probe beside it is a few words:
//!
//! ```
//! use gpreempt_core::{Activity, Nanos};
//! use gpreempt_observe::*;
//!
//! /// A page with the indices of a queue, from 0x1000 on. The rest is gone.
//! struct Page([u8; 256]);
//!
//! impl TenantMemory for Page {
//!     fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), ReadFailure> {
//!         let at = usize::try_from(address.wrapping_sub(0x1000)).unwrap_or(usize::MAX);
//!         let found = self.0.get(at..at.saturating_add(bytes.len())).ok_or(ReadFailure::Gone)?;
//!         bytes.copy_from_slice(found);
//!         Ok(())
//!     }
//! }
//!
//! let mut slots = [RingState::EMPTY];
//! let mut scratch = Scratch::EMPTY;
//! let mut probe = TenantProbe::new(&mut slots[..]);
//! let (base, bytes, read_index, write_index) = (0x10_0000, 1 << 16, 0x1000, 0x1080);
//! let unwatched = probe.set_rings([RingPlace { format: RingFormat::Aql, base, bytes, read_index, write_index }]);
//! assert_eq!(unwatched, Unwatched::default());
//!
//! let found = probe.poll(&Page([0; 256]), &mut scratch, Nanos::from_millis(1), false)?;
//! assert_eq!((found.activity, found.pending), (Activity::Idle, 0));
//! # Ok::<(), PollError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic, clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "a test that panics has failed, as it should"
    )
)]

#[cfg(test)]
extern crate std;

mod confidence;
mod in_flight;
mod list;
mod memory;
mod packets;
mod place;
mod probe;
mod retirement;
mod ring;
mod scratch;
mod storage;

use gpreempt_core::{Activity, Nanos};

pub use memory::{ReadFailure, TenantMemory};
pub use place::{InvalidRing, RingFormat, RingPlace};
pub use probe::{PollError, TenantProbe, Unwatched};
pub use ring::RingState;
pub use scratch::Scratch;
pub use storage::RingStorage;

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
