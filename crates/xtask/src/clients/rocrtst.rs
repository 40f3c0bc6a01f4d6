//! AMD's tests of the HSA runtime (`rocrtst64` of ROCR-Runtime) on the virtual gpu.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::rocm::ROCM72;
use crate::run::root;

/// Where the package puts tests and kernels, below the directory of the release.
const SUITE: &str = "usr/libexec/rocm/libhsa-runtime64-tests/gfx942";
/// Marks tests that upstream does not run.
const DISABLED: &str = "DISABLED_";
/// How long one test may take. Most need a second, and some 20 s on two busy cores.
const LIMIT: Duration = Duration::from_secs(120);
/// How long one of the slow tests may take.
const SLOW_LIMIT: Duration = Duration::from_secs(1200);

/// How often an unreliable test is run at most.
const ATTEMPTS: u32 = 5;

/// What a run does.
pub(super) struct Options<'o> {
    pub(super) json: bool,
    pub(super) known: bool,
    pub(super) filter: &'o str,
}

/// `clients/rocrtst.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectations {
    /// Enabled tests that are not run.
    left_out: Vec<Note>,
    /// Enabled tests that take minutes: run only as part of the whole suite.
    slow: Vec<Note>,
    /// Enabled tests that fail now and then by no fault of the gpu: run again, and passed if they pass once.
    unreliable: Vec<Note>,
    /// Enabled tests that do not pass yet.
    failing: Vec<Note>,
    /// Disabled tests that do not pass.
    disabled_failing: Vec<Note>,
}

impl Expectations {
    /// All entries.
    fn notes(&self) -> impl Iterator<Item = &Note> {
        [&self.left_out, &self.slow, &self.unreliable, &self.failing, &self.disabled_failing].into_iter().flatten()
    }
}

/// A test and a reason.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Note {
    test: String,
    reason: String,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Passed,
    Failed,
    TimedOut,
}

/// A test that was run.
#[derive(Serialize)]
struct TestRun {
    test: String,
    ending: Ending,
    /// How often it was run.
    attempts: u32,
    seconds: f64,
    /// Whether upstream runs it.
    enabled: bool,
    /// Why it may fail, if that is known.
    reason: Option<String>,
}

/// The document of `--json`.
#[derive(Serialize)]
struct SuiteReport {
    schema: u32,
    suite: &'static str,
    version: String,
    passed: usize,
    /// Enabled tests that did not pass.
    failed: usize,
    disabled_passed: usize,
    disabled_failed: usize,
    left_out: Vec<Note>,
    tests: Vec<TestRun>,
}

