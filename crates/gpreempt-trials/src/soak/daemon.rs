//! The daemon of the soak and its helper processes: started, counted, killed, started again.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gpreempt_proto::{Answer, ClientError, Request, Status};
use linux_host::process::{self, ProcStat};
use nix::unistd::getuid;

use super::tally::SoakTally;
use crate::environment::daemon_under_test::DaemonUnderTest;
use crate::environment::gpu_under_test::GpuUnderTest;
use crate::environment::interrupt::Interrupt;

/// Environment variable by which the rules recognize programs of the soak, and the soak processes that are left over.
pub(super) const ROLE: &str = "GPREEMPT_SOAK";
/// Pause between two looks at something that takes a moment.
const LOOK: Duration = Duration::from_millis(5);

/// Processes of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Daemon,
    Guardian,
    Actuator,
}

/// The daemon of the soak, and what the soak expects of it.
pub(super) struct SoakDaemon<'a> {
    gpu: &'a GpuUnderTest,
    interrupt: &'a Interrupt,
    token: String,
    daemon: DaemonUnderTest,
    /// Counters of this process when it was asked last.
    counted: Counted,
    /// Halted by SIGSTOP, or continued a moment ago.
    frozen: bool,
    /// Levels set by hand, by job.
    levels: BTreeMap<String, u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    stops: u64,
    resumes: u64,
    actuator_starts: u64,
}

impl<'a> SoakDaemon<'a> {
    /// Writes the configuration. Starts nothing.
    pub(super) fn new(gpu: &'a GpuUnderTest, interrupt: &'a Interrupt, token: &str) -> Result<SoakDaemon<'a>> {
        let daemon = DaemonUnderTest::prepare(&rules(token, DEFAULT_OFFLINE_LEVEL))?;
        let (token, counted) = (token.to_owned(), Counted::default());
        Ok(SoakDaemon { gpu, interrupt, token, daemon, counted, frozen: false, levels: BTreeMap::new() })
    }

    /// Writes rules for the programs of the soak; other processes match none.
    pub(super) fn write_rules(&self, offline: u8) -> Result<()> {
        self.write_config(&rules(&self.token, offline))
    }

    pub(super) fn write_config(&self, text: &str) -> Result<()> {
        self.daemon.write_config(text)
    }

    /// Starts the process and waits until it answers.
    pub(super) fn start(&mut self) -> Result<()> {
        let executable = std::env::current_exe().context("cannot find this executable")?;
        let mut command = self.gpu.command(executable);
        command.env(ROLE, format!("{}-daemon", self.token));
        (self.counted, self.frozen) = (Counted::default(), false);
        self.daemon.start(command, self.interrupt)
    }

    /// Starts the process again if there is none.
    pub(super) fn ensure_running(&mut self, tally: &mut SoakTally) -> Result<()> {
        if !self.is_running() {
            tally.restarts += 1;
            self.start()?;
        }
        Ok(())
    }

    pub(super) fn is_running(&self) -> bool {
        self.daemon.pid().is_some()
    }

    /// Whether it cannot answer because the soak does not let it.
    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    pub(super) fn set_frozen(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    pub(super) fn ask(&self, request: Request) -> Result<Answer, ClientError> {
        self.daemon.ask(request)
    }

    pub(super) fn status(&self) -> Result<Status> {
        self.daemon.status()
    }

    /// Takes over what it counted. What it does between the last time and its death is not counted.
    pub(super) fn poll(&mut self, tally: &mut SoakTally) -> Result<()> {
        if !self.is_running() {
            return Ok(());
        }
        if let Some(status) = self.daemon.try_wait()? {
            tally.fail(&format!("the daemon ended by itself ({status}): {}", self.daemon.complaints()));
            return self.ensure_running(tally);
        }
        if self.frozen {
            return Ok(());
        }
        let (stats, status) = match self.daemon.stats().and_then(|stats| Ok((stats, self.status()?))) {
            Ok(told) => told,
            Err(error) => {
                self.interrupt.check()?;
                tally.fail(&format!("the daemon does not answer: {error:#}; its log: {}", self.daemon.complaints()));
                return Ok(());
            }
        };
        let sum = |of: fn(&gpreempt_proto::GpuStats) -> u64| stats.gpus.iter().map(of).sum::<u64>();
        let now = Counted {
            stops: sum(|gpu| gpu.preempts),
            resumes: sum(|gpu| gpu.resumes),
            actuator_starts: stats.daemon.actuator_starts,
        };
        tally.stops += now.stops.saturating_sub(self.counted.stops);
        tally.resumes += now.resumes.saturating_sub(self.counted.resumes);
        tally.actuator_starts += now.actuator_starts.saturating_sub(self.counted.actuator_starts);
        self.counted = now;
        self.compare_levels(&status, tally);
        Ok(())
    }

    /// A level was set by hand and stays, whatever happens to the daemon.
    pub(super) fn note_level(&mut self, job: String, level: u8) {
        self.levels.insert(job, level);
    }

    fn compare_levels(&mut self, status: &Status, tally: &mut SoakTally) {
        for job in &status.jobs {
            if let Some(&level) = self.levels.get(&job.job)
                && (job.level != level || !job.level_set)
            {
                tally.fail(&format!("{} was set to level {level} by hand and has {}", job.job, job.level));
                self.levels.remove(&job.job);
            }
        }
    }

    /// The process that plays a part at the moment.
    pub(super) fn pid(&self, part: Part) -> Option<u32> {
        let daemon = self.daemon.pid()?;
        match part {
            Part::Daemon => Some(daemon),
            _ if self.frozen => None,
            Part::Actuator => self.status().ok()?.actuator_pid,
            Part::Guardian => {
                let guardian = parent(self.status().ok()?.actuator_pid?)?;
                (parent(guardian) == Some(daemon)).then_some(guardian)
            }
        }
    }

    /// Kills the daemon and waits for its end.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.frozen = false;
        self.daemon.kill()
    }

    /// Ends the daemon as an operator does.
    pub(super) fn stop(&mut self, tally: &mut SoakTally) -> Result<()> {
        let Some(pid) = self.daemon.pid() else { return Ok(()) };
        let zombies = settled(|| zombies_of(pid));
        if !zombies.is_empty() {
            tally.fail(&format!("the daemon has not waited for its children {zombies:?}"));
        }
        if let Err(error) = self.daemon.stop() {
            tally.fail(&error.to_string());
        }
        Ok(())
    }
}

