//! Storms: preemption at random instruction counts, which a program must not notice.

use std::sync::{Mutex, PoisonError};

use crate::device::ProcessDevice;
use crate::options::Storm;

/// Random numbers of one worker.
pub(super) struct PreemptionFuzzer {
    state: u64,
    mean: u64,
}

impl PreemptionFuzzer {
    pub(super) fn new(storm: Storm) -> Self {
        Self { state: storm.seed, mean: storm.mean_instructions.max(1) }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Instructions until the next blow: each number up to twice the mean is as likely as the others.
    pub(super) fn quantum(&mut self) -> u64 {
        1 + self.next() % (2 * self.mean)
    }

    /// Preempts all queues that can be.
    pub(super) fn preempt_all(&mut self, device: &Mutex<ProcessDevice>) {
        let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
        for id in device.queue_ids() {
            device.preempt(id);
        }
    }
}
