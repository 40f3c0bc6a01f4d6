//! `gpreempt lab compare`: compares mechanisms on the same arrivals.

use std::io::Write;

use anyhow::Result;
use comfy_table::{Cell, Color};
use gpreempt_lab::experiment::{self, Comparison, OnlineFigures, Row};
use gpreempt_lab::mechanism;
use serde::Serialize;

use super::{Header, assumes, headline, load};
use crate::cli::Compare;
use crate::output;

pub(crate) fn run(options: &Compare, out: &mut impl Write) -> Result<()> {
    let setting = &options.setting;
    let (profile, workload) = load(&setting.profile, &options.workload, options.seconds)?;
    let mechanisms = match options.mechanisms.as_slice() {
        [] => mechanism::all().iter().collect(),
        chosen => chosen.to_vec(),
    };
    let bar = output::progress(setting.json, "runs");
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
    writeln!(out, "{}", super::estimates(&profile))?;
    writeln!(out, "Assumptions of the mechanisms: gpreempt lab list")?;
    Ok(())
}

const COLUMNS: [&str; 14] = [
    "mechanism",
    "online\np50",
    "online\np95",
    "online\np99",
    "online\nmax",
    "online\nserved",
    "x alone\np50",
    "x alone\np99",
    "offline\nreq/s",
    "offline\nof alone",
    "stops",
    "cycles",
    "repeated\nkernels",
    "longest\nstarved",
];

/// Columns that a narrow terminal leaves out, the least important first: requests per second, cycles, max, p95, p50
/// against alone, longest starved, served.
const DISPENSABLE: [usize; 7] = [8, 11, 4, 2, 6, 13, 5];

fn table(comparison: &Comparison) -> comfy_table::Table {
    let mut table = output::table(&COLUMNS);
    for row in &comparison.rows {
        let online = &row.online;
        let latency =
            |nanos: u64| output::number(if online.has_latency() { output::time(nanos) } else { "-".to_string() });
        let deciding = output::number(output::factor(online.times_alone_p99));
        table.add_row([
            Cell::new(row.mechanism),
            latency(online.p50.0),
            latency(online.p95.0),
            latency(online.p99.0),
            latency(online.max.0),
            output::number(output::percent(online.served())),
            output::number(output::factor(online.times_alone_p50)),
            match verdict(online) {
                Some(colour) => deciding.fg(colour),
                None => deciding,
            },
            output::number(output::digits(row.offline.requests_per_second)),
            output::number(output::percent(row.offline.share_of_alone)),
            output::number(row.preemptions),
            output::number(row.cycles),
            output::number(row.repeated_kernels),
            output::number(output::time(row.longest_starved.0)),
        ]);
    }
    table
}

/// Colours the slowdown: green while hardly slower than alone, red from twice as slow on. A mechanism that drops
/// requests is not green, however fast it serves the others.
fn verdict(online: &OnlineFigures) -> Option<Color> {
    match online.times_alone_p99 {
        Some(times) if times >= 2.0 => Some(Color::Red),
        Some(times) if times < 1.25 && online.served() >= Some(0.99) => Some(Color::Green),
        _ => None,
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header<'a>,
    rows: Vec<JsonRow>,
}

/// One mechanism. Latencies are null if no request completed.
#[derive(Serialize)]
struct JsonRow {
    mechanism: &'static str,
    assumes: &'static [&'static str],
    online_p50_us: Option<f64>,
    online_p95_us: Option<f64>,
    online_p99_us: Option<f64>,
    online_max_us: Option<f64>,
    online_times_alone_p50: Option<f64>,
    online_times_alone_p99: Option<f64>,
    online_completed: u64,
    online_skipped: u64,
    online_unfinished: u64,
    online_served_percent: Option<f64>,
    offline_requests_per_second: f64,
    offline_kernels_per_second: f64,
    offline_share_of_alone: Option<f64>,
    preemptions: u64,
    cycles: u64,
    cycle_time_us: f64,
    repeated_kernels: u64,
    longest_starved_us: f64,
    events: u64,
}

impl JsonRow {
    fn new(row: &Row) -> JsonRow {
        let Row { online, offline, .. } = row;
        let latency = |nanos: u64| online.has_latency().then(|| output::micros(nanos));
        JsonRow {
            mechanism: row.mechanism,
            assumes: assumes(row.mechanism),
            online_p50_us: latency(online.p50.0),
            online_p95_us: latency(online.p95.0),
            online_p99_us: latency(online.p99.0),
            online_max_us: latency(online.max.0),
            online_times_alone_p50: online.times_alone_p50,
            online_times_alone_p99: online.times_alone_p99,
            online_completed: online.completed,
            online_skipped: online.skipped,
            online_unfinished: online.unfinished,
            online_served_percent: online.served().map(|share| share * 100.0),
            offline_requests_per_second: offline.requests_per_second,
            offline_kernels_per_second: offline.kernels_per_second,
            offline_share_of_alone: offline.share_of_alone,
            preemptions: row.preemptions,
            cycles: row.cycles,
            cycle_time_us: output::micros(row.cycle_time.0),
            repeated_kernels: row.repeated_kernels,
            longest_starved_us: output::micros(row.longest_starved.0),
            events: row.events,
        }
    }
}

#[cfg(test)]
mod tests {
    use gpreempt_core::Nanos;

    use super::*;

    #[test]
    fn what_a_narrow_terminal_hides_is_what_the_comment_says() {
        let hidden = DISPENSABLE.map(|index| COLUMNS[index].replace('\n', " "));
        let expected =
            ["offline req/s", "cycles", "online max", "online p95", "x alone p50", "longest starved", "online served"];
        assert_eq!(hidden, expected);
    }

    #[test]
    fn fast_is_green_only_if_nearly_everybody_is_served() {
        let online = |times, completed, skipped, unfinished| OnlineFigures {
            p50: Nanos(1),
            p95: Nanos(1),
            p99: Nanos(1),
            max: Nanos(1),
            times_alone_p50: times,
            times_alone_p99: times,
            completed,
            skipped,
            unfinished,
        };
        assert_eq!(verdict(&online(Some(1.0), 99, 1, 0)), Some(Color::Green));
        assert_eq!(verdict(&online(Some(1.0), 98, 1, 1)), None);
        assert_eq!(verdict(&online(Some(1.5), 100, 0, 0)), None);
        assert_eq!(verdict(&online(Some(2.0), 100, 0, 0)), Some(Color::Red));
        assert_eq!(verdict(&online(None, 0, 0, 0)), None);
    }
}
