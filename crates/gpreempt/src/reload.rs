//! `gpreempt reload`: makes the daemon read its configuration again.

use std::io::Write;

use anyhow::Result;
use gpreempt_proto::Request;

use crate::cli::Report;
use crate::client;

pub(crate) fn run(report: &Report, out: &mut impl Write) -> Result<()> {
    client::order(Request::Reload, report, out)
}
