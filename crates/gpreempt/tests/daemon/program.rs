//! A program that prints a JSON document per line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use kfd::Pid;
use serde_json::Value;

/// A program that says nothing for so long is stuck.
const SILENCE: Duration = Duration::from_secs(100);

/// A program under way. Killed when dropped.
pub(super) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Program {
    pub(super) fn start(command: &mut Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("can be started");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (to, lines) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        Program { input: child.stdin.take(), child, lines }
    }

    pub(super) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Passes over lines up to one of this kind.
    pub(super) fn until(&self, kind: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(SILENCE).unwrap_or_else(|error| panic!("no line {kind:?}: {error}"));
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if line["line"] == kind {
                return line;
            }
        }
    }

    /// Lines that were printed and not yet taken.
    pub(super) fn printed(&self) -> usize {
        self.lines.try_iter().count()
    }

    /// Tells it to begin.
    pub(super) fn begin(&mut self) {
        writeln!(self.input.as_mut().expect("not sent away"), "begin").expect("it listens");
    }

    /// Tells it to end, and waits until what it computed is there: every workgroup ran exactly once per kernel, and every
    /// bit is what the host computes. How many kernels that were.
    pub(super) fn must_end_right(mut self) -> u64 {
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
        // Only if the test failed is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
