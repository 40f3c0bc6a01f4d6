//! The processes of the stress: started, listened to, killed, replaced.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linux_host::process;
use nix::sys::signal::Signal;
use vgpu::launch::Started;

use super::words;

/// How long the gpu may take to forget a process that was killed.
const FORGET: Duration = Duration::from_secs(60);
/// Lines of stderr that are quoted of a member that failed.
const QUOTED_LINES: usize = 3;

/// What a member is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Client,
    Tracer,
}

struct Member {
    kind: Kind,
    child: Child,
    /// While it is open, the member goes on.
    input: Option<ChildStdin>,
    /// Its work so far, as it said itself.
    jobs: u64,
}

/// What members said and how they ended.
#[derive(Clone, Debug, Default)]
pub(super) struct CrowdTally {
    pub(super) started: u64,
    pub(super) jobs: u64,
    pub(super) suspends: u64,
    pub(super) resumes: u64,
    pub(super) killed: u64,
    pub(super) wrong: u64,
    /// How long the gpu took to forget processes that were killed.
    pub(super) forgotten: Vec<Duration>,
    /// In their own words, as far as there were words.
    pub(super) failures: Vec<String>,
}

/// Most failures that are kept in words.
const MOST_WORDS: usize = 20;

impl CrowdTally {
    pub(super) fn fail(&mut self, what: String) {
        self.wrong += 1;
        if self.failures.len() < MOST_WORDS {
            self.failures.push(what);
        }
    }
}

/// A member's pid and a line of what it said.
type Said = (u32, String);

/// All members.
pub(super) struct Crowd<'a> {
    gpu: &'a Started,
    executable: PathBuf,
    page: String,
    queues: u32,
    seed: u64,
    members: Vec<Member>,
    speak: Sender<Said>,
    said: Receiver<Said>,
    pub(super) tally: CrowdTally,
}

impl<'a> Crowd<'a> {
    pub(super) fn new(gpu: &'a Started, page: String, queues: u32, seed: u64) -> Result<Self> {
        let executable = std::env::current_exe().context("cannot tell where this executable is")?;
        let (speak, said) = mpsc::channel();
        let (members, tally) = (Vec::new(), CrowdTally::default());
        Ok(Crowd { gpu, executable, page, queues, seed, members, speak, said, tally })
    }

    /// Starts one more.
    pub(super) fn add(&mut self, kind: Kind) -> Result<()> {
        self.tally.started += 1;
        let seed = self.seed.wrapping_add(self.tally.started).to_string();
        let mut command = self.gpu.command(&self.executable);
        command.args(["vgpu", words::subcommand(kind), "--seed", &seed, "--points", &self.page]);
        if kind == Kind::Client {
            command.args(["--queues", &self.queues.to_string()]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start another process")?;
        let (pid, input) = (child.id(), child.stdin.take());
        let output = child.stdout.take();
        let sender = self.speak.clone();
        thread::spawn(move || output.map(|output| listen(pid, output, &sender)));
        self.members.push(Member { kind, child, input, jobs: 0 });
        Ok(())
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        self.members.iter().filter(|member| member.kind == kind).count()
    }

    /// Takes in what members said, and takes those that ended out of the crowd.
    pub(super) fn attend(&mut self) -> io::Result<()> {
        self.hear();
        let mut index = 0;
        while let Some(member) = self.members.get_mut(index) {
            match member.child.try_wait()? {
                None => index += 1,
                Some(status) => {
                    let mut member = self.members.swap_remove(index);
                    // What it said last may have come since.
                    self.hear();
                    self.settle(&mut member, status);
                }
            }
        }
        Ok(())
    }

    fn hear(&mut self) {
        while let Ok((pid, line)) = self.said.try_recv() {
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                words::JOBS => {
                    let jobs = rest.parse().unwrap_or(0);
                    if let Some(member) = self.members.iter_mut().find(|member| member.child.id() == pid) {
                        self.tally.jobs += jobs - member.jobs.min(jobs);
                        member.jobs = jobs;
                    }
                }
                words::SUSPENDED => self.tally.suspends += rest.parse().unwrap_or(0),
                words::RESUMED => self.tally.resumes += rest.parse().unwrap_or(0),
                _ => self.tally.fail(format!("process {pid}: {line}")),
            }
        }
    }

    fn settle(&mut self, member: &mut Member, status: ExitStatus) {
        if status.signal() == Some(Signal::SIGKILL as i32) {
            self.tally.killed += 1;
        } else if !status.success() {
            let complaint = last_words(member).unwrap_or_default();
            self.tally.fail(format!("{:?} {} ended with {status}: {complaint}", member.kind, member.child.id()));
        }
    }

    /// Kills the member of this number among those of its kind, and measures how long the gpu takes to forget it.
    /// Spared are those that have not opened the gpu.
    pub(super) fn kill(&mut self, kind: Kind, number: usize) -> Result<()> {
        let known = self.gpu.status()?.processes;
        let member = self.members.iter_mut().filter(|member| member.kind == kind).nth(number);
        let member = member.filter(|member| known.iter().any(|process| process.pid == member.child.id()));
        let Some(member) = member else { return Ok(()) };
        let pid = member.child.id();
        member.child.kill()?;
        let begun = Instant::now();
        while self.knows(pid)? {
            if begun.elapsed() > FORGET {
                self.tally.fail(format!("{kind:?} {pid} was killed, and the gpu still has it after {FORGET:?}"));
                break;
            }
            thread::sleep(Duration::from_micros(500));
        }
        self.tally.forgotten.push(begun.elapsed());
        Ok(())
    }

    fn knows(&self, pid: u32) -> Result<bool> {
        Ok(self.gpu.status()?.processes.iter().any(|process| process.pid == pid))
    }

    /// Tells all of a kind to come to an end, and waits until they have. How many did not; those are killed.
    pub(super) fn finish(&mut self, kind: Kind, limit: Duration) -> Result<u64> {
        for member in self.members.iter_mut().filter(|member| member.kind == kind) {
            member.input = None;
        }
        let begun = Instant::now();
        while self.count(kind) > 0 && begun.elapsed() < limit {
            self.attend()?;
            thread::sleep(Duration::from_millis(5));
        }
        let mut stuck = 0;
        for mut member in std::mem::take(&mut self.members) {
            if member.kind != kind {
                self.members.push(member);
                continue;
            }
            stuck += 1;
            self.tally.failures.push(format!("{kind:?} is stuck: {}", process::describe(member.child.id())));
            member.child.kill()?;
            member.child.wait()?;
        }
        Ok(stuck)
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        for member in &mut self.members {
            // On the way out because of an error; that one is told.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

fn listen(pid: u32, output: ChildStdout, said: &Sender<Said>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if said.send((pid, line)).is_err() {
            return;
        }
    }
}

/// The last lines that a member that ended wrote to stderr, as one.
fn last_words(member: &mut Member) -> Option<String> {
    let lines: Vec<String> = BufReader::new(member.child.stderr.take()?).lines().map_while(Result::ok).collect();
    Some(lines[lines.len().saturating_sub(QUOTED_LINES)..].join("; "))
}
