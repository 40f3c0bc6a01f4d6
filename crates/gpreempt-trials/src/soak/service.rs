//! The daemon of the soak with its processes: started, counted, killed, started again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use gpreempt_proto::{Answer, Client, ClientError, Request, Stats, Status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use tempfile::TempDir;

use super::procfs;
use super::tally::Tally;
use crate::environment::gpu_under_test::GpuUnderTest;
use crate::environment::interrupt::Interrupt;

/// Variable by which the rules know the programs of the soak, and the soak what is left of it.
pub(super) const ROLE: &str = "GPREEMPT_SOAK";
/// How long the daemon may take to answer for the first time, and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at something that takes a moment.
const LOOK: Duration = Duration::from_millis(5);

/// Processes of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Daemon,
    Guardian,
    Actuator,
}

/// The daemon. Killed when dropped: what it had stopped runs again.
pub(super) struct Service<'a> {
    place: &'a GpuUnderTest,
    interrupt: &'a Interrupt,
    token: String,
    directory: TempDir,
    child: Option<Child>,
    /// What this daemon had counted when it was asked last.
    counted: Counted,
    /// Stopped by SIGSTOP, or told to go on a moment ago.
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

impl<'a> Service<'a> {
    pub(super) fn new(place: &'a GpuUnderTest, interrupt: &'a Interrupt, token: &str) -> Result<Service<'a>> {
        let directory = tempfile::tempdir().context("cannot make a directory for the daemon")?;
        let (token, child, counted) = (token.to_owned(), None, Counted::default());
        let service =
            Service { place, interrupt, token, directory, child, counted, frozen: false, levels: BTreeMap::new() };
        service.write_rules(DEFAULT_OFFLINE_LEVEL)?;
        Ok(service)
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("soak.toml")
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Rules for the programs of the soak; everybody else is left alone.
    pub(super) fn write_rules(&self, offline: u8) -> Result<()> {
        self.write_config(&rules(&self.token, offline))
    }

