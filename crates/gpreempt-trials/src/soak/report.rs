//! What the soak found.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Result, bail};
use serde::Serialize;

use super::tally::{Failure, SoakTally};
use crate::output::{self, number};

/// Least stops and kills of a minute, for the first two minutes: fewer would show little.
const STOPS_PER_MINUTE: f64 = 250.0;
const KILLS_PER_MINUTE: f64 = 10.0;

/// What was run.
pub(super) struct About {
    pub(super) hardware: bool,
    pub(super) gpu: String,
    pub(super) seed: u64,
    pub(super) minutes: f64,
}

/// The document.
#[derive(Serialize)]
pub(super) struct SoakReport {
    schema: u32,
    kind: &'static str,
    gpu: String,
    seed: u64,
    minutes: f64,
    elapsed_s: f64,
    stops: u64,
    resumes: u64,
    kills: u64,
    kills_of: BTreeMap<&'static str, u64>,
    freezes: u64,
    freezes_of: BTreeMap<&'static str, u64>,
    calls: BTreeMap<&'static str, u64>,
    daemon_restarts: u64,
    actuator_starts: u64,
    programs: u64,
    programs_checked: u64,
    kernels_checked: u64,
    lost: u64,
    repeated: u64,
    bit_identical: bool,
    stuck: u64,
    left_over: u64,
    freed: Freed,
    failed: u64,
    failures: Vec<Failure>,
    /// Counts that are too small.
    short: Vec<String>,
}

/// From the death of a daemon until no process was stopped or traced.
#[derive(Serialize)]
struct Freed {
    samples: usize,
    p50_ms: f64,
    max_ms: f64,
}

impl SoakReport {
    pub(super) fn new(about: About, mut tally: SoakTally) -> SoakReport {
        tally.freed.sort_unstable();
        let ms = |index: usize| tally.freed.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let samples = tally.freed.len();
        let freed = Freed { samples, p50_ms: ms(samples / 2), max_ms: ms(samples.saturating_sub(1)) };
        let (kills, freezes) = (tally.kills.values().sum(), tally.freezes.values().sum());
        let short = short(about.minutes, tally.stops, kills, tally.checked);
        SoakReport {
            schema: output::SCHEMA,
            kind: if about.hardware { "hardware" } else { "emulated" },
            gpu: about.gpu,
            seed: about.seed,
            minutes: about.minutes,
            elapsed_s: tally.elapsed.as_secs_f64(),
            stops: tally.stops,
            resumes: tally.resumes,
            kills,
            kills_of: tally.kills,
            freezes,
            freezes_of: tally.freezes,
            calls: tally.calls,
            daemon_restarts: tally.restarts,
            actuator_starts: tally.actuator_starts,
            programs: tally.started,
            programs_checked: tally.checked,
            kernels_checked: tally.kernels,
            lost: tally.lost,
            repeated: tally.repeated,
            bit_identical: tally.wrong == 0,
            stuck: tally.stuck,
            left_over: tally.left_over,
            freed,
            failed: tally.failed,
            failures: tally.failures,
            short,
        }
    }

    /// Prints it; an error if anything was wrong, or too little happened.
    pub(super) fn print(&self, json: bool, out: &mut impl Write) -> Result<()> {
        if json {
            output::json(self, out)?;
        } else {
            self.write_text(out)?;
        }
        out.flush()?;
        if self.failed > 0 {
            bail!(
                "{} failures with seed {}: {} stuck, {} left over",
                self.failed,
                self.seed,
                self.stuck,
                self.left_over
            );
        }
        if let Some(short) = self.short.first() {
            bail!("{short}: too little to show anything; use more --minutes");
        }
        Ok(())
    }

    fn write_text(&self, out: &mut impl Write) -> Result<()> {
        let mut table = output::table(&["process", "killed", "stopped by SIGSTOP"]);
        for name in ["daemon", "guardian", "actuator", "online", "offline"] {
            let count = |of: &BTreeMap<&'static str, u64>| number(of.get(name).copied().unwrap_or(0));
            table.add_row([comfy_table::Cell::new(name), count(&self.kills_of), count(&self.freezes_of)]);
        }
        writeln!(out, "{table}")?;
        writeln!(
            out,
            "{} tenants stopped, {} resumed, {} kills, {} daemons and {} actuators started again in {:.0} s",
            self.stops, self.resumes, self.kills, self.daemon_restarts, self.actuator_starts, self.elapsed_s
        )?;
        let Freed { samples, p50_ms, max_ms } = self.freed;
        writeln!(
            out,
            "everything runs again after a daemon's death within {p50_ms:.1} ms (median of {samples}), {max_ms:.1} ms at most"
        )?;
        for Failure { at_s, what } in &self.failures {
            writeln!(out, "  {at_s:.2} s: {what}")?;
        }
        writeln!(
            out,
            "{} of {} programs checked, {} kernels: {} lost, {} repeated, bit-identical: {}; {} stuck, {} left over, {} failures",
            self.programs_checked,
            self.programs,
            self.kernels_checked,
            self.lost,
            self.repeated,
            self.bit_identical,
            self.stuck,
            self.left_over,
            self.failed
        )?;
        Ok(())
    }
}

/// Names the counts that are too small for the duration.
fn short(minutes: f64, stops: u64, kills: u64, checked: u64) -> Vec<String> {
    let minutes = minutes.min(2.0);
    let least = |per_minute: f64| (per_minute * minutes).ceil() as u64;
    let counts = [
        (stops, least(STOPS_PER_MINUTE), "tenants stopped"),
        (kills, least(KILLS_PER_MINUTE), "kills"),
        (checked, 1, "programs checked"),
    ];
    let is_short =
        |(count, least, what): (u64, u64, &str)| (count < least).then(|| format!("{count} {what}, {least} are needed"));
    counts.into_iter().filter_map(is_short).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::document::assert_documented;

    #[test]
    fn the_document_has_the_keys_that_its_documentation_lists() {
        let mut tally = SoakTally::new();
        for name in ["daemon", "guardian", "actuator", "online", "offline"] {
            tally.kills.insert(name, 1);
        }
        for name in ["set", "hold", "release", "reload", "reload_nonsense"] {
            tally.calls.insert(name, 1);
        }
        tally.freed.push(Duration::from_millis(3));
        tally.left("a queue".to_owned());
        let about = About { hardware: false, gpu: String::new(), seed: 1, minutes: 1.0 };
        let value = serde_json::to_value(SoakReport::new(about, tally)).unwrap();
        assert_documented(include_str!("../../../../docs/soak-json.md"), "", &value, &[]);
    }

    #[test]
    fn two_minutes_need_500_stops_and_20_kills() {
        assert!(short(2.0, 500, 20, 1).is_empty());
        assert_eq!(short(2.0, 499, 20, 1), ["499 tenants stopped, 500 are needed"]);
        assert_eq!(short(60.0, 500, 19, 0).len(), 2);
        assert!(short(0.2, 50, 2, 1).is_empty());
    }
}
