//! How often a gpu's queues were taken off it, why, and how long that took.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver::Cause;
use crate::protocol::CycleStatus;

/// One cycle.
pub(super) struct Cycle {
    /// From the request until everything is back, as far as the model says when that is.
    pub(super) took: Duration,
    /// From the request until the last wave had stopped.
    pub(super) stopped: Duration,
    /// Share of the profile's model in it.
    pub(super) modelled: Duration,
    /// Waves that were saved.
    pub(super) waves: u64,
    /// Bytes that were saved.
    pub(super) bytes: u64,
    /// Bytes that were told to come back.
    pub(super) restored: u64,
}

/// All cycles of a gpu.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Tallies {
    by_cause: BTreeMap<Cause, CycleStatus>,
}

impl Tallies {
    pub(super) fn add(&mut self, cause: Cause, cycle: Cycle) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let sum = self.by_cause.entry(cause).or_default();
        sum.count += 1;
        sum.total_ns += nanoseconds(cycle.took);
        sum.max_ns = sum.max_ns.max(nanoseconds(cycle.took));
        sum.stop_total_ns += nanoseconds(cycle.stopped);
        sum.stop_max_ns = sum.stop_max_ns.max(nanoseconds(cycle.stopped));
        sum.modelled_ns += nanoseconds(cycle.modelled);
        sum.with_waves += u64::from(cycle.waves > 0);
        sum.waves += cycle.waves;
        sum.bytes += cycle.bytes;
        sum.restored_bytes += cycle.restored;
    }

    /// By cause.
    pub(in super::super) fn by_cause(&self) -> &BTreeMap<Cause, CycleStatus> {
        &self.by_cause
    }
}
