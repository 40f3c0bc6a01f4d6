//! Daemon, guardian and actuator: whichever is killed or stopped, no actuator is left that could hold others.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use gpreempt_testkit::{ThisTest, this_test, until};
use gpreemptd::actuate::{
    ActuatorChoice, ActuatorCommand, ActuatorEvent, CommandRefusalKind, Link, QueueChange, SILENCE,
};
use gpreemptd::inbox::Input;
use gpreemptd::os::channel::channel;
use kfd::GpuId;
use linux_host::process::ProcStat;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid};

use super::executable;
use super::living_link::LivingLink;

/// Says that this process plays the daemon.
const PART: &str = "GPREEMPT_TEST_DAEMON";
/// Tells its reports from what the test harness prints.
const MARK: &str = "<daemon>";
/// For everything that must happen at some time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Plays a test; `director` runs in this process, the daemon in another.
fn play(test: ThisTest, director: fn(Daemon)) {
    if std::env::var_os(PART).is_some() { be_daemon() } else { director(Daemon::start(test.name())) }
}

/// What a daemon does with an actuator, without its reasons: every line of input is an order that is refused.
fn be_daemon() {
    let (link, inputs) = LivingLink::start();
    let printer = std::thread::spawn(move || {
        for input in inputs.iter() {
            let Input::Actuator(told) = input else { panic!("{input:?}") };
            println!("{MARK}{}", serde_json::to_string(&told).unwrap());
        }
    });
    for (ticket, line) in std::io::stdin().lock().lines().enumerate() {
        line.unwrap();
        link.send(refused_order(ticket as u64));
    }
    drop(link);
    printer.join().unwrap();
}

/// An order for a process that is no target.
fn refused_order(ticket: u64) -> ActuatorCommand {
    let change = QueueChange { ticket, pid: 1, gpu: GpuId(0), queues: Vec::new(), preempt: false };
    ActuatorCommand::Switch { changes: vec![change], grace: None }
}

struct Daemon {
    child: Child,
    input: Option<ChildStdin>,
    told: Receiver<ActuatorEvent>,
    guardian: Process,
    actuator: Process,
}

impl Daemon {
    fn start(test: &str) -> Daemon {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(PART, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("can be started");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (to, told) = mpsc::channel();
        std::thread::spawn(move || {
            let reports = output.lines().map_while(Result::ok);
            let told = reports.filter_map(|line| serde_json::from_str(line.split_once(MARK)?.1).ok());
            told.into_iter().try_for_each(|told: ActuatorEvent| to.send(told))
        });
        let none = Process { pid: 0, started: None };
        let mut daemon = Daemon { child, input, told, guardian: none, actuator: none };
        let ActuatorEvent::Started { actuator, .. } = daemon.hear() else { panic!("something else") };
        daemon.actuator = Process::find(actuator);
        let guardian = ProcStat::read(actuator).expect("it runs").parent;
        daemon.guardian = Process::find(guardian);
        // What it has of the actuator's socket while it starts it would keep the end of the actuator from being heard.
        until("the guardian is at its watch", || !has_socket(guardian));
        daemon
    }

    fn hear(&mut self) -> ActuatorEvent {
        self.told.recv_timeout(PATIENCE).expect("it is told")
    }

    /// An order goes to the actuator and its answer comes back.
    fn must_answer(&mut self) {
        writeln!(self.input.as_mut().unwrap(), "order").unwrap();
        let told = self.hear();
        assert!(
            matches!(&told, ActuatorEvent::Refused(refused) if refused.kind == CommandRefusalKind::Gone),
            "{told:?}"
        );
    }

    fn must_hear_of_loss(&mut self, by_guardian: bool) {
        let told = self.hear();
        // A guardian that a busy machine lets leave late is ended, too.
        assert!(matches!(&told, ActuatorEvent::Lost { killed, .. } if *killed || !by_guardian), "{told:?}");
    }

    fn must_be_gone(&self) {
        until("guardian and actuator are gone", || !self.guardian.lives() && !self.actuator.lives());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone, Copy)]
struct Process {
    pid: u32,
    started: Option<u64>,
}

/// Whether a process has a socket open.
fn has_socket(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| link.to_string_lossy().starts_with("socket:"))
}

impl Process {
    fn find(pid: u32) -> Process {
        let started = ProcStat::read(pid).map(|stat| stat.start);
        assert!(started.is_some(), "process {pid} runs");
        Process { pid, started }
    }

    /// Whether it runs, or could.
    fn lives(self) -> bool {
        ProcStat::read(self.pid).is_some_and(|stat| !stat.is_dead() && Some(stat.start) == self.started)
    }

    fn send(self, signal: Signal) {
        kill(Pid::from_raw(self.pid as i32), signal).expect("it lives");
    }

