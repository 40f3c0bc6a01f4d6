//! The report as text.

use std::io::Write;

use anyhow::Result;
use comfy_table::Cell;
use gpreempt_proto::Distribution;

use super::report::{DemoReport, Gpreempt, Online};
use crate::environment::tally::Offline;
use crate::output::{self, digits, factor, number, percent};

/// Microseconds with the unit that suits them.
fn time(micros: f64) -> String {
    output::time((micros * 1e3) as u64)
}

pub(super) fn print(report: &DemoReport, out: &mut impl Write) -> Result<()> {
    writeln!(out, "Online latency from arrival to answer, {}:", report.kind)?;
    let mut table =
        output::table(&["", "requests", "p50", "p95", "p99", "max", "p50 x alone", "p95 x alone", "p99 x alone"]);
    for (name, arm) in
        [("alone", &report.alone), ("without gpreempt", &report.without), ("with gpreempt", &report.with)]
    {
        let Some(arm) = arm else { continue };
        table.add_row(row(name, arm));
    }
    let note = output::fit(&mut table, &[6, 8, 1]);
    writeln!(out, "{table}")?;
    if let Some(note) = note {
        writeln!(out, "{note}")?;
    }
    for (name, arm) in [("without", &report.without), ("with", &report.with)] {
        if let Some(arm) = arm.as_ref().filter(|arm| arm.unanswered > 0) {
            writeln!(
                out,
                "{} of {} requests {name} gpreempt had no answer when their block ended: requests came faster than \
                 answers, and figures with >= are lower bounds.",
                arm.unanswered, arm.requests
            )?;
        }
    }
    writeln!(out)?;
    offline(&report.offline, report.kind, out)?;
    if let Some(gpreempt) = &report.gpreempt {
        service(gpreempt, report.kind, out)?;
    }
    results(report, out)
}

fn row(name: &str, arm: &Online) -> Vec<Cell> {
    let latency = &arm.latency;
    // Requests that were given up would have taken longer, perhaps longer than any percentile that they lie below now.
    let shown = |micros: f64| {
        let bound = if arm.least_unanswered_us.is_some_and(|least| least <= micros) { ">= " } else { "" };
        number(format!("{bound}{}", time(micros)))
    };
    vec![
        Cell::new(name),
        number(arm.requests),
        shown(latency.p50_us),
        shown(latency.p95_us),
        shown(latency.p99_us),
        shown(latency.max_us),
        number(factor(arm.p50_times_alone)),
        number(factor(arm.p95_times_alone)),
        number(factor(arm.p99_times_alone)),
    ]
}

fn offline(offline: &Offline, kind: &str, out: &mut impl Write) -> Result<()> {
    let Some(alone) = offline.alone_kernels_per_s else { return Ok(()) };
    writeln!(out, "Offline throughput, {kind}: {} kernels/s alone", digits(alone))?;
    if let Some(kept) = offline.without_kept_share {
        writeln!(out, "  without gpreempt: {} kept", percent(Some(kept)))?;
    }
    if let (Some(kept), Some(ideal)) = (offline.with_kept_share, offline.ideal_share) {
        writeln!(
            out,
            "  with gpreempt: {} kept, {} of the {} that requests leave over",
            percent(Some(kept)),
            percent(offline.with_kept_of_ideal),
            percent(Some(ideal)),
        )?;
    }
    Ok(())
}

fn service(gpreempt: &Gpreempt, kind: &str, out: &mut impl Write) -> Result<()> {
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let spread = |distribution: &Option<Distribution>| match distribution {
        Some(distribution) => format!("p50 {}, p99 {}", time(distribution.p50_us), time(distribution.p99_us)),
        None => "-".to_owned(),
    };
    writeln!(
        out,
        "Stops: {}, {} of them inside a kernel; {} waves saved; {} cycles counted by the device, {} by the daemon.",
        gpreempt.stops,
        percent(gpreempt.stops_inside_kernel_share),
        count(gpreempt.waves_saved),
        count(gpreempt.cycles),
        gpreempt.cycles_by_daemon,
    )?;
    writeln!(
        out,
        "Detection {}; stop {} ({kind}). Daemon: {} of one processor.",
        spread(&gpreempt.detection),
        spread(&gpreempt.stop),
        percent(Some(gpreempt.daemon_cpu_share)),
    )?;
    Ok(())
}

fn results(report: &DemoReport, out: &mut impl Write) -> Result<()> {
    let last = report.blocks.iter().rev().find(|block| block.online.is_some() && block.offline.is_some());
    if let Some((Some(online), Some(offline))) = last.map(|block| (&block.online, &block.offline)) {
        for (name, end) in [("online", online), ("offline", offline)] {
            writeln!(
                out,
                "Last {name} checksum {}, undisturbed computation of {} kernels {}.",
                end.checksum, end.kernels, end.expected
            )?;
        }
    }
    let identical = if report.bit_identical { "bit_identical" } else { "NOT bit_identical" };
    writeln!(
        out,
        "All results of all {} blocks: {identical}; runs of workgroups lost {}, repeated {}.",
        report.blocks.len(),
        report.lost,
        report.repeated
    )?;
    if let Some(complaint) = report.busy.complaint() {
        writeln!(out, "{complaint}")?;
    }
    for fault in &report.faults {
        writeln!(out, "Not valid: {fault}.")?;
    }
    Ok(())
}
