//! The kinds of read index that a packet processor may have.
//!
//! No document of AMD's says when the read index of an AQL queue passes a packet. What their software expects:
//!
//! - ROCdbgapi (`aql_queue_t::get_os_queue_packet_id`) takes a wave of a suspended queue whose packet is not between
//!   read index and write index for a fatal error, so the index of a *suspended* queue has not passed a packet with
//!   waves;
//! - ROCR-Runtime (`AqlQueue::AsyncReclaimMainScratch`) frees scratch memory when the index has passed the last
//!   dispatch that uses it, so the index of a *running* queue has not passed a packet with waves either;
//! - gem5's model of the packet processor, which AMD wrote (`AQLRingBuffer::freeEntry`), retires packets in order.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// When the read index of an AQL queue passes a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadIndexKind {
    /// When the packet and all before it have completed.
    #[default]
    Retire,
    /// When the packet is fetched. While the queue is saved, the index is that of the oldest packet that has not
    /// completed.
    FetchRewoundAtSave,
    /// When the packet is fetched.
    Fetch,
}

impl ReadIndexKind {
    /// All kinds by name.
    pub const NAMES: [(&str, ReadIndexKind); 3] = [
        ("retire", ReadIndexKind::Retire),
        ("fetch-rewound-at-save", ReadIndexKind::FetchRewoundAtSave),
        ("fetch", ReadIndexKind::Fetch),
    ];

    /// The name that profiles use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ReadIndexKind::Retire => "retire",
            ReadIndexKind::FetchRewoundAtSave => "fetch-rewound-at-save",
            ReadIndexKind::Fetch => "fetch",
        }
    }
}

/// Why a text names no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected retire, fetch-rewound-at-save or fetch")]
pub struct ReadIndexError;

impl FromStr for ReadIndexKind {
    type Err = ReadIndexError;

    fn from_str(text: &str) -> Result<Self, ReadIndexError> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind).ok_or(ReadIndexError)
    }
}
