//! Check of the daemon.

use anyhow::Result;
use gpreempt_proto::{ClientError, Mode, Status};

use super::Check;
use crate::cli::Reach;
use crate::client;

pub(super) fn ask(reach: &Reach) -> Result<Status> {
    client::status(&mut client::connect(reach)?)
}

pub(super) fn check(status: &Result<Status>) -> Check {
    const NAME: &str = "daemon";
    match status {
        Ok(status) => match status.mode {
            Mode::Enforce => Check::ok(NAME, format!("process {} enforces", status.daemon_pid)),
            Mode::Other => Check::warn(
                NAME,
                format!("process {} is in a mode that this release does not know", status.daemon_pid),
                "use the command of the daemon's release",
            ),
            Mode::Observe => Check::ok(NAME, format!("process {} only observes", status.daemon_pid))
                .with("to stop processes, set `mode = \"enforce\"` in its configuration and run `gpreempt reload`"),
        },
        Err(error) => match error.downcast_ref() {
            Some(ClientError::NoDaemon { path, .. }) => Check::warn(
                NAME,
                format!("no daemon answers at {}", path.display()),
                "start `gpreempt daemon`, or the service: `systemctl start gpreempt`",
            ),
            _ => Check::warn(NAME, "does not answer", format!("{error:#}")),
        },
    }
}
