//! State of one gpu: free resources, resident batches, queues that want slots, and the runlist.

use std::collections::VecDeque;

use gpreempt_core::Nanos;

use super::cycle::{Call, Running};
use super::device::Resources;

/// Workgroups of one kernel that started together and end together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) queue: u32,
    pub(super) count: u32,
    /// Index of the kernel's shape.
    pub(super) shape: u32,
    /// When they end; [`Nanos::NEVER`] while they spin in a collective.
    pub(super) end: Nanos,
    /// Time they still need; kept up to date only while they spin.
    pub(super) left: Nanos,
    /// Time they needed when they were put here.
    pub(super) needed: Nanos,
}

impl Batch {
    /// Time the workgroups still need, for a gpu whose clock stood still at `now`.
    pub(super) fn left_at(&self, now: Nanos) -> Nanos {
        if self.spins() { self.left } else { self.end.since(now) }
    }

    pub(super) fn spins(&self) -> bool {
        self.end == Nanos::NEVER
    }
}

/// A queue that wants slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanting {
    /// When the doorbell of its head kernel rang.
    pub(super) rung: Nanos,
    pub(super) queue: usize,
    /// Index of the kernel's shape.
    pub(super) shape: usize,
}

impl Wanting {
    pub(super) fn key(&self) -> (Nanos, usize) {
        (self.rung, self.queue)
    }
}

/// One gpu.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) free: Resources,
    pub(super) batches: Vec<Batch>,
    /// Instant of the completion event that is not stale.
    pub(super) next_end: Nanos,
    /// Queues that want slots, the earliest doorbell first.
    pub(super) wanting: Vec<Wanting>,
    /// Whether one of them may have saved workgroups that did not fit yet.
    pub(super) saved_wait: bool,
    /// Whether a change may let workgroups start.
    pub(super) dirty: bool,
    /// The queue whose turn it is under round robin.
    pub(super) turn: usize,
    /// Queues in the order of the runlist: newest process first.
    pub(super) runlist: Vec<usize>,
    /// Where the mapped part of an over-subscribed runlist begins.
    pub(super) window: usize,
    /// When the firmware last rotated it.
    pub(super) rotated: Nanos,
    /// Instant of the rotation event that is not stale.
    pub(super) rotation: Nanos,
    /// Whether a rotation is in progress, or waits for another cycle.
    pub(super) rotating: bool,
    /// The cycle in progress. The gpu is frozen meanwhile.
    pub(super) cycle: Option<Running>,
    /// Calls that wait for it.
    pub(super) waiting: VecDeque<Call>,
}

impl Gpu {
    pub(super) fn new(total: Resources) -> Gpu {
        Gpu {
            free: total,
            batches: Vec::with_capacity(16),
            next_end: Nanos::NEVER,
            wanting: Vec::with_capacity(16),
            saved_wait: false,
            dirty: false,
            turn: 0,
            runlist: Vec::new(),
            window: 0,
            rotated: Nanos::ZERO,
            rotation: Nanos::NEVER,
            rotating: false,
            cycle: None,
            waiting: VecDeque::new(),
        }
    }

    /// Returns whether a cycle is in progress, so that nothing on the gpu advances.
    pub(super) fn frozen(&self) -> bool {
        self.cycle.is_some()
    }

    /// Returns the earliest end of a batch.
    pub(super) fn earliest_end(&self) -> Nanos {
        self.batches.iter().map(|batch| batch.end).min().unwrap_or(Nanos::NEVER)
    }
}
