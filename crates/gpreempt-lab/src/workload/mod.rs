//! What runs on the machine: tasks, the load that drives each, and the kernels of one request.

use std::sync::Arc;

use gpreempt_core::Nanos;

/// A named set of tasks and how long to run them.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Name shown in tables.
    pub name: String,
    /// One sentence for `--help` and listings.
    pub about: String,
    /// Simulated time.
    pub duration: Nanos,
    /// Gpus of the machine the workload is meant for.
    pub gpus: usize,
    /// The processes.
    pub tasks: Vec<Task>,
}

/// One process: it submits requests, each a sequence of kernels, through one compute queue on every gpu it uses.
#[derive(Clone, Debug)]
pub struct Task {
    /// Unique within the workload.
    pub name: String,
    /// Whose latency or whose throughput counts.
    pub role: Role,
    /// Software priority, 0 to 15, higher wins.
    pub level: u8,
    /// When requests arrive.
    pub load: Load,
    /// The kernels of one request, in order; each waits for the one before it (barrier bit).
    pub kernels: Arc<[Kernel]>,
    /// Gpus the task uses. Every kernel runs on each of them.
    pub gpus: Vec<usize>,
}

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Latency counts (inference).
    Online,
    /// Throughput counts (training, batch).
    Offline,
}

/// When a task starts its requests. A task has at most one request in flight; of arrivals missed meanwhile only the newest
/// is served, as DISB does, and the others are counted as skipped.
#[derive(Clone, Debug)]
pub enum Load {
    /// A fixed rate, the first request at `offset`.
    Uniform {
        /// Time between arrivals.
        interval: Nanos,
        /// Instant of the first arrival.
        offset: Nanos,
    },
    /// Independent arrivals with exponential gaps.
    Poisson {
        /// Mean time between arrivals.
        mean: Nanos,
    },
    /// The next request follows the last at once, after `think` of host time.
    Closed {
        /// Host time between requests.
        think: Nanos,
    },
    /// Arrivals at these instants, sorted.
    Trace {
        /// Instants from the start of the run.
        at: Arc<[Nanos]>,
    },
}

/// One dispatch: a grid of equal workgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Workgroups in the grid.
    pub workgroups: u32,
    /// How long one workgroup occupies its place.
    pub duration: Nanos,
    /// Waves of 64 lanes per workgroup.
    pub waves: u32,
    /// Vector registers per lane, accumulation registers included.
    pub vgprs: u32,
    /// LDS bytes per workgroup.
    pub lds: u32,
    /// A collective over all gpus of the task: its workgroups spin until every gpu has started it, then take `duration`.
    pub collective: bool,
}
