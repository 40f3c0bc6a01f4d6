//! One run of a client on a virtual gpu of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vgpu::launch::{self, Setup, Started};
use vgpu::protocol::PreemptionStatus;

use super::client::Summary;
use super::lines::Lines;
use super::program::Program;
use crate::environment::SUPERVISOR;

/// A client that prints nothing for so long is taken for stuck.
const SILENCE: Duration = Duration::from_secs(300);
/// How long a tracer may take to notice that its client ended.
const FAREWELL: Duration = Duration::from_secs(30);
/// What is kept of what a program complained about.
const COMPLAINT: usize = 2000;

/// What to do to the client's queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trace {
    pub(super) suspends: u64,
    pub(super) seed: u64,
}

/// How a run went.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    pub(super) lines: Lines,
    pub(super) summary: Summary,
    pub(super) preemption: PreemptionStatus,
    /// What went wrong beside the results.
    pub(super) failures: Vec<String>,
}

/// Runs the client to its end, with a tracer if given.
pub(super) fn run(program: &Program, setup: &Setup, trace: Option<Trace>) -> Result<Attempt> {
    let started = launch::start(setup, None, SUPERVISOR)?;
    let mut attempt = Attempt::default();
    let (first, rest) = program.words.split_first().context("the client has no command line")?;
    let mut command = started.command(first);
    command.args(rest);
    if trace.is_some() && setup.options.storm.is_none() {
        command.args(&program.longer);
    }
    let mut client = spawn(&mut command)?;
    let complaints = collect(client.stderr.take());
    let tracer = trace.map(|trace| start_tracer(&started, client.id(), trace)).transpose()?;
    if let Err(failure) = read(&mut client, &mut attempt.lines) {
        attempt.failures.push(failure);
        // It may have ended already.
        let _ = client.kill();
    }
    let status = client.wait().context("cannot wait for the client")?;
    let complaint = complaints.and_then(|thread| thread.join().ok()).unwrap_or_default();
    attempt.failures.extend(failure("the client", status, &complaint));
    if let Some(tracer) = tracer {
        match finish(tracer)? {
            Ok(summary) => attempt.summary = summary,
            Err(failure) => attempt.failures.push(failure),
        }
    }
    for gpu in started.status()?.gpus {
        add(&mut attempt.preemption, &gpu.preemption);
    }
    Ok(attempt)
}

fn spawn(command: &mut Command) -> Result<Child> {
    let program = command.get_program().to_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().with_context(|| format!("cannot run {}", program.display()))
}

fn start_tracer(started: &Started, pid: u32, trace: Trace) -> Result<Child> {
    let executable = std::env::current_exe().context("cannot find this executable")?;
    let mut command = started.command(executable);
    command.args(["vgpu", "client", "tracer", "--pid"]).arg(pid.to_string());
    command.arg("--suspends").arg(trace.suspends.to_string()).arg("--seed").arg(trace.seed.to_string());
    spawn(&mut command)
}

/// Reads what the client prints until it closes its output. Fails if it falls silent.
fn read(client: &mut Child, lines: &mut Lines) -> Result<(), String> {
    let Some(output) = client.stdout.take() else { return Ok(()) };
    let (sender, received) = mpsc::channel();
    let reader = thread::spawn(move || {
        // A client that is killed may end within a line; that line is then no line.
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    loop {
        match received.recv_timeout(SILENCE) {
            Ok(line) => lines.add(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("the client printed nothing for {} s", SILENCE.as_secs()));
            }
        }
    }
    // It has ended, or nothing would be disconnected.
    let _ = reader.join();
    Ok(())
}

/// Reads everything a program complains about, so that it never waits for a reader.
fn collect(stderr: Option<ChildStderr>) -> Option<JoinHandle<String>> {
    let mut stderr = stderr?;
    Some(thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is all there is.
        let _ = stderr.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

/// Why an end is a failure; `None` if it is not.
fn failure(who: &str, status: ExitStatus, complaint: &str) -> Option<String> {
    if status.success() {
        return None;
    }
    let complaint = complaint.trim();
    let start = complaint.char_indices().rev().nth(COMPLAINT).map_or(0, |(index, _)| index);
    let said = complaint.get(start..).filter(|said| !said.is_empty());
    Some(said.map_or_else(|| format!("{who} ended with {status}"), |said| format!("{who} ended with {status}: {said}")))
}

/// Waits for the tracer, whose client has ended, and reads what it did.
fn finish(mut tracer: Child) -> Result<Result<Summary, String>> {
    let deadline = Instant::now() + FAREWELL;
    while tracer.try_wait().context("cannot wait for the tracer")?.is_none() {
        if Instant::now() > deadline {
            // It may have ended just now.
            let _ = tracer.kill();
            tracer.wait().context("cannot wait for the tracer")?;
            return Ok(Err(format!("the tracer did not end within {} s after its client", FAREWELL.as_secs())));
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = tracer.wait_with_output().context("cannot read what the tracer printed")?;
    if let Some(failure) = failure("the tracer", output.status, &String::from_utf8_lossy(&output.stderr)) {
        return Ok(Err(failure));
    }
    let summary = serde_json::from_slice(&output.stdout).context("the tracer printed something unknown")?;
    Ok(Ok(summary))
}

fn add(sum: &mut PreemptionStatus, gpu: &PreemptionStatus) {
    sum.saves += gpu.saves;
    sum.restores += gpu.restores;
    sum.storm_saves += gpu.storm_saves;
    sum.waves_saved += gpu.waves_saved;
    sum.workgroups_back += gpu.workgroups_back;
    sum.workgroups_moved += gpu.workgroups_moved;
    sum.bytes_saved += gpu.bytes_saved;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        spawn(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn what_a_client_prints_and_how_it_ends_is_kept() {
        let mut child = shell("echo vadd 0 aa; echo sorry >&2; exit 3");
        let complaints = collect(child.stderr.take()).unwrap();
        let mut lines = Lines::default();
        read(&mut child, &mut lines).unwrap();
        let mut expected = Lines::default();
        expected.add("vadd 0 aa");
        assert_eq!(lines, expected);
        let status = child.wait().unwrap();
        let said = failure("the client", status, &complaints.join().unwrap()).unwrap();
        assert_eq!(said, "the client ended with exit status: 3: sorry");
    }

    #[test]
    fn a_tracers_summary_is_read_and_its_failure_told() {
        let summary = Summary { suspends: 3, resumes: 2, outlived: 1, missed: 1, failed: 0 };
        let text = serde_json::to_string(&summary).unwrap();
        assert_eq!(finish(shell(&format!("echo '{text}'"))).unwrap(), Ok(summary));
        let said = finish(shell("echo no session >&2; exit 1")).unwrap().unwrap_err();
        assert!(said.starts_with("the tracer ended with") && said.ends_with("no session"), "{said}");
        assert!(finish(shell("echo nonsense")).is_err());
    }

    #[test]
    fn long_complaints_keep_their_end() {
        let status = Command::new("false").status().unwrap();
        let said = failure("the client", status, &format!("{}the reason", "ä".repeat(5000))).unwrap();
        assert!(said.ends_with("the reason") && said.chars().count() < COMPLAINT + 100, "{said}");
    }
}