/// Runs the suite with the command at `gpreempt`.
pub(super) fn run(options: &Options<'_>, gpreempt: &Path) -> Result<()> {
    let version = ROCM72.check().context("ROCm 7.2 is missing; `cargo xtask setup` installs it")?;
    let logs = root().join("target/clients/rocrtst");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let suite = VirtualSuite { gpreempt: gpreempt.to_owned(), release: ROCM72.directory().canonicalize()?, logs };
    let path = root().join("crates/xtask/clients/rocrtst.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let expected: Expectations = toml::from_str(&text).with_context(|| format!("{} is not valid", path.display()))?;

    let names = suite.names()?;
    ensure!(!names.is_empty(), "the suite lists no test");
    for note in expected.notes() {
        ensure!(names.contains(&note.test), "{} names `{}`, which the suite does not have", path.display(), note.test);
    }
    let mut tests = Vec::new();
    let is_slow = |name: &str| expected.slow.iter().any(|note| note.test == name);
    let is_left_out =
        |name: &str| expected.left_out.iter().any(|note| note.test == name) || options.known && is_slow(name);
    for test in names.into_iter().filter(|name| name.contains(options.filter) && !is_left_out(name)) {
        let begin = Instant::now();
        let limit = if is_slow(&test) { SLOW_LIMIT } else { LIMIT };
        let most = if expected.unreliable.iter().any(|note| note.test == test) { ATTEMPTS } else { 1 };
        let (mut ending, mut attempts) = (suite.run(&test, limit)?, 1);
        while ending != Ending::Passed && attempts < most {
            (ending, attempts) = (suite.run(&test, limit)?, attempts + 1);
        }
        let enabled = !test.contains(DISABLED);
        let known = if enabled { &expected.failing } else { &expected.disabled_failing };
        let reason = known.iter().find(|note| note.test == test).map(|note| note.reason.clone());
        let run = TestRun { test, ending, attempts, seconds: begin.elapsed().as_secs_f64(), enabled, reason };
        if !options.json {
            println!("{}", line(&run));
        }
        tests.push(run);
    }
    let count = |enabled: bool, passed: bool| {
        tests.iter().filter(|run| run.enabled == enabled && (run.ending == Ending::Passed) == passed).count()
    };
    let report = SuiteReport {
        schema: 1,
        suite: "rocrtst",
        version,
        passed: count(true, true),
        failed: count(true, false),
        disabled_passed: count(false, true),
        disabled_failed: count(false, false),
        left_out: if options.known { [expected.left_out, expected.slow].concat() } else { expected.left_out },
        tests,
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        let SuiteReport { disabled_passed, disabled_failed, .. } = report;
        println!("disabled upstream: {disabled_passed} pass, {disabled_failed} do not");
        println!("{} passed, {} failed, {} skipped", report.passed, report.failed, report.left_out.len());
    }
    judge(&report, options.known)
}

/// Fails if a test did not pass; with `known`, if the results are not those that are known.
fn judge(report: &SuiteReport, known: bool) -> Result<()> {
    let names = |wrong: &dyn Fn(&&TestRun) -> bool| {
        report.tests.iter().filter(wrong).map(|run| run.test.as_str()).collect::<Vec<_>>().join(", ")
    };
    let failed = names(&|run| run.enabled && run.ending != Ending::Passed && !(known && run.reason.is_some()));
    if !failed.is_empty() {
        bail!("these tests did not pass: {failed}; target/clients/rocrtst has their output");
    }
    let better = names(&|run| known && run.enabled && run.ending == Ending::Passed && run.reason.is_some());
    if !better.is_empty() {
        bail!("these tests pass and are listed as failing in crates/xtask/clients/rocrtst.toml: {better}");
    }
    Ok(())
}

fn line(run: &TestRun) -> String {
    let ending = match run.ending {
        Ending::Passed => "ok",
        Ending::Failed => "FAILED",
        Ending::TimedOut => "timed out",
    };
    let reason = run.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let attempts = if run.attempts > 1 { format!(", attempt {}", run.attempts) } else { String::new() };
    format!("{ending:>9} {:>6.1} s  {}{attempts}{reason}", run.seconds, run.test)
}

/// The suite as it runs here.
struct VirtualSuite {
    gpreempt: PathBuf,
    release: PathBuf,
    /// Directory for the output of the tests.
    logs: PathBuf,
}

impl VirtualSuite {
    fn command(&self, argument: &str) -> Command {
        let mut command = Command::new(&self.gpreempt);
        command.args(["vgpu", "run", "--"]).arg(self.release.join("run"));
        command.args(["./rocrtst64", "--gtest_also_run_disabled_tests", argument]);
        command.current_dir(self.release.join(SUITE)).stdin(Stdio::null());
        command
    }

    /// Returns the names of all tests.
    fn names(&self) -> Result<Vec<String>> {
        let output = self.command("--gtest_list_tests").output().context("cannot start the suite")?;
        ensure!(
            output.status.success(),
            "the suite cannot list its tests: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(parse_names(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Runs one test.
    fn run(&self, test: &str, limit: Duration) -> Result<Ending> {
        let path = self.logs.join(format!("{test}.log"));
        let log = fs::File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let mut child = self
            .command(&format!("--gtest_filter={test}"))
            .stdout(log.try_clone()?)
            .stderr(log)
            // A test that fails may leave children behind, which spin for ever.
            .process_group(0)
            .spawn()
            .context("cannot start the suite")?;
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = child.try_wait()? {
                kill_group(child.id());
                let said = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let passed = status.success() && says_passed(&String::from_utf8_lossy(&said));
                return Ok(if passed { Ending::Passed } else { Ending::Failed });
            }
            if Instant::now() >= until {
                kill_group(child.id());
                child.wait()?;
                return Ok(Ending::TimedOut);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether a test says that it passed. Its exit code does not tell: tests that fork end with 0 after a failure, too.
fn says_passed(log: &str) -> bool {
    log.contains("[  PASSED  ] 1 test.") && !log.contains("[  FAILED  ]")
}

/// Kills all processes of a group. Most often there are none any more, which is no error.
fn kill_group(leader: u32) {
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{leader}")]).stderr(Stdio::null()).status();
}

/// Reads googletest's list: suites end with a dot, their tests are indented.
fn parse_names(list: &str) -> Vec<String> {
    let mut suite = "";
    let mut names = Vec::new();
    for line in list.lines() {
        match line.strip_prefix("  ") {
            Some(test) if !suite.is_empty() => names.push(format!("{suite}{}", test.trim())),
            Some(_) => {}
            None => {
                suite = Some(line.trim_end()).filter(|line| line.ends_with('.') && !line.contains(' ')).unwrap_or("");
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_ends_early_has_not_passed() {
        assert!(says_passed("[       OK ] rocrtstFunc.IPC (9 ms)\n[  PASSED  ] 1 test.\n"));
        assert!(!says_passed("[ RUN      ] rocrtstFunc.IPC\nChild: Failure in attaching\n"));
        assert!(!says_passed("[  PASSED  ] 0 tests.\n[  FAILED  ] 1 test, listed below:\n"));
    }

    #[test]
    fn the_list_of_tests_is_read_past_other_output() {
        let list = "Failed to open file.\nrocrtst.\n  Test_Example\nrocrtstFunc.\n  IPC\n  DISABLED_CU_Masking\n";
        assert_eq!(parse_names(list), ["rocrtst.Test_Example", "rocrtstFunc.IPC", "rocrtstFunc.DISABLED_CU_Masking"]);
        assert!(parse_names("nothing here\n  indented\n").is_empty());
    }

    #[test]
    fn children_that_outlive_their_test_are_killed() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!"]).stdout(Stdio::piped()).process_group(0);
        let mut parent = shell.spawn().expect("starts");
        let mut line = String::new();
        let mut output = std::io::BufReader::new(parent.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut output, &mut line).expect("is written");
        assert!(parent.wait().expect("ends").success());
        kill_group(parent.id());
        let stat = format!("/proc/{}/stat", line.trim());
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
    }

    fn report(test: &str, ending: Ending, enabled: bool, reason: Option<&str>) -> SuiteReport {
        let reason = reason.map(str::to_owned);
        SuiteReport {
            schema: 1,
            suite: "rocrtst",
            version: String::new(),
            passed: 0,
            failed: 0,
            disabled_passed: 0,
            disabled_failed: 0,
            left_out: Vec::new(),
            tests: vec![TestRun { test: test.to_owned(), ending, attempts: 1, seconds: 0.0, enabled, reason }],
        }
    }

    #[test]
    fn a_failure_counts_unless_it_is_known_or_disabled_upstream() {
        let judged = |ending, enabled, reason, known| judge(&report("a.b", ending, enabled, reason), known).is_ok();
        assert!(judged(Ending::Passed, true, None, false));
        assert!(!judged(Ending::Failed, true, None, false));
        assert!(!judged(Ending::TimedOut, true, None, true));
        assert!(!judged(Ending::Failed, true, Some("missing"), false), "known failures are failures");
        assert!(judged(Ending::Failed, true, Some("missing"), true));
        assert!(judged(Ending::Failed, false, None, false));
        assert!(!judged(Ending::Passed, true, Some("missing"), true), "the list must shrink");
    }

    #[test]
    fn the_expectations_can_be_read_and_every_entry_has_a_reason() {
        let text = include_str!("../../clients/rocrtst.toml");
        let expected: Expectations = toml::from_str(text).expect("valid");
        assert!(expected.notes().all(|note| note.reason.len() > 10));
        assert!(expected.left_out.len() <= 2, "no more than the two that take hours here");
    }
}
