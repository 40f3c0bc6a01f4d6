//! Running commands in the workspace, one after the other, with the time each took.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    // This crate lives two levels below the root.
    let root = PathBuf::from(manifest).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// A command in the root of the workspace; "cargo" is the one this program was started with.
pub(crate) fn command(program: &str) -> Command {
    let program = match program {
        "cargo" => std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
        other => other.into(),
    };
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Runs a command; the error names it and repeats what it printed.
///
/// # Errors
/// If it cannot be started, or fails.
pub(crate) fn run_quietly(command: &mut Command) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` ended with {}: {}", output.status, printed.trim());
    }
    Ok(())
}

/// One step of a chore.
pub(crate) struct Step<'s> {
    /// What it shows, for the summary.
    pub(crate) name: String,
    /// Does it.
    pub(crate) action: Box<dyn Fn() -> Result<()> + 's>,
}

impl<'s> Step<'s> {
    /// A step that runs a command and succeeds when it does.
    pub(crate) fn command(name: &str, words: &'s [&'s str], environment: &'s [(&str, &str)]) -> Step<'s> {
        let action = move || {
            let Some((program, arguments)) = words.split_first() else {
                bail!("there is nothing to run");
            };
            println!("$ {}", words.join(" "));
            let status = command(program)
                .args(arguments)
                .envs(environment.iter().copied())
                .status()
                .with_context(|| format!("cannot start {program}"))?;
            if !status.success() {
                bail!("`{}` ended with {status}", words.join(" "));
            }
            Ok(())
        };
        Step { name: name.to_string(), action: Box::new(action) }
    }
}

/// Runs the steps, stops at the first failure, and prints what took how long.
pub(crate) fn run(steps: &[Step<'_>]) -> Result<()> {
    let mut done: Vec<(&str, Duration)> = Vec::new();
    let mut failure = None;
    for step in steps {
        println!("\n== {}", step.name);
        let begin = Instant::now();
        let result = (step.action)();
        done.push((&step.name, begin.elapsed()));
        if let Err(error) = result {
            failure = Some(error.context(format!("step \"{}\" failed", step.name)));
            break;
        }
    }
    println!("\n== Summary");
    for (index, (name, time)) in done.iter().enumerate() {
        let failed = failure.is_some() && index + 1 == done.len();
        let state = if failed { "FAILED" } else { "ok" };
        println!("{state:>6} {:>8.1} s  {name}", time.as_secs_f64());
    }
    for step in &steps[done.len()..] {
        println!("{:>6} {:>10}  {}", "-", "not run", step.name);
    }
    let total: Duration = done.iter().map(|(_, time)| *time).sum();
    println!("{:>15.1} s  in total", total.as_secs_f64());
    match failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_root_is_where_the_workspace_manifest_is() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn the_first_failure_ends_the_run() {
        let ran = Cell::new(0);
        let step = |name: &str, fails: bool| {
            let ran = &ran;
            Step {
                name: name.to_string(),
                action: Box::new(move || {
                    ran.set(ran.get() + 1);
                    if fails { bail!("no") } else { Ok(()) }
                }),
            }
        };
        let error = run(&[step("a", false), step("b", true), step("c", false)]).expect_err("b fails");
        assert_eq!(ran.get(), 2);
        assert!(format!("{error:#}").contains("step \"b\" failed"), "{error:#}");
    }

    #[test]
    fn a_command_that_fails_fails_its_step() {
        let good = Step::command("good", &["cargo", "--version"], &[]);
        assert!((good.action)().is_ok());
        let bad = Step::command("bad", &["sh", "-c", "exit 3"], &[]);
        assert!((bad.action)().is_err());
        let absent = Step::command("absent", &["no-such-program-anywhere"], &[]);
        assert!((absent.action)().is_err());
    }
}
