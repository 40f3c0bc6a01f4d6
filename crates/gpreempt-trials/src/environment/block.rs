//! One block: the programs of an arm side by side for a while.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use super::daemon_under_test::DaemonUnderTest;
use super::gpu_under_test::{Counters, GpuUnderTest};
use super::interrupt::Interrupt;
use super::managed::{self, DaemonActivity, ROLE};
use super::measure::Window;
use super::other_work::OtherWorkMeter;
use super::program::Program;
use super::training::{Reference, Training};
use super::workload::Workload;
use crate::load::{End, Line};

/// Most kernels that are submitted at once to find out how long one takes.
const MOST_BATCH: u32 = 100;

/// The roles of the two programs.
const ONLINE: &str = "online";
const OFFLINE: &str = "offline";

/// Which programs run in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arm {
    /// The offline program, nothing else.
    OfflineAlone,
    /// The online program, nothing else.
    Alone,
    /// Both, without gpreempt.
    Without,
    /// Both, with gpreempt.
    With,
}

impl Arm {
    /// The name in tables and progress.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arm::OfflineAlone => "offline alone",
            Arm::Alone => "alone",
            Arm::Without => "without gpreempt",
            Arm::With => "with gpreempt",
        }
    }
}

/// Steps of kernels, found out before the first block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Calibration {
    pub(crate) online_steps: u32,
    pub(crate) online_kernel_us: f64,
    pub(crate) offline_steps: u32,
    pub(crate) offline_kernel_us: f64,
    pub(crate) offline_groups: u32,
    /// What a training computes when nothing disturbs it, if one is the offline program.
    pub(crate) reference: Reference,
}

/// What the offline program said.
#[derive(Default)]
pub(crate) struct OfflineLog {
    /// When kernels, or steps of a training, ended.
    ends: Vec<u64>,
    /// Hashes after the steps of a training.
    checksums: Vec<String>,
}

/// What all blocks have in common.
pub(crate) struct Setting<'a> {
    pub(crate) place: &'a GpuUnderTest,
    pub(crate) workload: &'a Workload,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) other_work: &'a OtherWorkMeter,
    pub(crate) seed: u64,
    /// Tables of the daemon's configuration, beside the rules for the two programs.
    pub(crate) settings: String,
    /// Further words for the online program.
    pub(crate) online_arguments: Vec<OsString>,
    /// What starts HIP programs, and the one to start; none for programs of this executable.
    pub(crate) hip: Option<(PathBuf, PathBuf)>,
    /// The offline program if it is a training.
    pub(crate) training: Option<&'a Training>,
}

/// One request as it was answered, or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) arrived_ns: u64,
    pub(crate) submitted_ns: Option<u64>,
    pub(crate) answered_ns: Option<u64>,
    pub(crate) latency_us: f64,
}

/// What happened in a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// From the moment at which requests could arrive until the last was answered.
    pub(crate) window: Window,
    pub(crate) requests: Vec<Request>,
    pub(crate) online: Option<End>,
    pub(crate) offline: Option<End>,
    /// When kernels of the offline program ended.
    pub(crate) offline_ends: Vec<u64>,
    /// What the device counted in the window.
    pub(crate) counters: Option<Counters>,
    /// What the daemon did in the window.
    pub(crate) daemon: Option<DaemonActivity>,
    pub(crate) offline_pid: u32,
}

