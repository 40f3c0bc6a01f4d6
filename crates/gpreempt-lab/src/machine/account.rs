//! Accounting: the time in which tasks are stopped or starve, the trace, and the outcome of a run.

use gpreempt_core::Nanos;

use super::Machine;
use super::queue::block;
use crate::outcome::{RunOutcome, TaskOutcome, TraceEvent, TraceKind};
use crate::workload::Role;

/// Figures of the whole machine; see [`RunOutcome`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) preemptions: u64,
    pub(super) cycles: u64,
    pub(super) cycle_time: Nanos,
    pub(super) repeated_kernels: u64,
    pub(super) events: u64,
}

/// The times in which a task had unfinished work and nothing of it advanced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Starvation {
    since: Nanos,
    /// When the last such time ended; [`Nanos::NEVER`] while one lasts.
    until: Nanos,
    pub(super) longest: Nanos,
}

impl Starvation {
    /// Notes that from `now` on the task starves, or no longer.
    pub(super) fn set(&mut self, now: Nanos, starves: bool) {
        match (self.until == Nanos::NEVER, starves) {
            (false, true) => {
                // Between two consecutive cycles a task runs for no time at all: the starvation continues.
                if self.until != now {
                    self.since = now;
                }
                self.until = Nanos::NEVER;
            }
            (true, false) => {
                self.until = now;
                self.longest = self.longest.max(now.since(self.since));
            }
            _ => {}
        }
    }
}

impl Machine {
    /// Sets and clears bits of [`block`], and accounts the time for which the mechanism keeps the queue from running.
    pub(super) fn set_block(&mut self, q: usize, set: u8, clear: u8) {
        let now = self.now;
        let queue = &mut self.queues[q];
        let before = queue.kept();
        queue.blocked = (queue.blocked | set) & !clear;
        let after = queue.kept();
        if before == after {
            return;
        }
        let (task, gpu) = (queue.task, queue.gpu);
        if after {
            queue.kept_since = Some(now);
            self.clients[task].kept += 1;
        } else {
            let since = queue.kept_since.take();
            self.clients[task].kept -= 1;
            if let Some(at) = since {
                self.record(at, now.since(at), Some(task), gpu, TraceKind::Stopped);
            }
        }
        self.account_kept(task);
    }

    /// Counts a preemption when a task that is kept from running has work, once until it may run again.
    pub(super) fn account_kept(&mut self, task: usize) {
        let client = &mut self.clients[task];
        if client.kept == 0 {
            client.preempted = false;
        } else if client.current.is_some() && !client.preempted {
            client.preempted = true;
            self.figures.preemptions += 1;
        }
    }

    /// Notes that the work on a gpu no longer advances, or advances again.
    pub(super) fn account_frozen(&mut self, g: usize, frozen: bool) {
        for batch in self.gpus[g].batches.iter().filter(|batch| !batch.spins()) {
            let client = &mut self.clients[self.queues[batch.queue as usize].task];
            client.account_batch(self.now, !frozen);
        }
    }

    /// Ends the span in which a queue's head kernel was on the gpu.
    pub(super) fn close_span(&mut self, q: usize) {
        let queue = &mut self.queues[q];
        let Some(at) = queue.span.take() else {
            return;
        };
        if self.trace.is_none() {
            return;
        }
        let (task, gpu) = (queue.task, queue.gpu);
        if let (Some(head), Some(request)) = (queue.head, self.clients[task].current) {
            let what = TraceKind::Kernel { request: request.number, index: head.index, repeated: head.repeated };
            self.record(at, self.now.since(at), Some(task), gpu, what);
        }
    }

    /// Adds to the trace, if the run is recorded.
    pub(super) fn record(&mut self, at: Nanos, length: Nanos, task: Option<usize>, gpu: usize, what: TraceKind) {
        if let Some(trace) = self.trace.as_mut() {
            trace.push(TraceEvent { at, length, task, gpu, what });
        }
    }

    /// Records that the mechanism detected that `task` waits on `gpu` behind a lower level.
    pub fn detected(&mut self, task: usize, gpu: usize) {
        self.record(self.now, Nanos::ZERO, Some(task), gpu, TraceKind::Detected);
    }

    /// Completes the accounts at the end of the run.
    pub(super) fn close(&mut self) {
        self.now = self.duration;
        for g in 0..self.gpus.len() {
            // A frozen gpu has not advanced since the cycle began.
            let clock = self.gpus[g].cycle.as_ref().map_or(self.now, |cycle| cycle.began);
            for batch in std::mem::take(&mut self.gpus[g].batches) {
                self.retire(g, batch, batch.left_at(clock));
            }
            debug_assert_eq!(self.gpus[g].free, self.device.total, "all slots come back");
        }
        for q in 0..self.queues.len() {
            self.close_span(q);
            self.set_block(q, 0, block::STOPPED | block::KEPT);
        }
        for client in &mut self.clients {
            client.close(self.now);
        }
    }

    /// Returns the result of a finished run.
    pub(super) fn outcome(self, mechanism: &'static str) -> RunOutcome {
        let mut trace = self.trace.unwrap_or_default();
        // Spans are written when they end. The sort is stable, so that equal starts keep that order.
        trace.sort_by_key(|event| event.at);
        let offline = self.clients.iter().filter(|client| client.role == Role::Offline);
        let longest_starved = offline.map(|client| client.starvation.longest).max();
        RunOutcome {
            mechanism,
            duration: self.duration,
            tasks: self
                .clients
                .into_iter()
                .map(|client| TaskOutcome {
                    name: client.name,
                    role: client.role,
                    level: client.level,
                    completed: client.completed,
                    skipped: client.skipped,
                    unfinished: client.unfinished,
                    kernels: client.kernels,
                    latency: client.latency,
                    busy: client.busy,
                })
                .collect(),
            preemptions: self.figures.preemptions,
            cycles: self.figures.cycles,
            cycle_time: self.figures.cycle_time,
            repeated_kernels: self.figures.repeated_kernels,
            longest_starved: longest_starved.unwrap_or_default(),
            events: self.figures.events,
            trace,
        }
    }
}
