//! Suites that are made with googletest, on the virtual gpu: every test in a process of its own with a time limit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::process::{self, Ended, Ending};
use crate::rocm::ROCM72;
use crate::run::root;

/// Marks tests that upstream does not run.
const DISABLED: &str = "DISABLED_";
/// How long one test may take. Most need a second, and some 20 s on two busy cores.
const LIMIT: Duration = Duration::from_secs(120);
/// How long one of the slow tests may take.
const SLOW_LIMIT: Duration = Duration::from_secs(1200);

/// How often an unreliable test is run at most.
const ATTEMPTS: u32 = 5;

/// A suite in the packages of ROCm 7.2.
pub(super) struct GoogleTests {
    /// Its name: that of its list of expectations and of the directory of its output.
    pub(super) name: &'static str,
    /// Where the package puts its programs, below the directory of the release.
    pub(super) directory: &'static str,
    /// Whether all tests are in one program, and which; else every file whose name begins with `test_` has some.
    pub(super) program: Option<&'static str>,
    /// Whether every test has a process of its own; else those of a program share one until it crashes or hangs.
    pub(super) apart: bool,
}

/// AMD's tests of the HSA runtime, of ROCR-Runtime.
pub(super) static ROCRTST: GoogleTests = GoogleTests {
    name: "rocrtst",
    directory: "usr/libexec/rocm/libhsa-runtime64-tests/gfx942",
    program: Some("rocrtst64"),
    apart: true,
};

/// AMD's tests of rocRAND: thousands, most of which take less time than a process needs to start.
pub(super) static ROCRAND: GoogleTests =
    GoogleTests { name: "rocrand", directory: "usr/libexec/rocm/librocrand1-tests", program: None, apart: false };

/// What a run does.
#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Print the results as JSON.
    #[arg(long)]
    pub(super) json: bool,

    /// Fail only if a test fails that is not known to, or if one passes that is known to fail; leave out slow tests.
    #[arg(long)]
    pub(super) known: bool,

    /// Run the tests whose names contain this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) filter: String,

    /// Run on this gpu: a built-in profile or a file.
    #[arg(long, value_name = "NAME|FILE", default_value = "mi300x")]
    pub(super) profile: String,

    /// Use the debug build of the command, which the tests have built already.
    #[arg(long)]
    pub(super) debug: bool,
}

/// `clients/NAME.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectations {
    /// Enabled tests that are not run.
    left_out: Vec<Note>,
    /// Enabled tests that take minutes: run only as part of the whole suite.
    slow: Vec<Note>,
    /// Enabled tests that fail now and then by no fault of the gpu: run again, and passed if they pass once.
    #[serde(default)]
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

/// A test, or all tests of a program, and a reason.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Note {
    test: String,
    reason: String,
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

impl Note {
    fn covers(&self, test: &Test) -> bool {
        test.program.as_ref() == Some(&self.test) || test.to_string() == self.test
    }
}

impl TestRun {
    fn of(group: &[&Test], ended: Ended, attempts: u32, expected: &Expectations) -> TestRun {
        let program = group.first().and_then(|test| test.program.clone());
        let test = Test { program, name: ended.name };
        let known = |notes: &[Note]| notes.iter().find(|note| note.covers(&test)).map(|note| note.reason.clone());
        let reason = known(&expected.failing).or_else(|| known(&expected.disabled_failing));
        let test = test.to_string();
        let enabled = !test.contains(DISABLED);
        TestRun { test, ending: ended.ending, attempts, seconds: ended.time.as_secs_f64(), enabled, reason }
    }

    fn failed(&self) -> bool {
        self.ending.is_failure()
    }
}

/// The document of `--json`.
#[derive(Serialize)]
struct SuiteReport {
    schema: u32,
    suite: &'static str,
    version: String,
    profile: String,
    passed: usize,
    /// Enabled tests that did not pass.
    failed: usize,
    /// Tests that found nothing to do.
    skipped: usize,
    disabled_passed: usize,
    disabled_failed: usize,
    left_out: Vec<Note>,
    tests: Vec<TestRun>,
}

