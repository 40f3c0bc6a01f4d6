//! `gpreempt set`: changes the level of a job.

use std::io::Write;

use anyhow::Result;
use gpreempt_proto::Request;

use crate::cli::Set;
use crate::client;

pub(crate) fn run(options: &Set, out: &mut impl Write) -> Result<()> {
    let target = client::target(&options.selector)?;
    client::order(Request::Set { target, level: options.level }, &options.report, out)
}
