//! The daemon on the gpu of a test, and programs with a level.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gpreempt_proto::{
    Answer, Client, ClientError, Event, EventKind, GpuStats, Refusal, RefusalKind, Request, State, Stats, Status,
    Target, TenantStatus,
};
use kfd::Pid;
use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;

use super::executable;
use super::program::Program;
use super::scene::{self, Actor, Stage, until};

/// For everything that the daemon must do at some time. On a machine that has nothing else to do it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that takes a moment.
const LOOK: Duration = Duration::from_millis(5);

/// The configuration of a test. Every process that asks for a level gets it; others match no rule. Measurements that depend on
/// how busy this machine is decide nothing.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) mode: &'static str,
    /// Settings of the daemon.
    pub(super) daemon: &'static str,
    /// Settings of every job.
    pub(super) job: &'static str,
    /// Settings of every gpu.
    pub(super) gpu: &'static str,
    /// Rules that come before.
    pub(super) before: &'static str,
    /// When a gpu is left to the hardware.
    pub(super) breaker: &'static str,
}

impl Default for Rules {
    fn default() -> Rules {
        let job = "max_stop_ms = 600000";
        let breaker = "failures = 10000\nslow = 10000\nslow_after_ms = 9000";
        Rules { mode: "enforce", daemon: "", job, gpu: "small = 0.0\nweigh = false", before: "", breaker }
    }
}

impl Rules {
    pub(super) fn text(self) -> String {
        let Rules { mode, daemon, job, gpu, before, breaker } = self;
        format!(
            "mode = \"{mode}\"\n{daemon}\n\
             [breaker]\n{breaker}\nsample_one_in = 0\n{before}\n\
             [[rule]]\nname = \"stage\"\nuser = \"*\"\nenvironment = {{ GPREEMPT_LEVEL = \"*\" }}\n\
             level = 0\nmax_level = 15\n{job}\n\
             [[gpu]]\ngpu = \"*\"\n{gpu}\n"
        )
    }
}

/// A running daemon. Killed when dropped, and when the test is: what it had stopped runs again.
pub(super) struct Service<'s> {
    stage: &'s Stage,
    child: Child,
    directory: TempDir,
}

impl<'s> Service<'s> {
    /// Starts it and waits until it answers.
    pub(super) fn start(stage: &'s Stage, rules: Rules) -> Service<'s> {
        Service::start_with(stage, rules, Command::new(executable()))
    }

    /// Starts it as an argument of this command, or as the command itself.
    pub(super) fn start_with(stage: &'s Stage, rules: Rules, mut command: Command) -> Service<'s> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::write(directory.path().join("rules.toml"), rules.text()).expect("can be written");
        Service::start_in(stage, directory, &mut command)
    }

    fn start_in(stage: &'s Stage, directory: TempDir, command: &mut Command) -> Service<'s> {
        let (config, socket) = (directory.path().join("rules.toml"), directory.path().join("socket"));
        command.arg("daemon").arg("--config").arg(config).arg("--socket").arg(socket);
        command.stdin(Stdio::null());
        let child = end_with_us(command).spawn().expect("can be started");
        let mut service = Service { stage, child, directory };
        until("the daemon answers", || {
            assert_eq!(service.child.try_wait().expect("is a child"), None, "the daemon ended at once");
            service.try_ask(Request::Status).is_ok()
        });
        service
    }

    /// The process that was started.
    pub(super) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.directory.path().join("rules.toml")
    }

    pub(super) fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Runs `gpreempt WORDS` against it: whether that worked, and everything it printed.
    pub(super) fn command(&self, words: &[&str]) -> (ExitStatus, String) {
        let output = Command::new(executable()).args(words).env("GPREEMPT_SOCKET", self.socket()).output();
        let output = output.expect("can be started");
        let text = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8(text).expect("text"))
    }

    pub(super) fn try_ask(&self, request: Request) -> Result<Answer, ClientError> {
        Client::connect_to(&self.socket(), PATIENCE)?.call(request)
    }

    /// Asks something that changes nothing, again while the daemon has no time, as on a machine with much to do.
    fn look(&self, request: &Request) -> Answer {
        let begun = Instant::now();
        loop {
            match self.try_ask(request.clone()) {
                Ok(answer) => return answer,
                Err(ClientError::Refused(Refusal { kind: RefusalKind::Busy, .. })) if begun.elapsed() < PATIENCE => {}
                Err(error) => panic!("{request:?}: {error}"),
            }
        }
    }

