//! Dispatches under way.

use std::collections::VecDeque;
use std::sync::Arc;

use super::kernel_launch::KernelLaunch;
use super::slots::{CuPlacement, Need};

/// Dispatches of one queue that may overlap.
const MOST: usize = 64;

/// A dispatch and the progress of its workgroups.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) serial: u64,
    pub(crate) launch: Arc<KernelLaunch>,
    /// Workgroup to start next, if any are left.
    next: [u32; 3],
    /// Workgroups not started.
    unstarted: u64,
    /// Workgroups started and not ended.
    running: u64,
    /// Places of the next workgroups: they are on the device, but have executed nothing.
    reserved: VecDeque<CuPlacement>,
    /// Workgroup to find a place for next, if any are left.
    ahead: [u32; 3],
    /// Workgroups without a place.
    unplaced: u64,
    /// Number of the AQL packet that it is; one that PM4 commands start is none.
    pub(crate) packet: Option<u64>,
    /// Signal to decrement at the end, or 0.
    pub(crate) signal: u64,
    /// Time at which the first workgroup started, in ticks.
    pub(crate) started: Option<u64>,
}

impl Dispatch {
    /// Starts the next workgroup, if it has a place. Returns its number and the place.
    pub(crate) fn start(&mut self, clock: fn() -> u64) -> Option<([u32; 3], CuPlacement)> {
        let place = self.reserved.pop_front()?;
        let number = self.next;
        self.started.get_or_insert_with(clock);
        self.next = self.launch.after(number);
        self.unstarted -= 1;
        self.running += 1;
        Some((number, place))
    }

    /// Returns workgroups with a place to the grid.
    fn withdraw(&mut self) -> impl Iterator<Item = CuPlacement> {
        self.ahead = self.next;
        self.unplaced = self.unstarted;
        self.reserved.drain(..)
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
    /// Returns whether nothing is under way.
    pub(crate) fn idle(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether no further dispatch may overlap.
    pub(crate) fn full(&self) -> bool {
        self.list.len() >= MOST
    }

    /// Adds a dispatch of `workgroups` workgroups, which is the AQL packet `packet` if it is one.
    pub(crate) fn push(&mut self, launch: KernelLaunch, workgroups: u64, packet: Option<u64>, signal: u64) {
        self.serial += 1;
        let next = launch.start;
        self.list.push_back(Dispatch {
            serial: self.serial,
            launch: Arc::new(launch),
            next,
            unstarted: workgroups,
            running: 0,
            reserved: VecDeque::new(),
            ahead: next,
            unplaced: workgroups,
            packet,
            signal,
            started: None,
        });
    }

    /// Returns whether workgroups are left to be started.
    pub(crate) fn startable(&self) -> bool {
        self.list.iter().any(|dispatch| dispatch.unstarted > 0)
    }

    /// Returns the dispatch of the next workgroup with a place.
    pub(crate) fn reserved(&self) -> Option<&Dispatch> {
        self.list.iter().find(|dispatch| !dispatch.reserved.is_empty())
    }

    /// Returns the same dispatch mutably, to start the workgroup.
    pub(crate) fn reserved_mut(&mut self) -> Option<&mut Dispatch> {
        self.list.iter_mut().find(|dispatch| !dispatch.reserved.is_empty())
    }

    /// Returns what the next workgroup without a place needs.
    pub(crate) fn unplaced(&self) -> Option<Need> {
        let dispatch = self.list.iter().find(|dispatch| dispatch.unplaced > 0)?;
        Some(dispatch.launch.need(dispatch.ahead))
    }

    /// Gives the next workgroup without a place one. Returns the place if there is no such workgroup.
    pub(crate) fn reserve(&mut self, place: CuPlacement) -> Option<CuPlacement> {
        let Some(dispatch) = self.list.iter_mut().find(|dispatch| dispatch.unplaced > 0) else { return Some(place) };
        dispatch.ahead = dispatch.launch.after(dispatch.ahead);
        dispatch.unplaced -= 1;
        dispatch.reserved.push_back(place);
        None
    }

    /// Takes back the places of workgroups that have not started.
    pub(crate) fn withdraw(&mut self) -> impl Iterator<Item = CuPlacement> {
        self.list.iter_mut().flat_map(Dispatch::withdraw)
    }

    /// Counts the end of a workgroup. Returns the dispatch if that was its last.
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
