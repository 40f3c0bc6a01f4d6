//! Requests to the daemon.

use std::io::Write;

use anyhow::{Result, bail};
use clap::CommandFactory;
use clap::error::ErrorKind;
use gpreempt_proto::{Answer, Client, ClientError, PATIENCE, Request, Stats, Status, Target, socket_path};
use serde::Serialize;

use crate::cli::{Cli, Reach, Report, Selector};
use crate::output;

/// JSON document of a command that changes something.
#[derive(Serialize)]
struct Done {
    schema: u32,
    note: Option<String>,
}

pub(crate) fn connect(reach: &Reach) -> Result<Client, ClientError> {
    match &reach.socket {
        Some(path) => Client::connect_to(path, PATIENCE),
        None => Client::connect_to(&socket_path(), PATIENCE),
    }
}

pub(crate) fn status(client: &mut Client) -> Result<Status> {
    match client.call(Request::Status)? {
        Answer::Status(status) => Ok(*status),
        other => strange(&other),
    }
}

pub(crate) fn stats(client: &mut Client) -> Result<Stats> {
    match client.call(Request::Stats)? {
        Answer::Stats(stats) => Ok(*stats),
        other => strange(&other),
    }
}

/// Sends a request for a change and prints the daemon's note.
pub(crate) fn order(request: Request, report: &Report, out: &mut impl Write) -> Result<()> {
    let note = match connect(&report.reach)?.call(request)? {
        Answer::Done { note } => note,
        other => return strange(&other),
    };
    if report.json {
        return output::json(&Done { schema: output::SCHEMA, note }, out);
    }
    if let Some(note) = note {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

/// Returns the process or job that the options name.
///
/// # Errors
///
/// A usage error if they name none.
pub(crate) fn target(selector: &Selector) -> Result<Target> {
    let message = "no process or job named; give --pid PID or --job NAME";
    let missing = || Cli::command().error(ErrorKind::MissingRequiredArgument, message);
    Ok(selector.target().ok_or_else(missing)?)
}

/// Returns the error for an answer that does not belong to the request.
pub(crate) fn strange<T>(answer: &Answer) -> Result<T> {
    bail!("unexpected answer of the daemon: {answer:?}; use the command of the daemon's release")
}
