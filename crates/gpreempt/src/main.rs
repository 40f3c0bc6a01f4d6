//! The `gpreempt` command: thin, one file per subcommand.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage or wrong input. Results go to stdout, everything else to stderr.
#![forbid(unsafe_code)]

mod cli;
mod client;
mod config;
mod conformance;
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

use clap::FromArgMatches;
use gpreempt_output as output;
use gpreempt_trials::{bench, demo, load, soak};
use gpreemptd::actuate;

use crate::cli::{Cli, Command};
use crate::output::UserError;

/// Wrong usage or wrong input; clap ends with the same code.
const EXIT_INPUT: u8 = 2;

fn main() -> ExitCode {
    let mut out = Stdout { inner: io::stdout().lock(), closed: false };
    let cli = Cli::from_arg_matches(&cli::command().get_matches()).unwrap_or_else(|error| error.exit());
    match run(cli, &mut out) {
        Ok(code) => code,
        // The reader closed the pipe, as `| head` does. That is not a failure.
        Err(_) if out.closed => ExitCode::SUCCESS,
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
        Command::Guardian(flags) => return Ok(logging::with(|| actuate::guardian_main(flags.options()))),
        Command::Actuator(flags) if flags.check => {
            let Some(why) = actuate::unavailable(flags.actuator) else { return Ok(ExitCode::SUCCESS) };
            writeln!(out, "{why}")?;
            out.flush()?;
            return Ok(ExitCode::FAILURE);
        }
        Command::Actuator(flags) => return Ok(logging::with(|| actuate::actuator_main(flags.options()))),
        Command::Demo(options) => demo::run(&options, out)?,
        Command::Soak(options) => soak::run(&options, out)?,
        Command::Bench(options) => bench::run(&options, out)?,
        Command::Load { load } => load::run(&load, out)?,
        Command::Lab { experiment } => lab::run(experiment, out)?,
        Command::Selftest(options) => selftest::run(&options, out)?,
        Command::Conformance(options) => conformance::run(&options, out)?,
        Command::ConformanceActor => return Ok(kfd_conformance::actor_main()),
        Command::Vgpu { action } => vgpu::run(action, out)?,
        Command::Completions { shell } => manual::completions(shell, out)?,
        Command::Man { directory } => manual::write_pages(&directory)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Stdout that remembers whether its reader closed the pipe. The error alone does not tell: a trace may go to a pipe,
/// too, and losing that one is a failure.
struct Stdout {
    inner: StdoutLock<'static>,
    closed: bool,
}

impl Stdout {
    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.closed |= result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
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

/// Prints an error and returns the exit code that it stands for.
fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        let _ = usage.print();
        return ExitCode::from(EXIT_INPUT);
    }
    // With stderr closed there is no place left to report to.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    if error.is::<UserError>() { ExitCode::from(EXIT_INPUT) } else { ExitCode::FAILURE }
}
