//! `gpreempt daemon`: manages the gpus of this machine.

use anyhow::Result;
use gpreemptd::daemon::{self, Error, Options};

use crate::cli::Daemon;
use crate::logging;
use crate::output::UserError;

pub(crate) fn run(flags: Daemon) -> Result<()> {
    let options = Options {
        config: flags.config,
        socket: flags.socket,
        mode: flags.mode.map(Into::into),
        spin_core: flags.spin_core,
    };
    match logging::with(|| daemon::run(&options)) {
        Err(error @ (Error::Config(_) | Error::Actuator(_))) => Err(UserError::new(error).into()),
        result => Ok(result?),
    }
}
