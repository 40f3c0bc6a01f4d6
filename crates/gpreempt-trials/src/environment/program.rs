//! Programs, as processes that end with it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::interrupt::Interrupt;
use crate::load::Line;

/// How often to look whether the user has had enough.
const LOOK: Duration = Duration::from_millis(50);
/// A program that says nothing for so long is stuck.
const SILENCE: Duration = Duration::from_secs(60);
/// What is kept of what a program complained about.
const COMPLAINT: usize = 2000;

/// A program that prints [`Line`]s. Killed when dropped.
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
    interrupt: Interrupt,
}

impl Program {
    /// Starts it, out of reach of the terminal's Ctrl-C: this command ends it in good order.
    pub(crate) fn start(name: &'static str, command: &mut Command, interrupt: &Interrupt) -> Result<Program> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("cannot start the {name} program"))?;
        let (sender, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
        }
        let complaints = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is all there is.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        let stdin = child.stdin.take();
        Ok(Program { name, child, stdin, lines, complaints, interrupt: interrupt.clone() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to begin.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        writeln!(stdin, "begin").with_context(|| format!("the {} program does not listen", self.name))
    }

    /// Tells it to end.
    pub(crate) fn enough(&mut self) {
        self.stdin = None;
    }

    /// The next line.
    pub(crate) fn line(&mut self) -> Result<Line> {
        let begun = Instant::now();
        loop {
            self.interrupt.check()?;
            match self.lines.recv_timeout(LOOK) {
                Ok(text) => {
                    let unknown = || format!("the {} program printed something unknown: {text}", self.name);
                    return serde_json::from_str(&text).with_context(unknown);
                }
                Err(RecvTimeoutError::Disconnected) => bail!("{}", self.why_it_ended()),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() > SILENCE => {
                    bail!("the {} program has said nothing for {} s", self.name, SILENCE.as_secs());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Lines up to one that is wanted, which comes last.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Line) -> bool) -> Result<VecDeque<Line>> {
        let mut lines = VecDeque::new();
        loop {
            let line = self.line()?;
            let found = wanted(&line);
            lines.push_back(line);
            if found {
                return Ok(lines);
            }
        }
    }

    fn why_it_ended(&mut self) -> String {
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let complaint = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let complaint = complaint.trim();
        let start = complaint.char_indices().rev().nth(COMPLAINT).map_or(0, |(index, _)| index);
        format!("the {} program ended too early ({status}): {}", self.name, &complaint[start..])
    }

    /// Waits for its end, after its last line.
    pub(crate) fn wait(mut self) -> Result<()> {
        self.stdin = None;
        let status = self.child.wait().with_context(|| format!("cannot wait for the {} program", self.name))?;
        if !status.success() {
            bail!("{}", self.why_it_ended());
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Only if the command failed or was interrupted is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program::start("online", Command::new("sh").args(["-c", script]), &Interrupt::never()).unwrap()
    }

    #[test]
    fn lines_come_in_order_and_the_reason_of_an_early_end_is_told() {
        let mut program = shell(r#"read go; echo '{"line":"begin","at_ns":5}'; echo no gpu >&2; exit 3"#);
        program.begin().unwrap();
        assert_eq!(program.line().unwrap(), Line::Begin { at_ns: 5 });
        let said = program.line().unwrap_err().to_string();
        assert!(said.contains("exit status: 3") && said.ends_with("no gpu"), "{said}");
    }

    #[test]
    fn nonsense_is_shown() {
        let said = format!("{:#}", shell("echo hello").line().unwrap_err());
        assert!(said.contains("something unknown: hello"), "{said}");
    }

    #[test]
    fn a_program_that_is_dropped_is_gone() {
        let program = shell("sleep 1000");
        let pid = program.pid();
        drop(program);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
