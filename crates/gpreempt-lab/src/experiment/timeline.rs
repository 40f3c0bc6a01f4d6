//! One preemption in detail: an inference request arrives in the middle of a training job.

use gpreempt_core::Nanos;

use super::run;
use crate::machine::full_gpu;
use crate::mechanism::{self, MechanismSpec};
use crate::outcome::{RunOutcome, TraceEvent, TraceKind};
use crate::profile::Profile;
use crate::workload::{Kernel, Load, Role, Task, Workload};

/// Kernels of the training job.
const TRAINING_KERNELS: usize = 100;
/// Length of each.
const TRAINING_KERNEL: Nanos = Nanos::from_millis(1);
/// Kernels of the inference request.
const INFERENCE_KERNELS: usize = 20;
/// Length of each.
const INFERENCE_KERNEL: Nanos = Nanos::from_micros(100);
/// Kernel 25 of the training job (counted from 0) has run for 400 us by then, less its way to the gpu.
const ARRIVAL: Nanos = Nanos::from_micros(25_413);
/// Long enough for both to finish under any mechanism that finishes them.
const DURATION: Nanos = Nanos::from_millis(400);

const TRAINING: usize = 0;
const INFERENCE: usize = 1;

/// The recorded scenario and its main instants.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The two tasks: training, then inference.
    pub workload: Workload,
    /// The recorded run.
    pub outcome: RunOutcome,
    /// When the inference request arrived.
    pub arrival: Nanos,
    /// Arrival to completion of the inference request; `None` if it did not complete.
    pub inference_latency: Option<Nanos>,
    /// The same with the gpu for itself.
    pub inference_alone: Option<Nanos>,
    /// When the training job completed.
    pub training_end: Option<Nanos>,
    /// Delay against a run with the gpu for itself.
    pub training_delay: Option<Nanos>,
    /// When the mechanism noticed the waiting request.
    pub detected: Option<Nanos>,
    /// When the training job was first stopped or held back.
    pub stopped: Option<Nanos>,
    /// When it was resumed.
    pub resumed: Option<Nanos>,
    /// Kernels that ran more than once.
    pub repeated_kernels: u64,
    /// Kernels that ran, repetitions included.
    pub kernels_executed: u64,
}

/// Returns the scenario for a device: training kernels that fill it, inference kernels that fill a quarter of it.
#[must_use]
pub fn scenario(profile: &Profile) -> Workload {
    let kernel = |duration| Kernel { workgroups: 0, duration, waves: 4, vgprs: 64, lds: 0, collective: false };
    let training = kernel(TRAINING_KERNEL);
    let inference = kernel(INFERENCE_KERNEL);
    let capacity = full_gpu(profile, &training);
    let task = |name: &str, role, level, at: Nanos, kernels: Vec<Kernel>| Task {
        name: name.to_owned(),
        role,
        level,
        load: Load::Trace { at: [at].into() },
        kernels: kernels.into(),
        gpus: vec![0],
    };
    let grid = |kernel: Kernel, workgroups| Kernel { workgroups, ..kernel };
    let training = vec![grid(training, capacity); TRAINING_KERNELS];
    let inference = vec![grid(inference, capacity.div_ceil(4)); INFERENCE_KERNELS];
    Workload {
        name: "timeline".to_owned(),
        about: "one inference request against a training job of 100 kernels, arriving while kernel 25 runs".to_owned(),
        duration: DURATION,
        gpus: 1,
        tasks: vec![
            task("training", Role::Offline, 4, Nanos::ZERO, training),
            task("inference", Role::Online, 12, ARRIVAL, inference),
        ],
    }
}

/// Runs the scenario under a mechanism, and each task alone without one.
#[must_use]
pub fn timeline(profile: &Profile, mechanism: &MechanismSpec, seed: u64) -> Timeline {
    let workload = scenario(profile);
    let alone = |task: usize| {
        let mut workload = workload.clone();
        workload.tasks[1 - task].load = Load::Trace { at: [].into() };
        request(&run(profile, &workload, &mechanism::NONE, seed, true), task)
    };
    let (training_alone, inference_alone) = (alone(TRAINING), alone(INFERENCE));
    let outcome = run(profile, &workload, mechanism, seed, true);
    let training = request(&outcome, TRAINING);
    let first = |what: TraceKind| outcome.trace.iter().find(move |event| event.what == what);
    let stopped = outcome.trace.iter().find(|event| event.what == TraceKind::Stopped && event.task == Some(TRAINING));
    Timeline {
        arrival: ARRIVAL,
        inference_latency: request(&outcome, INFERENCE).map(|event| event.length),
        inference_alone: inference_alone.map(|event| event.length),
        training_end: training.as_ref().map(end),
        training_delay: training.zip(training_alone).map(|(shared, alone)| end(&shared).since(end(&alone))),
        detected: first(TraceKind::Detected).map(|event| event.at),
        stopped: stopped.map(|event| event.at),
        resumed: stopped.map(end).filter(|&at| at < DURATION),
        repeated_kernels: outcome.repeated_kernels,
        kernels_executed: outcome.repeated_kernels + outcome.tasks.iter().map(|task| task.kernels).sum::<u64>(),
        workload,
        outcome,
    }
}

/// Returns the span of a task's only request.
fn request(outcome: &RunOutcome, task: usize) -> Option<TraceEvent> {
    let is_request = |event: &&TraceEvent| event.task == Some(task) && matches!(event.what, TraceKind::Request { .. });
    outcome.trace.iter().find(is_request).cloned()
}

fn end(event: &TraceEvent) -> Nanos {
    event.at.plus(event.length)
}
