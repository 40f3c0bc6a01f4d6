//! What is counted while the soak goes on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::load::End;

/// Most failures that are kept in words; all are counted.
const MOST_WORDS: usize = 50;

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Failure {
    /// When, in seconds from the begin.
    pub(super) at_s: f64,
    /// What happened, and the last disturbances before it.
    pub(super) what: String,
}

/// Everything that is counted.
#[derive(Debug)]
pub(super) struct SoakTally {
    begun: Instant,
    pub(super) elapsed: Duration,
    /// What was done, by name, and how often.
    pub(super) kills: BTreeMap<&'static str, u64>,
    pub(super) freezes: BTreeMap<&'static str, u64>,
    pub(super) calls: BTreeMap<&'static str, u64>,
    pub(super) restarts: u64,
    pub(super) stops: u64,
    pub(super) resumes: u64,
    pub(super) actuator_starts: u64,
    pub(super) started: u64,
    pub(super) checked: u64,
    pub(super) kernels: u64,
    pub(super) lost: u64,
    pub(super) repeated: u64,
    /// Results with a wrong bit.
    pub(super) wrong: u64,
    pub(super) stuck: u64,
    pub(super) left_over: u64,
    pub(super) failed: u64,
    /// From the death of a daemon until no process was stopped or traced.
    pub(super) freed: Vec<Duration>,
    pub(super) failures: Vec<Failure>,
    /// What was done last: what a failure may come from.
    last: Vec<String>,
}

impl SoakTally {
    pub(super) fn new() -> SoakTally {
        SoakTally {
            begun: Instant::now(),
            elapsed: Duration::ZERO,
            kills: BTreeMap::new(),
            freezes: BTreeMap::new(),
            calls: BTreeMap::new(),
            restarts: 0,
            stops: 0,
            resumes: 0,
            actuator_starts: 0,
            started: 0,
            checked: 0,
            kernels: 0,
            lost: 0,
            repeated: 0,
            wrong: 0,
            stuck: 0,
            left_over: 0,
            failed: 0,
            freed: Vec::new(),
            failures: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Notes a disturbance.
    pub(super) fn did(&mut self, what: String) {
        if self.last.len() >= 4 {
            self.last.remove(0);
        }
        self.last.push(format!("{:.2} {what}", self.begun.elapsed().as_secs_f64()));
    }

    /// Something that must not happen, happened.
    pub(super) fn fail(&mut self, what: &str) {
        self.failed += 1;
        if self.failures.len() < MOST_WORDS {
            let what = format!("{what} (before: {})", self.last.join(", "));
            self.failures.push(Failure { at_s: self.begun.elapsed().as_secs_f64(), what });
        }
    }

    /// A program did not move on.
    pub(super) fn stuck(&mut self, what: &str) {
        self.stuck += 1;
        self.fail(what);
    }

    /// Notes something that is left when all processes are gone.
    pub(super) fn left(&mut self, what: String) {
        self.left_over += 1;
        self.fail(&format!("left over: {what}"));
    }

    /// A program ended, and this is its result.
    pub(super) fn check(&mut self, who: &str, end: &End) {
        self.checked += 1;
        self.kernels += u64::from(end.kernels);
        self.lost += end.lost;
        self.repeated += end.repeated;
        if !end.bit_identical || end.lost + end.repeated > 0 {
            self.wrong += u64::from(!end.bit_identical);
            let End { lost, repeated, checksum, expected, .. } = end;
            self.fail(&format!("{who}: {lost} lost, {repeated} repeated, result {checksum}, expected {expected}"));
        }
    }

    /// The time of the soak is over.
    pub(super) fn end(&mut self) {
        self.elapsed = self.begun.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(lost: u64, bit_identical: bool) -> End {
        let (checksum, expected) = (String::new(), String::new());
        End { at_ns: 0, kernels: 3, lost, repeated: 0, checksum, expected, bit_identical }
    }

    #[test]
    fn every_wrong_result_is_a_failure_and_right_ones_are_not() {
        let mut tally = SoakTally::new();
        tally.check("a", &end(0, true));
        assert_eq!((tally.checked, tally.failed, tally.kernels), (1, 0, 3));
        tally.check("b", &end(2, true));
        tally.check("c", &end(0, false));
        assert_eq!((tally.checked, tally.failed, tally.lost, tally.wrong), (3, 2, 2, 1));
    }

    #[test]
    fn a_failure_says_what_was_done_before() {
        let mut tally = SoakTally::new();
        (0..9).for_each(|number| tally.did(format!("thing {number}")));
        tally.stuck("it stands");
        let words = &tally.failures[0].what;
        assert!(words.contains("it stands") && words.contains("thing 8") && !words.contains("thing 4"), "{words}");
    }
}
