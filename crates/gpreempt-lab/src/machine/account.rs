//! Keeping the books: what keeps a task from running and for how long, the trace, and the outcome.

use gpreempt_core::Nanos;

use super::Machine;
use super::queue::block;
use crate::outcome::{Outcome, TaskOutcome, TraceEvent, TraceKind};
use crate::workload::Role;

/// Figures of the whole machine; see [`Outcome`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) preemptions: u64,
    pub(super) cycles: u64,
    pub(super) cycle_time: Nanos,
    pub(super) repeated_kernels: u64,
    pub(super) longest_stop: Nanos,
    pub(super) events: u64,
}

impl Machine {
    /// Sets and clears bits of [`block`], and books the time the mechanism keeps the queue from running.
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

    /// Books the begin or the end of a time in which a task has work and is kept from it.
    pub(super) fn account_kept(&mut self, task: usize) {
        let client = &mut self.clients[task];
        if client.kept == 0 {
            client.preempted = false;
        }
        let kept = client.kept > 0 && client.current.is_some();
        match client.kept_since {
            None if kept => {
                client.kept_since = Some(self.now);
                self.figures.preemptions += u64::from(!client.preempted);
                client.preempted = true;
            }
            Some(since) if !kept => {
                client.kept_since = None;
                if client.role == Role::Offline {
                    self.figures.longest_stop = self.figures.longest_stop.max(self.now.since(since));
                }
            }
            _ => {}
        }
    }

    /// Ends the stretch of time in which a queue's head kernel was on the gpu.
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

    /// Writes into the trace, if there is one.
    pub(super) fn record(&mut self, at: Nanos, length: Nanos, task: Option<usize>, gpu: usize, what: TraceKind) {
        if let Some(trace) = self.trace.as_mut() {
            trace.push(TraceEvent { at, length, task, gpu, what });
        }
    }

    /// Notes that the mechanism noticed that `task` waits on `gpu` behind a lower level.
    pub fn detected(&mut self, task: usize, gpu: usize) {
        self.record(self.now, Nanos::ZERO, Some(task), gpu, TraceKind::Detected);
    }

    /// Closes the books at the end of the run.
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
    }

    /// The result of a finished run.
    pub(super) fn outcome(self, mechanism: &'static str) -> Outcome {
        let mut trace = self.trace.unwrap_or_default();
        // Spans are written when they end. The sort is stable, so that equal starts keep that order.
        trace.sort_by_key(|event| event.at);
        Outcome {
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
                    kernels: client.kernels,
                    latency: client.latency,
                    busy: client.busy,
                })
                .collect(),
            preemptions: self.figures.preemptions,
            cycles: self.figures.cycles,
            cycle_time: self.figures.cycle_time,
            repeated_kernels: self.figures.repeated_kernels,
            longest_stop: self.figures.longest_stop,
            events: self.figures.events,
            trace,
        }
    }
}
