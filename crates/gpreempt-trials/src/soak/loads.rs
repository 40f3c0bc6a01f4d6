//! The programs of the soak: started, listened to, killed, replaced.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linux_host::process;

use super::daemon::ROLE;
use super::tally::SoakTally;
use crate::environment::gpu_under_test::GpuUnderTest;
use crate::environment::interrupt::Interrupt;
use crate::environment::program::Program;
use crate::load::{End, Line};

/// A program that is not halted and makes no progress for so long is stuck.
const STUCK: Duration = Duration::from_secs(20);
/// How long the end of what a program said may take to come after its own.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Lengths of kernels when nothing else runs.
const ONLINE_US: f64 = 300.0;
const OFFLINE_US: f64 = 10_000.0;
/// How often the length of kernels is measured until that works.
const MEASUREMENTS: u32 = 5;
/// A request of an online program, and how many there are until it ends and its results are checked.
const ONLINE_KERNELS: u32 = 8;
const ONLINE_GROUPS: u32 = 4;
const ONLINE_REQUESTS: u32 = 150;
/// Requests in a second.
const ONLINE_RATE: f64 = 12.0;

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Online,
    Offline,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Online => "online",
            Role::Offline => "offline",
        }
    }
}

struct Load {
    role: Role,
    child: Child,
    /// While it is open, an offline program goes on.
    stdin: Option<ChildStdin>,
    stderr: Option<ChildStderr>,
    moved: Instant,
    end: Option<End>,
    /// It has said everything.
    silent: bool,
    /// By the soak.
    killed: bool,
    frozen: bool,
    held_until: Option<Instant>,
}

impl Load {
    fn is_kept(&self) -> bool {
        self.frozen || self.held_until.is_some_and(|until| Instant::now() < until)
    }
}

/// What a line of a program was, by its pid.
type Said = (u32, String);

/// All programs. Killed when dropped.
pub(super) struct Loads<'a> {
    place: &'a GpuUnderTest,
    token: String,
    seed: u64,
    online_steps: u32,
    offline_steps: u32,
    members: Vec<Load>,
    speak: Sender<Said>,
    said: Receiver<Said>,
}

