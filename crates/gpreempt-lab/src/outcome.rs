//! The result of a simulated run.

use gpreempt_core::Nanos;
use hdrhistogram::Histogram;

use crate::workload::Role;

/// The measurements of one simulated run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The mechanism's name, as `--mechanism` takes it.
    pub mechanism: &'static str,
    /// Simulated time.
    pub duration: Nanos,
    /// One entry per task of the workload, in its order.
    pub tasks: Vec<TaskOutcome>,
    /// Number of stops of jobs.
    pub preemptions: u64,
    /// Runlist cycles (for mechanisms without a runlist: context switches or resets), over all gpus.
    pub cycles: u64,
    /// Gpu time lost to them, summed over gpus.
    pub cycle_time: Nanos,
    /// Kernels that ran, wholly or partly, more than once.
    pub repeated_kernels: u64,
    /// The longest time in which an offline task had unfinished work and none of its workgroups advanced on any gpu,
    /// whatever the reason: stopped, held back, frozen by a cycle, behind others in the hardware's order, or on its way
    /// to the gpu.
    pub longest_starved: Nanos,
    /// Events the simulation processed.
    pub events: u64,
    /// Spans and instants of the run; empty if it was not recorded.
    pub trace: Vec<TraceEvent>,
}

/// One task's share of a [`RunOutcome`].
#[derive(Clone, Debug)]
pub struct TaskOutcome {
    /// The task's name.
    pub name: String,
    /// The task's role.
    pub role: Role,
    /// The task's level, 0 to 15.
    pub level: u8,
    /// Requests completed.
    pub completed: u64,
    /// Arrivals dropped because the task was still busy with an older one.
    pub skipped: u64,
    /// Arrivals that were neither complete nor dropped when the run ended.
    pub unfinished: u64,
    /// Kernels completed, repetitions not counted.
    pub kernels: u64,
    /// Arrival to completion of each request, nanoseconds. An unfinished request of an online task counts with its age
    /// at the end, a lower bound, if that is above the median of the others: leaving it out would reward mechanisms
    /// that do not complete requests.
    pub latency: Histogram<u64>,
    /// Gpu time in which the task's workgroups were resident and advancing, summed over gpus, as CU time divided by
    /// CUs.
    pub busy: Nanos,
}

/// One span or instant of a recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Start of the span, or the instant.
    pub at: Nanos,
    /// Length; zero for an instant.
    pub length: Nanos,
    /// The task it belongs to; `None` for the machine itself.
    pub task: Option<usize>,
    /// Number of the gpu.
    pub gpu: usize,
    /// Kind of span or instant.
    pub what: TraceKind,
}

/// Kinds of [`TraceEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// Kernel `index` of request `request` executed (its workgroups were resident and advancing).
    Kernel {
        /// Request number of the task.
        request: u64,
        /// Position within the request.
        index: u32,
        /// It had already run, wholly or partly.
        repeated: bool,
    },
    /// A request was in flight, from arrival to completion.
    Request {
        /// Request number of the task.
        request: u64,
    },
    /// A runlist cycle (or context switch, or reset): nothing on the gpu advanced.
    Cycle,
    /// The task was stopped.
    Stopped,
    /// The mechanism noticed the inversion (instant).
    Detected,
}
