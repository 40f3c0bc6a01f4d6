//! The daemon's end of the link: starts guardian and actuator, sends commands, passes reports on.

use std::io::{self, PipeWriter};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{MsgFlags, send};
use nix::unistd;

use super::guardian::Ending;
use super::json_lines::{Lines, line};
use super::{ActuatorCommand, ActuatorEvent, ActuatorOptions, BEAT, SILENCE};
use crate::inbox::{Input, InputSender};

/// How long guardian and actuator may take to end by themselves before they are ended.
const EXIT_TIMEOUT: Duration = Duration::from_millis(1500);

/// The actuator, as the deciding thread has it. Nothing here waits, except dropping: that waits for both processes, up
/// to 3.5 s if they do not leave, and all queues run when it returns. See [`LinkReaper`](super::LinkReaper).
#[derive(Debug)]
pub struct Link {
    orders: UnixStream,
    beats: Option<PipeWriter>,
    processes: Arc<Processes>,
    /// Disconnected when the reading thread is through.
    over: Receiver<()>,
}

/// What deciding and reading thread share.
#[derive(Debug)]
struct Processes {
    guardian: Mutex<Child>,
    actuator: AtomicU32,
    /// Why this end gave the actuator up.
    given_up: OnceLock<String>,
}

impl Processes {
    fn guardian(&self) -> MutexGuard<'_, Child> {
        self.guardian.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends both: the actuator does not outlive its guardian.
    fn give_up(&self, why: impl Into<String>) {
        let _ = self.given_up.set(why.into());
        // It fails only if the guardian ended already.
        let _ = self.guardian().kill();
    }
}

