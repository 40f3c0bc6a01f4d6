//! A process that runs tests of googletest, and what it says of them.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

/// How often to look at a process.
const LOOK: Duration = Duration::from_millis(20);

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    Passed,
    Failed,
    TimedOut,
    /// The test found that it has nothing to do here.
    Skipped,
}

impl Ending {
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Ending::Failed | Ending::TimedOut)
    }
}

/// A test that ended.
#[derive(Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) ending: Ending,
    pub(super) time: Duration,
}

/// What a line of googletest says.
#[derive(Debug, PartialEq)]
enum Said<'l> {
    Begins(&'l str),
    Ends(Ending),
}

/// Runs the tests that `command` names, in one process, and returns those that ended. The process ends with the first
/// test that takes longer than `limit`, which is the last in the list then; those after it have not run.
///
/// # Errors
/// If the process cannot be started.
pub(super) fn run(mut command: Command, tests: &[&str], log: &Path, limit: Duration) -> Result<Vec<Ended>> {
    let failed = || format!("cannot make {}", log.display());
    let output = File::create(log).with_context(failed)?;
    let mut written = File::open(log).with_context(failed)?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    // A test that fails may leave children behind, which spin for ever.
    let mut child = command.process_group(0).spawn().context("cannot start the suite")?;
    let mut progress = Progress::default();
    let status = loop {
        // Looked at before the output, so that nothing is missed of a process that has ended.
        let status = child.try_wait()?;
        progress.read(&mut written)?;
        if status.is_some() || progress.since.elapsed() >= limit {
            break status;
        }
        thread::sleep(LOOK);
    };
    kill_group(child.id());
    if status.is_none() {
        child.wait()?;
    }
    Ok(progress.finish(tests, status))
}

/// Kills all processes of a group. Most often there are none any more, which is no error.
fn kill_group(leader: u32) {
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{leader}")]).stderr(Stdio::null()).status();
}

/// How far a process has come.
struct Progress {
    /// Output that is no whole line yet.
    rest: Vec<u8>,
    /// The test that runs.
    current: Option<String>,
    /// When it began, or the process.
    since: Instant,
    ended: Vec<Ended>,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { rest: Vec::new(), current: None, since: Instant::now(), ended: Vec::new() }
    }
}

impl Progress {
    /// Reads what was written since.
    fn read(&mut self, written: &mut File) -> Result<()> {
        written.read_to_end(&mut self.rest)?;
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.line(&String::from_utf8_lossy(&line));
        }
        Ok(())
    }

    fn line(&mut self, line: &str) {
        match parse(line) {
            Some(Said::Begins(name)) => {
                self.current = Some(name.to_owned());
                self.since = Instant::now();
            }
            // The summary at the end repeats what failed when no test runs any more.
            Some(Said::Ends(ending)) => {
                if let Some(name) = self.current.take() {
                    self.push(name, ending);
                }
            }
            None => {}
        }
    }

    fn push(&mut self, name: String, ending: Ending) {
        self.ended.push(Ended { name, ending, time: self.since.elapsed() });
        self.since = Instant::now();
    }

    /// Draws the conclusions from the end of the process: none is known if it took too long.
    fn finish(mut self, tests: &[&str], status: Option<ExitStatus>) -> Vec<Ended> {
        let ending = if status.is_some() { Ending::Failed } else { Ending::TimedOut };
        let first = || tests.first().map(|&name| name.to_owned());
        let ended_well = self.ended.iter().all(|ended| matches!(ended.ending, Ending::Passed | Ending::Skipped));
        if let Some(name) = self.current.take() {
            self.push(name, ending);
        } else if self.ended.is_empty() {
            // It did not come as far as a test.
            first().into_iter().for_each(|name| self.push(name, ending));
        } else if ended_well && !status.is_some_and(|status| status.success()) {
            // It ended badly after a test that looked good.
            self.ended.iter_mut().last().into_iter().for_each(|last| last.ending = ending);
        }
        self.ended
    }
}

/// Reads a line of googletest. Tests may have written to the line before.
fn parse(line: &str) -> Option<Said<'_>> {
    const ENDINGS: [(&str, Ending); 3] =
        [("[       OK ] ", Ending::Passed), ("[  FAILED  ] ", Ending::Failed), ("[  SKIPPED ] ", Ending::Skipped)];
    if let Some((_, name)) = line.split_once("[ RUN      ] ") {
        return Some(Said::Begins(name.trim()));
    }
    ENDINGS.into_iter().find(|(mark, _)| line.contains(mark)).map(|(_, ending)| Said::Ends(ending))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const OUTPUT: &str = "echo '[ RUN      ] a.b'; echo 'text [       OK ] a.b (3 ms)'; echo '[ RUN      ] a.c'; ";

    fn run_script(script: &str, limit: Duration) -> Vec<(String, Ending)> {
        let folder = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        let ended = run(shell, &["a.b", "a.c", "a.d"], &folder.path().join("log"), limit).unwrap();
        ended.into_iter().map(|ended| (ended.name, ended.ending)).collect()
    }

    fn expected(tests: &[(&str, Ending)]) -> Vec<(String, Ending)> {
        tests.iter().map(|&(name, ending)| (name.to_owned(), ending)).collect()
    }

    #[test]
    fn tests_end_as_googletest_says() {
        const HOUR: Duration = Duration::from_secs(3600);
        let script = format!(
            "{OUTPUT} echo '[  SKIPPED ] a.c (0 ms)'; echo '[ RUN      ] a.d'; echo '[  FAILED  ] a.d (1 ms)'; \
             echo '[  FAILED  ] a.d'; exit 1"
        );
        let ended = expected(&[("a.b", Ending::Passed), ("a.c", Ending::Skipped), ("a.d", Ending::Failed)]);
        assert_eq!(run_script(&script, HOUR), ended);
        // A crash ends the test that ran, and the others do not run.
        let ended = expected(&[("a.b", Ending::Passed), ("a.c", Ending::Failed)]);
        assert_eq!(run_script(&format!("{OUTPUT} kill -SEGV $$"), HOUR), ended);
        // A process that says nothing has run no test, and one that ends badly has failed.
        assert_eq!(run_script("exit 0", HOUR), expected(&[("a.b", Ending::Failed)]));
        let ended = expected(&[("a.b", Ending::Passed), ("a.c", Ending::Failed)]);
        assert_eq!(run_script(&format!("{OUTPUT} echo '[       OK ] a.c'; exit 3"), HOUR), ended);
    }

    #[test]
    fn a_test_that_takes_too_long_is_the_last() {
        let ended = expected(&[("a.b", Ending::Passed), ("a.c", Ending::TimedOut)]);
        assert_eq!(run_script(&format!("{OUTPUT} sleep 1000"), Duration::from_secs(1)), ended);
    }

    #[test]
    fn children_that_outlive_their_test_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        run_script(&format!("sleep 1000 & echo $! > {}", pid.display()), Duration::from_secs(3600));
        let pid = fs::read_to_string(pid).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            thread::yield_now();
        }
    }
}
