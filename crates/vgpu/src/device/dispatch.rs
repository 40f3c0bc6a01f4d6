//! Dispatches under way.

use std::collections::VecDeque;
use std::sync::Arc;

use super::launch::Launch;

/// Dispatches of one queue that may overlap.
const MOST: usize = 64;

/// A dispatch: what was started of it and what has ended.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) serial: u64,
    pub(crate) launch: Arc<Launch>,
    /// Workgroup to start next, if any are left.
    next: [u32; 3],
    /// Workgroups not started.
    unstarted: u64,
    /// Workgroups started and not ended.
    running: u64,
    /// Signal to decrement at the end, or 0.
    pub(crate) signal: u64,
    /// When the first workgroup started.
    pub(crate) started: Option<u64>,
}

impl Dispatch {
    /// The workgroup to start next.
    pub(crate) fn next(&self) -> [u32; 3] {
        self.next
    }

    /// The next workgroup was started.
    pub(crate) fn start(&mut self, clock: fn() -> u64) {
        self.started.get_or_insert_with(clock);
        self.next = self.launch.after(self.next);
        self.unstarted -= 1;
        self.running += 1;
    }
}

/// The dispatches of a queue, in the order of their packets. A later one starts when all workgroups of those before
/// it have been started; whether they have ended does not matter (the barrier bit is for that).
#[derive(Debug, Default)]
pub(crate) struct Dispatches {
    list: VecDeque<Dispatch>,
    serial: u64,
}

impl Dispatches {
    /// Nothing is under way.
    pub(crate) fn idle(&self) -> bool {
        self.list.is_empty()
    }

    /// No further one may join.
    pub(crate) fn full(&self) -> bool {
        self.list.len() >= MOST
    }

    /// Adds a dispatch of `workgroups` workgroups.
    pub(crate) fn push(&mut self, launch: Launch, workgroups: u64, signal: u64) {
        self.serial += 1;
        let next = launch.start;
        self.list.push_back(Dispatch {
            serial: self.serial,
            launch: Arc::new(launch),
            next,
            unstarted: workgroups,
            running: 0,
            signal,
            started: None,
        });
    }

    /// The dispatch whose workgroups are to be started.
    pub(crate) fn startable(&self) -> Option<&Dispatch> {
        self.list.iter().find(|dispatch| dispatch.unstarted > 0)
    }

    /// The same, to change it.
    pub(crate) fn startable_mut(&mut self) -> Option<&mut Dispatch> {
        self.list.iter_mut().find(|dispatch| dispatch.unstarted > 0)
    }

    /// A workgroup ended; the dispatch if that was its last.
    pub(crate) fn end_workgroup(&mut self, serial: u64) -> Option<Dispatch> {
        let index = self.list.iter().position(|dispatch| dispatch.serial == serial)?;
        let dispatch = &mut self.list[index];
        dispatch.running = dispatch.running.saturating_sub(1);
        if dispatch.running > 0 || dispatch.unstarted > 0 {
            return None;
        }
        self.list.remove(index)
    }
}
