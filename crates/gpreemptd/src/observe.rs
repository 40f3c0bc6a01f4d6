//! Observes tenants through `/proc/PID/mem`. The rules are those of [`gpreempt_observe`]; nothing is concluded here.

use std::sync::Arc;

use gpreempt_core::Nanos;
use gpreempt_observe::{
    PollError, ReadFailure, RingPlace, RingState, RingStorage, Scratch, TenantActivity, TenantMemory,
};
use kfd::ProcessMemory;

use crate::discovery::OccupancySample;

/// Memory that the kernel brings back before it answers: what cannot be read is gone.
#[derive(Debug)]
struct OpenMemory(Arc<ProcessMemory>);

impl TenantMemory for OpenMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), ReadFailure> {
        #[cfg(test)]
        tests::count_read();
        self.0.read(address, bytes).map_err(|_| ReadFailure::Gone)
    }
}

/// States of as many rings as a tenant has.
#[derive(Debug, Default)]
struct RingStates(Vec<RingState>);

impl RingStorage for RingStates {
    fn slots(&self) -> &[RingState] {
        &self.0
    }

    fn slots_mut(&mut self) -> &mut [RingState] {
        &mut self.0
    }

    fn make_room(&mut self, rings: usize) {
        if self.0.len() < rings {
            self.0.resize_with(rings, || RingState::EMPTY);
        }
    }
}

/// Polls the rings of one tenant in the memory of its process.
#[derive(Debug)]
pub struct TenantProbe {
    memory: OpenMemory,
    probe: gpreempt_observe::TenantProbe<RingStates>,
    scratch: Box<Scratch>,
}

impl TenantProbe {
    /// Returns a probe of these rings of a process. Rings that cannot be such are left out.
    #[must_use]
    pub fn new(memory: Arc<ProcessMemory>, rings: &[RingPlace]) -> TenantProbe {
        let probe = gpreempt_observe::TenantProbe::new(RingStates::default());
        let mut probe = TenantProbe { memory: OpenMemory(memory), probe, scratch: Box::new(Scratch::EMPTY) };
        probe.set_rings(rings);
        probe
    }

    /// The rings are these now. What is known of those that stay is kept.
    pub fn set_rings(&mut self, rings: &[RingPlace]) {
        if self.probe.set_rings(rings.iter().copied()).invalid > 0 {
            let pid = self.memory.0.pid();
            for why in rings.iter().filter_map(|ring| ring.check().err()) {
                tracing::debug!("a ring of process {pid} is left out: {why}");
            }
        }
    }

    /// Whether a ring could not be read at the last look: there may be another in its place.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.probe.failed()
    }

    /// Whether the read index of this tenant is known to pass packets only when they have retired.
    #[must_use]
    pub fn trusts_index(&self) -> bool {
        self.probe.trusts_index()
    }

    /// Whether the read index was seen to pass work of this tenant that was unfinished.
    #[must_use]
    pub fn refutes_retirement(&self) -> bool {
        self.probe.refutes_retirement()
    }

    /// The read index passes unfinished work on this gpu, of this tenant or of another.
    pub fn refute_retirement(&mut self) {
        self.probe.refute_retirement();
    }

    /// What the tenant does. `stopped`: all its queues are off the gpu by our doing.
    ///
    /// # Errors
    ///
    /// If it has rings and none can be read.
    pub fn poll(&mut self, now: Nanos, stopped: bool) -> Result<TenantActivity, PollError> {
        self.probe.poll(&self.memory, &mut self.scratch, now, stopped)
    }

    /// Takes what was sampled because a poll was unsure. `alone`: no other tenant had waves on the gpu then.
    pub fn sampled(&mut self, sample: &OccupancySample, alone: bool) {
        self.probe.sampled(&self.memory, sample.at, sample.occupied_cus, sample.evicted_ms, alone);
    }
}

#[cfg(test)]
#[allow(dead_code, reason = "the tests of the rules use all of it")]
#[path = "../../gpreempt-observe/tests/wants/fake.rs"]
pub(crate) mod fake;

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        static READS: Cell<u64> = const { Cell::new(0) };
    }

    /// Returns how often this thread has read memory of tenants.
    pub(crate) fn reads() -> u64 {
        READS.get()
    }

    pub(super) fn count_read() {
        READS.set(READS.get() + 1);
    }
}
