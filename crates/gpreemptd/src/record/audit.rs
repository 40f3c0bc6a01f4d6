//! The audit log: which job was stopped on account of which, one record per pair and second.

use std::collections::BTreeMap;

use gpreempt_core::Nanos;

const SECOND: Nanos = Nanos::from_secs(1);

/// Pairs kept for one second; all further ones go into one record without names.
const MOST_PAIRS: usize = 1024;

/// The job that was stopped, and the job that caused it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    victim: String,
    cause: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    stops: u64,
    stopped: Nanos,
}

/// Sums of the second that runs.
#[derive(Debug, Default)]
pub struct Audit {
    sums: BTreeMap<Pair, Sum>,
    others: Sum,
    due: Option<Nanos>,
}

/// A record of the log.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    pair: Option<Pair>,
    sum: Sum,
}

impl Audit {
    /// Tenants of `victim` were stopped so often, and such a time in which they had been stopped ended; on account of
    /// `cause`, or by hand. Writes what is due.
    pub fn note(&mut self, now: Nanos, victim: &str, cause: Option<&str>, stops: u64, stopped: Nanos) {
        self.flush(now);
        let pair = Pair { victim: victim.to_owned(), cause: cause.map(str::to_owned) };
        let full = self.sums.len() >= MOST_PAIRS && !self.sums.contains_key(&pair);
        let sum = if full { &mut self.others } else { self.sums.entry(pair).or_default() };
        sum.stops = sum.stops.saturating_add(stops);
        sum.stopped = sum.stopped.plus(stopped);
        self.due.get_or_insert(now.plus(SECOND));
    }

    /// Writes the records of the second that is over, if one is. [`Nanos::NEVER`] writes all, at the end.
    pub fn flush(&mut self, now: Nanos) {
        for Record { pair, sum } in self.take(now) {
            let stopped_us = sum.stopped.0 / 1_000;
            let (victim, cause) = match &pair {
                Some(pair) => (pair.victim.as_str(), pair.cause.as_deref().unwrap_or("by hand")),
                None => ("others", "others"),
            };
            tracing::info!(target: "gpreempt::audit", victim, cause, stops = sum.stops, stopped_us, "preempted");
        }
    }

    /// When [`Audit::flush`] has something to write: an instant for the caller's timer.
    #[must_use]
    pub fn due(&self) -> Option<Nanos> {
        self.due
    }

    fn take(&mut self, now: Nanos) -> Vec<Record> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.due = None;
        let named = std::mem::take(&mut self.sums).into_iter().map(|(pair, sum)| Record { pair: Some(pair), sum });
        let others = std::mem::take(&mut self.others);
        named.chain((others != Sum::default()).then_some(Record { pair: None, sum: others })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(victim: &str, cause: Option<&str>, stops: u64, stopped: Nanos) -> Record {
        let pair = Pair { victim: victim.to_owned(), cause: cause.map(str::to_owned) };
        Record { pair: Some(pair), sum: Sum { stops, stopped } }
    }

    #[test]
    fn one_record_per_pair_sums_a_second() {
        let mut audit = Audit::default();
        let start = Nanos::from_secs(100);
        for step in 0..10 {
            let now = start.plus(Nanos::from_millis(step * 50));
            audit.note(now, "train", Some("serve"), 1, Nanos::ZERO);
            audit.note(now, "train", Some("serve"), 0, Nanos::from_millis(3));
        }
        audit.note(start, "train", None, 1, Nanos::from_millis(7));

        assert_eq!(audit.take(start.plus(Nanos::from_millis(999))), []);
        assert_eq!(audit.due(), Some(start.plus(SECOND)));
        let expected = [
            record("train", None, 1, Nanos::from_millis(7)),
            record("train", Some("serve"), 10, Nanos::from_millis(30)),
        ];
        assert_eq!(audit.take(start.plus(SECOND)), expected);
        assert_eq!(audit.due(), None);
        assert_eq!(audit.take(Nanos::NEVER), []);
    }

    #[test]
    fn an_endless_number_of_jobs_takes_bounded_memory_and_loses_no_stop() {
        let mut audit = Audit::default();
        for job in 0..3 * MOST_PAIRS {
            audit.note(Nanos::ZERO, &format!("job {job}"), Some("serve"), 1, Nanos(1));
        }
        let records = audit.take(Nanos::NEVER);
        assert_eq!(records.len(), MOST_PAIRS + 1);
        assert_eq!(records.iter().map(|record| record.sum.stops).sum::<u64>(), 3 * MOST_PAIRS as u64);
    }
}
