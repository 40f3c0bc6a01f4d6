//! `gpreempt hold`: stops a job for a time.

use std::io::Write;

use anyhow::Result;
use gpreempt_proto::Request;

use crate::cli::Hold;
use crate::client;

pub(crate) fn run(options: &Hold, out: &mut impl Write) -> Result<()> {
    let target = client::target(&options.selector)?;
    client::order(Request::Hold { target, seconds: options.seconds }, &options.report, out)
}
