//! Steps of real programs on the virtual GPU, against the same on this machine's processor where they can do both.
//!
//! A program that is not set up has a row that says so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::processes::executable;
use crate::report::Report;

/// A set-up: the variable that names its directory, the directory below `target` otherwise, and how to make it.
struct SetUp {
    variable: &'static str,
    directory: &'static str,
    command: &'static str,
}

const TINYGRAD: SetUp = SetUp { variable: "GPREEMPT_VENV", directory: "venv", command: "cargo xtask setup" };
const ROCM: SetUp = SetUp { variable: "GPREEMPT_ROCM72", directory: "rocm72", command: "cargo xtask setup" };
const JAX: SetUp = SetUp { variable: "GPREEMPT_JAX", directory: "jax", command: "cargo xtask setup --jax" };

impl SetUp {
    /// Returns a file of the set-up.
    fn file(&self, path: &str) -> Result<PathBuf, String> {
        let usual = || repository().join("target").join(self.directory);
        let found = std::env::var_os(self.variable).map_or_else(usual, PathBuf::from).join(path);
        if found.exists() {
            Ok(found)
        } else {
            Err(format!("not set up: there is no {}; see `{}`", found.display(), self.command))
        }
    }
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub(crate) fn run(report: &mut Report) {
    report.section("clients (gpreempt vgpu run; wall time, start included unless it says steps)");
    let gpreempt = executable();
    let run =
        |report: &mut Report, name: &str, measure: &dyn Fn(&Path) -> Result<f64, String>, unit: &str| match gpreempt
            .as_deref()
            .map_err(Clone::clone)
            .and_then(measure)
        {
            Ok(value) => report.row(name, value, unit),
            Err(why) => report.skip(name, &why),
        };
    run(report, "selftest", &selftest, "s");
    run(report, "rocRAND: its tests of generate", &rocrand, "s");
    for (name, training, host) in [("tinygrad", tinygrad as Training, "CPU"), ("JAX", jax, "cpu")] {
        let gpu = gpreempt.as_deref().map_err(Clone::clone).and_then(|gpreempt| training(Some(gpreempt), host));
        let gpu = match gpu {
            Ok(seconds) => {
                report.row(&format!("{name}: a training step"), seconds * 1e3, "ms");
                seconds
            }
            Err(why) => {
                report.skip(&format!("{name}: a training step"), &why);
                continue;
            }
        };
        match training(None, host) {
            Ok(seconds) => report.row(&format!("{name}: a step, against the host's processors"), gpu / seconds, "x"),
            Err(why) => report.skip(&format!("{name}: a step, against the host's processors"), &why),
        }
    }
}

/// Seconds of a training step, on the virtual GPU of this executable or on the host, which has this name.
type Training = fn(Option<&Path>, &str) -> Result<f64, String>;

fn selftest(gpreempt: &Path) -> Result<f64, String> {
    timed(Command::new(gpreempt).args(["vgpu", "run", "--"]).arg(gpreempt).arg("selftest"))
}

/// The tests of the functions that fill memory with random numbers: one binary of the package.
fn rocrand(gpreempt: &Path) -> Result<f64, String> {
    let run = ROCM.file("run")?;
    let test = ROCM.file("usr/libexec/rocm/librocrand1-tests/test_rocrand_generate")?;
    timed(Command::new(gpreempt).args(["vgpu", "run", "--"]).arg(run).arg(test))
}

fn tinygrad(gpreempt: Option<&Path>, host: &str) -> Result<f64, String> {
    let python = TINYGRAD.file("bin/python3")?;
    let mut command = on(gpreempt, &python);
    if gpreempt.is_none() {
        command.env("DEV", host).env("CC", "clang-19");
    }
    step(command.arg(repository().join("examples/tinygrad_train.py")))
}

fn jax(gpreempt: Option<&Path>, host: &str) -> Result<f64, String> {
    let run = JAX.file("run")?;
    let mut command = on(gpreempt, &run);
    if gpreempt.is_none() {
        command.env("JAX_PLATFORMS", host);
    }
    let script = repository().join("examples/jax_train.py");
    if !script.exists() {
        return Err("there is no examples/jax_train.py".to_owned());
    }
    step(command.arg("python3").arg(script))
}

/// A program under the virtual GPU, or by itself.
fn on(gpreempt: Option<&Path>, program: &Path) -> Command {
    match gpreempt {
        Some(gpreempt) => {
            let mut command = Command::new(gpreempt);
            command.args(["vgpu", "run", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Seconds until a program has ended well.
fn timed(command: &mut Command) -> Result<f64, String> {
    let begin = Instant::now();
    succeed(command)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Seconds of a step after the tenth, from the lines `step N  loss X  T s` of a training.
fn step(command: &mut Command) -> Result<f64, String> {
    let printed = succeed(command)?;
    let steps: Vec<(f64, f64)> = printed
        .lines()
        .filter_map(|line| {
            let words: Vec<_> = line.strip_prefix("step")?.split_whitespace().collect();
            Some((words.first()?.parse().ok()?, words.iter().rev().nth(1)?.parse().ok()?))
        })
        .filter(|(number, _)| *number >= 10.0)
        .collect();
    match (steps.first(), steps.last()) {
        (Some(first), Some(last)) if last.0 > first.0 => Ok((last.1 - first.1) / (last.0 - first.0)),
        _ => Err("it printed no times of steps".to_owned()),
    }
}

/// Runs a program; what it printed, or the last line of its complaints.
fn succeed(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("it ended with {}: {}", output.status, said.trim().lines().last().unwrap_or_default()))
}