    /// Asks something that must work; what is answered in words.
    pub(super) fn ask(&self, request: Request) -> String {
        match self.try_ask(request.clone()) {
            Ok(Answer::Done { note }) => note.unwrap_or_default(),
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// Asks something that must be refused.
    pub(super) fn refusal(&self, request: Request) -> Refusal {
        match self.try_ask(request.clone()) {
            Err(ClientError::Refused(refusal)) => refusal,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    pub(super) fn status(&self) -> Status {
        match self.look(&Request::Status) {
            Answer::Status(status) => *status,
            other => panic!("no status: {other:?}"),
        }
    }

    pub(super) fn stats(&self) -> Stats {
        match self.look(&Request::Stats) {
            Answer::Stats(stats) => *stats,
            other => panic!("no statistics: {other:?}"),
        }
    }

    /// A counter of all gpus together.
    pub(super) fn count(&self, of: fn(&GpuStats) -> u64) -> u64 {
        self.stats().gpus.iter().map(of).sum()
    }

    /// What happened to a process, as far as it is kept.
    pub(super) fn events_of(&self, pid: Pid) -> Vec<EventKind> {
        self.events(Some(Target::Pid(pid.0))).into_iter().map(|event| event.kind).collect()
    }

    pub(super) fn events(&self, target: Option<Target>) -> Vec<Event> {
        match self.look(&Request::Log { since_ms: None, target, limit: None }) {
            Answer::Log { events, .. } => events,
            other => panic!("no log: {other:?}"),
        }
    }

    /// Waits until something holds of everything; what it was then.
    pub(super) fn until(&self, what: &str, mut holds: impl FnMut(&Status) -> bool) -> Status {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if holds(&status) {
                return status;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{what}: not within {PATIENCE:?}: {status:#?}\n{:#?}\n{:#?}",
                self.events(None),
                scene::status()
            );
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until a process has this state on every gpu it uses.
    pub(super) fn must_be(&self, pid: Pid, state: State) {
        self.must_show(pid, &format!("{state:?}"), |tenant| tenant.state == state);
    }

    /// Waits until a process works, on the gpu or for it, and is not stopped.
    pub(super) fn must_work(&self, pid: Pid) {
        self.must_show(pid, "works", |tenant| matches!(tenant.state, State::Running | State::Wants));
    }

    /// Waits until a process has no tenant any more.
    pub(super) fn must_be_gone(&self, pid: Pid) {
        self.until(&format!("process {pid} is gone"), |status| tenants(status, pid).next().is_none());
    }

    /// Waits until a process is known, and has a session if it could be stopped.
    pub(super) fn must_be_known(&self, pid: Pid) {
        self.until(&format!("process {pid} is known"), |status| tenants(status, pid).next().is_some());
    }

    /// Waits until something holds of every tenant of a process.
    pub(super) fn must_show(&self, pid: Pid, what: &str, holds: impl Fn(&TenantStatus) -> bool) {
        self.until(&format!("process {pid}: {what}"), |status| {
            let mut tenants = tenants(status, pid).peekable();
            tenants.peek().is_some() && tenants.all(&holds)
        });
    }

    /// The only tenant of a process.
    pub(super) fn tenant(&self, pid: Pid) -> TenantStatus {
        let status = self.status();
        let found: Vec<_> = tenants(&status, pid).cloned().collect();
        let [tenant] = &found[..] else { panic!("not one tenant: {found:?}") };
        tenant.clone()
    }

    /// A process that asks for this level and has done nothing yet.
    pub(super) fn actor(&self, level: u8) -> Actor {
        self.stage.actor_with(&[("GPREEMPT_LEVEL", &level.to_string())])
    }

    /// A process that asks for this level and to be part of a job.
    pub(super) fn member(&self, level: u8, job: &str) -> Actor {
        self.stage.actor_with(&[("GPREEMPT_LEVEL", &level.to_string()), ("GPREEMPT_JOB", job)])
    }

    /// A process with a queue that is empty, and its queue.
    pub(super) fn idler(&self, level: u8) -> (Actor, u32) {
        let mut actor = self.actor(level);
        actor.ask("open");
        let queue = actor.queue(7);
        self.must_be_known(actor.pid());
        (actor, queue)
    }

    /// A process in the middle of a kernel that goes on until it is told that it is enough, and its queue.
    pub(super) fn walker(&self, level: u8) -> (Actor, u32) {
        let (mut actor, queue) = self.idler(level);
        actor.ask(&format!("walk {queue} 4"));
        (actor, queue)
    }

    /// `gpreempt load WORDS` with this level.
    pub(super) fn load(&self, level: u8, words: &[&str]) -> Program {
        let mut command = Command::new(executable());
        command.arg("load").args(words).env("GPREEMPT_LEVEL", level.to_string());
        Program::start(end_with_us(&mut command))
    }

    /// Lets the requests of a program that waits for its begin be answered beside one that fills the gpu. That one is stopped for
    /// them, and works again afterwards.
    pub(super) fn must_serve(&self, mut online: Program, offline: &Program) {
        online.until("ready");
        self.must_be_known(online.pid());
        self.must_show(offline.pid(), "can be stopped", |tenant| tenant.attached);
        online.begin();
        online.must_end_right();
        assert!(self.count(|gpu| gpu.preempts) >= 1);
        self.must_work(offline.pid());
    }

    /// Kills it; what it kept is there for the next.
    pub(super) fn kill(&mut self) {
        self.child.kill().expect("is a child");
        self.child.wait().expect("ends");
    }

    /// Another one in the place of one that was killed.
    pub(super) fn start_again(mut self) -> Service<'s> {
        let elsewhere = tempfile::tempdir().expect("a temporary directory");
        let directory = std::mem::replace(&mut self.directory, elsewhere);
        Service::start_in(self.stage, directory, &mut Command::new(executable()))
    }

    /// Ends it as an operator would.
    pub(super) fn stop(mut self) {
        self.send(Signal::SIGTERM);
        until("the daemon has ended", || self.child.try_wait().expect("is a child").is_some());
        let status = self.child.wait().expect("has ended");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.try_ask(Request::Log { since_ms: None, target: None, limit: Some(50) });
            eprintln!("the daemon's last events: {log:#?}");
        }
        // A daemon that another program runs does not end with that.
        if let Ok(Answer::Status(status)) = self.try_ask(Request::Status)
            && status.daemon_pid != self.child.id()
        {
            let _ = kill(nix::unistd::Pid::from_raw(status.daemon_pid.cast_signed()), Signal::SIGTERM);
        }
        // Only if the test failed is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command whose process does not outlive this one, however this one ends.
fn end_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only one system call is made.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

pub(super) fn send(pid: Pid, signal: Signal) {
    kill(nix::unistd::Pid::from_raw(pid.0.cast_signed()), signal).expect("it lives");
}

/// What a process has on each gpu.
pub(super) fn tenants(status: &Status, pid: Pid) -> impl Iterator<Item = &TenantStatus> {
    status.tenants.iter().filter(move |tenant| tenant.pid == pid.0)
}

/// How often a process was stopped.
pub(super) fn stops(events: &[EventKind]) -> usize {
    events.iter().filter(|kind| matches!(kind, EventKind::Preempted { .. })).count()
}

/// The letter by which the kernel tells what a process does: T for one that was stopped by a signal.
pub(super) fn letter(pid: Pid) -> char {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).expect("a state")
}

/// The process that traces a process, if any.
pub(super) fn tracer(pid: Pid) -> Option<u32> {
    linux_host::process::Status::read(pid.0).and_then(|status| status.tracer)
}

/// Waits until the device has so many queues of a process suspended, of so many. The daemon says that it runs when it has told
/// the driver to let it.
pub(super) fn until_suspended(pid: Pid, queues: (usize, usize)) {
    until(&format!("{queues:?} queues of process {pid} are suspended"), || suspended(pid) == queues);
}

/// Waits until nobody traces a process.
pub(super) fn until_untraced(pid: Pid) {
    until(&format!("nobody traces process {pid}"), || tracer(pid).is_none());
}

/// Unmap-and-map cycles of the first gpu so far, by what caused them.
pub(super) fn cycles() -> BTreeMap<String, u64> {
    let status = scene::status();
    let causes = status["gpus"][0]["cycles"].as_object().expect("by cause");
    causes.iter().map(|(cause, cycles)| (cause.clone(), cycles["count"].as_u64().expect("a number"))).collect()
}

/// Whether the device has queues of a process suspended: how many, and of how many.
pub(super) fn suspended(pid: Pid) -> (usize, usize) {
    let status = scene::status();
    let queues = scene::process(&status, pid.0).map(|process| process["queues"].as_array().expect("a list").clone());
    let queues = queues.unwrap_or_default();
    (queues.iter().filter(|queue| queue["state"] == "suspended").count(), queues.len())
}
