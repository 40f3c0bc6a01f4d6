//! `gpreempt notify`: tells the daemon that work was submitted.

use std::io::Write;

use anyhow::Result;
use gpreempt_proto::Request;

use crate::cli::Notify;
use crate::client;

pub(crate) fn run(options: &Notify, out: &mut impl Write) -> Result<()> {
    // This command submits nothing itself; its parent does.
    let pid = options.pid.unwrap_or_else(std::os::unix::process::parent_id);
    client::order(Request::Notify { pid: Some(pid) }, &options.report, out)
}
