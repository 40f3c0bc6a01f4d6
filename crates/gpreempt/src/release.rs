//! `gpreempt release`: ends a hold.

use std::io::Write;

use anyhow::Result;
use clap::CommandFactory;
use clap::error::ErrorKind;
use gpreempt_proto::Request;

use crate::cli::{Cli, Release};
use crate::client;

pub(crate) fn run(options: &Release, out: &mut impl Write) -> Result<()> {
    if let Some(bare) = &options.bare {
        let message = format!(
            "unexpected argument {bare:?}: `gpreempt release` ends a hold and takes --pid PID or --job NAME; \
             to leave a process alone for good, use `gpreempt unmanage PID`"
        );
        return Err(Cli::command().error(ErrorKind::UnknownArgument, message).into());
    }
    let target = client::target(&options.selector)?;
    client::order(Request::Release { target }, &options.report, out)
}
