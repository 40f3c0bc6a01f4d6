//! Processes whose end matters although they may have no queues: members of jobs with overrides.

use std::time::{Duration, Instant};

use linux_host::process::ProcStat;

use super::ProcessSet;

/// Time between two checks.
const PERIOD: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(super) struct Tracked {
    processes: ProcessSet,
    due: Option<Instant>,
}

impl Tracked {
    /// Tracks these processes and no others.
    pub(super) fn set(&mut self, processes: ProcessSet) {
        self.processes = processes;
        self.due = None;
    }

    /// Returns those that have ended since the last check, and tracks them no longer. Checks at its period, or
    /// `at_once`.
    pub(super) fn ended(&mut self, now: Instant, at_once: bool) -> Option<ProcessSet> {
        if self.processes.is_empty() || !at_once && self.due.is_some_and(|due| now < due) {
            return None;
        }
        self.due = Some(now + PERIOD);
        let ended = ended(&self.processes);
        self.processes.retain(|pid, _| !ended.contains_key(pid));
        (!ended.is_empty()).then_some(ended)
    }
}

/// Returns those of the processes that have ended.
pub(crate) fn ended(processes: &ProcessSet) -> ProcessSet {
    let has_ended = |pid: u32, started: u64| ProcStat::read(pid).is_none_or(|stat| stat.start != started);
    processes
        .iter()
        .filter(|(pid, started)| has_ended(**pid, **started))
        .map(|(pid, started)| (*pid, *started))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_reported_once_and_a_number_in_use_again_is_an_end() {
        let own = std::process::id();
        let start = ProcStat::read(own).unwrap().start;
        let (now, mut tracked) = (Instant::now(), Tracked::default());
        assert_eq!(tracked.ended(now, true), None, "nothing is tracked");
        tracked.set([(own, start), (u32::MAX, 1)].into());
        assert_eq!(tracked.ended(now, false), Some([(u32::MAX, 1)].into()));
        tracked.set([(own, start - 1)].into());
        assert_eq!(tracked.ended(now, false), Some([(own, start - 1)].into()));
        tracked.set([(own, start)].into());
        assert_eq!((tracked.ended(now, true), tracked.ended(now + PERIOD, false)), (None, None));
    }
}