impl<'a> Loads<'a> {
    /// Finds out how long kernels are here.
    pub(super) fn new(place: &'a GpuUnderTest, interrupt: &Interrupt, token: &str, seed: u64) -> Result<Loads<'a>> {
        let measure = |flags: &[&str], target: f64| -> Result<u32> {
            let mut command = own(place)?;
            command.args(["load", "calibrate"]).args(flags).args(["--target-us", &target.to_string()]);
            let mut program = Program::start("calibrating", &mut command, interrupt)?;
            loop {
                if let Line::Calibrated { steps, .. } = program.line()? {
                    program.wait()?;
                    return Ok(steps);
                }
            }
        };
        // On a busy machine a measurement may be of no use.
        let measure = |flags: &[&str], target| {
            (1..MEASUREMENTS).find_map(|_| measure(flags, target).ok()).map_or_else(|| measure(flags, target), Ok)
        };
        let online_steps = measure(&["--groups", &ONLINE_GROUPS.to_string(), "--batch", "8"], ONLINE_US)?;
        let offline_steps = measure(&[], OFFLINE_US)?;
        let (speak, said) = mpsc::channel();
        let token = token.to_owned();
        Ok(Loads { place, token, seed, online_steps, offline_steps, members: Vec::new(), speak, said })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Starts one more.
    pub(super) fn add(&mut self, role: Role, tally: &mut SoakTally) -> Result<()> {
        tally.started += 1;
        let mut command = own(self.place)?;
        command.args(["load", role.name()]);
        match role {
            Role::Online => command.args([
                "--requests",
                &ONLINE_REQUESTS.to_string(),
                "--kernels",
                &ONLINE_KERNELS.to_string(),
                "--groups",
                &ONLINE_GROUPS.to_string(),
                "--steps",
                &self.online_steps.to_string(),
                "--rate",
                &ONLINE_RATE.to_string(),
                "--seed",
                &self.seed.wrapping_add(tally.started).to_string(),
            ]),
            Role::Offline => command.args(["--steps", &self.offline_steps.to_string()]),
        };
        command.env(ROLE, format!("{}-{}", self.token, role.name()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("cannot start the {} program", role.name()))?;
        if let Some(output) = child.stdout.take() {
            let (pid, speak) = (child.id(), self.speak.clone());
            thread::spawn(move || listen(pid, output, &speak));
        }
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        self.members.push(Load {
            role,
            child,
            stdin,
            stderr,
            moved: Instant::now(),
            end: None,
            silent: false,
            killed: false,
            frozen: false,
            held_until: None,
        });
        Ok(())
    }

    pub(super) fn count(&self, role: Role) -> usize {
        self.members.iter().filter(|member| member.role == role).count()
    }

    pub(super) fn any(&self) -> bool {
        !self.members.is_empty()
    }

    /// Those that live, in the order in which they were started.
    pub(super) fn pids(&self, role: Option<Role>) -> Vec<u32> {
        let is_meant = |member: &&Load| !member.killed && role.is_none_or(|role| role == member.role);
        self.members.iter().filter(is_meant).map(|member| member.child.id()).collect()
    }

    fn member(&mut self, pid: u32) -> Option<&mut Load> {
        self.members.iter_mut().find(|member| member.child.id() == pid)
    }

    /// It is about to be killed by the soak.
    pub(super) fn doom(&mut self, pid: u32) {
        if let Some(member) = self.member(pid) {
            member.killed = true;
        }
    }

    /// It is stopped by SIGSTOP, or goes on.
    pub(super) fn set_frozen(&mut self, pid: u32, frozen: bool) {
        if let Some(member) = self.member(pid) {
            member.frozen = frozen;
            member.moved = Instant::now();
        }
    }

    /// It is held by hand.
    pub(super) fn set_held(&mut self, pid: u32, time: Duration) {
        if let Some(member) = self.member(pid) {
            member.held_until = Some(Instant::now() + time);
        }
    }

    /// Lets an offline program come to its end.
    pub(super) fn enough(&mut self, pid: u32) {
        if let Some(member) = self.member(pid) {
            member.stdin = None;
        }
    }

    /// Takes in what programs said, checks those that ended, and looks for those that do not move.
    pub(super) fn attend(&mut self, tally: &mut SoakTally) -> Result<()> {
        self.hear(tally);
        let mut index = 0;
        while let Some(member) = self.members.get_mut(index) {
            match member.child.try_wait().context("cannot wait for a program")? {
                Some(status) => {
                    let mut member = self.members.swap_remove(index);
                    settle(&mut member, status, &self.said, &mut self.members, tally);
                }
                None => index += 1,
            }
        }
        for member in &mut self.members {
            if member.is_kept() {
                member.moved = Instant::now();
            } else if member.moved.elapsed() > STUCK && !member.killed {
                let (role, pid) = (member.role.name(), member.child.id());
                tally.stuck(&format!("{role} program {pid} does not move: {}", process::describe(pid)));
                member.killed = true;
                member.child.kill().context("cannot kill a program that does not move")?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, tally: &mut SoakTally) {
        while let Ok((pid, text)) = self.said.try_recv() {
            if let Some(member) = self.members.iter_mut().find(|member| member.child.id() == pid) {
                take_in(member, &text, tally);
            }
        }
    }

    /// Tells all programs to end. Online programs end by themselves after their last request.
    pub(super) fn finish(&mut self) {
        self.members.iter_mut().for_each(|member| member.stdin = None);
    }

    /// Counts the programs that are still there as stuck and kills them.
    pub(super) fn give_up(&mut self, tally: &mut SoakTally) -> Result<()> {
        for member in &mut self.members {
            let (role, pid) = (member.role.name(), member.child.id());
            tally.stuck(&format!("{role} program {pid} does not end: {}", process::describe(pid)));
            member.child.kill().context("cannot kill a program that does not end")?;
            member.child.wait().context("cannot wait for a program")?;
        }
        self.members.clear();
        Ok(())
    }
}

impl Drop for Loads<'_> {
    fn drop(&mut self) {
        for member in &mut self.members {
            // On the way out because of an error; that one is told.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// A program of this executable.
fn own(place: &GpuUnderTest) -> Result<Command> {
    Ok(place.command(std::env::current_exe().context("cannot find this executable")?))
}

fn listen(pid: u32, output: ChildStdout, speak: &Sender<Said>) {
    // The last line tells that there are no more.
    let lines = BufReader::new(output).lines().map_while(Result::ok).chain([String::new()]);
    for line in lines {
        if speak.send((pid, line)).is_err() {
            return;
        }
    }
}

fn take_in(member: &mut Load, text: &str, tally: &mut SoakTally) {
    match serde_json::from_str(text) {
        Ok(Line::End(end)) => member.end = Some(end),
        Ok(_) => {}
        Err(_) if text.is_empty() => member.silent = true,
        // A program that is killed may leave half a line.
        Err(_) if member.killed => return,
        Err(error) => tally.fail(&format!("{} program {}: {error}: {text}", member.role.name(), member.child.id())),
    }
    member.moved = Instant::now();
}

/// A program ended: waits for its last words and checks its result.
fn settle(member: &mut Load, status: ExitStatus, said: &Receiver<Said>, others: &mut [Load], tally: &mut SoakTally) {
    let own = member.child.id();
    // A killed program has no last words, and the device may hold its output open for a while.
    let deadline = Instant::now() + if member.killed { Duration::ZERO } else { LAST_WORDS };
    while !member.silent
        && let Ok((pid, text)) = said.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        if pid == own {
            take_in(member, &text, tally);
        } else if let Some(other) = others.iter_mut().find(|other| other.child.id() == pid) {
            take_in(other, &text, tally);
        }
    }
    let who = format!("{} program {own}", member.role.name());
    match &member.end {
        Some(end) => tally.check(&who, end),
        None if member.killed => {}
        None => {
            let mut complaint = String::new();
            let _ = member.stderr.take().map(|mut stderr| stderr.read_to_string(&mut complaint));
            tally.fail(&format!("{who} ended without a result ({status}): {}", complaint.trim()));
        }
    }
}
