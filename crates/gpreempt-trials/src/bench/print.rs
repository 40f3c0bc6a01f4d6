//! The report as text.

use std::io::Write;

use anyhow::Result;
use comfy_table::{Cell, Table};

use super::goal::Goal;
use super::{BenchReport, detection, requests, tenants};
use crate::output::{self, digits, factor, from_micros, number, percent};

pub(super) fn print(report: &BenchReport, out: &mut impl Write) -> Result<()> {
    if let Some(cases) = &report.requests {
        writeln!(out, "Online latency and offline throughput ({}):\n{}", report.kind, of_requests(cases))?;
    }
    if let Some(cases) = &report.detection {
        writeln!(out, "From doorbell to poll, against the daemon's share of a core:\n{}", of_detection(cases))?;
    }
    if let Some(doorbell) = &report.doorbell {
        writeln!(
            out,
            "Doorbell: {} ns without the daemon, {} ns with it, ratio {:.3} (median of {} blocks).\n",
            digits(doorbell.without_ns),
            digits(doorbell.with_ns),
            doorbell.ratio,
            doorbell.blocks
        )?;
    }
    if let Some(cases) = &report.tenants {
        writeln!(out, "Cost of watching many:\n{}", of_tenants(cases))?;
    }
    let mut table = output::listing(&["goal", "case", "bound", "measured", ""], &[0, 1, 4]);
    for goal in &report.goals {
        table.add_row(row(goal));
    }
    writeln!(out, "{table}")?;
    for goal in report.goals.iter().filter(|goal| goal.met == Some(false)) {
        writeln!(out, "Missed: {}, {}: {}.", goal.name, goal.case, goal.reason.as_deref().unwrap_or("-"))?;
    }
    let load = |load: Option<f64>| load.map_or_else(|| "-".to_owned(), digits);
    writeln!(
        out,
        "{} {} cores; load of the machine {} before, {} after.",
        verdict(report.busy.complaint(), report.goals_met, report.goals_missed),
        report.cores,
        load(report.load_before),
        load(report.load_after)
    )?;
    Ok(())
}

/// Counts goals, or says why none is judged.
fn verdict(complaint: Option<String>, met: usize, missed: usize) -> String {
    complaint.unwrap_or_else(|| format!("{met} goals met, {missed} missed."))
}

fn row(goal: &Goal) -> [Cell; 5] {
    let bound = match (goal.at_least, goal.at_most) {
        (Some(least), Some(most)) => format!("{} to {}", digits(least), digits(most)),
        (Some(least), None) => format!(">= {}", digits(least)),
        (None, Some(most)) => format!("<= {}", digits(most)),
        (None, None) => "-".to_owned(),
    };
    let measured = goal.measured.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let met = match goal.met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "not judged",
    };
    [Cell::new(goal.name), Cell::new(&goal.case), number(bound), number(measured), Cell::new(met)]
}

fn of_requests(cases: &[requests::Case]) -> Table {
    let mut table = output::table(&[
        "length",
        "requests",
        "alone p50",
        "p95",
        "with p50",
        "p95",
        "added p50",
        "p95",
        "kept of ideal",
        "stops",
        "cycles/stop",
        "daemon",
    ]);
    for case in cases {
        let mut cells = vec![Cell::new(format!("{} ms", case.request_ms)), number(case.requests)];
        for micros in [case.alone.p50_us, case.alone.p95_us, case.with.p50_us, case.with.p95_us] {
            cells.push(number(from_micros(micros)));
        }
        for micros in [case.added_p50_us, case.added_p95_us] {
            cells.push(number(format!("{:.2} ms", micros / 1e3)));
        }
        cells.push(number(percent(case.offline.with_kept_of_ideal)));
        cells.push(number(case.stops));
        cells.push(number(factor(case.cycles_per_stop)));
        cells.push(number(percent(Some(case.daemon_cpu_share))));
        table.add_row(cells);
    }
    table
}

fn of_detection(cases: &[detection::Case]) -> Table {
    let mut table = output::table(&[
        "polls",
        "doorbells",
        "p50",
        "p99",
        "max",
        "daemon",
        "deciding thread",
        "bare loop",
        "x bare loop",
    ]);
    for case in cases {
        let mut cells = vec![Cell::new(detection::name(case.period_us)), number(case.doorbells)];
        let detection = case.detection.as_ref();
        for micros in
            [detection.map(|all| all.p50_us), detection.map(|all| all.p99_us), detection.map(|all| all.max_us)]
        {
            cells.push(number(micros.map_or_else(|| "-".to_owned(), from_micros)));
        }
        for share in [case.daemon_cpu_share, case.watch_cpu_share, case.bare_cpu_share] {
            cells.push(number(percent(Some(share))));
        }
        cells.push(number(factor(case.watch_times_bare)));
        table.add_row(cells);
    }
    table
}

fn of_tenants(cases: &[tenants::Case]) -> Table {
    let mut table = output::table(&["tenants", "queues", "poll", "decision", "daemon"]);
    for case in cases {
        table.add_row([
            number(case.tenants),
            number(case.queues),
            number(from_micros(case.poll_us)),
            number(from_micros(case.decision_us)),
            number(percent(Some(case.daemon_cpu_share))),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_that_are_not_judged_are_not_counted() {
        assert_eq!(verdict(None, 3, 1), "3 goals met, 1 missed.");
        assert_eq!(verdict(Some("Busy: nothing is judged.".to_owned()), 0, 0), "Busy: nothing is judged.");
    }
}
