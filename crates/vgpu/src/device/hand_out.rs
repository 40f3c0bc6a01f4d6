//! Hands workgroups out to workers and takes them back.

use std::cmp::Reverse;
use std::sync::Arc;

use kfd_abi::exception::ExceptionCode;

use super::errors;
use super::process_device::ProcessDevice;
use super::queue::QueueId;
use super::signal;
use super::trap::{self, TrapSetup, WaveMessage};
use super::workgroup::{QuantumReport, Workgroup, WorkgroupOutcome, WorkgroupRun};

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
        let traps = TrapSetup::new(self.trap_handler, &self.wave_control, self.queues.get(&group.queue));
        let (report, outcome) = (QuantumReport::default(), WorkgroupOutcome::Unfinished);
        Some(WorkgroupRun { group, space, generation, traps, report, outcome })
    }

    /// Takes a workgroup back after a quantum.
    pub fn put_back(&mut self, work: WorkgroupRun) {
        let WorkgroupRun { mut group, space, traps, report, outcome, .. } = work;
        let id = group.queue;
        for (stop, pc) in report.stops {
            self.interrupts.wave_stopped(id, &errors::of_wave(&stop, pc).to_string());
        }
        for WaveMessage { payload, is_privileged } in report.messages {
            if is_privileged {
                self.interrupts.trap_message(payload);
            } else {
                self.interrupts.message(payload);
            }
        }
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
                    self.with_queue(id, |queue, cx| {
                        signal::complete(cx, dispatch.signal, started)?;
                        dispatch.packet.map_or(Ok(()), |packet| queue.completed(cx, packet))
                    });
                }
            }
            WorkgroupOutcome::Stopped { wave, stop } => {
                let member = group.waves.get_mut(wave);
                let halt = errors::of_wave(&stop, member.as_ref().map_or(0, |member| member.wave.pc));
                // The mapping may have been made after the quantum began; then the access succeeds the next time.
                let outdated = matches!(halt, errors::Halt::Fault(_)) && !Arc::ptr_eq(&space, &self.space);
                match (halt, member) {
                    _ if outdated => self.keep(group),
                    // The driver leaves it to the debugger; otherwise it evicts the process.
                    (errors::Halt::Fault(fault), Some(member))
                        if traps.is_debugged && traps.handler.is_some() && !member.wave.is_privileged() =>
                    {
                        trap::record(&mut member.wave, &stop);
                        self.keep(group);
                        self.interrupts.fault(id, fault);
                    }
                    (halt, _) => {
                        self.keep(group);
                        self.halt(id, halt);
                    }
                }
            }
            WorkgroupOutcome::TrapHandlerFailed { wave } => {
                self.keep(group);
                let text = format!("the trap handler of wave {wave} does not return");
                self.halt(id, errors::Halt::error(ExceptionCode::QUEUE_PREEMPTION_ERROR, text));
            }
        }
    }

    /// Stores a workgroup that no worker holds: as ready, halted or parked.
    fn keep(&mut self, mut group: Workgroup) {
        let Some(queue) = self.queues.get_mut(&group.queue) else { return self.recycle(group) };
        if queue.active() {
            // Only a change of its save area can set it going.
            if group.is_halted() {
                self.halted.push(group);
            } else {
                self.ready.push_back(group);
            }
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
        let mut off: Vec<_> = self.halted.extract_if(.., |group| group.queue == id).collect();
        for list in [&mut self.ready, &mut self.returning] {
            let (leaving, rest): (Vec<_>, _) = list.drain(..).partition(|group| group.queue == id);
            list.extend::<Vec<_>>(rest);
            off.extend(leaving);
        }
        for mut group in off {
            if let Some(place) = group.leave() {
                self.slots.give(&place);
            }
            queue.parked.push(group);
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
        let mut waves = launch.waves(number, &place, &mut self.pool);
        waves.iter_mut().for_each(|member| trap::launch(&mut member.wave, &self.wave_control));
        Some(Workgroup {
            queue: *id,
            queue_serial: queue.serial,
            dispatch: dispatch.serial,
            id: number,
            waves,
            lds: self.pool.lds(launch.lds),
            launch,
            place: Some(place),
            was: None,
            gws: Arc::clone(&queue.gws),
        })
    }
}
