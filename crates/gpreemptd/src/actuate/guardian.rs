//! The guardian: ends an actuator that gives no sign of life, or whose daemon gives none.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;

use super::signals::leave_signals_to_the_daemon;
use super::{ActuatorOptions, BEAT, SILENCE};

/// How long an actuator may take until its first sign of life: it is loaded and linked first.
const START: Duration = Duration::from_secs(5);

/// How long one look at the beats takes at most.
const LOOK: Duration = Duration::from_millis(50);

/// How an actuator ended. The guardian's exit code reports it to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It left when it was asked to.
    Left,
    /// It could not be started.
    Unstarted,
    /// It failed by itself, or another process ended it.
    Failed,
    /// It gave no sign of life.
    Silent,
    /// The daemon gave no sign of life.
    Orphaned,
}

impl Ending {
    pub(super) const ALL: [Ending; 5] =
        [Ending::Left, Ending::Unstarted, Ending::Failed, Ending::Silent, Ending::Orphaned];

    /// The guardian's exit code.
    pub(super) fn code(self) -> u8 {
        match self {
            Ending::Left => 0,
            Ending::Unstarted => 1,
            Ending::Failed => 3,
            Ending::Silent => 4,
            Ending::Orphaned => 5,
        }
    }
}

/// The guardian's process: `gpreempt guardian`. Stdin carries the daemon's beats, stdout is the actuator's end of the
/// socket to the daemon; nothing is printed there.
#[must_use]
pub fn guardian_main(options: ActuatorOptions) -> ExitCode {
    leave_signals_to_the_daemon();
    let ending = match GuardedActuator::start(options) {
        Ok(mut guarded) => guarded.guard(),
        Err(error) => {
            tracing::error!(%error, "cannot start the actuator");
            Ending::Unstarted
        }
    };
    ExitCode::from(ending.code())
}

/// A sign of life that is expected again and again.
struct Heartbeat {
    source: OwnedFd,
    silent: Duration,
    tolerated: Duration,
    open: bool,
}

impl Heartbeat {
    fn new(source: OwnedFd, tolerated: Duration) -> Heartbeat {
        Heartbeat { source, silent: Duration::ZERO, tolerated, open: true }
    }

    /// Takes out every beat that has come; `passed` is the time since the last look.
    fn look(&mut self, passed: Duration) {
        self.silent += passed;
        let mut beats = [0; 4096];
        while self.open && is_readable(&self.source) {
            match unistd::read(&self.source, &mut beats) {
                Ok(0) => self.open = false,
                Ok(_) => (self.silent, self.tolerated) = (Duration::ZERO, SILENCE),
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => self.open = false,
            }
        }
    }

    fn is_silent(&self) -> bool {
        self.open && self.silent >= self.tolerated
    }
}

/// The actuator with what tells of its life and of the daemon's.
struct GuardedActuator {
    actuator: Child,
    daemon_beats: Heartbeat,
    actuator_beats: Heartbeat,
    /// How long the daemon's beats have been over.
    alone: Duration,
}

impl GuardedActuator {
    fn start(options: ActuatorOptions) -> io::Result<GuardedActuator> {
        let daemon = io::stdin().as_fd().try_clone_to_owned()?;
        let socket = io::stdout().as_fd().try_clone_to_owned()?;
        // The socket is the actuator's: it must close when that ends, whatever becomes of this process.
        let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
        unistd::dup2_stdout(&nowhere)?;
        let (received, beats) = io::pipe()?;
        // Also after this executable was replaced by a newer one.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("gpreempt").arg("actuator").args(options.arguments()).stdin(Stdio::from(socket)).stdout(beats);
        let actuator = command.spawn()?;
        Ok(GuardedActuator {
            actuator,
            daemon_beats: Heartbeat::new(daemon, START),
            actuator_beats: Heartbeat::new(received.into(), START),
            alone: Duration::ZERO,
        })
    }

