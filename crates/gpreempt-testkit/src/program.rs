//! Programs that print one JSON document per line, such as `gpreempt load`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use kfd::Pid;
use serde_json::Value;

/// A program that prints nothing for so long is stuck.
const SILENCE: Duration = Duration::from_secs(100);

/// A running program. Killed when dropped.
pub struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

#[allow(clippy::missing_panics_doc, reason = "every method asserts that the program does as it is told")]
impl Program {
    /// Starts a program with piped input and output.
    #[must_use]
    pub fn start(command: &mut Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("can be started");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (to, lines) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        Program { input: child.stdin.take(), child, lines }
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Skips lines up to one of this kind, and returns it.
    pub fn until(&self, kind: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(SILENCE).unwrap_or_else(|error| panic!("no line {kind:?}: {error}"));
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if line["line"] == kind {
                return line;
            }
        }
    }

    /// Takes the lines that were printed since the last call and returns their number.
    pub fn printed(&self) -> usize {
        self.lines.try_iter().count()
    }

    /// Tells it to begin.
    pub fn begin(&mut self) {
        writeln!(self.input.as_mut().expect("not sent away"), "begin").expect("it listens");
    }

    /// Tells it to end and checks its results: every workgroup ran exactly once per kernel, and every bit is what the
    /// host computes. Returns the number of kernels.
    pub fn must_end_right(mut self) -> u64 {
        self.input = None;
        let end = self.until("end");
        assert_eq!((&end["lost"], &end["repeated"]), (&0.into(), &0.into()), "{end}");
        assert_eq!(end["bit_identical"], true, "{end}");
        assert_eq!(end["checksum"], end["expected"], "{end}");
        let status = self.child.wait().expect("ends");
        assert!(status.success(), "{status}");
        end["kernels"].as_u64().expect("a number")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It is still there only if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
