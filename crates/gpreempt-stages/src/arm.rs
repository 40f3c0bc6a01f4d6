//! The arms: who schedules, and how it learns of work.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use gpreempt_proto::{Answer, Client, Event, EventKind, Request, Stats};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

/// How long a daemon may take to start, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Scans of the daemon poll as well: they are as far apart as the configuration allows, in all arms.
const SCAN_MS: u32 = 10;

/// Who schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scheduler {
    /// Online requests alone.
    Alone,
    /// The hardware.
    None,
    /// The daemon over the driver's debug interface.
    DebugTrap,
    /// The daemon over one-cycle switches.
    Combined,
    /// The module.
    Kernel,
}

/// How it learns of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Watch {
    /// Not at all.
    None,
    /// It looks every period.
    Poll,
    /// The online program tells the daemon.
    Notify,
    /// A fault of the first doorbell.
    Doorbell,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Arm {
    pub(crate) scheduler: Scheduler,
    pub(crate) watch: Watch,
    /// Time between two looks.
    pub(crate) period_us: Option<u32>,
}

impl Arm {
    const fn new(scheduler: Scheduler, watch: Watch, period_us: Option<u32>) -> Arm {
        Arm { scheduler, watch, period_us }
    }

    /// All arms, at equal periods where they poll. The first is what the others are compared with.
    pub(crate) const ALL: [Arm; 10] = [
        Arm::new(Scheduler::Alone, Watch::None, None),
        Arm::new(Scheduler::None, Watch::None, None),
        Arm::new(Scheduler::DebugTrap, Watch::Poll, Some(5000)),
        Arm::new(Scheduler::DebugTrap, Watch::Poll, Some(1000)),
        Arm::new(Scheduler::DebugTrap, Watch::Notify, Some(5000)),
        Arm::new(Scheduler::Combined, Watch::Poll, Some(5000)),
        Arm::new(Scheduler::Combined, Watch::Poll, Some(1000)),
        Arm::new(Scheduler::Kernel, Watch::Poll, Some(5000)),
        Arm::new(Scheduler::Kernel, Watch::Poll, Some(1000)),
        Arm::new(Scheduler::Kernel, Watch::Doorbell, Some(1000)),
    ];

    /// Whether a daemon runs.
    pub(crate) fn has_daemon(&self) -> bool {
        !matches!(self.scheduler, Scheduler::Alone | Scheduler::None)
    }

    /// The configuration of the daemon: programs are told apart by the names of their executables.
    pub(crate) fn configuration(&self) -> String {
        let actuator = match self.scheduler {
            Scheduler::Combined => "combined",
            Scheduler::Kernel => "kernel",
            _ => "debug-trap",
        };
        let method = if self.watch == Watch::Doorbell { "doorbell" } else { "poll" };
        let period = self.period_us.unwrap_or(1000);
        format!(
            "mode = \"enforce\"\nactuator = \"{actuator}\"\nscan_ms = {SCAN_MS}\n\n\
             [watch]\nfixed = true\nperiod_us = {period}\nmethod = \"{method}\"\nkernel_period_ms = {}\n\n\
             [breaker]\ncontrol_one_in = 0\n\n\
             [[rule]]\nname = \"online\"\nuid = 0\nexecutable = \"online\"\nlevel = 12\n\n\
             [[rule]]\nname = \"offline\"\nuid = 0\nexecutable = \"offline\"\nlevel = 3\n",
            f64::from(period) / 1e3
        )
    }
}

/// A process that is ended when it is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Asks the process to end, and waits for it.
    pub(crate) fn end(mut self) -> Result<()> {
        kill(self.raw(), Signal::SIGTERM).context("cannot send SIGTERM")?;
        let begin = Instant::now();
        while self.0.try_wait()?.is_none() {
            ensure!(begin.elapsed() < PATIENCE, "a process does not end");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn raw(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap_or(i32::MAX))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the daemon of an arm and waits until it answers.
pub(crate) fn start_daemon(arm: &Arm, directory: &Path) -> Result<Running> {
    let file = directory.join("gpreempt.toml");
    fs::write(&file, arm.configuration())?;
    let log = directory.join("daemon.log");
    let output = File::create(&log)?;
    let mut daemon = Command::new("gpreempt");
    daemon.args(["daemon", "--config"]).arg(&file).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let mut daemon = Running(daemon.spawn().context("cannot start gpreempt")?);
    let begin = Instant::now();
    while Client::connect().is_err() {
        if let Some(status) = daemon.0.try_wait()? {
            bail!("the daemon ended with {status}: {}", fs::read_to_string(&log).unwrap_or_default());
        }
        ensure!(begin.elapsed() < PATIENCE, "the daemon does not answer");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(daemon)
}

/// Asks the daemon for its statistics.
pub(crate) fn statistics() -> Result<Stats> {
    match Client::connect()?.call(Request::Stats)? {
        Answer::Stats(stats) => Ok(*stats),
        other => bail!("the daemon answers {other:?} to a request for statistics"),
    }
}

/// Asks the daemon when it saw the work that caused each stop, in nanoseconds of the monotonic clock.
pub(crate) fn sightings() -> Result<Vec<u64>> {
    let events = match Client::connect()?.call(Request::Log { since_ms: None, target: None, limit: None })? {
        Answer::Log { events, .. } => events,
        other => bail!("the daemon answers {other:?} to a request for the log"),
    };
    let seen = |event: Event| match event.kind {
        EventKind::Preempted { seen_ns, .. } => seen_ns,
        _ => None,
    };
    Ok(events.into_iter().filter_map(seen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_with_a_daemon_configures_its_actuator_and_period() {
        for arm in Arm::ALL.iter().filter(|arm| arm.has_daemon()) {
            let text = arm.configuration();
            assert!(text.contains(&format!("period_us = {}", arm.period_us.unwrap())), "{text}");
            assert_eq!(text.contains("\"kernel\""), arm.scheduler == Scheduler::Kernel);
        }
        assert_eq!(Arm::ALL[0].scheduler, Scheduler::Alone);
    }
}
