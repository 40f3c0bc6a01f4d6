//! The clients: how each is prepared and started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::{RocmRelease, StormClient};

/// Training with tinygrad, as a file of its own.
const TINYGRAD: &str = include_str!("../../../../examples/tinygrad_train.py");

/// A client that can be started.
pub(super) struct Program {
    /// Its command line. What it prints depends on nothing else.
    pub(super) words: Vec<OsString>,
    /// Arguments that make it run longer for the same results. Preemption by the device slows it down enough without.
    pub(super) longer: Vec<OsString>,
    /// Whether its runtime enables debugging, so that a tracer can suspend its queues.
    pub(super) suspendable: bool,
    /// Temporary files of the client, removed with it.
    _files: Option<TempDir>,
}

impl Program {
    /// Compiles and writes what the client needs.
    pub(super) fn prepare(client: StormClient, rocm: RocmRelease) -> Result<Program> {
        match client {
            StormClient::Workload => workload(),
            StormClient::Corpus => corpus(),
            StormClient::Hip => hip(rocm),
            StormClient::Tinygrad => tinygrad(),
        }
    }
}

/// This executable as a client.
fn own(role: &str, rounds: u64) -> Result<Vec<OsString>> {
    let executable = std::env::current_exe().context("cannot find this executable")?;
    let mut words = vec![executable.into_os_string()];
    words.extend(["vgpu", "client", role, "--rounds"].map(OsString::from));
    words.push(rounds.to_string().into());
    Ok(words)
}

/// Steps of the long kernel of our own clients, for a tracer that would find nothing running otherwise.
fn longer() -> Vec<OsString> {
    ["--long", "4000000"].map(OsString::from).to_vec()
}

fn workload() -> Result<Program> {
    Ok(Program { words: own("workload", 2)?, longer: longer(), suspendable: true, _files: None })
}

fn corpus() -> Result<Program> {
    let sources = std::env::var_os("VGPU_CORPUS").map_or_else(|| checkout("../vgpu/corpus"), PathBuf::from);
    let files = build(&sources.join("build.sh"), &[])?;
    let mut words = own("corpus", 1)?;
    words.extend(["--manifest".into(), sources.join("corpus.toml").into_os_string()]);
    words.extend(["--directory".into(), files.path().as_os_str().to_owned()]);
    Ok(Program { words, longer: longer(), suspendable: true, _files: Some(files) })
}

fn hip(rocm: RocmRelease) -> Result<Program> {
    let (run, files) = hip_programs(rocm)?;
    let suite = files.path().join("hip_suite").into_os_string();
    let words = vec![run.into_os_string(), suite, "--rounds".into(), "2".into()];
    Ok(Program { words, longer: Vec::new(), suspendable: true, _files: Some(files) })
}

/// Compiles our HIP programs: what starts them, and where they are.
pub(crate) fn hip_programs(rocm: RocmRelease) -> Result<(PathBuf, TempDir)> {
    let (variable, usual) = match rocm {
        RocmRelease::V6_1 => ("GPREEMPT_ROCM", "../../target/rocm13"),
        RocmRelease::V6_4 => ("GPREEMPT_ROCM64", "../../target/rocm64"),
        RocmRelease::V7_2 => ("GPREEMPT_ROCM72", "../../target/rocm72"),
    };
    let rocm = std::env::var_os(variable).map_or_else(|| checkout(usual), PathBuf::from);
    let run = rocm.join("run");
    ensure!(
        run.is_file(),
        "there are no ROCm libraries in {}; `cargo xtask setup` puts them there, or {variable} names another place",
        rocm.display()
    );
    let files = build(&checkout("../gpreempt/tests/clients/hip/build.sh"), &[&rocm])?;
    Ok((run, files))
}

fn tinygrad() -> Result<Program> {
    let files = tempfile::tempdir().context("cannot make a directory for the script")?;
    let script = files.path().join("train.py");
    std::fs::write(&script, TINYGRAD).with_context(|| format!("cannot write {}", script.display()))?;
    let words = vec![python().into_os_string(), script.into_os_string(), "--bits".into()];
    Ok(Program { words, longer: Vec::new(), suspendable: false, _files: Some(files) })
}

/// Returns the Python that has tinygrad: that of the virtual environment which `cargo xtask setup` makes, or the
/// system's.
pub fn python() -> PathBuf {
    let venv = std::env::var_os("GPREEMPT_VENV").map_or_else(|| checkout("../../target/venv"), PathBuf::from);
    let python = venv.join("bin/python");
    if python.is_file() { python } else { PathBuf::from("python3") }
}

/// A file of the checkout that this command was built from.
fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs a script that compiles a client into a directory, its last argument.
fn build(script: &Path, arguments: &[&Path]) -> Result<TempDir> {
    ensure!(
        script.is_file(),
        "there is no {}; this client is compiled from a checkout of the project, so run the command from one",
        script.display()
    );
    if let Err(error) = Command::new("clang-19").arg("--version").output() {
        bail!(
            "this client is compiled from source and clang-19 cannot be run: {error}; install it (`apt-get install \
             clang-19`), or use `--client workload`, which needs no compiler"
        );
    }
    let files = tempfile::tempdir().context("cannot make a directory for what is compiled")?;
    let output = Command::new("sh")
        .arg(script)
        .args(arguments)
        .arg(files.path())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}: {}", script.display(), output.status, said.trim());
    }
    Ok(files)
}
