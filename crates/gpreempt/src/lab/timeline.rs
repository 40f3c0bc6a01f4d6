//! `gpreempt lab timeline`: shows one preemption in detail.

use std::io::Write;

use anyhow::Result;
use gpreempt_core::Nanos;
use gpreempt_lab::Profile;
use gpreempt_lab::experiment::{self, Timeline};
use gpreempt_lab::outcome::{TraceEvent, TraceKind};
use serde::Serialize;

use super::{Header, TraceFile, assumes, draw};
use crate::cli;
use crate::output;

pub(crate) fn run(options: &cli::Timeline, out: &mut impl Write) -> Result<()> {
    let setting = &options.setting;
    let profile = Profile::load(&setting.profile)?;
    let entry = options.mechanism;
    let trace = options.trace.as_deref().map(TraceFile::create).transpose()?;
    let timeline = experiment::timeline(&profile, entry, setting.seed);
    if let Some(trace) = trace {
        trace.write(&timeline.outcome, &timeline.workload)?;
    }
    if setting.json {
        let document = Document::new(&timeline, &profile, setting.seed);
        return output::json(&document, out);
    }
    writeln!(out, "Simulated on profile {}, mechanism {}: {}.\n", profile.name, entry.name, timeline.workload.about)?;
    drawings(&timeline, out)?;
    instants(&timeline, out)?;
    let outcome = &timeline.outcome;
    writeln!(
        out,
        "\nkernels executed: {}, again: {}, stops: {}, cycles: {}, gpu time in cycles: {}",
        timeline.kernels_executed,
        timeline.repeated_kernels,
        outcome.preemptions,
        outcome.cycles,
        output::time(outcome.cycle_time.0)
    )?;
    if !entry.assumes.is_empty() {
        writeln!(out, "{} assumes:", entry.name)?;
    }
    for assumption in entry.assumes {
        writeln!(out, "  - {assumption}")?;
    }
    writeln!(out, "{}", super::estimates(&profile))?;
    if let Some(file) = &options.trace {
        writeln!(out, "Trace for ui.perfetto.dev: {}", file.display())?;
    }
    Ok(())
}

/// Returns when the last request ends.
fn end(timeline: &Timeline) -> Nanos {
    let inference = completed(timeline).unwrap_or(timeline.outcome.duration);
    let training = timeline.training_end.unwrap_or(timeline.outcome.duration);
    inference.max(training)
}

/// Returns when the inference request completed.
fn completed(timeline: &Timeline) -> Option<Nanos> {
    Some(timeline.arrival.plus(timeline.inference_latency?))
}

