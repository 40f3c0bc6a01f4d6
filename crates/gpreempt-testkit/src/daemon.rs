//! The daemon on the gpu of a scene, and programs with a level.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use gpreempt_proto::{
    Answer, ClientError, Event, EventKind, GpuStats, Refusal, RefusalKind, Request, State, Stats, Status, Target,
    TenantStatus,
};
use gpreempt_trials::environment::daemon_under_test::{DaemonUnderTest, PATIENCE};
use gpreempt_trials::environment::interrupt::Interrupt;
use kfd::Pid;
use nix::sys::signal::{Signal, kill};

use crate::program::Program;
use crate::scene::{self, Actor, Scene, until};

/// Pause between two looks at something that takes a moment.
const LOOK: Duration = Duration::from_millis(5);

/// The configuration of a test. A process that asks for a level gets it; others match no rule. Measurements that depend
/// on how busy this machine is decide nothing.
#[derive(Clone, Copy)]
pub struct Rules {
    /// `enforce` or `observe`.
    pub mode: &'static str,
    /// Settings of the daemon.
    pub daemon: &'static str,
    /// Settings of every job.
    pub job: &'static str,
    /// Settings of every gpu.
    pub gpu: &'static str,
    /// Rules that come before.
    pub before: &'static str,
    /// Settings that decide when a gpu is left to the hardware.
    pub breaker: &'static str,
}

impl Default for Rules {
    fn default() -> Rules {
        let job = "max_stop_ms = 600000";
        let breaker = "failures = 10000\nslow = 10000\nslow_after_ms = 9000";
        Rules { mode: "enforce", daemon: "", job, gpu: "small = 0.0\nweigh = false", before: "", breaker }
    }
}

impl Rules {
    /// The text of the file.
    #[must_use]
    pub fn text(self) -> String {
        let Rules { mode, daemon, job, gpu, before, breaker } = self;
        format!(
            "mode = \"{mode}\"\n{daemon}\n\
             [breaker]\n{breaker}\ncontrol_one_in = 0\n{before}\n\
             [[rule]]\nname = \"scene\"\nuser = \"*\"\nenvironment = {{ GPREEMPT_LEVEL = \"*\" }}\n\
             level = 0\nmax_level = 15\n{job}\n\
             [[gpu]]\ngpu = \"*\"\n{gpu}\n"
        )
    }
}

/// A running daemon with what tests assert about it. It does not outlive the test.
pub struct TestDaemon<'s> {
    scene: &'s Scene,
    daemon: DaemonUnderTest,
}

#[allow(clippy::missing_panics_doc, reason = "every method asserts that the daemon does what it must")]
impl<'s> TestDaemon<'s> {
    /// Starts the daemon and waits until it answers.
    #[must_use]
    pub fn start(scene: &'s Scene, rules: Rules) -> TestDaemon<'s> {
        TestDaemon::start_with(scene, rules, Command::new("gpreempt"))
    }

    /// Starts the daemon with `command`, which is the gpreempt executable or a program that runs it.
    #[must_use]
    pub fn start_with(scene: &'s Scene, rules: Rules, command: Command) -> TestDaemon<'s> {
        let daemon = DaemonUnderTest::prepare(&rules.text()).expect("a directory");
        let mut started = TestDaemon { scene, daemon };
        started.run(command);
        started
    }

    fn run(&mut self, mut command: Command) {
        end_with_us(&mut command);
        if let Err(error) = self.daemon.start(command, &Interrupt::never()) {
            panic!("{error:#}");
        }
    }

    /// The process that was started.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid(self.daemon.pid().expect("it runs"))
    }

    /// The control socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.daemon.socket()
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.daemon.config()
    }

