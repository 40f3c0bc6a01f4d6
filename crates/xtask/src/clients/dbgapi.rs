//! AMD's debugger library (ROCdbgapi) on the virtual gpu: a debugger over its C interface, and a HIP program.
//!
//! Both are in `crates/gpreempt/tests/clients/dbgapi`, which says what is shown.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::rocm::ROCM72;
use crate::run::root;

/// What the debugger prints.
#[derive(Deserialize)]
struct DebuggerReport {
    version: String,
    #[serde(flatten)]
    shown: Shown,
    /// What the program has computed; empty if that was wrong.
    result: String,
}

/// What works.
#[derive(Clone, Copy, Deserialize, Serialize)]
struct Shown {
    attach: bool,
    list: bool,
    stop: bool,
    registers: bool,
    resume: bool,
    single_step: bool,
    breakpoint: bool,
    detach: bool,
}

/// The document of `--json`.
#[derive(Serialize)]
struct SuiteReport {
    schema: u32,
    suite: &'static str,
    version: String,
    #[serde(flatten)]
    shown: Shown,
    /// Whether the program computes the same as without a debugger.
    result_unchanged: bool,
}

/// Builds debugger and program, and runs them with the command at `gpreempt`.
pub(super) fn run(json: bool, gpreempt: &Path) -> Result<()> {
    ROCM72.check().context("ROCm 7.2 is missing; `cargo xtask setup` installs it")?;
    let release = ROCM72.directory().canonicalize()?;
    let programs = root().join("target/clients/dbgapi");
    let build = root().join("crates/gpreempt/tests/clients/dbgapi/build.sh");
    let built = Command::new(&build).arg(&release).arg(&programs).output().context("cannot start build.sh")?;
    ensure!(built.status.success(), "the debugger cannot be built: {}", String::from_utf8_lossy(&built.stderr));

    let runner = release.join("run");
    let program = [runner.clone(), programs.join("debuggee")];
    let alone = on_vgpu(gpreempt, &program)?;
    let undisturbed = String::from_utf8_lossy(&alone.stdout);
    let undisturbed = undisturbed.lines().find_map(|line| line.strip_prefix("result ")).map(str::to_owned);
    let undisturbed = undisturbed
        .with_context(|| format!("the program fails by itself: {}", String::from_utf8_lossy(&alone.stderr)))?;

    let debugger = [runner, programs.join("debugger")];
    let debugged = on_vgpu(gpreempt, &[debugger, program].concat())?;
    let complaints = String::from_utf8_lossy(&debugged.stderr);
    let report: DebuggerReport = serde_json::from_slice(&debugged.stdout)
        .with_context(|| format!("the debugger prints no report: {complaints}"))?;
    let report = SuiteReport {
        schema: 1,
        suite: "dbgapi",
        version: report.version,
        shown: report.shown,
        result_unchanged: report.result == undisturbed,
    };
    print(&report, json)?;
    if !debugged.status.success() || !report.result_unchanged {
        bail!("not everything works: {complaints}");
    }
    Ok(())
}

fn print(report: &SuiteReport, json: bool) -> Result<()> {
    let document = serde_json::to_value(report)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(());
    }
    println!("ROCdbgapi {}", report.version);
    for (name, works) in document.as_object().into_iter().flatten() {
        if let Some(works) = works.as_bool() {
            println!("{:>9}  {}", if works { "ok" } else { "FAILED" }, name.replace('_', " "));
        }
    }
    Ok(())
}

/// Runs a program of ROCm on a virtual gpu. It is told to go on.
fn on_vgpu(gpreempt: &Path, words: &[PathBuf]) -> Result<Output> {
    let mut child = Command::new(gpreempt)
        .args(["vgpu", "run", "--"])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the command")?;
    // A program that has ended already says why.
    let _ = child.stdin.take().context("the standard input is no pipe")?.write_all(b"go\n");
    child.wait_with_output().context("cannot wait for the command")
}
