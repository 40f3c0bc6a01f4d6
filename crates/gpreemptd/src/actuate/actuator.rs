//! The actuator: the process that opens the driver and traces others. Its main thread reads commands, sends signs of
//! life, and waits for nothing else; every target has a thread of its own that calls the driver.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kfd::{Error, Grace, Pid};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd;

use super::json_lines::Lines;
use super::refusal::refused;
use super::signals::leave_signals_to_the_daemon;
use super::target::{Action, Common, Target};
use super::{ActuatorCommand, ActuatorEvent, BEAT};
use crate::panic_hook;

/// Time between two beats: two fit into the longest allowed.
const PERIOD: Duration = BEAT.checked_div(2).expect("two is not zero");

/// How long targets may take to be let go in order. The driver resumes those that are left when this process ends.
const DETACH_TIMEOUT: Duration = Duration::from_millis(300);

/// The actuator's process: `gpreempt actuator`. Stdin is the socket to the daemon, stdout the pipe to the guardian;
/// nothing is printed there.
#[must_use]
pub fn actuator_main() -> ExitCode {
    leave_signals_to_the_daemon();
    panic_hook::abort_on_panic();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the actuator gives up");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    // A core file of a process that holds others is written before they are let go.
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let stdout = io::stdout();
    // A guardian that is stopped for long hears nothing, and must not hold up this process.
    fcntl(stdout.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // If the guardian ended before the line above could see to it, this one is not heard.
    beat()?;
    let granted = crate::os::priority::raise();
    tracing::debug!(?granted, "actuator started");
    let orders = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let common = Arc::new(Common::new(orders.try_clone()?));
    common.tell(&ActuatorEvent::Started { actuator: std::process::id() });
    let mut actuator = Actuator { common, targets: HashMap::new(), leaving: HashMap::new() };
    let ended = actuator.serve(orders);
    actuator.leave()?;
    ended
}

/// Tells the guardian that this process is alive. The error is that it is gone.
fn beat() -> io::Result<()> {
    match unistd::write(io::stdout().as_fd(), &[0]) {
        Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

struct Actuator {
    common: Arc<Common>,
    targets: HashMap<u32, Target>,
    /// Threads of sessions that are being ended.
    leaving: HashMap<u32, JoinHandle<()>>,
}

impl Actuator {
    /// Until there are no more orders.
    fn serve(&mut self, mut orders: UnixStream) -> io::Result<()> {
        let mut lines = Lines::default();
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                beat()?;
                next = Instant::now() + PERIOD;
                self.sweep();
            }
            if !is_readable(&orders, next.saturating_duration_since(Instant::now())) {
                continue;
            }
            if lines.fill(&mut orders)? == 0 {
                return Ok(());
            }
            while let Some(order) = lines.next()? {
                self.obey(order);
            }
        }
    }

    fn obey(&mut self, order: ActuatorCommand) {
        match order {
            ActuatorCommand::Attach { pid, started } => self.attach(pid, started),
            ActuatorCommand::Detach { pid } => self.detach(pid),
            ActuatorCommand::Suspend { ticket, pid, queues, grace } => {
                let grace = grace.map_or(Grace::HARDWARE, Grace::kiloclocks);
                self.order(ticket, pid, &queues, Action::Suspend(grace));
            }
            ActuatorCommand::Resume { ticket, pid, queues } => self.order(ticket, pid, &queues, Action::Resume),
        }
    }

    fn attach(&mut self, pid: u32, started: u64) {
        match self.targets.get(&pid) {
            Some(target) if target.started == started && !target.is_over() => return target.describe(),
            Some(_) => self.detach(pid),
            None => {}
        }
        match Target::attach(&self.common, Pid(pid), started, self.leaving.remove(&pid)) {
            Ok(target) => drop(self.targets.insert(pid, target)),
            Err(error) => self.common.tell(&ActuatorEvent::Refused(refused(None, Pid(pid), &error))),
        }
    }

    fn detach(&mut self, pid: u32) {
        if let Some(thread) = self.targets.remove(&pid).and_then(Target::detach) {
            self.leaving.insert(pid, thread);
        }
    }

    fn order(&self, ticket: u64, pid: u32, queues: &[u32], action: Action) {
        match self.targets.get(&pid) {
            Some(target) => target.order(ticket, queues, action),
            None => {
                let gone = Error::Gone { pid: Pid(pid) };
                self.common.tell(&ActuatorEvent::Refused(refused(Some(ticket), Pid(pid), &gone)));
            }
        }
    }

    /// Forgets targets that ended, and stops tracing processes where the driver does not require it.
    fn sweep(&mut self) {
        let ended: Vec<u32> = self.targets.iter().filter(|(_, target)| target.is_over()).map(|(pid, _)| *pid).collect();
        ended.into_iter().for_each(|pid| self.detach(pid));
        self.targets.values_mut().for_each(Target::stop_tracing);
        self.leaving.retain(|_, thread| !thread.is_finished());
    }

    /// Lets everything run, all targets at once, but does not wait long.
    fn leave(mut self) -> io::Result<()> {
        let all: Vec<u32> = self.targets.keys().copied().collect();
        all.into_iter().for_each(|pid| self.detach(pid));
        let deadline = Instant::now() + DETACH_TIMEOUT;
        while !self.leaving.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
            self.leaving.retain(|_, thread| !thread.is_finished());
            beat()?;
        }
        Ok(())
    }
}

/// Waits until there are orders, but not longer than said.
fn is_readable(orders: &UnixStream, timeout: Duration) -> bool {
    let mut polled = [PollFd::new(orders.as_fd(), PollFlags::POLLIN)];
    // It is rounded down, so one more millisecond keeps the last one from being spent in turns.
    let timeout = PollTimeout::try_from(timeout + Duration::from_millis(1)).unwrap_or(PollTimeout::ZERO);
    poll(&mut polled, timeout).is_ok_and(|ready| ready > 0)
}
