//! `gpreempt unmanage` and `gpreempt manage`: leaves a process alone, and undoes that.

use std::io::Write;

use anyhow::Result;
use gpreempt_proto::Request;

use crate::cli::OneProcess;
use crate::client;

pub(crate) fn unmanage(options: &OneProcess, out: &mut impl Write) -> Result<()> {
    client::order(Request::Unmanage { pid: options.pid }, &options.report, out)
}

pub(crate) fn manage(options: &OneProcess, out: &mut impl Write) -> Result<()> {
    client::order(Request::Manage { pid: options.pid }, &options.report, out)
}