impl Setting<'_> {
    /// One of the two programs.
    fn load(&self, role: &str) -> Result<Command> {
        let mut command = match (&self.hip, self.training) {
            (_, Some(training)) if role == OFFLINE => training.command(self.place),
            (Some((run, program)), _) => {
                let mut command = self.place.command(run);
                command.arg(program).arg(role);
                command
            }
            (None, _) => self.own(&[role])?,
        };
        command.env(ROLE, role);
        Ok(command)
    }

    /// This executable as one of the programs.
    pub(crate) fn own(&self, words: &[&str]) -> Result<Command> {
        let executable = std::env::current_exe().context("cannot find this executable")?;
        let mut command = self.place.command(executable);
        command.arg("load").args(words);
        Ok(command)
    }

    /// Finds out how long kernels are here.
    pub(crate) fn calibrate(&self) -> Result<Calibration> {
        let Workload { online, offline, .. } = self.workload;
        let (groups, batch) = (online.groups.to_string(), online.kernels.min(MOST_BATCH).to_string());
        let (online_us, offline_us) = (online.kernel_us.to_string(), (offline.kernel_ms * 1e3).to_string());
        let (_, online_steps, online_kernel_us) =
            self.measure(&["calibrate", "--groups", &groups, "--batch", &batch, "--target-us", &online_us])?;
        let mut calibration = Calibration {
            online_steps,
            online_kernel_us,
            offline_steps: 0,
            offline_kernel_us: 0.0,
            offline_groups: 0,
            reference: Reference::default(),
        };
        if let Some(training) = self.training {
            calibration.reference = training.measure(self.place, self.interrupt)?;
            calibration.offline_kernel_us = calibration.reference.step_us;
        } else {
            let fill = offline.fill.to_string();
            (calibration.offline_groups, calibration.offline_steps, calibration.offline_kernel_us) =
                self.measure(&["calibrate", "--fill", &fill, "--target-us", &offline_us])?;
        }
        Ok(calibration)
    }

    fn measure(&self, words: &[&str]) -> Result<(u32, u32, f64)> {
        let mut program = Program::start("calibrating", &mut self.own(words)?, self.interrupt)?;
        loop {
            if let Line::Calibrated { groups, steps, kernel_us } = program.line()? {
                program.wait()?;
                return Ok((groups, steps, kernel_us));
            }
        }
    }

    pub(crate) fn start_online(&self, calibration: &Calibration, round: u32) -> Result<Program> {
        let Workload { online, blocks, .. } = self.workload;
        let requests = self.workload.block_requests();
        let rate = self.workload.rate(calibration.online_kernel_us);
        let mut command = self.load(ONLINE)?;
        command.arg("--wait").args(&self.online_arguments);
        let numbers = [
            ("--requests", requests.to_string()),
            ("--kernels", online.kernels.to_string()),
            ("--groups", online.groups.to_string()),
            ("--steps", calibration.online_steps.to_string()),
            ("--rate", rate.to_string()),
            ("--seed", self.seed.wrapping_add(round.into()).to_string()),
            ("--patience-ms", blocks.patience_ms.to_string()),
        ];
        command.args(numbers.into_iter().flat_map(|(flag, value)| [OsString::from(flag), value.into()]));
        let mut program = Program::start(ONLINE, &mut command, self.interrupt)?;
        program.until(|line| matches!(line, Line::Ready { .. }))?;
        Ok(program)
    }

    /// Starts the offline program and waits until it is at work.
    pub(crate) fn start_offline(&self, calibration: &Calibration) -> Result<(Program, OfflineLog)> {
        let mut command = self.load(OFFLINE)?;
        if self.training.is_none() {
            command.arg("--steps").arg(calibration.offline_steps.to_string());
            command.arg("--groups").arg(calibration.offline_groups.to_string());
            command.arg("--depth").arg(self.workload.offline.queued.to_string());
        }
        let mut program = Program::start(OFFLINE, &mut command, self.interrupt)?;
        let mut log = OfflineLog::default();
        while log.ends.is_empty() {
            log.push(program.line()?);
        }
        Ok((program, log))
    }

    /// Tells the offline program to end and returns its result.
    fn end_offline(&self, mut program: Program, log: &mut OfflineLog, calibration: &Calibration) -> Result<End> {
        program.enough();
        let end = loop {
            match program.line()? {
                Line::End(end) => break end,
                Line::Trained { at_ns, .. } => break calibration.reference.judge(&log.checksums, at_ns),
                line => log.push(line),
            }
        };
        program.wait()?;
        Ok(end)
    }

    /// Runs a block. `answered` is called for every request.
    pub(crate) fn run(
        &self,
        arm: Arm,
        round: u32,
        calibration: &Calibration,
        mut answered: impl FnMut(),
    ) -> Result<Outcome> {
        let daemon = (arm == Arm::With)
            .then(|| managed::start(self.place, self.workload, &self.settings, self.interrupt))
            .transpose()?;
        let mut online = (arm != Arm::OfflineAlone).then(|| self.start_online(calibration, round)).transpose()?;
        let mut offline = (arm != Arm::Alone).then(|| self.start_offline(calibration)).transpose()?;
        let mut outcome = Outcome::default();
        if let (Some(daemon), Some(online), Some((offline, _))) = (&daemon, &online, &offline) {
            daemon.wait_until_known(&[online.pid(), offline.pid()], self.interrupt)?;
        }
        let counters = self.place.counters()?;
        let before = daemon.as_ref().map(DaemonUnderTest::stats).transpose()?;
        match (&mut online, &mut offline) {
            (Some(online), _) => {
                outcome.serve(online, self.workload.block_requests(), self.other_work, &mut answered)?;
            }
            (None, Some((offline, log))) => self.other_work.during(|| self.let_run(offline, log))?,
            (None, None) => {}
        }
        if let (Some(before), Some(now)) = (counters, self.place.counters()?) {
            outcome.counters = Some(now.since(before));
        }
        if let (Some(daemon), Some(before)) = (&daemon, before) {
            outcome.daemon = Some(DaemonActivity::since(&before, daemon)?);
        }
        if let Some((program, mut log)) = offline {
            outcome.offline_pid = program.pid();
            outcome.offline = Some(self.end_offline(program, &mut log, calibration)?);
            outcome.offline_ends = log.ends;
        }
        if let Some(online) = online {
            online.wait()?;
        }
        if arm == Arm::OfflineAlone {
            outcome.window = Window::of_kernels(&outcome.offline_ends).context("the offline program did nothing")?;
        }
        if let Some(mut daemon) = daemon {
            daemon.stop()?;
        }
        Ok(outcome)
    }

    /// Lets the offline program work for the time of its own block.
    fn let_run(&self, program: &mut Program, log: &mut OfflineLog) -> Result<()> {
        let enough = self.workload.blocks.alone_ms * 1_000_000;
        while log.ends.last().zip(log.ends.first()).is_none_or(|(last, first)| last - first < enough) {
            log.push(program.line()?);
        }
        Ok(())
    }
}

