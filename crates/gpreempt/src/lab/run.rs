//! `gpreempt lab run`: runs one workload and prints the figures of each task.

use std::io::Write;

use anyhow::Result;
use clap::error::ErrorKind;
use comfy_table::{Cell, Table};
use gpreempt_lab::mechanism::MechanismSpec;
use gpreempt_lab::outcome::TaskOutcome;
use gpreempt_lab::workload::Role;
use gpreempt_lab::{RunOutcome, Workload, experiment};
use serde::Serialize;

use super::{Header, TraceFile, assumes, headline, load, seconds};
use crate::cli::Run;
use crate::output;

pub(crate) fn run(options: &Run, out: &mut impl Write) -> Result<()> {
    let setting = &options.setting;
    let mechanisms = options.mechanisms.as_slice();
    if options.trace.is_some() && mechanisms.len() != 1 {
        let message = "a trace shows one run: give --trace with a single --mechanism\n";
        return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message).into());
    }
    let (profile, workload) = load(&setting.profile, &options.workload, options.seconds)?;
    let trace = options.trace.as_deref().map(TraceFile::create).transpose()?;
    let bar = output::progress(setting.json, "runs");
    bar.set_length(mechanisms.len() as u64);
    let mut outcomes = Vec::new();
    for mechanism in mechanisms {
        let outcome = experiment::run(&profile, &workload, mechanism, setting.seed, trace.is_some());
        outcomes.push(outcome);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let (Some(trace), [outcome]) = (trace, outcomes.as_slice()) {
        trace.write(outcome, &workload)?;
    }
    if setting.json {
        let document = Document {
            header: Header::new(&profile, &workload, setting.seed),
            runs: outcomes.iter().map(JsonRun::new).collect(),
        };
        return output::json(&document, out);
    }
    writeln!(out, "{}", headline(&profile, &workload, setting.seed))?;
    for (mechanism, outcome) in mechanisms.iter().zip(&outcomes) {
        print(mechanism, outcome, &workload, out)?;
    }
    writeln!(out, "\n{}", super::estimates(&profile))?;
    if let Some(file) = &options.trace {
        writeln!(out, "Trace for ui.perfetto.dev: {}", file.display())?;
    }
    Ok(())
}

fn print(mechanism: &MechanismSpec, outcome: &RunOutcome, workload: &Workload, out: &mut impl Write) -> Result<()> {
    writeln!(out, "\n{}: {}", mechanism.name, mechanism.about)?;
    writeln!(out, "{}", table(outcome, workload))?;
    writeln!(
        out,
        "stops: {}, cycles: {}, gpu time in cycles: {}, repeated kernels: {}, longest starved: {}",
        outcome.preemptions,
        outcome.cycles,
        output::time(outcome.cycle_time.0),
        outcome.repeated_kernels,
        output::time(outcome.longest_starved.0)
    )?;
    Ok(())
}

fn table(outcome: &RunOutcome, workload: &Workload) -> Table {
    let mut table = output::table(&[
        "task",
        "role",
        "level",
        "requests",
        "skipped",
        "unfinished",
        "req/s",
        "latency\np50",
        "\np95",
        "\np99",
        "\nmax",
        "kernels",
        "gpu busy",
    ]);
    for (index, task) in outcome.tasks.iter().enumerate() {
        let latency =
            |nanos: u64| output::number(if task.latency.is_empty() { "-".to_string() } else { output::time(nanos) });
        let gpus = workload.tasks.get(index).map_or(1, |task| task.gpus.len());
        table.add_row([
            Cell::new(&task.name),
            output::number(role(task)),
            output::number(task.level),
            output::number(task.completed),
            output::number(task.skipped),
            output::number(task.unfinished),
            output::number(output::digits(task.completed as f64 / seconds(workload))),
            latency(task.latency.value_at_quantile(0.50)),
            latency(task.latency.value_at_quantile(0.95)),
            latency(task.latency.value_at_quantile(0.99)),
            latency(task.latency.max()),
            output::number(task.kernels),
            output::number(output::percent(busy(task, workload, gpus))),
        ]);
    }
    table
}

/// Returns the share of its gpus' time in which the task ran, weighted by how much of them it filled.
fn busy(task: &TaskOutcome, workload: &Workload, gpus: usize) -> Option<f64> {
    let available = workload.duration.0 as f64 * gpus as f64;
    (available > 0.0).then(|| task.busy.0 as f64 / available)
}

fn role(task: &TaskOutcome) -> &'static str {
    match task.role {
        Role::Online => "online",
        Role::Offline => "offline",
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header<'a>,
    runs: Vec<JsonRun<'a>>,
}

#[derive(Serialize)]
struct JsonRun<'a> {
    mechanism: &'static str,
    assumes: &'static [&'static str],
    preemptions: u64,
    cycles: u64,
    cycle_time_us: f64,
    repeated_kernels: u64,
    longest_starved_us: f64,
    events: u64,
    tasks: Vec<JsonTask<'a>>,
}

impl<'a> JsonRun<'a> {
    fn new(outcome: &'a RunOutcome) -> JsonRun<'a> {
        JsonRun {
            mechanism: outcome.mechanism,
            assumes: assumes(outcome.mechanism),
            preemptions: outcome.preemptions,
            cycles: outcome.cycles,
            cycle_time_us: output::micros(outcome.cycle_time.0),
            repeated_kernels: outcome.repeated_kernels,
            longest_starved_us: output::micros(outcome.longest_starved.0),
            events: outcome.events,
            tasks: outcome.tasks.iter().map(JsonTask::new).collect(),
        }
    }
}

/// One task. Latencies are null if no request completed.
#[derive(Serialize)]
struct JsonTask<'a> {
    name: &'a str,
    role: &'static str,
    level: u8,
    completed: u64,
    skipped: u64,
    unfinished: u64,
    kernels: u64,
    p50_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
    busy_us: f64,
}

impl<'a> JsonTask<'a> {
    fn new(task: &'a TaskOutcome) -> JsonTask<'a> {
        let latency = |nanos: u64| (!task.latency.is_empty()).then(|| output::micros(nanos));
        JsonTask {
            name: &task.name,
            role: role(task),
            level: task.level,
            completed: task.completed,
            skipped: task.skipped,
            unfinished: task.unfinished,
            kernels: task.kernels,
            p50_us: latency(task.latency.value_at_quantile(0.50)),
            p95_us: latency(task.latency.value_at_quantile(0.95)),
            p99_us: latency(task.latency.value_at_quantile(0.99)),
            max_us: latency(task.latency.max()),
            busy_us: output::micros(task.busy.0),
        }
    }
}
