//! Disturbances: which process is killed or halted, which call is made, and when.

use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand_pcg::Pcg64;

use super::calls::Call;
use super::daemon::{Part, SoakDaemon};
use super::free;
use super::loads::{Loads, Role};
use super::tally::SoakTally;
use crate::environment::gpu_under_test::GpuUnderTest;
use crate::random::below;

/// Pause between two disturbances, in milliseconds: at least, and at most so many more.
const PAUSE_MS: (u64, u64) = (100, 900);
/// How long a process stays halted by SIGSTOP: shorter and longer than the guardian tolerates.
const FREEZE_MS: (u64, u64) = (50, 1500);

/// A process that is killed or halted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Part(Part),
    Load(Role),
}

impl Victim {
    const ALL: [Victim; 5] = [
        Victim::Part(Part::Daemon),
        Victim::Part(Part::Guardian),
        Victim::Part(Part::Actuator),
        Victim::Load(Role::Online),
        Victim::Load(Role::Offline),
    ];

    fn name(self) -> &'static str {
        match self {
            Victim::Part(Part::Daemon) => "daemon",
            Victim::Part(Part::Guardian) => "guardian",
            Victim::Part(Part::Actuator) => "actuator",
            Victim::Load(role) => role.name(),
        }
    }
}

/// A process that was halted by SIGSTOP.
struct Frozen {
    victim: Victim,
    pid: u32,
    until: Instant,
}

/// Disturbs the daemon and the programs.
pub(super) struct Disturber {
    random: Pcg64,
    next: Instant,
    restart_at: Option<Instant>,
    frozen: Vec<Frozen>,
}

impl Disturber {
    pub(super) fn new(seed: u64) -> Disturber {
        let random = Pcg64::new(seed.into(), 0);
        Disturber { random, next: Instant::now() + Duration::from_secs(3), restart_at: None, frozen: Vec::new() }
    }

    fn span(&mut self, (least, more): (u64, u64)) -> Duration {
        Duration::from_millis(least + below(&mut self.random, more))
    }

    /// Does what is due.
    pub(super) fn go_on(
        &mut self,
        place: &GpuUnderTest,
        loads: &mut Loads<'_>,
        service: &mut SoakDaemon<'_>,
        tally: &mut SoakTally,
    ) -> Result<()> {
        let now = Instant::now();
        self.thaw(loads, service, |frozen| now >= frozen.until);
        if self.restart_at.is_some_and(|at| now >= at) {
            self.restart_at = None;
            service.ensure_running(tally)?;
        }
        if now < self.next {
            return Ok(());
        }
        let random = &mut self.random;
        let (kind, victim) = (below(random, 10), Victim::ALL[below(random, Victim::ALL.len() as u64) as usize]);
        match kind {
            0..=3 => self.kill(victim, place, loads, service, tally)?,
            4..=6 => self.freeze(victim, loads, service, tally),
            7 => self.end_one(loads, tally),
            _ if service.is_running() && !service.is_frozen() => {
                let call = Call::ALL[below(random, Call::ALL.len() as u64) as usize];
                call.make(random, loads, service, tally)?;
            }
            _ => {}
        }
        self.next = Instant::now() + self.span(PAUSE_MS);
        Ok(())
    }

    fn find(&mut self, victim: Victim, loads: &Loads<'_>, service: &SoakDaemon<'_>) -> Option<u32> {
        match victim {
            Victim::Part(part) => service.pid(part),
            Victim::Load(role) => {
                let pids = loads.pids(Some(role));
                pids.get(below(&mut self.random, pids.len() as u64) as usize).copied()
            }
        }
    }

    fn kill(
        &mut self,
        victim: Victim,
        place: &GpuUnderTest,
        loads: &mut Loads<'_>,
        service: &mut SoakDaemon<'_>,
        tally: &mut SoakTally,
    ) -> Result<()> {
        let Some(pid) = self.find(victim, loads, service) else { return Ok(()) };
        *tally.kills.entry(victim.name()).or_default() += 1;
        tally.did(format!("kill {} {pid}", victim.name()));
        if victim != Victim::Part(Part::Daemon) {
            if let Victim::Load(_) = victim {
                loads.doom(pid);
            }
            // It may have ended at the same moment.
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
            return Ok(());
        }
        service.poll(tally)?;
        let helpers: Vec<u32> = [Part::Guardian, Part::Actuator].iter().filter_map(|part| service.pid(*part)).collect();
        service.kill()?;
        if below(&mut self.random, 2) == 0 {
            // The next one comes while the last is hardly gone.
            return service.ensure_running(tally);
        }
        // A guardian that is stopped cannot end.
        self.thaw(loads, service, |frozen| matches!(frozen.victim, Victim::Part(_)));
        match free::wait_until_free(place, &loads.pids(None), &helpers)? {
            Ok(time) => tally.freed.push(time),
            Err(bound) => tally.fail(&format!("10 s after the daemon was killed: {bound}")),
        }
        self.restart_at = Some(Instant::now() + self.span(PAUSE_MS));
        Ok(())
    }

    fn freeze(&mut self, victim: Victim, loads: &mut Loads<'_>, service: &mut SoakDaemon<'_>, tally: &mut SoakTally) {
        // Of daemon, guardian and actuator only one at a time: two that are stopped cannot look after the third.
        let is_part = |frozen: &Frozen| matches!(frozen.victim, Victim::Part(_));
        if matches!(victim, Victim::Part(_)) && self.frozen.iter().any(is_part) {
            return;
        }
        let Some(pid) = self.find(victim, loads, service) else { return };
        if self.frozen.iter().any(|frozen| frozen.pid == pid) {
            return;
        }
        *tally.freezes.entry(victim.name()).or_default() += 1;
        tally.did(format!("stop {} {pid}", victim.name()));
        if kill(Pid::from_raw(pid.cast_signed()), Signal::SIGSTOP).is_err() {
            return;
        }
        match victim {
            Victim::Load(_) => loads.set_frozen(pid, true),
            Victim::Part(part) => service.set_frozen(service.is_frozen() || part == Part::Daemon),
        }
        let until = Instant::now() + self.span(FREEZE_MS);
        self.frozen.push(Frozen { victim, pid, until });
    }

    fn thaw(&mut self, loads: &mut Loads<'_>, service: &mut SoakDaemon<'_>, is_meant: impl Fn(&Frozen) -> bool) {
        self.frozen.retain(|frozen| {
            if !is_meant(frozen) {
                return true;
            }
            // It may have been killed meanwhile.
            let _ = kill(Pid::from_raw(frozen.pid.cast_signed()), Signal::SIGCONT);
            match frozen.victim {
                Victim::Load(_) => loads.set_frozen(frozen.pid, false),
                Victim::Part(Part::Daemon) => service.set_frozen(false),
                Victim::Part(_) => {}
            }
            false
        });
    }

    /// Lets all halted processes continue.
    pub(super) fn thaw_all(&mut self, loads: &mut Loads<'_>, service: &mut SoakDaemon<'_>) {
        self.thaw(loads, service, |_| true);
    }

    /// One offline program comes to its end, stopped or not.
    fn end_one(&mut self, loads: &mut Loads<'_>, tally: &mut SoakTally) {
        let pids = loads.pids(Some(Role::Offline));
        if let Some(&pid) = pids.get(below(&mut self.random, pids.len() as u64) as usize) {
            tally.did(format!("end offline {pid}"));
            loads.enough(pid);
        }
    }
}
