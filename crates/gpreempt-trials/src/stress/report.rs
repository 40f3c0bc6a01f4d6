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
use super::left::Left;
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
    /// Times the driver gave the gpu up and reset it, which kills everything on it.
    resets: u64,
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
    pub(super) left: Left,
    pub(super) short: Vec<&'static str>,
}

impl StressReport {
    pub(super) fn new(options: &StressArgs, tally: CrowdTally, page: &Page, end: End) -> Self {
        let point = |point: &Point| {
            let counts = page.counts(*point);
            (point.name(), PointStatus { passed: counts.passed, hits: counts.hits })
        };
        let mut failures = tally.failures;
        failures.extend(end.left.held.iter().map(|left| format!("left over: {left}")));
        if end.left.resets > 0 {
            failures.push(format!("the gpu was reset {} times: waves did not stop in time", end.left.resets));
        }
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
            leaked: end.left.held.len() as u64,
            stuck: end.stuck,
            wrong: tally.wrong,
            resets: end.left.resets,
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
        if self.leaked + self.stuck + self.wrong + self.resets > 0 {
            bail!("{}", self.verdict());
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
        writeln!(out, "{}", self.verdict())?;
        Ok(())
    }

    fn verdict(&self) -> String {
        format!("leaked {}, stuck {}, wrong {}, resets {}", self.leaked, self.stuck, self.wrong, self.resets)
    }
}

#[cfg(test)]
mod tests {
    use vgpu::launch::KernelProfile;
    use vgpu::profile::ReadIndexKind;

    use super::*;

    fn report(resets: u64) -> StressReport {
        let (read_index, kernel) = (ReadIndexKind::Retire, KernelProfile::default());
        let options = StressArgs {
            seconds: 1,
            processes: 1,
            queues: 1,
            tracers: 0,
            hits: 0,
            read_index,
            kernel,
            seed: 1,
            json: true,
        };
        let left = Left { resets, held: Vec::new() };
        let end = End { elapsed_s: 1.0, stuck: 0, left, short: Vec::new() };
        StressReport::new(&options, CrowdTally::default(), &Page::new().unwrap(), end)
    }

    #[test]
    fn a_run_in_which_the_gpu_was_reset_fails() {
        assert!(report(0).print(true, &mut Vec::new()).is_ok());
        let mut printed = Vec::new();
        let error = report(2).print(true, &mut printed).unwrap_err().to_string();
        assert_eq!(error, "leaked 0, stuck 0, wrong 0, resets 2");
        let printed: serde_json::Value = serde_json::from_slice(&printed).unwrap();
        assert_eq!(printed["resets"], 2);
        assert_eq!(printed["failures"][0], "the gpu was reset 2 times: waves did not stop in time");
    }
}