impl OfflineLog {
    fn push(&mut self, line: Line) {
        match line {
            Line::Kernel { ended_ns, .. } => self.ends.push(ended_ns),
            Line::Step { ended_ns, checksum, .. } => {
                self.ends.push(ended_ns);
                self.checksums.push(checksum);
            }
            _ => {}
        }
    }
}

impl Outcome {
    /// Lets `requests` requests arrive until all are answered or given up. Other work is measured until the last of
    /// them: the program ends soon after.
    pub(crate) fn serve(
        &mut self,
        online: &mut Program,
        requests: u32,
        other_work: &OtherWorkMeter,
        answered: &mut impl FnMut(),
    ) -> Result<()> {
        let stretch = other_work.begin();
        online.begin()?;
        loop {
            match online.line()? {
                Line::Begin { at_ns } => self.window.from_ns = at_ns,
                Line::Request { arrived_ns, submitted_ns, answered_ns, latency_us, .. } => {
                    self.requests.push(Request { arrived_ns, submitted_ns, answered_ns, latency_us });
                    if self.requests.len() == requests as usize {
                        other_work.end(&stretch);
                    }
                    answered();
                }
                Line::End(end) => {
                    self.window.to_ns = end.at_ns;
                    self.online = Some(end);
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// Share of the window in which a request was worked on.
    pub(crate) fn busy_share(&self) -> f64 {
        let busy = |request: &Request| Some(request.answered_ns?.saturating_sub(request.submitted_ns?) as f64 / 1e9);
        self.requests.iter().filter_map(busy).sum::<f64>() / self.window.seconds().max(1e-9)
    }

    /// Requests without an answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.given_up_us().count()
    }

    /// How long those had waited.
    pub(crate) fn given_up_us(&self) -> impl Iterator<Item = f64> {
        self.requests.iter().filter(|request| request.answered_ns.is_none()).map(|request| request.latency_us)
    }
}
