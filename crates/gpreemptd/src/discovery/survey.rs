//! All processes that use the driver, as one scan after the other finds them.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kfd::{Pid, Processes};

use super::DiscoveryEvent;
use super::process_record::ProcessRecord;
use super::program::Program;
use super::rings::Reader;
use super::warn_once::WarnOnce;

/// Time between two looks at what changes seldom or matters little: video memory, tracers.
const SLOW: Duration = Duration::from_millis(200);
/// Time between two readings of queues that are known.
const RECHECK: Duration = Duration::from_secs(1);
/// Longest time for which the driver may still list what a program had that has ended.
const DEPARTURE: Duration = Duration::from_millis(100);

/// What is known.
#[derive(Debug)]
pub(super) struct Survey {
    processes: Processes,
    variables: Vec<String>,
    known: BTreeMap<Pid, ProcessRecord>,
    rings: Reader,
    slow_due: Option<Instant>,
    recheck_due: Option<Instant>,
}

impl Survey {
    /// Nothing is known yet.
    pub(super) fn new(processes: Processes, debugfs: PathBuf, variables: Vec<String>) -> Survey {
        let rings = Reader::new(debugfs);
        let known = BTreeMap::new();
        Survey { processes, variables, known, rings, slow_due: None, recheck_due: None }
    }

    /// Sets the variables that matter from now on. All known processes are reported again.
    pub(super) fn ask_for(&mut self, variables: Vec<String>) {
        if variables != self.variables {
            self.variables = variables;
            self.known.values_mut().for_each(ProcessRecord::forget_program);
        }
    }

    /// Rings of this process are not where they were.
    pub(super) fn find_rings_again(&mut self, pid: Pid) {
        if let Some(known) = self.known.get_mut(&pid) {
            known.forget_rings();
        }
    }

    /// Has all known processes reported again.
    pub(super) fn tell_again(&mut self) {
        self.known.values_mut().for_each(ProcessRecord::tell_again);
    }

    /// Scans all processes. Returns whether any has the driver open.
    pub(super) fn scan(&mut self, now: Instant, warnings: &mut WarnOnce, found: &mut Vec<DiscoveryEvent>) -> bool {
        let pids = self.processes.pids().unwrap_or_else(|error| {
            warnings.warn(error.to_string());
            Vec::new()
        });
        self.known.retain(|pid, known| {
            let stays = pids.binary_search(pid).is_ok();
            if !stays {
                known.leave(*pid, found);
            }
            stays
        });
        let depth = ScanDepth {
            slow: is_due(&mut self.slow_due, SLOW, now),
            thorough: is_due(&mut self.recheck_due, RECHECK, now),
        };
        let mut changed = false;
        for pid in &pids {
            match self.look(*pid, &depth, now, warnings, found) {
                Ok(is_new) => changed |= is_new,
                Err(error) => warnings.warn(error.to_string()),
            }
        }
        let wanted = self.known.iter_mut().flat_map(|(pid, known)| known.wanted(*pid)).collect();
        self.rings.find(wanted, changed, now);
        if let Some(why) = self.rings.refused() {
            warnings.warn(format!("rings are not known, so no process is seen to want a gpu: {why}"));
        }
        found.extend(
            self.known
                .values_mut()
                .filter_map(ProcessRecord::report)
                .map(|process| DiscoveryEvent::Process(Box::new(process))),
        );
        !pids.is_empty()
    }

    /// Looks at one process. Says whether it has other queues than before.
    fn look(
        &mut self,
        pid: Pid,
        depth: &ScanDepth,
        now: Instant,
        warnings: &mut WarnOnce,
        found: &mut Vec<DiscoveryEvent>,
    ) -> kfd::Result<bool> {
        let known = self.known.entry(pid).or_default();
        if known.program.as_ref().is_some_and(|program| program.has_ended(depth.slow)) {
            known.leave(pid, found);
            *known = ProcessRecord::departed(now);
        }
        let listing = self.processes.queue_ids(pid)?.unwrap_or_default();
        if let Some(since) = known.departed {
            // The queues of a program that ended are not those of its successor.
            if !listing.is_empty() && now.saturating_duration_since(since) < DEPARTURE {
                return Ok(false);
            }
            known.departed = None;
        }
        let mut changed = known.update_queues(pid, &listing, &self.processes, depth.thorough)?;
        if changed || depth.slow {
            changed |= known.update_contexts(pid, &self.processes)?;
            if known.contexts() > 0 {
                warnings.warn(uncontrollable(pid));
            }
        }
        if !known.has_compute() {
            known.leave(pid, found);
            if known.program.is_some() {
                known.forget_program();
            }
            return Ok(changed);
        }
        if known.program.is_none() {
            match Program::read(pid, &self.variables) {
                Ok(Some(program)) => known.set_program(program),
                Ok(None) => {}
                Err(error) => warnings.warn(unknown_process(pid, &error)),
            }
            changed = true;
        } else if depth.slow {
            known.refresh(pid, &self.processes)?;
        }
        Ok(changed)
    }
}

/// What is to be looked at in a scan, beside what is new.
struct ScanDepth {
    slow: bool,
    thorough: bool,
}

fn is_due(due: &mut Option<Instant>, period: Duration, now: Instant) -> bool {
    let is_due = due.is_none_or(|due| now >= due);
    if is_due {
        *due = Some(now + period);
    }
    is_due
}

fn uncontrollable(pid: Pid) -> String {
    format!(
        "process {pid} has contexts beside its first (`context_*` in sysfs), whose queues no debug session reaches: it is not \
         stopped"
    )
}

fn unknown_process(pid: Pid, error: &io::Error) -> String {
    format!(
        "process {pid} uses a gpu and is not managed: {error}; if it runs, this daemon is in another pid namespace than the \
         driver (start its container with `--pid=host`)"
    )
}

#[cfg(test)]
mod tests;
