//! Fault injection: a gpu that does not answer in one chosen cycle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts the cycles of all gpus and lets one of them fail.
#[derive(Debug)]
pub(in super::super) struct Fault {
    /// The first cycle that may fail, counted from 1.
    at: Option<u64>,
    cycles: AtomicU64,
    happened: AtomicBool,
}

impl Fault {
    pub(in super::super) fn new(at: Option<u64>) -> Self {
        Self { at, cycles: AtomicU64::new(0), happened: AtomicBool::new(false) }
    }

    /// Counts a cycle and returns whether it is the one that fails. A cycle of a gpu that no process occupies cannot
    /// fail: then a later one does.
    pub(super) fn fails(&self, is_occupied: bool) -> bool {
        let cycle = self.cycles.fetch_add(1, Ordering::Relaxed) + 1;
        is_occupied && self.at.is_some_and(|at| cycle >= at) && !self.happened.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cycle_from_the_given_one_on_with_a_process_on_the_gpu_fails() {
        let fault = Fault::new(Some(3));
        let cycles = [true, true, false, false, true, true];
        assert_eq!(cycles.map(|is_occupied| fault.fails(is_occupied)), [false, false, false, false, true, false]);
        let never = Fault::new(None);
        assert!(!(0..10).any(|_| never.fails(true)));
    }
}