/// Runs a suite with the command at `gpreempt`.
///
/// # Errors
/// If it cannot run, or its tests do not pass.
pub(super) fn run(suite: &'static GoogleTests, options: &Options, gpreempt: &Path) -> Result<()> {
    let version = ROCM72.check().context("ROCm 7.2 is missing; `cargo xtask setup` installs it")?;
    let logs = root().join("target/clients").join(suite.name);
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let release = ROCM72.directory().canonicalize()?;
    let virtual_suite =
        VirtualSuite { suite, gpreempt: gpreempt.to_owned(), profile: options.profile.clone(), release, logs };
    let path = root().join("crates/xtask/clients").join(suite.name).with_extension("toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let expected: Expectations = toml::from_str(&text).with_context(|| format!("{} is not valid", path.display()))?;

    let names = virtual_suite.names()?;
    ensure!(!names.is_empty(), "the suite lists no test");
    for note in expected.notes() {
        let known = names.iter().any(|test| note.covers(test));
        ensure!(known, "{} names `{}`, which the suite does not have", path.display(), note.test);
    }
    let tests = virtual_suite.run_all(&names, &expected, options)?;
    ensure!(!tests.is_empty(), "no test that is run has `{}` in its name", options.filter);
    let count = |enabled: bool, is: &dyn Fn(&TestRun) -> bool| {
        tests.iter().filter(|run| run.enabled == enabled && is(run)).count()
    };
    let passed = |run: &TestRun| run.ending == Ending::Passed;
    let report = SuiteReport {
        schema: 1,
        suite: suite.name,
        version,
        profile: options.profile.clone(),
        passed: count(true, &passed),
        failed: count(true, &TestRun::failed),
        skipped: tests.iter().filter(|run| run.ending == Ending::Skipped).count(),
        disabled_passed: count(false, &passed),
        disabled_failed: count(false, &TestRun::failed),
        left_out: if options.known { [expected.left_out, expected.slow].concat() } else { expected.left_out },
        tests,
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        let SuiteReport { disabled_passed, disabled_failed, .. } = report;
        println!("disabled upstream: {disabled_passed} pass, {disabled_failed} do not");
        let SuiteReport { passed, failed, skipped, .. } = report;
        println!("{passed} passed, {failed} failed, {skipped} skipped, {} left out", report.left_out.len());
    }
    judge(&report, options.known)
}

/// Fails if a test did not pass; with `known`, if the results are not those that are known.
fn judge(report: &SuiteReport, known: bool) -> Result<()> {
    let names = |wrong: &dyn Fn(&&TestRun) -> bool| {
        report.tests.iter().filter(wrong).map(|run| run.test.as_str()).collect::<Vec<_>>().join(", ")
    };
    let failed = names(&|run| run.enabled && run.failed() && !(known && run.reason.is_some()));
    if !failed.is_empty() {
        bail!("these tests did not pass: {failed}; target/clients/{} has their output", report.suite);
    }
    let better = names(&|run| known && run.enabled && run.ending == Ending::Passed && run.reason.is_some());
    if !better.is_empty() {
        bail!("these tests pass and are listed as failing in crates/xtask/clients/{}.toml: {better}", report.suite);
    }
    Ok(())
}

fn line(run: &TestRun) -> String {
    let ending = match run.ending {
        Ending::Passed => "ok",
        Ending::Failed => "FAILED",
        Ending::TimedOut => "timed out",
        Ending::Skipped => "skipped",
    };
    let reason = run.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let attempts = if run.attempts > 1 { format!(", attempt {}", run.attempts) } else { String::new() };
    format!("{ending:>9} {:>6.1} s  {}{attempts}{reason}", run.seconds, run.test)
}

/// A test of a program.
struct Test {
    /// The program, if the suite has several.
    program: Option<String>,
    /// googletest's name.
    name: String,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Some(program) => write!(f, "{program}:{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The suite as it runs here.
struct VirtualSuite {
    suite: &'static GoogleTests,
    gpreempt: PathBuf,
    profile: String,
    release: PathBuf,
    /// Directory for the output of the tests.
    logs: PathBuf,
}

impl VirtualSuite {
    fn directory(&self) -> PathBuf {
        self.release.join(self.suite.directory)
    }

    /// Makes a program of the suite, and its arguments, those of a command.
    fn complete(&self, mut command: Command, program: &str, arguments: &[&str]) -> Command {
        command.arg(format!("./{program}")).args(arguments).current_dir(self.directory()).stdin(Stdio::null());
        command
    }

    /// The program on a virtual gpu.
    fn command(&self, program: &str, filter: &str) -> Command {
        let mut command = Command::new(&self.gpreempt);
        command.args(["vgpu", "run", "--profile", &self.profile, "--"]).arg(self.release.join("run"));
        self.complete(command, program, &["--gtest_also_run_disabled_tests", filter])
    }

    /// Returns the programs of the suite if it has several.
    fn programs(&self) -> Result<Vec<String>> {
        let directory = self.directory();
        let entries = fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut programs: Vec<_> = names.filter(|name| name.starts_with("test_") && !name.contains('.')).collect();
        programs.sort();
        Ok(programs)
    }

    /// Returns all tests.
    fn names(&self) -> Result<Vec<Test>> {
        let listed = |program: &str| {
            // Needs no gpu.
            let run = Command::new(self.release.join("run"));
            let output = self.complete(run, program, &["--gtest_list_tests"]).output();
            let output = output.context("cannot start the suite")?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{program} cannot list its tests: {said}");
            anyhow::Ok(parse_names(&String::from_utf8_lossy(&output.stdout)))
        };
        if let Some(program) = self.suite.program {
            return Ok(listed(program)?.into_iter().map(|name| Test { program: None, name }).collect());
        }
        let mut tests = Vec::new();
        for program in self.programs()? {
            let names = listed(&program)?;
            tests.extend(names.into_iter().map(|name| Test { program: Some(program.clone()), name }));
        }
        Ok(tests)
    }

    /// Runs the tests that are wanted, program by program.
    fn run_all(&self, tests: &[Test], expected: &Expectations, options: &Options) -> Result<Vec<TestRun>> {
        let has = |notes: &[Note], test: &Test| notes.iter().any(|note| note.covers(test));
        let is_wanted = |test: &&Test| {
            let is_left_out = has(&expected.left_out, test) || options.known && has(&expected.slow, test);
            test.to_string().contains(&options.filter) && !is_left_out
        };
        let wanted: Vec<&Test> = tests.iter().filter(is_wanted).collect();
        // Slow tests have a limit of their own, and unreliable ones a process of their own.
        let is_slow = |test: &Test| has(&expected.slow, test);
        let is_unreliable = |test: &Test| has(&expected.unreliable, test);
        let share = |one: &&Test, other: &&Test| {
            let is_alone = self.suite.apart || is_unreliable(one) || is_unreliable(other);
            !is_alone && one.program == other.program && is_slow(one) == is_slow(other)
        };
        let mut runs = Vec::new();
        for group in wanted.chunk_by(share) {
            let limit = if group.iter().any(|test| is_slow(test)) { SLOW_LIMIT } else { LIMIT };
            let most = if group.iter().any(|test| is_unreliable(test)) { ATTEMPTS } else { 1 };
            let mut rest = group;
            while !rest.is_empty() {
                let (mut ended, mut attempts) = (self.run(rest, limit)?, 1);
                while attempts < most && ended.iter().any(|ended| ended.ending.is_failure()) {
                    (ended, attempts) = (self.run(rest, limit)?, attempts + 1);
                }
                // At least one test, so that this ends.
                rest = &rest[ended.len().clamp(1, rest.len())..];
                for run in ended.into_iter().map(|ended| TestRun::of(group, ended, attempts, expected)) {
                    if !options.json {
                        println!("{}", line(&run));
                    }
                    runs.push(run);
                }
            }
        }
        Ok(runs)
    }

    /// Runs tests of one program in a process, in order, and returns those that ended.
    fn run(&self, tests: &[&Test], limit: Duration) -> Result<Vec<Ended>> {
        let Some(first) = tests.first() else { return Ok(Vec::new()) };
        // Tests with parameters have a slash in their names.
        let log = self.logs.join(format!("{first}.log").replace('/', "."));
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        let program = first.program.as_deref().or(self.suite.program).unwrap_or_default();
        let command = self.command(program, &format!("--gtest_filter={}", names.join(":")));
        process::run(command, &names, &log, limit)
    }
}

/// Reads googletest's list: suites end with a dot, their tests are indented.
fn parse_names(list: &str) -> Vec<String> {
    let mut suite = "";
    let mut names = Vec::new();
    for line in list.lines() {
        match line.strip_prefix("  ") {
            // After the name of a test with parameters comes a comment.
            Some(test) if !suite.is_empty() => names.push(format!("{suite}{}", uncommented(test))),
            Some(_) => {}
            None => {
                suite = Some(uncommented(line)).filter(|line| line.ends_with('.') && !line.contains(' ')).unwrap_or("");
            }
        }
    }
    names
}

fn uncommented(line: &str) -> &str {
    line.split_once("  #").map_or(line, |(before, _)| before).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_tests_is_read_past_other_output() {
        let list = "Failed to open file.\nrocrtst.\n  Test_Example\nrocrtstFunc.\n  IPC\n  DISABLED_CU_Masking\n";
        assert_eq!(parse_names(list), ["rocrtst.Test_Example", "rocrtstFunc.IPC", "rocrtstFunc.DISABLED_CU_Masking"]);
        let list = "prng/engine/0.  # TypeParam = A<(int)1>\n  skip/0  # GetParam() = 5\n";
        assert_eq!(parse_names(list), ["prng/engine/0.skip/0"]);
        assert!(parse_names("nothing here\n  indented\n").is_empty());
    }

    fn report(test: &str, ending: Ending, enabled: bool, reason: Option<&str>) -> SuiteReport {
        let reason = reason.map(str::to_owned);
        SuiteReport {
            schema: 1,
            suite: "rocrtst",
            version: String::new(),
            profile: String::new(),
            passed: 0,
            failed: 0,
            skipped: 0,
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
        for text in [include_str!("../../clients/rocrtst.toml"), include_str!("../../clients/rocrand.toml")] {
            let expected: Expectations = toml::from_str(text).expect("valid");
            assert!(expected.notes().all(|note| note.reason.len() > 10));
            assert!(expected.left_out.len() <= 2, "no more than the two that take hours here");
        }
    }
}