    pub(super) fn write_config(&self, text: &str) -> Result<()> {
        let path = self.config();
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Starts it and waits until it answers.
    pub(super) fn start(&mut self) -> Result<()> {
        let log = fs::File::options().create(true).append(true).open(self.directory.path().join("log"));
        let log = log.context("cannot write the daemon's log")?;
        let executable = std::env::current_exe().context("cannot find this executable")?;
        let child = self
            .place
            .command(executable)
            .arg("daemon")
            .arg("--config")
            .arg(self.config())
            .arg("--socket")
            .arg(self.socket())
            .env(ROLE, format!("{}-daemon", self.token))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("cannot start the daemon")?;
        (self.child, self.counted, self.frozen) = (Some(child), Counted::default(), false);
        let begun = Instant::now();
        while self.status().is_err() {
            self.interrupt.check()?;
            if let Some(status) = self.child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("the daemon ended at once ({status}): {}", self.complaints());
            }
            if begun.elapsed() > PATIENCE {
                bail!("the daemon does not answer: {}", self.complaints());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Starts it again if it is not there.
    pub(super) fn ensure_running(&mut self, tally: &mut Tally) -> Result<()> {
        if self.child.is_none() {
            tally.restarts += 1;
            self.start()?;
        }
        Ok(())
    }

    pub(super) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Whether it cannot answer because the soak does not let it.
    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    pub(super) fn set_frozen(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    /// The last lines of its log.
    pub(super) fn complaints(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(8).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }

    pub(super) fn ask(&self, request: Request) -> Result<Answer, ClientError> {
        Client::connect_to(&self.socket(), PATIENCE)?.call(request)
    }

    pub(super) fn status(&self) -> Result<Status> {
        match self.ask(Request::Status)? {
            Answer::Status(status) => Ok(*status),
            other => bail!("the daemon does not tell its status: {other:?}"),
        }
    }

    fn stats(&self) -> Result<Stats> {
        match self.ask(Request::Stats)? {
            Answer::Stats(stats) => Ok(*stats),
            other => bail!("the daemon does not tell its statistics: {other:?}"),
        }
    }

    /// Takes over what it counted. What it does between the last time and its death is not counted.
    pub(super) fn poll(&mut self, tally: &mut Tally) -> Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        if let Some(status) = child.try_wait().context("cannot wait for the daemon")? {
            tally.fail(&format!("the daemon ended by itself ({status}): {}", self.complaints()));
            self.child = None;
            return self.ensure_running(tally);
        }
        if self.frozen {
            return Ok(());
        }
        let (stats, status) = match self.stats().and_then(|stats| Ok((stats, self.status()?))) {
            Ok(told) => told,
            Err(error) => {
                self.interrupt.check()?;
                tally.fail(&format!("the daemon does not answer: {error:#}; its log: {}", self.complaints()));
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

    fn compare_levels(&mut self, status: &Status, tally: &mut Tally) {
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
        let daemon = self.child.as_ref()?.id();
        match part {
            Part::Daemon => Some(daemon),
            _ if self.frozen => None,
            Part::Actuator => self.status().ok()?.actuator_pid,
            Part::Guardian => {
                let guardian = procfs::parent(self.status().ok()?.actuator_pid?)?;
                (procfs::parent(guardian) == Some(daemon)).then_some(guardian)
            }
        }
    }

    /// Kills the daemon and waits for its end.
    pub(super) fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().context("cannot kill the daemon")?;
            child.wait().context("cannot wait for the daemon")?;
        }
        self.frozen = false;
        Ok(())
    }

    /// Ends it as an operator would.
    pub(super) fn stop(&mut self, tally: &mut Tally) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let zombies = settled(|| procfs::zombies_of(child.id()));
        if !zombies.is_empty() {
            tally.fail(&format!("the daemon has not waited for its children {zombies:?}"));
        }
        // It may have ended by itself, which the wait tells.
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
        let begun = Instant::now();
        let mut ended: Option<ExitStatus> = None;
        while ended.is_none() && begun.elapsed() < PATIENCE {
            thread::sleep(LOOK);
            ended = child.try_wait().context("cannot wait for the daemon")?;
        }
        match ended {
            Some(status) if status.success() => {}
            Some(status) => tally.fail(&format!("the daemon failed ({status}): {}", self.complaints())),
            None => {
                tally.fail(&format!("the daemon did not end after SIGTERM: {}", self.complaints()));
                child.kill().context("cannot kill the daemon")?;
                child.wait().context("cannot wait for the daemon")?;
            }
        }
        Ok(())
    }
}

/// What there still is after a while in which it may go away.
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

impl Drop for Service<'_> {
    fn drop(&mut self) {
        // Only if the soak failed or was interrupted is it still there.
        let _ = self.kill();
    }
}

/// The level of offline programs before rules or users change it.
const DEFAULT_OFFLINE_LEVEL: u8 = 3;

/// Online goes before offline. Nobody stays stopped for long, so that everybody moves on whatever the levels are; a gpu that
/// was left to the hardware is tried again soon.
fn rules(token: &str, offline: u8) -> String {
    let uid = getuid();
    let rule = |role: &str, level: u8| {
        format!(
            "\n[[rule]]\nname = \"{role}\"\nuid = {uid}\nenvironment = {{ {ROLE} = \"{token}-{role}\" }}\n\
             level = {level}\nmax_level = 15\nmax_stop_ms = 500\nmin_run_ms = 5\n"
        )
    };
    let breaker = "\n[breaker]\npause_s = 1\nlongest_s = 2\n";
    // Nobody is spared because stopping costs more than it frees: the soak is about stops, not about their worth.
    let gpu = "\n[[gpu]]\ngpu = \"*\"\nsmall = 0.0\nweigh = false\n";
    format!("mode = \"enforce\"\n{breaker}{}{}{gpu}", rule("online", 12), rule("offline", offline))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_taken_without_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("soak.toml");
        fs::write(&path, rules("1-2", 4)).unwrap();
        let config = gpreemptd::config::Config::load(&path).unwrap();
        assert_eq!(config.warnings(), Vec::<String>::new());
    }
}
