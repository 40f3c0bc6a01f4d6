//! Tests with several processes on one virtual gpu: a director, who runs the test, and actors, who do what it says.
//!
//! All of them are this program, started again: first as the director on a gpu of its own, then by it as actors.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kfd::{Pid, QueueSnapshotEntry};
use serde_json::Value;

use super::actor;
use super::executable;

/// Says which part this process plays.
pub(super) const PART: &str = "GPREEMPT_TEST_PART";
/// Longest time a whole test may take; whoever waits for something that never comes is ended then.
const PATIENCE: Duration = Duration::from_secs(120);

/// Plays a test. `flags` are those of `gpreempt vgpu run`.
pub(super) fn play(test: &'static str, flags: &[&str], director: fn(&Stage)) {
    match std::env::var(PART).ok().as_deref() {
        None => start(test, flags),
        Some("director") => director(&Stage { test }),
        Some(_) => actor::perform(),
    }
}

/// This program again, with one test.
fn again(command: &mut Command, test: &str, part: &str) {
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(PART, part);
}

fn own() -> std::path::PathBuf {
    std::env::current_exe().expect("this test is a program")
}

fn start(test: &str, flags: &[&str]) {
    // Waves of a gpu come before everything else on a core: two gpus at a time would leave a small machine nothing for those
    // who watch them.
    static STAGE: Mutex<()> = Mutex::new(());
    let _alone = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let printed = tempfile::tempfile().expect("a temporary file");
    let mut command = Command::new(executable());
    command.args(["vgpu", "run"]).args(flags).arg("--").arg(own());
    again(&mut command, test, "director");
    let copy = || Stdio::from(printed.try_clone().expect("a copy"));
    let mut child = command.stdout(copy()).stderr(copy()).spawn().expect("can be started");
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("is a child") {
            Some(status) => break Some(status),
            None if begun.elapsed() > PATIENCE => {
                child.kill().expect("is a child");
                child.wait().expect("ends");
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut text = String::new();
    let mut printed = printed;
    std::io::Seek::rewind(&mut printed).expect("a file");
    std::io::Read::read_to_string(&mut printed, &mut text).expect("text");
    let passed = status.is_some_and(|status| status.success()) && text.contains("1 passed");
    assert!(passed, "{status:?} after {:?}: {text}", begun.elapsed());
}

/// What a director works with.
pub(super) struct Stage {
    test: &'static str,
}

impl Stage {
    /// An actor that has done nothing yet.
    pub(super) fn actor(&self) -> Actor {
        self.actor_with(&[])
    }

    /// An actor with these variables in its environment.
    pub(super) fn actor_with(&self, variables: &[(&str, &str)]) -> Actor {
        let mut command = Command::new(own());
        again(&mut command, self.test, "actor");
        command.envs(variables.iter().copied());
        // As a shell does with its jobs: a process in the group of a test that nobody waits for at a terminal would not stop
        // for SIGTSTP.
        command.process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("can be started");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut actor = Actor { child, input: Some(input), output };
        assert_eq!(actor.answer(), Ok("ready".to_owned()));
        actor
    }

    /// An actor in the middle of a walk on a queue of its own.
    pub(super) fn walker(&self, groups: u32) -> (Actor, u32) {
        let mut actor = self.actor();
        actor.ask("open");
        let queue = actor.queue(7);
        actor.ask(&format!("walk {queue} {groups}"));
        let pid = actor.pid().0;
        until("the walk has begun", || waves(&status(), pid) > 0);
        (actor, queue)
    }
}

/// What `gpreempt vgpu status` says of the gpu that this process is on.
pub(super) fn status() -> Value {
    let output = Command::new(executable()).args(["vgpu", "status", "--json"]).output().expect("can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What the status says of a process.
pub(super) fn process(status: &Value, pid: u32) -> Option<&Value> {
    status["processes"].as_array().expect("a list").iter().find(|process| process["pid"] == pid)
}

/// Wave slots that a process holds on all gpus.
pub(super) fn waves(status: &Value, pid: u32) -> u64 {
    let gpus = process(status, pid).and_then(|process| process["gpus"].as_array());
    gpus.map_or(0, |gpus| gpus.iter().filter_map(|gpu| gpu["waves"].as_u64()).sum())
}

/// Waits until something holds; the end of the test's time ends the wait, too.
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that does what it is told. It ends with its input.
pub(super) struct Actor {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Actor {
    pub(super) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Tells it to do something that may take long.
    pub(super) fn say(&mut self, words: &str) {
        let input = self.input.as_mut().expect("it has not been sent away");
        writeln!(input, "{words}").expect("it listens");
    }

    /// What it answers: words, or the number of an error.
    pub(super) fn answer(&mut self) -> Result<String, i32> {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).expect("text"), 0, "the actor ended");
            // The harness prints lines of its own, and does not always end them.
            let Some((_, answer)) = line.trim_end().split_once(actor::MARK) else { continue };
            return match answer.strip_prefix("errno ") {
                Some(number) => Err(number.parse().expect("a number")),
                None => Ok(answer.to_owned()),
            };
        }
    }

    /// Tells it something that must work.
    pub(super) fn ask(&mut self, words: &str) -> String {
        self.try_to(words).unwrap_or_else(|errno| panic!("{words}: error {errno}"))
    }

    /// Tells it something that may fail.
    pub(super) fn try_to(&mut self, words: &str) -> Result<String, i32> {
        self.say(words);
        self.answer()
    }

    /// A queue of the first gpu.
    pub(super) fn queue(&mut self, priority: u32) -> u32 {
        self.ask(&format!("queue {priority}")).parse().expect("a number")
    }

    /// Lets the walks of its jobs end.
    pub(super) fn enough(&mut self) {
        self.ask("enough");
    }

    /// Whether a job has completed.
    pub(super) fn is_done(&mut self, job: usize) -> bool {
        self.ask(&format!("done {job}")) == "true"
    }

    /// Waits for a job whose results must be right.
    pub(super) fn must_end_right(&mut self, job: usize) {
        assert_eq!(self.ask(&format!("wait {job}")), "right");
    }

    /// Changes a queue as its owner, everything else as it is.
    pub(super) fn update(&mut self, queue: &QueueSnapshotEntry, percentage: u32, priority: u32) -> Result<String, i32> {
        let QueueSnapshotEntry { queue_id, ring_base_address, ring_size, .. } = queue;
        self.try_to(&format!("update {queue_id} {ring_base_address} {ring_size} {percentage} {priority}"))
    }

    /// Kills it and waits until it is gone.
    pub(super) fn kill(mut self) {
        self.child.kill().expect("is a child");
        self.child.wait().expect("ends");
    }

    /// Kills it while somebody traces it, who learns of its end first.
    pub(super) fn kill_traced(&self) {
        // SAFETY: a plain call; the process is a child that nobody has waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGKILL) }, 0);
    }

    /// Sends it away; it must end well.
    pub(super) fn leave(mut self) {
        drop(self.input.take());
        let status = self.child.wait().expect("ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // Only if the test failed is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A thread of a process that sits in this call of the driver, as everybody can see.
pub(super) fn waiting_thread(pid: Pid, command: kfd_abi::ioctl::Command) -> Option<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let request = format!("{:#x}", command.request().0);
    let sits = |thread: &std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
        // 16 is ioctl, its second argument the request.
        let words: Vec<&str> = text.split_whitespace().collect();
        words.first() == Some(&"16") && words.get(2) == Some(&request.as_str())
    };
    threads.into_iter().find(sits).and_then(|thread| thread.file_name().to_str()?.parse().ok())
}
