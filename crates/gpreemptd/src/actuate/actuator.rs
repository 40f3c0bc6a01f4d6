//! The actuator: the process that opens the driver, and traces others where it has to. Its main thread reads commands,
//! sends signs of life, and waits for nothing else; other threads call the driver.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use gpreempt_proto::ActuatorKind;
use kfd::{KernelScheduler, Switcher};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd;

use super::choice::{self, Chosen};
use super::combined::Combined;
use super::debug_trap::DebugTrap;
use super::json_lines::Lines;
use super::kernel::PolicyHost;
use super::reports::Reports;
use super::signals::leave_signals_to_the_daemon;
use super::target::Common;
use super::{ActuatorCommand, ActuatorEvent, ActuatorOptions, BEAT};
use crate::panic_hook;

/// Time between two beats: two fit into the longest allowed.
const PERIOD: Duration = BEAT.checked_div(2).expect("two is not zero");

/// How long targets may take to be let go in order. The driver resumes those that are left when this process ends.
const DETACH_TIMEOUT: Duration = Duration::from_millis(300);

/// The actuator's process: `gpreempt actuator`. Stdin is the socket to the daemon, stdout the pipe to the guardian;
/// nothing is printed there.
#[must_use]
pub fn actuator_main(options: ActuatorOptions) -> ExitCode {
    leave_signals_to_the_daemon();
    panic_hook::abort_on_panic();
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the actuator gives up");
            ExitCode::FAILURE
        }
    }
}

fn run(options: ActuatorOptions) -> io::Result<()> {
    // A core file of a process that holds others is written before they are let go.
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let stdout = io::stdout();
    // A guardian that is stopped for long hears nothing, and must not hold up this process.
    fcntl(stdout.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let granted = crate::os::priority::raise();
    tracing::debug!(?granted, "actuator started");
    // The guardian tolerates little silence after the first beat, so this thread has its priority by now. If the
    // guardian ended before it could be the parent whose end kills this process, the beat is not heard.
    beat()?;
    let orders = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let reports = Arc::new(Reports::new(orders.try_clone()?));
    let mut actuator = Actuator::make(choose_with_beats(options)?, reports)?;
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

/// The actuator that serves.
enum Actuator {
    DebugTrap(DebugTrap),
    Combined(Combined),
    Kernel(PolicyHost),
}

impl Actuator {
    /// Makes the one that was chosen, and tells the daemon which it is.
    fn make(chosen: Chosen<KernelScheduler, Switcher>, reports: Arc<Reports>) -> io::Result<Actuator> {
        let actuator = std::process::id();
        match chosen {
            Chosen::DebugTrap { instead } => {
                for why in instead {
                    tracing::info!("the debug trap serves: {why}");
                }
                reports.tell(&ActuatorEvent::Started { actuator, kind: ActuatorKind::DebugTrap });
                Ok(Actuator::DebugTrap(DebugTrap::new(Arc::new(Common::new(reports)))))
            }
            Chosen::Combined { switcher, instead } => {
                if let Some(why) = instead {
                    tracing::info!("the combined actuator serves: {why}");
                }
                reports.tell(&ActuatorEvent::Started { actuator, kind: ActuatorKind::Combined });
                Combined::start(switcher, reports).map(Actuator::Combined)
            }
            Chosen::Kernel(kernel) => {
                let version = kernel.version();
                tracing::info!("the scheduler in the kernel serves: version {}, {:?}", version.abi, version.features);
                reports.tell(&ActuatorEvent::Started { actuator, kind: ActuatorKind::Kernel });
                PolicyHost::start(kernel, reports).map(Actuator::Kernel)
            }
        }
    }

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
        match self {
            Actuator::DebugTrap(debug_trap) => debug_trap.obey(order),
            Actuator::Combined(combined) => combined.obey(order),
            Actuator::Kernel(host) => host.obey(order),
        }
    }

    fn sweep(&mut self) {
        if let Actuator::DebugTrap(debug_trap) = self {
            debug_trap.sweep();
        }
    }

    /// Lets everything run, all targets at once, but does not wait long. The scheduler in the kernel is asked for that
    /// by the daemon, if at all.
    fn leave(self) -> io::Result<()> {
        let mut leaving = match self {
            Actuator::DebugTrap(debug_trap) => debug_trap.close(),
            Actuator::Combined(combined) => vec![combined.close()],
            Actuator::Kernel(host) => vec![host.close()],
        };
        let deadline = Instant::now() + DETACH_TIMEOUT;
        while !leaving.is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
            leaving.retain(|thread| !thread.is_finished());
            beat()?;
        }
        Ok(())
    }
}

/// Chooses the actuator on a thread of its own: opening the driver may take long, and the guardian expects beats.
fn choose_with_beats(options: ActuatorOptions) -> io::Result<Chosen<KernelScheduler, Switcher>> {
    let (to, chosen) = mpsc::channel();
    thread::Builder::new().name("choose".to_owned()).spawn(move || {
        // The main thread waits for it, or this process is ending.
        let claim = || choice::claim_kernel(options.keep);
        let _ = to.send(choice::choose(options.choice, claim, Switcher::open));
    })?;
    loop {
        match chosen.recv_timeout(PERIOD) {
            Ok(chosen) => return chosen.map_err(io::Error::other),
            Err(RecvTimeoutError::Timeout) => beat()?,
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("no actuator was chosen")),
        }
    }
}

/// Waits until there are orders, but not longer than said.
fn is_readable(orders: &UnixStream, timeout: Duration) -> bool {
    let mut polled = [PollFd::new(orders.as_fd(), PollFlags::POLLIN)];
    // It is rounded down, so one more millisecond keeps the last one from being spent in turns.
    let timeout = PollTimeout::try_from(timeout + Duration::from_millis(1)).unwrap_or(PollTimeout::ZERO);
    poll(&mut polled, timeout).is_ok_and(|ready| ready > 0)
}