    /// Looks after it until it ended.
    fn guard(&mut self) -> Ending {
        let mut last = Instant::now();
        loop {
            self.wait();
            let now = Instant::now();
            // A guardian that was stopped, or waited for a processor, cannot tell silence from its own absence, and the
            // others may have been held up as well.
            let passed = now.saturating_duration_since(last).min(LOOK * 2);
            last = now;
            self.daemon_beats.look(passed);
            self.actuator_beats.look(passed);
            if !self.daemon_beats.open {
                self.alone += passed;
            }
            if let Some(ending) = self.judge() {
                return ending;
            }
        }
    }

    fn judge(&mut self) -> Option<Ending> {
        if !self.actuator_beats.open {
            return Some(self.reap());
        }
        if self.actuator_beats.is_silent() {
            tracing::warn!(silent = ?self.actuator_beats.silent, "the actuator gives no sign of life: ending it");
            return Some(self.kill(Ending::Silent));
        }
        if self.daemon_beats.is_silent() {
            tracing::warn!(silent = ?self.daemon_beats.silent, "the daemon gives no sign of life: ending the actuator");
            return Some(self.kill(Ending::Orphaned));
        }
        if self.alone >= SILENCE {
            tracing::warn!("the daemon is gone and the actuator did not leave: ending it");
            return Some(self.kill(Ending::Orphaned));
        }
        None
    }

    /// Until something comes, but not for long.
    fn wait(&self) {
        // A heartbeat that ended stays readable; its descriptor would make this spin.
        let open = [&self.daemon_beats, &self.actuator_beats].into_iter().filter(|beats| beats.open);
        let mut polled: Vec<PollFd<'_>> =
            open.map(|beats| PollFd::new(beats.source.as_fd(), PollFlags::POLLIN)).collect();
        let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
        // If it fails, there was a look too many.
        let _ = poll(&mut polled, timeout);
    }

    /// The actuator closed its beats, which it does by ending.
    fn reap(&mut self) -> Ending {
        let deadline = Instant::now() + BEAT;
        let status = loop {
            match self.actuator.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
                _ => break None,
            }
        };
        match status {
            Some(status) if status.success() => Ending::Left,
            Some(status) => {
                tracing::error!(%status, "the actuator failed");
                Ending::Failed
            }
            None => self.kill(Ending::Silent),
        }
    }

    /// Ends it; the driver then resumes what it had stopped. Whatever the cause, it is gone when this returns.
    fn kill(&mut self, ending: Ending) -> Ending {
        let status = self.actuator.kill().and_then(|()| self.actuator.wait());
        match status.map(|status: ExitStatus| status.success()) {
            // It was just leaving.
            Ok(true) => Ending::Left,
            Ok(false) => ending,
            Err(error) => {
                tracing::error!(%error, "cannot end the actuator");
                ending
            }
        }
    }
}

fn is_readable(source: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn only_time_without_beats_is_silence() {
        let (source, mut end) = io::pipe().unwrap();
        let mut heartbeat = Heartbeat::new(source.into(), START);
        heartbeat.look(START - LOOK);
        assert!(!heartbeat.is_silent(), "there is time to start");
        end.write_all(&[0; 9000]).unwrap();
        heartbeat.look(START);
        assert!(!heartbeat.is_silent(), "every beat was taken before it was judged");
        heartbeat.look(SILENCE - LOOK);
        assert!(!heartbeat.is_silent());
        heartbeat.look(LOOK);
        assert!(heartbeat.is_silent() && heartbeat.open);
        drop(end);
        heartbeat.look(LOOK);
        assert!(!heartbeat.is_silent() && !heartbeat.open, "an end is no silence");
    }

    #[test]
    fn every_ending_has_a_code_of_its_own() {
        let codes: std::collections::BTreeSet<u8> = Ending::ALL.iter().map(|ending| ending.code()).collect();
        // 2 is what a command says to wrong arguments.
        assert!(codes.len() == Ending::ALL.len() && !codes.contains(&2));
    }
}
