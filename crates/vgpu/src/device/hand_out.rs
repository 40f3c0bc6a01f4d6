//! Workgroups between the dispatcher and the workers.

use std::sync::Arc;

use super::engine::Engine;
use super::errors;
use super::queue::QueueId;
use super::signal;
use super::slots::{Class, Request};
use super::workgroup::{Outcome, Work, Workgroup};

/// Turns that workgroups on the device get before another one joins them. Most end within a few: then few are resident
/// at a time and their registers stay in the cache. Those that wait for others not yet started get them in the end.
const PATIENCE: u32 = 4;

impl Engine {
    /// A workgroup to run, if there is one. It comes back by [`Engine::put_back`].
    pub fn take(&mut self) -> Option<Work> {
        let group = match if self.draining { None } else { self.readmit() } {
            Some(group) => group,
            None if self.draining => self.ready.pop_front()?,
            None => {
                let due = self.ready.is_empty() || self.turns >= PATIENCE;
                let started = if due { self.start() } else { None };
                match started {
                    Some(group) => group,
                    None => {
                        self.turns = self.turns.saturating_add(1);
                        self.ready.pop_front()?
                    }
                }
            }
        };
        if let Some(queue) = self.queues.get_mut(&group.queue) {
            queue.handed_out += 1;
        }
        let (space, generation) = (Arc::clone(&self.space), self.generation);
        Some(Work { group, space, generation, messages: Vec::new(), outcome: Outcome::Unfinished })
    }

    /// Takes a workgroup back after a quantum.
    pub fn put_back(&mut self, work: Work) {
        let Work { group, space, messages, outcome, .. } = work;
        for message in messages {
            self.interrupts.message(message);
        }
        let id = group.queue;
        let Some(queue) = self.queues.get_mut(&id).filter(|queue| queue.serial == group.queue_serial) else {
            return self.recycle(group);
        };
        queue.handed_out = queue.handed_out.saturating_sub(1);
        match outcome {
            Outcome::Unfinished => self.keep(group),
            Outcome::Finished => {
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
            Outcome::Stopped { wave, stop } => {
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

    /// Puts a workgroup where it belongs while nobody runs it.
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
        for member in group.waves.drain(..) {
            self.pool.give_wave(member.wave);
        }
        self.pool.give_lds(std::mem::take(&mut group.lds));
    }

    /// Finds room for a workgroup that comes back to the device.
    fn readmit(&mut self) -> Option<Workgroup> {
        for index in 0..self.returning.len() {
            let group = &self.returning[index];
            if let Some(place) =
                self.slots.take(&Request { need: group.launch.need(group.id), class: Class::Medium, allowed: None })
            {
                let mut group = self.returning.remove(index)?;
                self.counters.landed += 1;
                self.counters.moved += u64::from(group.land(place));
                return Some(group);
            }
        }
        None
    }

    /// Starts a workgroup: of the queue with the highest priority that finds room, and among equals of the one that
    /// has waited longest. A queue whose workgroups wait for room starts no others: what it has started fitted on the
    /// device at one time, and so into its save area.
    fn start(&mut self) -> Option<Workgroup> {
        let mut candidates: Vec<_> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.active() && queue.dispatches.startable().is_some())
            .filter(|(id, _)| self.returning.iter().all(|group| group.queue != **id))
            .map(|(id, queue)| (std::cmp::Reverse(queue.spec.priority), queue.last_start, *id))
            .collect();
        candidates.sort_unstable();
        candidates.into_iter().find_map(|(_, _, id)| self.start_of(id))
    }

    fn start_of(&mut self, id: QueueId) -> Option<Workgroup> {
        let queue = self.queues.get_mut(&id)?;
        let dispatch = queue.dispatches.startable_mut()?;
        let number = dispatch.next();
        let launch = Arc::clone(&dispatch.launch);
        let place = self.slots.take(&Request { need: launch.need(number), class: Class::Medium, allowed: None })?;
        dispatch.start(self.config.clock);
        self.starts += 1;
        self.turns = 0;
        queue.last_start = self.starts;
        Some(Workgroup {
            queue: id,
            queue_serial: queue.serial,
            dispatch: dispatch.serial,
            id: number,
            waves: launch.waves(number, &place, &mut self.pool),
            lds: self.pool.lds(launch.lds),
            launch,
            place: Some(place),
            was: None,
        })
    }
}
