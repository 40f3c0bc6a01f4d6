//! The `gpreempt` command: thin, one file per subcommand.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage or wrong input. Results go to stdout, everything else to stderr.
#![forbid(unsafe_code)]

mod cli;
mod lab;
mod manual;
mod output;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use gpreempt_lab::input::InputError;

use crate::cli::{Cli, Command};

/// Wrong usage or wrong input; clap ends with the same code.
const EXIT_INPUT: u8 = 2;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match cli.command {
        Command::Lab { experiment } => lab::run(experiment, &mut out)?,
        Command::Completions { shell } => manual::completions(shell, &mut out)?,
        Command::Man { directory } => manual::write_pages(&directory)?,
    }
    out.flush()?;
    Ok(())
}

/// Says what went wrong and what to do about it.
fn report(error: &anyhow::Error) -> ExitCode {
    // Whoever reads our output has seen enough (`| head`). That is not a failure.
    let broken_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    let io_error = |cause: &(dyn std::error::Error + 'static)| {
        let json = cause.downcast_ref::<serde_json::Error>();
        cause.downcast_ref::<io::Error>().is_some_and(broken_pipe)
            || json.and_then(serde_json::Error::io_error_kind) == Some(io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(io_error) {
        return ExitCode::SUCCESS;
    }
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
        None => ExitCode::FAILURE,
    }
}
