//! The rules, one file for each interface of the driver.

mod calls;
mod cycles;
mod debugfs;
mod events;
mod ladder;
mod memory;
pub(crate) mod packets;
mod queues;
mod save_area;
mod session;
mod snapshot;
mod suspend;
mod sysfs;
pub(crate) mod waves;

use crate::rule::DriverRule;

/// All rules, in the order in which they are tested.
pub(crate) const ALL: &[&[DriverRule]] = &[
    calls::RULES,
    ladder::RULES,
    session::RULES,
    suspend::RULES,
    snapshot::RULES,
    queues::RULES,
    memory::RULES,
    events::RULES,
    sysfs::RULES,
    debugfs::RULES,
    save_area::RULES,
    cycles::RULES,
    packets::RULES,
    waves::RULES,
];

/// An address that no program has.
pub(crate) const NOWHERE: u64 = 0xDEAD_0000_0000_1000;
/// An address that a program could have, and has not.
pub(crate) const UNMAPPED: u64 = 0x1000;