    /// Sends a signal to the process that was started.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Runs `gpreempt WORDS` against the daemon. Returns how that ended and everything it printed.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> (ExitStatus, String) {
        let output = Command::new("gpreempt").args(words).env("GPREEMPT_SOCKET", self.socket()).output();
        let output = output.expect("can be started");
        let text = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8(text).expect("text"))
    }

    /// Sends a request that may be refused.
    ///
    /// # Errors
    /// The refusal, or why there is no answer.
    pub fn try_ask(&self, request: Request) -> Result<Answer, ClientError> {
        self.daemon.ask(request)
    }

    /// Sends a request that changes nothing, again while the daemon is busy, as on a loaded machine.
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

    /// Sends a request that must succeed. Returns the note of the answer.
    pub fn ask(&self, request: Request) -> String {
        match self.try_ask(request.clone()) {
            Ok(Answer::Done { note }) => note.unwrap_or_default(),
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// Sends a request that must be refused.
    #[must_use]
    pub fn refusal(&self, request: Request) -> Refusal {
        match self.try_ask(request.clone()) {
            Err(ClientError::Refused(refusal)) => refusal,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// Asks for gpus, jobs and tenants.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.look(&Request::Status) {
            Answer::Status(status) => *status,
            other => panic!("no status: {other:?}"),
        }
    }

    /// Asks for the counters since the daemon started.
    #[must_use]
    pub fn stats(&self) -> Stats {
        match self.look(&Request::Stats) {
            Answer::Stats(stats) => *stats,
            other => panic!("no statistics: {other:?}"),
        }
    }

    /// Returns a counter, summed over all gpus.
    #[must_use]
    pub fn count(&self, of: fn(&GpuStats) -> u64) -> u64 {
        self.stats().gpus.iter().map(of).sum()
    }

    /// Returns the logged events of a process.
    #[must_use]
    pub fn events_of(&self, pid: Pid) -> Vec<EventKind> {
        self.events(Some(Target::Pid(pid.0))).into_iter().map(|event| event.kind).collect()
    }

    /// Returns the logged events, of a target if one is given.
    #[must_use]
    pub fn events(&self, target: Option<Target>) -> Vec<Event> {
        match self.look(&Request::Log { since_ms: None, target, limit: None }) {
            Answer::Log { events, .. } => events,
            other => panic!("no log: {other:?}"),
        }
    }

    /// Waits until something holds of the status, and returns that status.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&Status) -> bool) -> Status {
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
    pub fn must_be(&self, pid: Pid, state: State) {
        self.must_show(pid, &format!("{state:?}"), |tenant| tenant.state == state);
    }

    /// Waits until a process works, on the gpu or for it, and is not stopped.
    pub fn must_work(&self, pid: Pid) {
        // What a tenant does is polled only where jobs compete; elsewhere it is enough that nothing of it is stopped.
        let works = |state| matches!(state, State::Running | State::Wants | State::Unknown);
        self.must_show(pid, "works", |tenant| works(tenant.state) && suspended(pid).0 == 0);
    }

    /// Waits until a process has no tenant any more.
    pub fn must_be_gone(&self, pid: Pid) {
        self.until(&format!("process {pid} is gone"), |status| tenants(status, pid).next().is_none());
    }

    /// Waits until a process is known, and has a session if it could be stopped.
    pub fn must_be_known(&self, pid: Pid) {
        self.until(&format!("process {pid} is known"), |status| tenants(status, pid).next().is_some());
    }

    /// Waits until something holds of every tenant of a process.
    pub fn must_show(&self, pid: Pid, what: &str, holds: impl Fn(&TenantStatus) -> bool) {
        self.until(&format!("process {pid}: {what}"), |status| {
            let mut tenants = tenants(status, pid).peekable();
            tenants.peek().is_some() && tenants.all(&holds)
        });
    }

    /// Returns the only tenant of a process.
    #[must_use]
    pub fn tenant(&self, pid: Pid) -> TenantStatus {
        let status = self.status();
        let found: Vec<_> = tenants(&status, pid).cloned().collect();
        let [tenant] = &found[..] else { panic!("not one tenant: {found:?}") };
        tenant.clone()
    }

    /// Starts an actor that asks for this level and has done nothing yet.
    #[must_use]
    pub fn actor(&self, level: u8) -> Actor {
        self.scene.actor_with(&[("GPREEMPT_LEVEL", &level.to_string())])
    }

    /// Starts an actor that asks for this level and to be part of a job.
    #[must_use]
    pub fn member(&self, level: u8, job: &str) -> Actor {
        self.scene.actor_with(&[("GPREEMPT_LEVEL", &level.to_string()), ("GPREEMPT_JOB", job)])
    }

    /// Starts an actor with an empty queue. Returns both.
    #[must_use]
    pub fn idler(&self, level: u8) -> (Actor, u32) {
        let mut actor = self.actor(level);
        actor.ask("open");
        let queue = actor.queue(7);
        self.must_be_known(actor.pid());
        (actor, queue)
    }

    /// Starts an actor in the middle of a kernel that runs until `enough`. Returns it and its queue.
    #[must_use]
    pub fn walker(&self, level: u8) -> (Actor, u32) {
        let (mut actor, queue) = self.idler(level);
        actor.ask(&format!("walk {queue} 4"));
        (actor, queue)
    }

    /// Starts `gpreempt load WORDS` with this level.
    #[must_use]
    pub fn load(&self, level: u8, words: &[&str]) -> Program {
        let mut command = Command::new("gpreempt");
        command.arg("load").args(words).env("GPREEMPT_LEVEL", level.to_string());
        Program::start(end_with_us(&mut command))
    }

    /// Lets a waiting online program have its requests answered beside an offline program that fills the gpu. Asserts
    /// that the offline program is stopped for them and works again afterwards.
    pub fn must_serve(&self, mut online: Program, offline: &Program) {
        online.until("ready");
        self.must_be_known(online.pid());
        self.must_show(offline.pid(), "can be stopped", |tenant| tenant.attached);
        online.begin();
        online.must_end_right();
        assert!(self.count(|gpu| gpu.preempts) >= 1);
        self.must_work(offline.pid());
    }

    /// Kills the daemon. What it stored stays for the next one.
    pub fn kill(&mut self) {
        self.daemon.kill().expect("is a child");
    }

    /// Starts another daemon in the place of one that was killed.
    #[must_use]
    pub fn start_again(mut self) -> TestDaemon<'s> {
        self.run(Command::new("gpreempt"));
        self
    }

    /// Ends the daemon as an operator does.
    pub fn stop(mut self) {
        if let Err(error) = self.daemon.stop() {
            panic!("{error:#}");
        }
    }
}

