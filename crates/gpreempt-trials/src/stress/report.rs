//! What the stress found.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;
use vgpu::kill_points::{Page, Point};
use vgpu::protocol::PointStatus;

use super::StressArgs;
use super::crowd::CrowdTally;
use crate::output::{self, number};

#[derive(Serialize)]
pub(super) struct StressReport {
    schema: u32,
    seed: u64,
    processes: u32,
    queues: u32,
    elapsed_s: f64,
    started: u64,
    killed: u64,
    jobs: u64,
    suspends: u64,
    resumes: u64,
    /// From a death until the driver has given everything back.
    death_noticed: Noticed,
    points: BTreeMap<&'static str, PointStatus>,
    /// Points at which too few died.
    short: Vec<&'static str>,
    leaked: u64,
    stuck: u64,
    wrong: u64,
    failures: Vec<String>,
}

/// How soon deaths were noticed.
#[derive(Serialize)]
struct Noticed {
    samples: usize,
    p50_ms: f64,
    max_ms: f64,
}

impl Noticed {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        Noticed { samples: times.len(), p50_ms: ms(times.get(times.len() / 2)), max_ms: ms(times.last()) }
    }
}

/// What remained at the end.
pub(super) struct End {
    pub(super) elapsed_s: f64,
    pub(super) stuck: u64,
    pub(super) left: Vec<String>,
    pub(super) short: Vec<&'static str>,
}

impl StressReport {
    pub(super) fn new(options: &StressArgs, tally: CrowdTally, page: &Page, end: End) -> Self {
        let point = |point: &Point| {
            let counts = page.counts(*point);
            (point.name(), PointStatus { passed: counts.passed, hits: counts.hits })
        };
        let mut failures = tally.failures;
        failures.extend(end.left.iter().map(|left| format!("left over: {left}")));
        StressReport {
            schema: output::SCHEMA,
            seed: options.seed,
            processes: options.processes,
            queues: options.queues,
            elapsed_s: end.elapsed_s,
            started: tally.started,
            killed: tally.killed,
            jobs: tally.jobs,
            suspends: tally.suspends,
            resumes: tally.resumes,
            death_noticed: Noticed::new(tally.forgotten),
            points: Point::ALL.iter().map(point).collect(),
            short: end.short,
            leaked: end.left.len() as u64,
            stuck: end.stuck,
            wrong: tally.wrong,
            failures,
        }
    }

    /// Prints it; an error if anything was wrong.
    pub(super) fn print(&self, json: bool, out: &mut impl Write) -> Result<()> {
        if json {
            output::json(self, out)?;
        } else {
            self.write_text(out)?;
        }
        out.flush()?;
        if self.leaked + self.stuck + self.wrong > 0 {
            bail!("{} leaked, {} stuck, {} wrong", self.leaked, self.stuck, self.wrong);
        }
        if !self.short.is_empty() {
            bail!("too few processes died at {}; use more --seconds", self.short.join(", "));
        }
        Ok(())
    }

    fn write_text(&self, out: &mut impl Write) -> Result<()> {
        let mut table = output::table(&["point", "passed", "killed"]);
        for (name, counts) in &self.points {
            table.add_row([comfy_table::Cell::new(name), number(counts.passed), number(counts.hits)]);
        }
        writeln!(out, "{table}")?;
        writeln!(
            out,
            "{} processes, {} killed, {} kernels checked, {} queues suspended, {} resumed in {:.0} s",
            self.started, self.killed, self.jobs, self.suspends, self.resumes, self.elapsed_s
        )?;
        let Noticed { samples, p50_ms, max_ms } = self.death_noticed;
        writeln!(out, "a death is noticed after {p50_ms:.1} ms (median of {samples}), {max_ms:.1} ms at most")?;
        for failure in &self.failures {
            writeln!(out, "  {failure}")?;
        }
        writeln!(out, "leaked {}, stuck {}, wrong {}", self.leaked, self.stuck, self.wrong)?;
        Ok(())
    }
}