impl Link {
    /// Starts `program guardian`, and with it an actuator. [`ActuatorEvent::Started`] follows, or
    /// [`ActuatorEvent::Lost`]. The guardian expects signs of life from the first one on, which is left to the thread
    /// that gives the others: it may be slow to take the link.
    ///
    /// # Errors
    ///
    /// If the system has no process or descriptor left, or the program cannot be executed.
    pub fn start(program: &Path, options: impl Into<ActuatorOptions>, to: InputSender) -> io::Result<Link> {
        let (orders, actuators) = UnixStream::pair()?;
        let (received, beats) = io::pipe()?;
        fcntl(&beats, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let reports = orders.try_clone()?;
        // Both ends of a terminal's or a service manager's signals are the daemon's: see `signals`.
        let guardian = Command::new(program)
            .arg("guardian")
            .args(options.into().arguments())
            .stdin(Stdio::from(OwnedFd::from(received)))
            .stdout(Stdio::from(OwnedFd::from(actuators)))
            .process_group(0)
            .spawn()?;
        let processes = Arc::new(Processes {
            guardian: Mutex::new(guardian),
            actuator: AtomicU32::new(0),
            given_up: OnceLock::new(),
        });
        let (through, over) = mpsc::channel();
        let link = Link { orders, beats: Some(beats), processes: Arc::clone(&processes), over };
        let read = move || {
            listen(reports, &processes, &to);
            drop(through);
        };
        thread::Builder::new().name("actuator-link".to_owned()).spawn(read)?;
        Ok(link)
    }

    /// Sends a command. Returns false if the actuator is lost: [`ActuatorEvent::Lost`] comes or came.
    pub fn send(&mut self, order: &ActuatorCommand) -> bool {
        let sent = line(order).and_then(|line| {
            // A signal cannot interrupt a call that does not wait.
            let count = send(self.orders.as_raw_fd(), &line, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)?;
            if count == line.len() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        match sent {
            Ok(()) => true,
            Err(error) => {
                let why = if error.kind() == io::ErrorKind::WouldBlock {
                    "its command queue is full".to_owned()
                } else {
                    format!("commands do not reach it: {error}")
                };
                self.processes.give_up(why);
                false
            }
        }
    }

    /// Gives a sign of life. To be called every [`BEAT`] at the latest.
    pub fn beat(&mut self) {
        let Some(beats) = &self.beats else { return };
        // The end of the guardian is told as that of the actuator.
        if unistd::write(beats, &[0]) == Err(Errno::EAGAIN) {
            self.processes.give_up("its guardian hears nothing any more");
        }
    }

    /// Asks the actuator to resume all queues and to end. Does not wait for that.
    pub fn close(&mut self) {
        // The actuator sees the end of its orders, lets everything run and leaves; the guardian sees that of the beats
        // and gives it `SILENCE` for that.
        let _ = self.orders.shutdown(Shutdown::Write);
        self.beats = None;
    }

    /// The actuator's process, once it has started.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        Some(self.processes.actuator.load(Ordering::Acquire)).filter(|pid| *pid != 0)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
        if self.over.recv_timeout(SILENCE + EXIT_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            self.processes.give_up("it did not leave");
            // Both are killed: this ends soon, unless a call of the driver does not.
            let _ = self.over.recv_timeout(EXIT_TIMEOUT);
        }
    }
}

/// Passes reports on until there are no more, then says how it ended.
fn listen(mut reports: UnixStream, processes: &Processes, to: &InputSender) {
    if let Err(error) = pass_on(&mut reports, processes, to) {
        processes.give_up(format!("its reports cannot be read: {error}"));
        // Whatever it still says is of no use, but its end is.
        let _ = io::copy(&mut reports, &mut io::sink());
    }
    let lost = lost(reap(processes), processes.given_up.get());
    // Without a receiver the daemon is ending.
    let _ = to.send(Input::Actuator(lost));
}

fn pass_on(reports: &mut UnixStream, processes: &Processes, to: &InputSender) -> io::Result<()> {
    let mut lines = Lines::default();
    while lines.fill(reports)? > 0 {
        while let Some(told) = lines.next::<ActuatorEvent>()? {
            if let ActuatorEvent::Started { actuator, .. } = told {
                processes.actuator.store(actuator, Ordering::Release);
            }
            let _ = to.send(Input::Actuator(told));
        }
    }
    Ok(())
}

/// Waits for the guardian, whose actuator is gone, and ends it if it stays.
fn reap(processes: &Processes) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        match processes.guardian().try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => {}
            Err(_) => return None,
        }
        if begun.elapsed() > SILENCE + BEAT {
            processes.give_up("its guardian did not leave");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The last report.
fn lost(guardian: Option<ExitStatus>, given_up: Option<&String>) -> ActuatorEvent {
    if let Some(why) = given_up {
        return ActuatorEvent::Lost { why: format!("the actuator was ended: {why}"), killed: true };
    }
    let code = guardian.and_then(|status| status.code());
    let ending = Ending::ALL.into_iter().find(|ending| Some(i32::from(ending.code())) == code);
    let why = match (ending, guardian.and_then(|status| status.signal())) {
        (Some(Ending::Left), _) => "the actuator left".to_owned(),
        (Some(Ending::Unstarted), _) => "the actuator could not be started".to_owned(),
        (Some(Ending::Failed), _) => "the actuator failed, or another process ended it".to_owned(),
        (Some(Ending::Silent), _) => "the actuator gave no sign of life and was ended".to_owned(),
        (Some(Ending::Orphaned), _) => {
            "this daemon gave the actuator's guardian no sign of life, so it ended the actuator".to_owned()
        }
        (None, Some(signal)) => {
            format!("the actuator's guardian was ended by signal {signal}, and the actuator with it")
        }
        (None, None) => "the actuator's guardian failed".to_owned(),
    };
    ActuatorEvent::Lost { why, killed: matches!(ending, Some(Ending::Silent | Ending::Orphaned)) }
}

#[cfg(test)]
mod tests {
    use super::super::ActuatorChoice;
    use super::*;
    use crate::os::channel::channel;

    fn ended(raw: i32) -> (String, bool) {
        match lost(Some(ExitStatus::from_raw(raw)), None) {
            ActuatorEvent::Lost { why, killed } => (why, killed),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_daemon_learns_how_the_actuator_ended() {
        for ending in Ending::ALL {
            let killed = matches!(ending, Ending::Silent | Ending::Orphaned);
            assert_eq!(ended(i32::from(ending.code()) << 8).1, killed, "{ending:?}");
        }
        assert!(ended(9).0.contains("signal 9"));
        assert!(ended(101 << 8).0.contains("guardian failed"));
        let given_up = lost(None, Some(&"its command queue is full".to_owned()));
        assert!(matches!(given_up, ActuatorEvent::Lost { killed: true, why } if why.contains("queue is full")));
    }

    #[test]
    fn a_program_that_cannot_be_executed_is_an_error_at_once() {
        let (to, _inputs) = channel().unwrap();
        assert!(Link::start(Path::new("/nonexistent/gpreempt"), ActuatorChoice::Auto, to).is_err());
    }

    #[test]
    fn a_program_that_leaves_at_once_is_a_loss() {
        let (to, inputs) = channel().unwrap();
        let mut link = Link::start(Path::new("/bin/false"), ActuatorChoice::Auto, to).unwrap();
        let Input::Actuator(ActuatorEvent::Lost { why, killed: false }) = inputs.recv().unwrap() else {
            panic!("something else")
        };
        assert!(why.contains("could not be started"), "{why}");
        assert!(!link.send(&ActuatorCommand::Detach { pid: 1 }));
        assert_eq!(link.pid(), None);
    }
}
