//! The daemon: this executable, with rules for the two programs, in a directory of its own.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use gpreempt_proto::{Answer, Client, Event, Request, Stats, Status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use tempfile::TempDir;

use super::gpu_under_test::GpuUnderTest;
use super::interrupt::Interrupt;
use super::workload::Workload;
use crate::load::now;

/// How long the daemon may take to answer for the first time, to see programs, to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Variable by which the rules know the programs.
pub(crate) const ROLE: &str = "GPREEMPT_DEMO";
/// Between two looks at something that takes a moment.
const LOOK: Duration = Duration::from_millis(5);

/// A running daemon. Killed when dropped: what it had stopped runs again.
pub(crate) struct Daemon {
    child: Child,
    directory: TempDir,
    interrupt: Interrupt,
}

/// What the daemon did in a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    /// Everything it counted since it started.
    pub(crate) stats: Stats,
    /// Tenants stopped in the window.
    pub(crate) stops: u64,
    /// Cycles that calls of the daemon cost in the window, by its own count.
    pub(crate) cycles: u64,
    /// Share of one processor in the window: the deciding process, and its actuator.
    pub(crate) cpu_share: f64,
    /// What it logged.
    pub(crate) events: Vec<Event>,
    /// To bring its wall clock to the monotonic one: what to subtract, in nanoseconds.
    pub(crate) clock_offset_ns: i128,
}

impl Daemon {
    /// Starts it with this configuration and waits until it answers.
    pub(crate) fn start(place: &GpuUnderTest, config: &str, interrupt: &Interrupt) -> Result<Daemon> {
        let directory = tempfile::tempdir().context("cannot make a directory for the daemon")?;
        let file = directory.path().join("gpreempt.toml");
        fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
        let complaints = fs::File::create(directory.path().join("log")).context("cannot write the daemon's log")?;
        let executable = std::env::current_exe().context("cannot find this executable")?;
        let child = place
            .command(executable)
            .arg("daemon")
            .arg("--config")
            .arg(&file)
            .arg("--socket")
            .arg(directory.path().join("socket"))
            .env("RUNTIME_DIRECTORY", directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(complaints)
            .process_group(0)
            .spawn()
            .context("cannot start the daemon")?;
        let mut daemon = Daemon { child, directory, interrupt: interrupt.clone() };
        daemon.wait_for_answer()?;
        Ok(daemon)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn wait_for_answer(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.interrupt.check()?;
            if let Some(status) = self.child.try_wait().context("cannot wait for the daemon")? {
                bail!("the daemon ended at once ({status}): {}", self.complaints());
            }
            if self.status().is_ok() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                bail!("the daemon does not answer: {}", self.complaints());
            }
            thread::sleep(LOOK);
        }
    }

    fn complaints(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }

    fn ask(&self, request: Request) -> Result<Answer> {
        Ok(Client::connect_to(&self.socket(), PATIENCE)?.call(request)?)
    }

    fn status(&self) -> Result<Status> {
        match self.ask(Request::Status)? {
            Answer::Status(status) => Ok(*status),
            other => bail!("the daemon does not tell its status: {other:?}"),
        }
    }

    /// Counters since it started.
    pub(crate) fn stats(&self) -> Result<Stats> {
        match self.ask(Request::Stats)? {
            Answer::Stats(stats) => Ok(*stats),
            other => bail!("the daemon does not tell its statistics: {other:?}"),
        }
    }

    /// Waits until it has seen queues of these processes and has a rule for them.
    pub(crate) fn wait_until_known(&self, pids: &[u32]) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.interrupt.check()?;
            let tenants = self.status()?.tenants;
            let known = |pid: &u32| tenants.iter().any(|tenant| tenant.pid == *pid && tenant.level.is_some());
            if pids.iter().all(known) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let seen: Vec<_> = tenants.iter().map(|tenant| (tenant.pid, tenant.level)).collect();
                bail!("the daemon does not manage processes {pids:?}, it sees {seen:?}: {}", self.complaints());
            }
            thread::sleep(LOOK);
        }
    }

    /// What it did since `before`.
    pub(crate) fn service(&self, before: &Stats) -> Result<Service> {
        let stats = self.stats()?;
        let sum = |stats: &Stats, of: fn(&gpreempt_proto::GpuStats) -> u64| stats.gpus.iter().map(of).sum::<u64>();
        let cpu = |stats: &Stats| stats.daemon.cpu_s + stats.daemon.actuator_cpu_s;
        let elapsed = (stats.daemon.uptime_s - before.daemon.uptime_s).max(1e-9);
        let (log, clock_offset_ns) = (self.ask(Request::Log { since_ms: None, target: None, limit: None })?, offset());
        Ok(Service {
            stops: sum(&stats, |gpu| gpu.preempts).saturating_sub(sum(before, |gpu| gpu.preempts)),
            cycles: sum(&stats, |gpu| gpu.cycles).saturating_sub(sum(before, |gpu| gpu.cycles)),
            cpu_share: (cpu(&stats) - cpu(before)).max(0.0) / elapsed,
            events: if let Answer::Log { events, .. } = log { events } else { Vec::new() },
            clock_offset_ns,
            stats,
        })
    }

    /// Ends it as an operator would.
    pub(crate) fn stop(mut self) -> Result<()> {
        // It may have ended by itself, which the wait tells.
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().context("cannot wait for the daemon")? {
                if status.success() {
                    return Ok(());
                }
                bail!("the daemon failed ({status}): {}", self.complaints());
            }
            thread::sleep(LOOK);
        }
        bail!("the daemon did not end within {} s after SIGTERM: {}", PATIENCE.as_secs(), self.complaints());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Only if the command failed or was interrupted is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How far the wall clock is ahead of the monotonic one.
fn offset() -> i128 {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    wall.as_nanos().cast_signed() - i128::from(now())
}

/// Rules for the two programs of this user; everybody else is left alone. `settings` are further tables.
pub(crate) fn rules(workload: &Workload, settings: &str) -> String {
    let uid = getuid();
    let rule = |role: &str, level: u8| {
        format!(
            "\n[[rule]]\nname = \"{role}\"\nuid = {uid}\nenvironment = {{ {ROLE} = \"{role}\" }}\nlevel = {level}\n"
        )
    };
    let (online, offline) = (rule("online", workload.online.level), rule("offline", workload.offline.level));
    format!("mode = \"enforce\"\n{settings}{online}{offline}")
}