/// Draws the whole run, and the request enlarged.
fn drawings(timeline: &Timeline, out: &mut impl Write) -> Result<()> {
    const MARGIN: Nanos = Nanos::from_millis(1);
    let whole = (Nanos::ZERO, end(timeline));
    let request = (timeline.arrival.since(MARGIN), completed(timeline).unwrap_or(whole.1).plus(MARGIN));
    for (title, (from, to)) in [("The whole run", whole), ("The request", request)] {
        writeln!(out, "{title}, {:.3} ms to {:.3} ms:", millis(from), millis(to))?;
        for row in draw::draw(&timeline.outcome, &timeline.workload, from, to) {
            writeln!(out, "{row}")?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}\n", draw::LEGEND)?;
    Ok(())
}

/// Prints the events of the run in order.
fn instants(timeline: &Timeline, out: &mut impl Write) -> Result<()> {
    let arrival = timeline.arrival;
    let after = |at: Nanos| match at.0.checked_sub(arrival.0) {
        Some(0) => " at once".to_string(),
        Some(later) => format!(", {} after the arrival", output::time(later)),
        None => String::new(),
    };
    let latency = timeline.inference_latency.map(|latency| {
        let alone = timeline.inference_alone.filter(|alone| alone.0 > 0);
        let times = alone.map(|alone| latency.0 as f64 / alone.0 as f64);
        let alone = alone.map_or_else(|| "-".to_string(), |alone| output::time(alone.0));
        format!("inference completes: {} instead of {alone} alone, {}", output::time(latency.0), output::factor(times))
    });
    let delay = timeline
        .training_delay
        .map_or_else(String::new, |delay| format!(", {} later than alone", output::time(delay.0)));
    let mut list = vec![(arrival, "inference request arrives".to_string())];
    let mut add = |at: Option<Nanos>, text: String| list.extend(at.map(|at| (at, text)));
    let told = |at: Option<Nanos>, what: &str| match at {
        Some(at) => format!("{what}{}", after(at)),
        None => String::new(),
    };
    add(timeline.detected, told(timeline.detected, "inversion noticed"));
    add(timeline.stopped, told(timeline.stopped, "training stopped"));
    add(timeline.resumed, told(timeline.resumed, "training resumed"));
    add(completed(timeline), latency.unwrap_or_default());
    add(timeline.training_end, format!("training completes{delay}"));
    list.sort_by_key(|(at, _)| *at);
    for (at, text) in list {
        writeln!(out, "{:>10.3} ms  {text}", millis(at))?;
    }
    if timeline.inference_latency.is_none() {
        writeln!(out, "The inference request did not complete.")?;
    }
    if timeline.training_end.is_none() {
        writeln!(out, "The training job did not complete.")?;
    }
    Ok(())
}

fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header<'a>,
    mechanism: &'static str,
    assumes: &'static [&'static str],
    about: &'a str,
    arrival_us: f64,
    inference_latency_us: Option<f64>,
    inference_alone_us: Option<f64>,
    detected_us: Option<f64>,
    stopped_us: Option<f64>,
    resumed_us: Option<f64>,
    training_end_us: Option<f64>,
    training_delay_us: Option<f64>,
    kernels_executed: u64,
    repeated_kernels: u64,
    preemptions: u64,
    cycles: u64,
    cycle_time_us: f64,
    spans: Vec<Span<'a>>,
}

/// One entry of the recorded run; an instant has length zero.
#[derive(Serialize)]
struct Span<'a> {
    at_us: f64,
    length_us: f64,
    what: &'static str,
    /// Null for the machine itself.
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<bool>,
}

impl<'a> Document<'a> {
    fn new(timeline: &'a Timeline, profile: &'a Profile, seed: u64) -> Document<'a> {
        let micros = |time: Option<Nanos>| time.map(|time| output::micros(time.0));
        let outcome = &timeline.outcome;
        Document {
            header: Header::new(profile, &timeline.workload, seed),
            mechanism: outcome.mechanism,
            assumes: assumes(outcome.mechanism),
            about: &timeline.workload.about,
            arrival_us: output::micros(timeline.arrival.0),
            inference_latency_us: micros(timeline.inference_latency),
            inference_alone_us: micros(timeline.inference_alone),
            detected_us: micros(timeline.detected),
            stopped_us: micros(timeline.stopped),
            resumed_us: micros(timeline.resumed),
            training_end_us: micros(timeline.training_end),
            training_delay_us: micros(timeline.training_delay),
            kernels_executed: timeline.kernels_executed,
            repeated_kernels: timeline.repeated_kernels,
            preemptions: outcome.preemptions,
            cycles: outcome.cycles,
            cycle_time_us: output::micros(outcome.cycle_time.0),
            spans: spans(timeline),
        }
    }
}

fn spans(timeline: &Timeline) -> Vec<Span<'_>> {
    let name = |task: Option<usize>| Some(timeline.workload.tasks.get(task?)?.name.as_str());
    let span = |event: &TraceEvent| {
        let (what, kernel, repeated) = match event.what {
            TraceKind::Kernel { index, repeated, .. } => ("kernel", Some(index), Some(repeated)),
            TraceKind::Request { .. } => ("request", None, None),
            TraceKind::Cycle => ("cycle", None, None),
            TraceKind::Stopped => ("stopped", None, None),
            TraceKind::Detected => ("detected", None, None),
        };
        Span {
            at_us: output::micros(event.at.0),
            length_us: output::micros(event.length.0),
            what,
            task: name(event.task),
            kernel,
            repeated,
        }
    };
    timeline.outcome.trace.iter().map(span).collect()
}