impl Drop for TestDaemon<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.try_ask(Request::Log { since_ms: None, target: None, limit: Some(50) });
            eprintln!("the daemon's last events: {log:#?}; its log: {}", self.daemon.complaints());
        }
        // A daemon that another program runs does not end with that program.
        if let Ok(Answer::Status(status)) = self.try_ask(Request::Status)
            && Some(status.daemon_pid) != self.daemon.pid()
        {
            let _ = kill(nix::unistd::Pid::from_raw(status.daemon_pid.cast_signed()), Signal::SIGTERM);
        }
    }
}

/// Lets a command's process not outlive this one, however this one ends.
fn end_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only one system call is made.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

/// Sends a signal to a process.
///
/// # Panics
/// If the process is gone.
pub fn send(pid: Pid, signal: Signal) {
    kill(nix::unistd::Pid::from_raw(pid.0.cast_signed()), signal).expect("it lives");
}

/// Returns what a process has on each gpu.
pub fn tenants(status: &Status, pid: Pid) -> impl Iterator<Item = &TenantStatus> {
    status.tenants.iter().filter(move |tenant| tenant.pid == pid.0)
}

/// Counts the stops among events.
#[must_use]
pub fn stops(events: &[EventKind]) -> usize {
    events.iter().filter(|kind| matches!(kind, EventKind::Preempted { .. })).count()
}

/// The state of a process as one letter of `/proc/PID/stat`: T for one that a signal has halted.
///
/// # Panics
/// If the process is gone.
#[must_use]
pub fn letter(pid: Pid) -> char {
    linux_host::process::ProcStat::read(pid.0).expect("it lives").state
}

/// The process that traces a process, if any.
#[must_use]
pub fn tracer(pid: Pid) -> Option<u32> {
    linux_host::process::tracer(pid.0)
}

/// Waits until the device has so many queues of a process suspended, of so many. The daemon reports `running` as soon
/// as it has told the driver to resume.
pub fn until_suspended(pid: Pid, queues: (usize, usize)) {
    until(&format!("{queues:?} queues of process {pid} are suspended"), || suspended(pid) == queues);
}

/// Waits until a process is not traced.
pub fn until_untraced(pid: Pid) {
    until(&format!("nothing traces process {pid}"), || tracer(pid).is_none());
}

/// Returns the unmap-and-map cycles of the first gpu so far, by cause.
///
/// # Panics
/// If the status has none.
#[must_use]
pub fn cycles() -> BTreeMap<String, u64> {
    let status = scene::status();
    let causes = status["gpus"][0]["cycles"].as_object().expect("by cause");
    causes.iter().map(|(cause, cycles)| (cause.clone(), cycles["count"].as_u64().expect("a number"))).collect()
}

/// Returns how many queues of a process the device has suspended, and of how many.
///
/// # Panics
/// If the status is malformed.
#[must_use]
pub fn suspended(pid: Pid) -> (usize, usize) {
    let status = scene::status();
    let queues = scene::process(&status, pid.0).map(|process| process["queues"].as_array().expect("a list").clone());
    let queues = queues.unwrap_or_default();
    (queues.iter().filter(|queue| queue["state"] == "suspended").count(), queues.len())
}
