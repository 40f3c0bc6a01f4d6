//! Scenes: tests with several processes on one virtual gpu.
//!
//! All processes are the test's own executable, started again with the name of the test: first as the director on a
//! virtual gpu of its own, then by the director as actors. `gpreempt` is the build under test in all of them, because
//! `gpreempt vgpu run` puts its own directory first in PATH.

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kfd::{Pid, QueueSnapshotEntry};
use linux_host::process::{self, ThreadCall};
use serde_json::Value;
use vgpu::launch::KernelProfile;
use vgpu::profile::ReadIndexKind;

use crate::actor;

/// Variable that says which part this process plays: none in the test itself.
const PART: &str = "GPREEMPT_TEST_PART";
/// Variable that names the kind of read index that the gpus of all tests have, instead of the profile's.
const READ_INDEX: &str = "GPREEMPT_TEST_READ_INDEX";
/// Variable that names the only kernel whose driver is played with, among several.
const KERNEL: &str = "GPREEMPT_TEST_KERNEL";
/// Longest time of a whole test; one that waits for something that never comes is killed then.
const PATIENCE: Duration = Duration::from_secs(120);

/// The running test and the command under test. [`this_test!`](crate::this_test) makes it.
#[derive(Clone, Copy, Debug)]
pub struct ThisTest {
    name: &'static str,
    executable: &'static str,
}

/// The test function that contains the call, and the command that Cargo built for it.
///
/// The name comes from the compiler: a test that is renamed still finds itself.
#[macro_export]
macro_rules! this_test {
    () => {{
        fn here() {}
        $crate::ThisTest::new(std::any::type_name_of_val(&here), env!("CARGO_BIN_EXE_gpreempt"))
    }};
}

impl ThisTest {
    /// Takes the path of a function `here` inside the test function, `CRATE::MODULES::TEST::here`.
    #[doc(hidden)]
    #[must_use]
    pub fn new(here: &'static str, executable: &'static str) -> ThisTest {
        let inside = here.strip_suffix("::here").and_then(|path| path.split_once("::"));
        let Some((_, name)) = inside else { panic!("{here} is not inside a test function") };
        ThisTest { name, executable }
    }

    /// Path of the test as `--exact` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Lets a command that ends with this test's executable run this test as its director.
    pub fn direct(self, command: &mut Command) {
        again(command, self.name, "director");
    }
}

/// Whether this process is the test itself, not one of the processes that it starts.
#[must_use]
pub fn is_outside() -> bool {
    std::env::var_os(PART).is_none()
}

/// Plays a test on a virtual gpu of its own. `flags` are those of `gpreempt vgpu run`.
pub fn play(test: ThisTest, flags: &[&str], director: fn(&Scene)) {
    match std::env::var(PART).ok().as_deref() {
        None => start(test, flags, std::env::var(READ_INDEX).ok().as_deref()),
        Some("director") => director(&Scene { test: test.name }),
        Some(_) => actor::perform(),
    }
}

/// Plays a test whose outcome depends on what rings show, on a gpu of each kind of read index, or of the kind that
/// `GPREEMPT_TEST_READ_INDEX` names.
pub fn play_each_read_index(test: ThisTest, flags: &[&str], director: fn(&Scene)) {
    if !is_outside() || std::env::var_os(READ_INDEX).is_some() {
        return play(test, flags, director);
    }
    for (kind, _) in ReadIndexKind::NAMES {
        start(test, flags, Some(kind));
    }
}

/// Plays a test on a gpu with the driver of each kernel, one after the other. `GPREEMPT_TEST_KERNEL` names one of them.
pub fn play_each_kernel(test: ThisTest, flags: &[&str], director: fn(&Scene)) {
    if !is_outside() {
        return play(test, flags, director);
    }
    let wanted = std::env::var(KERNEL).ok();
    for kernel in KernelProfile::ALL.map(KernelProfile::name) {
        if wanted.as_deref().is_none_or(|wanted| wanted == kernel) {
            let flags = [flags, &["--kernel", kernel]].concat();
            start(test, &flags, std::env::var(READ_INDEX).ok().as_deref());
        }
    }
}

/// Lets a command that ends with this executable run one test of it.
fn again(command: &mut Command, test: &str, part: &str) {
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(PART, part);
}

/// The executable of the tests.
///
/// # Panics
/// If the system cannot tell.
#[must_use]
pub fn own() -> PathBuf {
    std::env::current_exe().expect("this test is a program")
}

/// Asserts that a run of the director ended well and ran exactly the one test.
///
/// # Panics
/// If it did not.
pub fn must_pass(status: Option<ExitStatus>, text: &str) {
    assert!(status.is_some_and(|status| status.success()) && text.contains("1 passed"), "{status:?}: {text}");
}

fn start(test: ThisTest, flags: &[&str], read_index: Option<&str>) {
    // Waves of a gpu come before everything else on a core: two gpus at a time would leave a small machine nothing for
    // the processes that watch them.
    static ONE_GPU: Mutex<()> = Mutex::new(());
    let _alone = ONE_GPU.lock().unwrap_or_else(PoisonError::into_inner);
    let mut printed = tempfile::tempfile().expect("a temporary file");
    let mut command = Command::new(test.executable);
    command.args(["vgpu", "run"]).args(flags);
    if let Some(kind) = read_index {
        command.args(["--read-index", kind]);
    }
    command.arg("--").arg(own());
    test.direct(&mut command);
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
    printed.rewind().expect("a file");
    printed.read_to_string(&mut text).expect("text");
    let kind = read_index.unwrap_or("as in the profile");
    must_pass(status, &format!("after {:?}, {flags:?}, read index {kind}: {text}", begun.elapsed()));
}

