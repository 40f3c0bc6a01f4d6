//! Hands workgroups out to workers and takes them back.

use std::cmp::Reverse;
use std::sync::Arc;

use super::errors;
use super::process_device::ProcessDevice;
use super::queue::QueueId;
use super::signal;
use super::workgroup::{Workgroup, WorkgroupOutcome, WorkgroupRun};

/// Turns that workgroups on the device get before another one joins them. Most end within a few: then few are resident
/// at a time and their registers stay in the cache. Those that wait for others not yet started get them in the end.
const PATIENCE: u32 = 4;

/// Workgroups handed out before places are looked for again, unless there is nothing else to hand out.
const FILL_EVERY: u32 = 8;

impl ProcessDevice {
    /// Hands out a workgroup to run, if there is one. It comes back by [`ProcessDevice::put_back`].
    pub fn take(&mut self) -> Option<WorkgroupRun> {
        self.unfilled += 1;
        if self.unfilled >= FILL_EVERY {
            self.fill();
        }
        let due = !self.draining && (self.ready.is_empty() || self.turns >= PATIENCE);
        let mut started = if due { self.start() } else { None };
        if started.is_none() && self.ready.is_empty() {
            self.fill();
            started = if self.draining { None } else { self.start() };
        }
        let group = match started {
            Some(group) => group,
            None => {
                self.turns = self.turns.saturating_add(1);
                self.ready.pop_front()?
            }
        };
        if let Some(queue) = self.queues.get_mut(&group.queue) {
            queue.handed_out += 1;
        }
        let (space, generation) = (Arc::clone(&self.space), self.generation);
        Some(WorkgroupRun { group, space, generation, messages: Vec::new(), outcome: WorkgroupOutcome::Unfinished })
    }

    /// Takes a workgroup back after a quantum.
    pub fn put_back(&mut self, work: WorkgroupRun) {
        let WorkgroupRun { group, space, messages, outcome, .. } = work;
        for message in messages {
            self.interrupts.message(message);
        }
        let id = group.queue;
        let Some(queue) = self.queues.get_mut(&id).filter(|queue| queue.serial == group.queue_serial) else {
            return self.recycle(group);
        };
        queue.handed_out = queue.handed_out.saturating_sub(1);
        match outcome {
            WorkgroupOutcome::Unfinished => self.keep(group),
            WorkgroupOutcome::Finished => {
                let ended = queue.dispatches.end_workgroup(group.dispatch);
                self.recycle(group);
                if let Some(dispatch) = ended {
                    let started = dispatch.started.unwrap_or_else(self.config.clock);
                    let told = self.with_context(|cx| signal::complete(cx, dispatch.signal, started));
                    if let Err(fault) = told {
                        self.halt(id, fault.into());
                    }
                }
            }
            WorkgroupOutcome::Stopped { wave, stop } => {
                let halt = errors::of_wave(&stop, group.waves.get(wave).map_or(0, |member| member.wave.pc));
                self.keep(group);
                // The mapping may have been made after the quantum began; then the access succeeds the next time.
                let outdated = matches!(halt, errors::Halt::Fault(_)) && !Arc::ptr_eq(&space, &self.space);
                if !outdated {
                    self.halt(id, halt);
                }
            }
        }
    }

    /// Stores a workgroup that no worker holds: as ready, returning or parked.
    fn keep(&mut self, mut group: Workgroup) {
        let Some(queue) = self.queues.get_mut(&group.queue) else { return self.recycle(group) };
        if queue.active() {
            self.ready.push_back(group);
            return;
        }
        if let Some(place) = group.leave() {
            self.slots.give(&place);
        }
        queue.parked.push(group);
    }

    /// Brings the places of a queue's workgroups in line with whether it is active.
    pub(super) fn settle(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.active() {
            self.returning.extend(queue.parked.drain(..));
        } else {
            self.take_off(id);
        }
    }

    /// Takes the workgroups of a queue off the device, except those that workers hold.
    pub(super) fn take_off(&mut self, id: QueueId) {
        self.withdraw(id);
        let Some(queue) = self.queues.get_mut(&id) else { return };
        for list in [&mut self.ready, &mut self.returning] {
            let (off, rest): (Vec<_>, _) = list.drain(..).partition(|group| group.queue == id);
            list.extend::<Vec<_>>(rest);
            for mut group in off {
                if let Some(place) = group.leave() {
                    self.slots.give(&place);
                }
                queue.parked.push(group);
            }
        }
    }

    /// Frees what a workgroup occupies.
    pub(super) fn recycle(&mut self, mut group: Workgroup) {
        if let Some(place) = group.place.take() {
            self.slots.give(&place);
        }
        group.leave_gws();
        for member in group.waves.drain(..) {
            self.pool.give_wave(member.wave);
        }
        self.pool.give_lds(std::mem::take(&mut group.lds));
    }

    /// Starts a workgroup that has its place: of the queue with the highest priority, and among equals of the one that
    /// has waited longest.
    fn start(&mut self) -> Option<Workgroup> {
        let (id, queue) = self
            .queues
            .iter_mut()
            .filter(|(_, queue)| queue.active() && queue.dispatches.reserved().is_some())
            .min_by_key(|(id, queue)| (Reverse(queue.spec.priority), queue.last_start, **id))?;
        let dispatch = queue.dispatches.reserved_mut()?;
        let (number, place) = dispatch.start(self.config.clock)?;
        let launch = Arc::clone(&dispatch.launch);
        self.starts += 1;
        self.turns = 0;
        queue.last_start = self.starts;
        Some(Workgroup {
            queue: *id,
            queue_serial: queue.serial,
            dispatch: dispatch.serial,
            id: number,
            waves: launch.waves(number, &place, &mut self.pool),
            lds: self.pool.lds(launch.lds),
            launch,
            place: Some(place),
            was: None,
            gws: Arc::clone(&queue.gws),
        })
    }
}
