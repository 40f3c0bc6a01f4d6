//! `gpreempt daemon`: manage the gpus of this machine.

use anyhow::Result;
use gpreemptd::daemon::{self, Error, Options};

use crate::cli::Daemon;
use crate::logging;

pub(crate) fn run(flags: Daemon) -> Result<()> {
    let options = Options {
        config: flags.config,
        socket: flags.socket,
        mode: flags.mode.map(Into::into),
        spin_core: flags.spin_core,
    };
    Ok(logging::with(|| daemon::run(&options))?)
}

/// Whether the error is about what the user gave us.
pub(crate) fn is_input(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Config(_)))
}