    /// How often it has gone to sleep.
    fn sleeps(self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    fn is_stopped(self) -> bool {
        ProcStat::read(self.pid).is_some_and(|stat| stat.state == 'T')
    }
}

#[test]
fn a_killed_daemon_leaves_no_process() {
    play(this_test!(), |mut daemon| {
        daemon.child.kill().unwrap();
        daemon.must_be_gone();
    });
}

#[test]
fn a_stopped_daemon_loses_its_actuator_and_learns_it_when_it_goes_on() {
    play(this_test!(), |mut daemon| {
        let own = Process::find(daemon.child.id());
        own.send(Signal::SIGSTOP);
        until("the actuator is gone", || !daemon.actuator.lives());
        own.send(Signal::SIGCONT);
        daemon.must_hear_of_loss(true);
        daemon.must_be_gone();
    });
}

#[test]
fn a_daemon_that_is_slow_to_take_its_new_actuator_does_not_lose_it() {
    let (to, told) = channel().expect("a descriptor");
    let mut link = Link::start(&executable(), ActuatorChoice::Auto, to).expect("can be started");
    // Longer than silence is tolerated of a daemon that has begun to give signs of life.
    std::thread::sleep(SILENCE * 2);
    assert!(link.send(&refused_order(1)));
    let refused = |input: Input| match input {
        Input::Actuator(ActuatorEvent::Started { .. }) => false,
        Input::Actuator(ActuatorEvent::Refused(_)) => true,
        other => panic!("{other:?}"),
    };
    while !refused(told.recv_timeout(PATIENCE).expect("it is told")) {}
}

#[test]
fn an_actuator_does_not_outlive_its_guardian() {
    play(this_test!(), |mut daemon| {
        daemon.guardian.send(Signal::SIGKILL);
        daemon.must_hear_of_loss(false);
        daemon.must_be_gone();
    });
}

#[test]
fn a_guardian_that_was_stopped_does_not_take_that_for_silence() {
    play(this_test!(), |mut daemon| {
        daemon.guardian.send(Signal::SIGSTOP);
        until("it is stopped", || daemon.guardian.is_stopped());
        // Longer than it bears silence: that is what it must not hold against the others.
        std::thread::sleep(SILENCE * 2);
        daemon.must_answer();
        let before = daemon.guardian.sleeps();
        daemon.guardian.send(Signal::SIGCONT);
        until("it has looked a few times", || daemon.guardian.sleeps() > before + 4 || !daemon.guardian.lives());
        assert!(daemon.guardian.lives() && daemon.actuator.lives());
        daemon.must_answer();
    });
}

#[test]
fn a_killed_actuator_is_a_loss_that_the_daemon_learns() {
    play(this_test!(), |mut daemon| {
        daemon.must_answer();
        daemon.actuator.send(Signal::SIGKILL);
        daemon.must_hear_of_loss(false);
        daemon.must_be_gone();
    });
}

#[test]
fn an_actuator_that_hangs_is_killed() {
    play(this_test!(), |mut daemon| {
        daemon.actuator.send(Signal::SIGSTOP);
        daemon.must_hear_of_loss(true);
        daemon.must_be_gone();
    });
}

#[test]
fn a_loss_is_told_even_while_the_guardian_is_stopped() {
    play(this_test!(), |mut daemon| {
        daemon.guardian.send(Signal::SIGSTOP);
        until("it is stopped", || daemon.guardian.is_stopped());
        daemon.actuator.send(Signal::SIGKILL);
        daemon.must_hear_of_loss(true);
        daemon.must_be_gone();
    });
}

#[test]
fn signals_for_everybody_are_answered_by_the_daemon_alone() {
    play(this_test!(), |mut daemon| {
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGTSTP] {
            daemon.guardian.send(signal);
            daemon.actuator.send(signal);
        }
        daemon.must_answer();
        assert!(daemon.guardian.lives() && daemon.actuator.lives());
        // Neither is in the process group that a terminal signals.
        let group =
            |pid: u32| getpgid(Some(Pid::from_raw(pid.cast_signed()))).expect("it runs").as_raw().cast_unsigned();
        assert_eq!(group(daemon.actuator.pid), daemon.guardian.pid);
        assert_ne!(group(daemon.actuator.pid), group(daemon.child.id()));
        drop(daemon.input.take());
        daemon.must_hear_of_loss(false);
        daemon.must_be_gone();
        assert!(daemon.child.wait().unwrap().success());
    });
}

#[test]
fn nothing_of_an_actuator_is_written_when_it_dies() {
    play(this_test!(), |daemon| {
        let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.actuator.pid)).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("a limit");
        assert_eq!(core.split_ascii_whitespace().nth(4), Some("0"), "{core}");
    });
}