fn parent(pid: u32) -> Option<u32> {
    Some(ProcStat::read(pid)?.parent)
}

/// Children of a process that have ended and that it has not waited for.
fn zombies_of(pid: u32) -> Vec<u32> {
    let is_zombie = |stat: ProcStat| stat.state == 'Z' && stat.parent == pid;
    process::pids().filter(|&child| ProcStat::read(child).is_some_and(is_zombie)).collect()
}

/// Looks until nothing is found or five seconds have passed, and returns what the last look found.
fn settled(mut look: impl FnMut() -> Vec<u32>) -> Vec<u32> {
    let begun = Instant::now();
    loop {
        let found = look();
        if found.is_empty() || begun.elapsed() > Duration::from_secs(5) {
            return found;
        }
        thread::sleep(LOOK);
    }
}

/// The level of offline programs before rules or users change it.
const DEFAULT_OFFLINE_LEVEL: u8 = 3;

/// Online goes before offline. Stops are short, so that every program makes progress whatever its level; a gpu that was
/// left to the hardware is managed again soon.
fn rules(token: &str, offline: u8) -> String {
    let uid = getuid();
    let rule = |role: &str, level: u8| {
        format!(
            "\n[[rule]]\nname = \"{role}\"\nuid = {uid}\nenvironment = {{ {ROLE} = \"{token}-{role}\" }}\n\
             level = {level}\nmax_level = 15\nmax_stop_ms = 500\nmin_run_ms = 5\n"
        )
    };
    let breaker = "\n[breaker]\npause_s = 1\nlongest_s = 2\n";
    // No tenant is spared because stopping costs more than it frees: the soak is about stops, not about their worth.
    let gpu = "\n[[gpu]]\ngpu = \"*\"\nsmall = 0.0\nweigh = false\n";
    format!("mode = \"enforce\"\n{breaker}{}{}{gpu}", rule("online", 12), rule("offline", offline))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_a_zombie_until_it_is_waited_for() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let (own, pid) = (std::process::id(), child.id());
        assert!(process::is_alive(pid) && parent(pid) == Some(own) && !zombies_of(own).contains(&pid));
        drop(child.stdin.take());
        while process::is_alive(pid) {
            thread::yield_now();
        }
        assert!(zombies_of(own).contains(&pid));
        child.wait().unwrap();
        assert!(!zombies_of(own).contains(&pid));
    }

    #[test]
    fn the_rules_are_taken_without_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("soak.toml");
        std::fs::write(&path, rules("1-2", 4)).unwrap();
        let config = gpreemptd::config::Config::load(&path).unwrap();
        assert_eq!(config.warnings(), Vec::<String>::new());
    }
}
