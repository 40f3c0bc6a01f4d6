//! Preemption at random instruction counts, which a program must not notice (`gpreempt vgpu storm`).

use std::sync::{Mutex, PoisonError};

use crate::device::ProcessDevice;
use crate::options::Storm;

/// Source of the preemptions of one worker.
pub(super) struct PreemptionFuzzer {
    state: u64,
    mean: u64,
}

impl PreemptionFuzzer {
    pub(super) fn new(storm: Storm) -> Self {
        Self { state: storm.seed, mean: storm.mean_instructions.max(1) }
    }

    /// Returns the next number of SplitMix64. Written out, because ten lines are less than a dependency of the preload
    /// library, and because a seed must give the same storm for ever.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns the instructions until the next preemption, uniformly distributed up to twice the mean.
    pub(super) fn quantum(&mut self) -> u64 {
        1 + self.next() % (2 * self.mean)
    }

    /// Preempts all queues that have waves on the device.
    pub(super) fn preempt_all(&mut self, device: &Mutex<ProcessDevice>) {
        let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
        for id in device.queue_ids() {
            device.preempt(id);
        }
    }
}
