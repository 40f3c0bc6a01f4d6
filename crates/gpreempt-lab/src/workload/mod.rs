//! Workloads: tasks, the load that drives each, and the kernels of one request.

mod builtin;
pub mod disb;
pub mod model;
pub mod toml;

use std::path::Path;
use std::sync::Arc;

use gpreempt_core::Nanos;

use crate::input::{self, Builtin, InputError};
use crate::profile::Profile;

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
    /// The tasks, each one process.
    pub tasks: Vec<Task>,
}

/// One process: it submits requests, each a sequence of kernels, through one compute queue on every gpu it uses.
#[derive(Clone, Debug)]
pub struct Task {
    /// Unique within the workload.
    pub name: String,
    /// Whether the task's latency or its throughput counts.
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

/// The purpose of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Latency counts (inference).
    Online,
    /// Throughput counts (training, batch).
    Offline,
}

/// When a task starts its requests. A task has at most one request in flight; of arrivals missed meanwhile only the
/// newest is served, as DISB does, and the others are counted as skipped.
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
    /// Run time of one workgroup.
    pub duration: Nanos,
    /// Waves of 64 lanes per workgroup.
    pub waves: u32,
    /// Vector registers per lane, accumulation registers included.
    pub vgprs: u32,
    /// LDS bytes per workgroup.
    pub lds: u32,
    /// A collective over all gpus of the task: its workgroups spin until every gpu has started it, then take
    /// `duration`.
    pub collective: bool,
}

/// Ranges of the numbers in a file, both ends included.
mod limits {
    use std::ops::RangeInclusive;

    pub(super) const SECONDS: RangeInclusive<f64> = 0.001..=3600.0;
    pub(super) const MILLIS: RangeInclusive<f64> = 0.0..=3_600_000.0;
    pub(super) const RATE: RangeInclusive<f64> = 0.001..=1_000_000.0;
    pub(super) const THINK_US: RangeInclusive<f64> = 0.0..=1e9;
    pub(super) const GPUS: u32 = 64;
    pub(super) const TASKS: usize = 256;
    pub(super) const ARRIVALS: usize = 1_000_000;
    pub(super) const ARRIVALS_EXPECTED: &str = "a list of 1 to 1000000 instants in milliseconds";
}

impl Role {
    /// The level of a task whose file does not give one.
    fn default_level(self) -> u8 {
        match self {
            Role::Online => 12,
            Role::Offline => 3,
        }
    }
}

impl Workload {
    /// The workloads that ship with the laboratory, as files to copy and edit.
    #[must_use]
    pub fn builtins() -> &'static [Builtin] {
        builtin::ALL
    }

    /// Loads a built-in workload by name, a TOML file in our format ([`toml`]), or a JSON file of DISB ([`disb`]).
    ///
    /// # Errors
    /// When there is none of these, or the file has faults; all of them are listed.
    pub fn load(name: &str) -> Result<Workload, InputError> {
        let source = input::open("workload", name, builtin::ALL)?;
        let path = Path::new(name);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_json = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => true,
            Some("toml") => false,
            // A pipe or a file with another name: no TOML document begins like this.
            _ => source.text().trim_start().starts_with('{'),
        };
        if is_json { disb::read(&source, &stem) } else { toml::read(&source, &stem) }
    }

    /// Checks that a workgroup of every kernel has room on a compute unit of the profile; one that has none would wait
    /// forever.
    ///
    /// # Errors
    /// Names the first such kernel of each task and what it lacks.
    pub fn fits(&self, profile: &Profile) -> Result<(), InputError> {
        let reason = |task: &Task| {
            let mut kernels = task.kernels.iter().enumerate();
            kernels.find_map(|(index, kernel)| {
                let lacks = lacks(kernel, profile)?;
                Some(format!("task {}, kernel {index}: {lacks}", task.name))
            })
        };
        let reasons: Vec<String> = self.tasks.iter().filter_map(reason).collect();
        if reasons.is_empty() {
            return Ok(());
        }
        Err(InputError::DoesNotFit { workload: self.name.clone(), reasons })
    }
}

/// Returns what a compute unit of the profile lacks to hold one workgroup of the kernel.
fn lacks(kernel: &Kernel, profile: &Profile) -> Option<String> {
    /// A vector register of a wave of 64 lanes.
    const VGPR_BYTES: f64 = 256.0;
    let compute = &profile.compute;
    let waves = f64::from(kernel.waves);
    let registers_kib = waves * f64::from(kernel.vgprs) * VGPR_BYTES / 1024.0;
    let lds_kib = f64::from(kernel.lds) / 1024.0;
    [
        (waves, &compute.waves_per_cu, "waves"),
        (registers_kib, &compute.vgpr_kib_per_cu, "KiB of vector registers"),
        (lds_kib, &compute.lds_kib_per_cu, "KiB of LDS"),
    ]
    .into_iter()
    .find(|(needed, available, _)| *needed > available.value)
    .map(|(needed, available, what)| {
        format!(
            "a workgroup needs {needed} {what}, expected at most {}, the size of a compute unit of profile {}",
            available.value, profile.name
        )
    })
}

/// Returns the time of a request alone on a gpu that its kernels do not fill.
fn alone(kernels: &[Kernel]) -> Nanos {
    kernels.iter().fold(Nanos::ZERO, |sum, kernel| sum.plus(kernel.duration))
}

/// Shifts uniform loads of one rate against each other, in order, as DISB does: each begins where the request of the
/// one before it would end if it ran alone. `which` are the tasks that take part.
fn stagger(tasks: &mut [Task], which: &[usize]) {
    let mut next: Vec<(Nanos, Nanos)> = Vec::new();
    for task in which.iter().copied() {
        let Some(task) = tasks.get_mut(task) else {
            continue;
        };
        let Load::Uniform { interval, offset } = &mut task.load else {
            continue;
        };
        let length = alone(&task.kernels);
        match next.iter_mut().find(|(of, _)| of == interval) {
            Some((_, start)) => {
                *offset = *start;
                *start = start.plus(length);
            }
            None => next.push((*interval, length)),
        }
    }
}
