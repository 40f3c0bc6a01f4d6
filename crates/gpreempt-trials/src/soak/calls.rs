//! What a user asks of the daemon in the middle of everything.

use std::time::Duration;

use anyhow::Result;
use gpreempt_proto::{ClientError, RefusalKind, Request, Target};
use rand_pcg::Pcg64;

use super::daemon::SoakDaemon;
use super::loads::{Loads, Role};
use super::tally::SoakTally;
use crate::random::below;

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Set,
    Hold,
    Release,
    Reload,
    /// Of a file with a fault, which has to be refused.
    ReloadNonsense,
}

impl Call {
    pub(super) const ALL: [Call; 5] = [Call::Set, Call::Hold, Call::Release, Call::Reload, Call::ReloadNonsense];

    fn name(self) -> &'static str {
        match self {
            Call::Set => "set",
            Call::Hold => "hold",
            Call::Release => "release",
            Call::Reload => "reload",
            Call::ReloadNonsense => "reload_nonsense",
        }
    }

    /// Asks, and looks whether the answer is what it has to be.
    pub(super) fn make(
        self,
        random: &mut Pcg64,
        loads: &mut Loads<'_>,
        service: &mut SoakDaemon<'_>,
        tally: &mut SoakTally,
    ) -> Result<()> {
        let offline = loads.pids(Some(Role::Offline));
        let Some(&pid) = offline.get(below(random, offline.len() as u64) as usize) else { return Ok(()) };
        let level = 1 + below(random, 5) as u8;
        let seconds = 1 + below(random, 3);
        *tally.calls.entry(self.name()).or_default() += 1;
        tally.did(format!("{} {pid}", self.name()));
        let target = Target::Pid(pid);
        let request = match self {
            Call::Set => Request::Set { target, level },
            Call::Hold => Request::Hold { target, seconds },
            Call::Release => Request::Release { target },
            Call::Reload => {
                service.write_rules(level)?;
                Request::Reload
            }
            Call::ReloadNonsense => {
                service.write_config("mode = \"enforce\"\n[[rule]]\nlevle = 3\n")?;
                Request::Reload
            }
        };
        let outcome = service.ask(request);
        match (self, outcome) {
            (Call::Set, Ok(_)) => service.note_level(format!("pid-{pid}"), level),
            // A while more than the hold itself: it takes a moment until it runs again.
            (Call::Hold, Ok(_)) => loads.set_held(pid, Duration::from_secs(seconds + 1)),
            (Call::ReloadNonsense, outcome) => {
                // What would hold after the next restart.
                service.write_rules(level)?;
                if !matches!(&outcome, Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::Configuration)
                {
                    tally.fail(&format!("a faulty configuration was not refused: {outcome:?}"));
                }
            }
            (_, Ok(_)) => {}
            // It may not have been seen yet, or just have ended.
            (_, Err(ClientError::Refused(refusal))) if refusal.kind == RefusalKind::Unknown => {}
            (_, Err(error)) => tally.fail(&format!("{} {pid}: {error}", self.name())),
        }
        Ok(())
    }
}
