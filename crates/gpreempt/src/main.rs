//! The `gpreempt` command: thin, one file per subcommand.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage or wrong input. Results go to stdout, everything else to stderr.
#![forbid(unsafe_code)]

mod cli;
mod client;
mod config;
mod daemon;
mod doctor;
mod event;
mod hold;
mod lab;
mod log;
mod logging;
mod manage;
mod manual;
mod notify;
mod ps;
mod release;
mod reload;
mod run;
mod selftest;
mod set;
mod stats;
mod vgpu;
mod watch;

use std::io::{self, StdoutLock, Write};
use std::process::ExitCode;

use clap::Parser;
use gpreempt_lab::input::InputError;
use gpreempt_output as output;
use gpreempt_trials::environment::workload;
use gpreempt_trials::{bench, demo, load, soak};
use gpreemptd::actuate;

use crate::cli::{Cli, Command};

/// Wrong usage or wrong input; clap ends with the same code.
const EXIT_INPUT: u8 = 2;

fn main() -> ExitCode {
    let mut out = Stdout { inner: io::stdout().lock(), abandoned: false };
    match run(Cli::parse(), &mut out) {
        Ok(code) => code,
        // Whoever reads our output has seen enough (`| head`). That is not a failure.
        Err(_) if out.abandoned => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

fn run(cli: Cli, out: &mut Stdout) -> anyhow::Result<ExitCode> {
    match cli.command.unwrap_or(Command::Ps(cli.ps)) {
        Command::Ps(options) => ps::run(&options, out)?,
        Command::Run(options) => run::run(&options)?,
        Command::Set(options) => set::run(&options, out)?,
        Command::Hold(options) => hold::run(&options, out)?,
        Command::Release(options) => release::run(&options, out)?,
        Command::Unmanage(options) => manage::unmanage(&options, out)?,
        Command::Manage(options) => manage::manage(&options, out)?,
        Command::Log(options) => log::run(&options, out)?,
        Command::Stats(options) => stats::run(&options, out)?,
        Command::Watch(options) => watch::run(&options, out)?,
        Command::Doctor(options) => doctor::run(&options, out)?,
        Command::Config { action } => config::run(&action, out)?,
        Command::Reload(options) => reload::run(&options, out)?,
        Command::Notify(options) => notify::run(&options, out)?,
        Command::Daemon(options) => daemon::run(options)?,
        Command::Guardian => return Ok(logging::with(actuate::guardian_main)),
        Command::Actuator => return Ok(logging::with(actuate::actuator_main)),
        Command::Demo(options) => demo::run(&options, out)?,
        Command::Soak(options) => soak::run(&options, out)?,
        Command::Bench(options) => bench::run(&options, out)?,
        Command::Load { load } => load::run(&load, out)?,
        Command::Lab { experiment } => lab::run(experiment, out)?,
        Command::Selftest(options) => selftest::run(&options, out)?,
        Command::Vgpu { action } => vgpu::run(action, out)?,
        Command::Completions { shell } => manual::completions(shell, out)?,
        Command::Man { directory } => manual::write_pages(&directory)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Stdout that remembers whether its reader left. An error alone does not tell: a trace may go to a pipe, too, and losing
/// that one is a failure.
struct Stdout {
    inner: StdoutLock<'static>,
    abandoned: bool,
}

impl Stdout {
    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.abandoned |= result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.inner.write(bytes);
        self.watch(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner.flush();
        self.watch(result)
    }
}

/// Who knows errors that are about what the user gave.
const IS_INPUT: [fn(&anyhow::Error) -> bool; 5] =
    [vgpu::is_input, config::is_input, daemon::is_input, run::is_input, workload::is_input];

/// Says what went wrong and what to do about it.
fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        let _ = usage.print();
        return ExitCode::from(EXIT_INPUT);
    }
    let input = error.downcast_ref::<InputError>();
    // Nobody is left to tell when stderr is closed, too.
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "error: {error:#}");
    if let Some(InputError::NotFound { .. }) = input {
        let _ = writeln!(err, "`gpreempt lab list` describes what is built in.");
    }
    match input {
        Some(_) => ExitCode::from(EXIT_INPUT),
        None if IS_INPUT.iter().any(|is_input| is_input(error)) => ExitCode::from(EXIT_INPUT),
        None => ExitCode::FAILURE,
    }
}
