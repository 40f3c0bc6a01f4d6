//! `gpreempt lab compare`: every mechanism on the same arrivals.

use std::io::Write;

use anyhow::Result;
use comfy_table::{Cell, Color};
use gpreempt_lab::experiment::{self, Comparison, Row};
use gpreempt_lab::mechanism;
use serde::Serialize;

use super::{Header, headline, load};
use crate::cli::Compare;
use crate::output;

pub(crate) fn run(options: &Compare, out: &mut impl Write) -> Result<()> {
    let setting = &options.setting;
    let (profile, workload) = load(&setting.profile, &options.workload, options.seconds)?;
    let mechanisms = match options.mechanisms.as_slice() {
        [] => mechanism::all().iter().collect(),
        chosen => chosen.to_vec(),
    };
    let bar = output::progress(setting.json);
    let progress = |done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    };
    let comparison = experiment::compare(&profile, &workload, &mechanisms, setting.seed, &progress);
    bar.finish_and_clear();
    if setting.json {
        let document = Document {
            header: Header::new(&profile, &workload, setting.seed),
            rows: comparison.rows.iter().map(JsonRow::new).collect(),
        };
        return output::json(&document, out);
    }
    writeln!(out, "{}\n", headline(&profile, &workload, setting.seed))?;
    let mut table = table(&comparison);
    let note = output::fit(&mut table, &DISPENSABLE);
    writeln!(out, "{table}\n")?;
    if let Some(note) = note {
        writeln!(out, "{note}")?;
    }
    writeln!(out, "{}", output::estimates(&profile))?;
    Ok(())
}

/// Columns a narrow terminal can do without, the least important first: requests per second, cycles, max, p95, p50 against
/// alone, longest stop.
const DISPENSABLE: [usize; 6] = [7, 10, 4, 2, 5, 12];

fn table(comparison: &Comparison) -> comfy_table::Table {
    let mut table = output::table(&[
        "mechanism",
        "online\np50",
        "online\np95",
        "online\np99",
        "online\nmax",
        "x alone\np50",
        "x alone\np99",
        "offline\nreq/s",
        "offline\nof alone",
        "stops",
        "cycles",
        "repeated\nkernels",
        "longest\nstop",
    ]);
    for row in &comparison.rows {
        let online = &row.online;
        // Without a single completion there is no latency to show.
        let latency = |nanos: u64| match online.completed {
            0 => output::number("-"),
            _ => output::number(output::time(nanos)),
        };
        table.add_row([
            Cell::new(row.mechanism),
            latency(online.p50.0),
            latency(online.p95.0),
            latency(online.p99.0),
            latency(online.max.0),
            output::number(output::factor(online.times_alone_p50)),
            coloured(online.times_alone_p99),
            output::number(output::digits(row.offline.requests_per_second)),
            output::number(output::percent(row.offline.share_of_alone)),
            output::number(row.preemptions),
            output::number(row.cycles),
            output::number(row.repeated_kernels),
            output::number(output::time(row.longest_stop.0)),
        ]);
    }
    table
}

/// The figure that decides: green while hardly slower than alone, red from twice as slow on.
fn coloured(times_alone: Option<f64>) -> Cell {
    let cell = output::number(output::factor(times_alone));
    match times_alone {
        Some(times) if times < 1.25 => cell.fg(Color::Green),
        Some(times) if times >= 2.0 => cell.fg(Color::Red),
        _ => cell,
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header<'a>,
    rows: Vec<JsonRow>,
}

/// One mechanism. Without a completed request the latencies are null.
#[derive(Serialize)]
struct JsonRow {
    mechanism: &'static str,
    online_p50_us: Option<f64>,
    online_p95_us: Option<f64>,
    online_p99_us: Option<f64>,
    online_max_us: Option<f64>,
    online_times_alone_p50: Option<f64>,
    online_times_alone_p99: Option<f64>,
    online_completed: u64,
    online_skipped: u64,
    offline_requests_per_second: f64,
    offline_kernels_per_second: f64,
    offline_share_of_alone: Option<f64>,
    preemptions: u64,
    cycles: u64,
    cycle_time_us: f64,
    repeated_kernels: u64,
    longest_stop_us: f64,
    events: u64,
}

impl JsonRow {
    fn new(row: &Row) -> JsonRow {
        let Row { online, offline, .. } = row;
        let latency = |nanos: u64| (online.completed > 0).then(|| output::micros(nanos));
        JsonRow {
            mechanism: row.mechanism,
            online_p50_us: latency(online.p50.0),
            online_p95_us: latency(online.p95.0),
            online_p99_us: latency(online.p99.0),
            online_max_us: latency(online.max.0),
            online_times_alone_p50: online.times_alone_p50,
            online_times_alone_p99: online.times_alone_p99,
            online_completed: online.completed,
            online_skipped: online.skipped,
            offline_requests_per_second: offline.requests_per_second,
            offline_kernels_per_second: offline.kernels_per_second,
            offline_share_of_alone: offline.share_of_alone,
            preemptions: row.preemptions,
            cycles: row.cycles,
            cycle_time_us: output::micros(row.cycle_time.0),
            repeated_kernels: row.repeated_kernels,
            longest_stop_us: output::micros(row.longest_stop.0),
            events: row.events,
        }
    }
}