/// What a director works with: it starts actors.
pub struct Scene {
    test: &'static str,
}

impl Scene {
    /// An actor that has done nothing yet.
    #[must_use]
    pub fn actor(&self) -> Actor {
        self.actor_with(&[])
    }

    /// An actor with these variables in its environment.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn actor_with(&self, variables: &[(&str, &str)]) -> Actor {
        let mut command = Command::new(own());
        again(&mut command, self.test, "actor");
        command.envs(variables.iter().copied());
        // As a shell does with its jobs: a process in the group of a test without a terminal would not stop for
        // SIGTSTP.
        command.process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("can be started");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut actor = Actor { child, input: Some(input), output };
        assert_eq!(actor.answer(), Ok("ready".to_owned()));
        actor
    }

    /// An actor in the middle of a walk on a queue of its own.
    #[must_use]
    pub fn walker(&self, groups: u32) -> (Actor, u32) {
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
///
/// # Panics
/// If the command fails.
#[must_use]
pub fn status() -> Value {
    let output = Command::new("gpreempt").args(["vgpu", "status", "--json"]).output().expect("can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What the status says of a process.
///
/// # Panics
/// If the status lists no processes.
#[must_use]
pub fn process(status: &Value, pid: u32) -> Option<&Value> {
    status["processes"].as_array().expect("a list").iter().find(|process| process["pid"] == pid)
}

/// Wave slots that a process holds on all gpus.
#[must_use]
pub fn waves(status: &Value, pid: u32) -> u64 {
    let gpus = process(status, pid).and_then(|process| process["gpus"].as_array());
    gpus.map_or(0, |gpus| gpus.iter().filter_map(|gpu| gpu["waves"].as_u64()).sum())
}

/// Waits until something holds; the end of the test's time ends the wait, too.
///
/// # Panics
/// If it does not hold in time.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The director's end of an actor process. The process ends with its input, and is killed when this is dropped.
pub struct Actor {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

#[allow(clippy::missing_panics_doc, reason = "every method asserts that the actor does as it is told")]
impl Actor {
    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Tells it to do something that may take long.
    pub fn say(&mut self, words: &str) {
        let input = self.input.as_mut().expect("it has not been sent away");
        writeln!(input, "{words}").expect("it listens");
    }

    /// What it answers: words, or the number of an error.
    ///
    /// # Errors
    /// The number of the error that the driver gave the actor.
    pub fn answer(&mut self) -> Result<String, i32> {
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
    pub fn ask(&mut self, words: &str) -> String {
        self.try_to(words).unwrap_or_else(|errno| panic!("{words}: error {errno}"))
    }

    /// Tells it something that may fail.
    ///
    /// # Errors
    /// As [`Actor::answer`].
    pub fn try_to(&mut self, words: &str) -> Result<String, i32> {
        self.say(words);
        self.answer()
    }

    /// Creates a queue of this priority on the first gpu and returns its number.
    pub fn queue(&mut self, priority: u32) -> u32 {
        self.ask(&format!("queue {priority}")).parse().expect("a number")
    }

    /// Lets the walks of its jobs end.
    pub fn enough(&mut self) {
        self.ask("enough");
    }

    /// Whether a job has completed. Jobs are numbered from 0 in the order of their start.
    pub fn is_done(&mut self, job: usize) -> bool {
        self.ask(&format!("done {job}")) == "true"
    }

    /// Waits for a job, and asserts that its results are right.
    pub fn must_end_right(&mut self, job: usize) {
        assert_eq!(self.ask(&format!("wait {job}")), "right");
    }

    /// Changes percentage and priority of a queue as its owner, everything else as it is.
    ///
    /// # Errors
    /// As [`Actor::answer`].
    pub fn update(&mut self, queue: &QueueSnapshotEntry, percentage: u32, priority: u32) -> Result<String, i32> {
        let QueueSnapshotEntry { queue_id, ring_base_address, ring_size, .. } = queue;
        self.try_to(&format!("update {queue_id} {ring_base_address} {ring_size} {percentage} {priority}"))
    }

    /// Kills it and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("is a child");
        self.child.wait().expect("ends");
    }

    /// Kills it without waiting: its tracer learns of the end first.
    pub fn kill_traced(&self) {
        // SAFETY: a plain call; the process is a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGKILL) }, 0);
    }

    /// Sends it away; it must end well.
    pub fn leave(mut self) {
        drop(self.input.take());
        let status = self.child.wait().expect("ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // It is still there only if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A thread of a process that is inside this call of the driver, as `/proc/PID/task/TID/syscall` shows it.
#[must_use]
pub fn waiting_thread(pid: Pid, command: kfd_abi::ioctl::Command) -> Option<i32> {
    let waits = |thread: &u32| match ThreadCall::read(pid.0, *thread) {
        Some(ThreadCall::Inside { number: libc::SYS_ioctl, arguments: [_, request, ..] }) => {
            request == u64::from(command.request().0)
        }
        _ => false,
    };
    process::threads(pid.0).find(waits).map(u32::cast_signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_finds_its_own_name() {
        fn here() {}
        let test = ThisTest::new(std::any::type_name_of_val(&here), "gpreempt");
        assert_eq!(test.name(), "scene::tests::a_test_finds_its_own_name");
    }

    #[test]
    #[should_panic(expected = "0 passed")]
    fn a_run_without_a_test_does_not_pass() {
        use std::os::unix::process::ExitStatusExt;
        must_pass(Some(ExitStatus::from_raw(0)), "0 passed");
    }
}
