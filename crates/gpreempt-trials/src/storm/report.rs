//! The report of a storm.

use std::io::Write;

use anyhow::Result;
use comfy_table::Cell;
use serde::Serialize;
use vgpu::protocol::PreemptionStatus;

use super::attempt::Attempt;
use super::lines::Lines;
use crate::output::{self, number};

/// Failures that are reported one by one.
const SHOWN: usize = 20;

/// The document.
#[derive(Debug, Serialize)]
pub(super) struct StormReport {
    schema: u32,
    client: &'static str,
    seed: u64,
    /// Runs in the storm.
    pub(super) runs: u64,
    /// Queues that the device itself saved with at least one wave.
    pub(super) executor_preemptions: u64,
    /// Calls of the tracer that stopped at least one queue, those that put it back, and stops during which the client
    /// ended.
    pub(super) suspends: u64,
    resumes: u64,
    outlived: u64,
    /// Queues that the driver had saved with at least one wave, because of those calls or of queues that came and went.
    driver_saves: u64,
    waves_saved: u64,
    workgroups_back: u64,
    /// Of the waves restored, those that came to another place.
    restores_elsewhere_share: Option<f64>,
    bit_identical: bool,
    /// Whether all that counts itself did so once; absent if the client has nothing that counts.
    exactly_once: Option<bool>,
    pub(super) failures: Vec<String>,
    #[serde(skip)]
    workgroups_moved: u64,
    #[serde(skip)]
    unshown: usize,
}

impl StormReport {
    pub(super) fn new(client: &'static str, seed: u64) -> StormReport {
        StormReport {
            schema: output::SCHEMA,
            client,
            seed,
            runs: 0,
            executor_preemptions: 0,
            suspends: 0,
            resumes: 0,
            outlived: 0,
            driver_saves: 0,
            waves_saved: 0,
            workgroups_back: 0,
            restores_elsewhere_share: None,
            bit_identical: true,
            exactly_once: None,
            failures: Vec::new(),
            workgroups_moved: 0,
            unshown: 0,
        }
    }

    /// Counts a run in the storm and compares it with the undisturbed one.
    pub(super) fn add(&mut self, attempt: Attempt, reference: &Lines, seed: u64) {
        let Attempt { lines, summary, preemption, failures } = attempt;
        self.runs += 1;
        self.suspends += summary.suspends;
        self.resumes += summary.resumes;
        self.outlived += summary.outlived;
        self.add_preemption(&preemption);
        let differences = lines.differences(reference);
        self.bit_identical &= differences.is_empty();
        if let Some(once) = lines.counted_once(reference) {
            self.exactly_once = Some(once && self.exactly_once.unwrap_or(true));
        }
        for failure in failures.into_iter().chain(differences) {
            self.fail(format!("run {} (seed {seed}): {failure}", self.runs));
        }
        if summary.failed > 0 {
            self.fail(format!("run {} (seed {seed}): the gpu failed for {} queues", self.runs, summary.failed));
        }
    }

    fn add_preemption(&mut self, preemption: &PreemptionStatus) {
        self.executor_preemptions += preemption.storm_saves;
        self.driver_saves += preemption.saves.saturating_sub(preemption.storm_saves);
        self.waves_saved += preemption.waves_saved;
        self.workgroups_back += preemption.workgroups_back;
        self.workgroups_moved += preemption.workgroups_moved;
        let share = self.workgroups_moved as f64 / self.workgroups_back as f64;
        self.restores_elsewhere_share = (self.workgroups_back > 0).then_some(share);
    }

    /// Notes a failure. Beyond the first few they are only counted.
    pub(super) fn fail(&mut self, failure: String) {
        if self.failures.len() < SHOWN {
            self.failures.push(failure);
        } else {
            self.unshown += 1;
        }
    }

    /// Whether anything went wrong.
    pub(super) fn failed(&self) -> bool {
        !self.failures.is_empty()
    }

    pub(super) fn write(&mut self, json: bool, out: &mut impl Write) -> Result<()> {
        if self.unshown > 0 {
            self.failures.push(format!("and {} more", self.unshown));
            self.unshown = 0;
        }
        if json { output::json(self, out) } else { self.print(out) }
    }

    fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut table = output::table(&["client", "runs", "by the device", "suspends", "waves saved", "elsewhere"]);
        let numbers = [self.runs, self.executor_preemptions, self.suspends, self.waves_saved].map(number);
        let cells = std::iter::once(Cell::new(self.client)).chain(numbers);
        table.add_row(cells.chain([number(output::percent(self.restores_elsewhere_share))]));
        writeln!(out, "{table}")?;
        for failure in &self.failures {
            writeln!(out, "{failure}")?;
        }
        let identical = if self.bit_identical { "identical bit by bit" } else { "different" };
        let once = match self.exactly_once {
            Some(true) => ", and everything that counts itself ran exactly once",
            Some(false) => ", and something did not run exactly once",
            None => "",
        };
        writeln!(out, "Results with and without the storm are {identical}{once}.")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storm::client::Summary;

    fn attempt(text: &str) -> Attempt {
        let preemption = PreemptionStatus {
            saves: 5,
            storm_saves: 3,
            waves_saved: 40,
            workgroups_back: 40,
            workgroups_moved: 30,
            ..PreemptionStatus::default()
        };
        let summary = Summary { suspends: 2, resumes: 2, outlived: 0, missed: 1, failed: 0 };
        Attempt { lines: Lines::of(text), summary, preemption, failures: Vec::new() }
    }

    #[test]
    fn runs_add_up() {
        let reference = Lines::of("exactly_once 0 aa");
        let mut report = StormReport::new("workload", 7);
        report.add(attempt("exactly_once 0 aa"), &reference, 8);
        report.add(attempt("exactly_once 0 aa"), &reference, 9);
        assert!(!report.failed());
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!((&value["executor_preemptions"], &value["driver_saves"]), (&6.into(), &4.into()));
        assert_eq!((&value["suspends"], &value["waves_saved"], &value["runs"]), (&4.into(), &80.into(), &2.into()));
        assert_eq!(value["restores_elsewhere_share"], 0.75);
        assert_eq!((&value["bit_identical"], &value["exactly_once"]), (&true.into(), &true.into()));
    }

    #[test]
    fn one_different_bit_in_one_run_is_told_and_stays_told() {
        let reference = Lines::of("exactly_once 0 aa\nvadd 0 bb");
        let mut report = StormReport::new("workload", 7);
        report.add(attempt("exactly_once 0 ab\nvadd 0 bb"), &reference, 8);
        report.add(attempt("exactly_once 0 aa\nvadd 0 bb"), &reference, 9);
        assert!(report.failed() && !report.bit_identical);
        assert_eq!(report.exactly_once, Some(false));
        assert_eq!(report.failures, ["run 1 (seed 8): exactly_once 0: ab, undisturbed aa"]);
        let mut text = Vec::new();
        report.write(false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("are different, and something did not run exactly once"), "{text}");
    }

    #[test]
    fn a_client_that_counts_nothing_says_so() {
        let mut report = StormReport::new("tinygrad", 7);
        report.add(attempt("loss 1 aa"), &Lines::of("loss 1 aa"), 8);
        assert_eq!(serde_json::to_value(&report).unwrap()["exactly_once"], serde_json::Value::Null);
    }

    #[test]
    fn many_failures_are_counted() {
        let mut report = StormReport::new("hip", 1);
        (0..100).for_each(|index| report.fail(format!("failure {index}")));
        let mut text = Vec::new();
        report.write(true, &mut text).unwrap();
        assert_eq!(report.failures.last().map(String::as_str), Some("and 80 more"));
    }
}
