//! `gpreempt lab plausibility`: compares the model with a publication.

use std::io::Write;

use anyhow::Result;
use comfy_table::{Cell, Table};
use gpreempt_lab::Profile;
use gpreempt_lab::experiment::{self, PlausibilityRow};
use serde::Serialize;

use crate::cli::Plausibility;
use crate::output;

pub(crate) fn run(options: &Plausibility, out: &mut impl Write) -> Result<()> {
    let profile = Profile::load(&options.profile)?;
    let result = experiment::plausibility(&profile, options.seed)?;
    if options.json {
        let document = Document {
            schema: output::SCHEMA,
            kind: super::SIMULATED,
            source: SOURCE,
            profile: &result.profile,
            seed: options.seed,
            length_ratio: result.length_ratio,
            interrupt_us: result.interrupt_us,
            rows: result.rows.iter().map(JsonRow::new).collect(),
        };
        return output::json(&document, out);
    }
    writeln!(
        out,
        "Simulated on profile {}, seed {}: time from suspend to an empty hardware queue, 99th percentile in us.",
        result.profile, options.seed
    )?;
    writeln!(out, "Published: {SOURCE}.\n")?;
    writeln!(out, "{}\n", table(&result.rows))?;
    writeln!(
        out,
        "* calibrates the model (kernels {:.3} times as long as their nominal length, interrupt {:.1} us); the other rows are predictions.",
        result.length_ratio, result.interrupt_us
    )?;
    Ok(())
}

/// Source of the published figures.
const SOURCE: &str = "XSched (OSDI 2025), artifact, results/fig9/raw, levels 1 to 3 on GV100";

/// Returns the table: one line per kernel length, the levels side by side.
fn table(rows: &[PlausibilityRow]) -> Table {
    let mut table = output::table(&[
        "kernel us",
        "level 1\npublished",
        "\nmodel",
        "\ndeviation",
        "level 2\npublished",
        "\nmodel",
        "\ndeviation",
        "level 3\npublished",
        "\nmodel",
        "\ndeviation",
    ]);
    let mut lengths: Vec<u32> = rows.iter().map(|row| row.kernel_us).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for length in lengths {
        let mut cells = vec![Cell::new(length)];
        for level in 1..=3 {
            let of_level = |row: &&PlausibilityRow| row.level == level && row.kernel_us == length;
            let Some(row) = rows.iter().find(of_level) else {
                cells.extend(["-", "-", "-"].map(output::number));
                continue;
            };
            let mark = if row.calibration { "*" } else { "" };
            cells.push(output::number(format!("{:.1}", row.published_p99_us)));
            cells.push(output::number(format!("{:.1}", row.predicted_p99_us)));
            cells.push(output::number(format!("{mark}{:+.1} %", row.deviation_percent)));
        }
        table.add_row(cells);
    }
    table
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    kind: &'static str,
    source: &'static str,
    profile: &'a str,
    seed: u64,
    length_ratio: f64,
    interrupt_us: f64,
    rows: Vec<JsonRow>,
}

#[derive(Serialize)]
struct JsonRow {
    level: u8,
    kernel_us: u32,
    published_p99_us: f64,
    predicted_p99_us: f64,
    deviation_percent: f64,
    calibration: bool,
}

impl JsonRow {
    fn new(row: &PlausibilityRow) -> JsonRow {
        JsonRow {
            level: row.level,
            kernel_us: row.kernel_us,
            published_p99_us: row.published_p99_us,
            predicted_p99_us: row.predicted_p99_us,
            deviation_percent: row.deviation_percent,
            calibration: row.calibration,
        }
    }
}
