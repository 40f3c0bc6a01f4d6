//! Measurements for a report: what a cycle and a stop cost on this machine.
//!
//! Times are those of one call, measured by the process that makes it. What needs waves is marked as unavailable, with
//! the reason, on a gpu that executes no code.

use std::time::Instant;

use kfd_abi::debug::GRACE_PERIOD_DEFAULT;
use kfd_abi::exception::ExceptionMask;
use kfd_abi::sysfs::PROCESS_DIR;
use serde::Serialize;

use crate::bench::{Bench, Client};
use crate::rules::{packets, waves};
use crate::verdict::{Trouble, Verdict, equal};

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Its name.
    pub name: &'static str,
    /// What was measured, and how.
    pub about: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// `measured` or `unavailable`.
    pub status: &'static str,
    /// The median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What was found, where it is no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'static str>,
    /// How many times it was measured.
    pub samples: usize,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Measurements of one kind.
const SAMPLES: usize = 15;
/// The same, of those that need processes of their own.
const FEW: usize = 5;

type Sampler = fn(&Bench<'_>) -> Verdict<Vec<f64>>;

/// What is measured: name, what it is, how.
const ALL: &[(&str, &str, Sampler)] = &[
    ("cycle_idle_us", "UPDATE_QUEUE that changes nothing: one cycle without resident waves", update),
    ("suspend_first_us", "first SUSPEND_QUEUES of a process, in which its save area may leave video memory", first),
    ("suspend_us", "later SUSPEND_QUEUES with the default grace period, without resident waves", default_grace),
    ("suspend_grace_1_us", "SUSPEND_QUEUES with grace period 1, without resident waves", grace_one),
    ("resume_us", "RESUME_QUEUES of one queue", resume),
    ("ioctl_us", "GET_QUEUE_SNAPSHOT: a call of the debugger without a cycle", snapshot),
    ("cycle_waves_us", "UPDATE_QUEUE of one process while kernels of another run", with_waves),
    ("cycle_waves_host_us", "the same after the kernels were stopped once by SUSPEND_QUEUES", with_waves_stopped_once),
    ("occupancy_read_us", "one read of cu_occupancy in sysfs", occupancy),
];

/// Takes all measurements.
pub(crate) fn all(bench: &Bench<'_>) -> Vec<Measurement> {
    let measured = ALL.iter().map(|(name, about, sample)| measurement(name, about, sample(bench)));
    measured.chain([read_index(bench)]).collect()
}

fn read_index(bench: &Bench<'_>) -> Measurement {
    let about = "whether the read index passes a barrier packet that waits: at its fetch, or when it retires";
    let none = measurement("read_index_kind", about, Ok(Vec::new()));
    match packets::read_index_kind(bench) {
        Ok(kind) => Measurement { unit: "kind", text: Some(kind), samples: 1, ..none },
        Err(Trouble::Broken(reason) | Trouble::Unchecked(reason)) => {
            Measurement { unit: "kind", status: "unavailable", reason: Some(reason), ..none }
        }
    }
}

fn measurement(name: &'static str, about: &'static str, samples: Verdict<Vec<f64>>) -> Measurement {
    let none = Measurement {
        name,
        about,
        unit: "us",
        status: "unavailable",
        value: None,
        text: None,
        samples: 0,
        reason: None,
    };
    match samples {
        Ok(mut samples) => {
            samples.sort_by(f64::total_cmp);
            let value = samples.get(samples.len() / 2).copied();
            Measurement { status: "measured", value, samples: samples.len(), ..none }
        }
        Err(Trouble::Broken(reason) | Trouble::Unchecked(reason)) => Measurement { reason: Some(reason), ..none },
    }
}

/// Returns how long the last call of a client took, in microseconds.
fn last_call(client: &Client) -> f64 {
    client.actor.last_call() as f64 / 1e3
}

fn update(bench: &Bench<'_>) -> Verdict<Vec<f64>> {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    let mut sample = || {
        client.update(&queue, |_| {})?.ok("UPDATE_QUEUE")?;
        Ok(last_call(&client))
    };
    (0..SAMPLES).map(|_| sample()).collect()
}

fn first(bench: &Bench<'_>) -> Verdict<Vec<f64>> {
    let sample = || {
        let mut target = bench.program()?;
        let queue = target.queue()?.id;
        let mut session = bench.debugger(&target)?;
        session.stop(&[queue])?;
        Ok(last_call(&session.tracer))
    };
    (0..FEW).map(|_| sample()).collect()
}

/// Stops and resumes a queue again and again; returns how long both took.
fn stops(bench: &Bench<'_>, grace: u32) -> Verdict<Vec<(f64, f64)>> {
    let mut target = bench.program()?;
    let queue = [target.queue()?.id];
    let mut session = bench.debugger(&target)?;
    session.stop(&queue)?;
    let mut all = Vec::new();
    for _ in 0..SAMPLES {
        equal("RESUME_QUEUES", session.resume(&queue)?.result, 1)?;
        let resume = last_call(&session.tracer);
        equal("SUSPEND_QUEUES", session.suspend_with(&queue, grace, ExceptionMask::EMPTY)?.result, 1)?;
        all.push((last_call(&session.tracer), resume));
    }
    Ok(all)
}

fn default_grace(bench: &Bench<'_>) -> Verdict<Vec<f64>> {
    Ok(stops(bench, GRACE_PERIOD_DEFAULT)?.into_iter().map(|(suspend, _)| suspend).collect())
}

fn grace_one(bench: &Bench<'_>) -> Verdict<Vec<f64>> {
    Ok(stops(bench, 1)?.into_iter().map(|(suspend, _)| suspend).collect())
}

fn resume(bench: &Bench<'_>) -> Verdict<Vec<f64>> {
    Ok(stops(bench, GRACE_PERIOD_DEFAULT)?.into_iter().map(|(_, resume)| resume).collect())
}

fn snapshot(bench: &Bench<'_>) -> Verdict<Vec<f64>> {
    let mut target = bench.program()?;
    target.queue()?;
    let mut session = bench.session(&target)?;
    let mut sample = || {
        session.snapshot_with(ExceptionMask::EMPTY, 1, 64)?.ok("GET_QUEUE_SNAPSHOT")?;
        Ok(last_call(&session.tracer))
    };
    (0..SAMPLES).map(|_| sample()).collect()
}

fn with_waves(bench: &Bench<'_>) -> Verdict<Vec<f64>> {
    let _work = waves::working(bench)?;
    update(bench)
}

fn with_waves_stopped_once(bench: &Bench<'_>) -> Verdict<Vec<f64>> {
    let work = waves::working(bench)?;
    let mut session = bench.session(&work)?;
    let queues = waves::queues(&mut session)?;
    session.stop(&queues)?;
    equal("RESUME_QUEUES", session.resume(&queues)?.result, queues.len() as i64)?;
    update(bench)
}

fn occupancy(bench: &Bench<'_>) -> Verdict<Vec<f64>> {
    let mut client = bench.program()?;
    client.queue()?;
    let path = format!("{PROCESS_DIR}/{}/stats_{}/cu_occupancy", client.pid(), bench.subject.id());
    let sample = || {
        let begun = Instant::now();
        crate::bench::driver_file(&path)?;
        Ok(begun.elapsed().as_secs_f64() * 1e6)
    };
    (0..SAMPLES).map(|_| sample()).collect()
}
