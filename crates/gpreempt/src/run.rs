//! `gpreempt run`: a program at a level.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use gpreempt_proto::Mode;
use kfd::Pid;

use crate::cli::Launch;
use crate::client;

/// The variables in which a program asks for a level and a job.
const LEVEL: &str = "GPREEMPT_LEVEL";
const JOB: &str = "GPREEMPT_JOB";

/// The program cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run `{program}`: {error}")]
pub(crate) struct CannotRun {
    program: String,
    error: io::Error,
}

pub(crate) fn run(options: &Launch) -> Result<()> {
    let (program, arguments) = options.command.split_first().context("there is no program to run")?;
    for warning in prepare(options) {
        // Whoever closed stderr does not want to know.
        let _ = writeln!(io::stderr(), "gpreempt: {warning}");
    }
    let mut command = Command::new(program);
    command.args(arguments).env(LEVEL, options.level.to_string());
    match &options.job {
        Some(job) => command.env(JOB, job),
        // One that was inherited is of the job that started this one, which is the nearest there is.
        None => &mut command,
    };
    let error = command.exec();
    Err(CannotRun { program: program.to_string_lossy().into_owned(), error }.into())
}

/// Whether the error is about what the user gave us.
pub(crate) fn is_input(error: &anyhow::Error) -> bool {
    error.is::<CannotRun>()
}

/// Lets the daemon trace this process, which the program keeps, and says what the user should know before the program has
/// the terminal.
fn prepare(options: &Launch) -> Vec<String> {
    let status =
        match client::connect(&options.reach).map_err(Into::into).and_then(|mut client| client::status(&mut client)) {
            Ok(status) => status,
            Err(error) => return vec![format!("the level has no effect: {error:#}")],
        };
    // Where the system asks for no consent it refuses to take any, and none is needed.
    let _ = kfd::urgency::allow_tracer(Pid(status.daemon_pid));
    let mut warnings = Vec::new();
    if status.mode == Mode::Observe {
        warnings.push("the daemon only observes: nothing is stopped for this program".to_owned());
    }
    warnings
}
