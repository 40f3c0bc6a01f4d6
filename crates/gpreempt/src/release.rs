//! `gpreempt release`: end a hold, or give a process up.

use std::io::Write;

use anyhow::Result;
use clap::CommandFactory;
use clap::error::ErrorKind;
use gpreempt_proto::Request;

use crate::cli::{Cli, Release};
use crate::client;

pub(crate) fn run(options: &Release, out: &mut impl Write) -> Result<()> {
    let request = match (options.abandon, options.whom.target()) {
        (Some(pid), _) => Request::Abandon { pid },
        (None, Some(target)) => Request::Release { target },
        (None, None) => {
            let message = "whom? Give --pid PID or --job NAME to end a hold, or a PID to give that process up";
            return Err(Cli::command().error(ErrorKind::MissingRequiredArgument, message).into());
        }
    };
    client::order(request, &options.report, out)
}
