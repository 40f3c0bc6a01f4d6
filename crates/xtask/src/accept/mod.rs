//! Acceptance lists: commands, and what must be true of their results. The lists are data; see `acceptance/`.

mod check;
mod list;

use std::io::{self, Write};
use std::process::{Output, Stdio};

use anyhow::{Context, Result, bail};

pub(crate) use self::check::Check;
use self::list::{List, Step};
use crate::run;

/// Runs a list, prints it, or names all lists. Some steps are run with `full` only.
pub(crate) fn accept(name: Option<&str>, only_print: bool, full: bool) -> Result<()> {
    let Some(name) = name else {
        let mut text = String::new();
        for name in list::names()? {
            text += &format!("{name}: {}\n", list::load(&name)?.about);
        }
        return show(&text);
    };
    let list = list::load(name)?;
    if only_print {
        return show(&describe(&list));
    }
    for step in list.step.iter().filter(|step| !is_wanted(step, full)) {
        println!("only with --full: {}", step.name);
    }
    let steps: Vec<_> = list
        .step
        .iter()
        .filter(|step| is_wanted(step, full))
        .map(|step| run::Step { name: step.name.clone(), action: Box::new(|| perform(step)) })
        .collect();
    run::run(&steps)
}

fn is_wanted(step: &Step, full: bool) -> bool {
    full || !step.full
}

/// Prints a text. A reader that has seen enough of it is no failure.
fn show(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn describe(list: &List) -> String {
    let mut text = format!("{}\n", list.about);
    for step in &list.step {
        text += &format!("\n{}\n  $ {}\n", step.name, step.run.join(" "));
        if step.full {
            text += "  only with --full\n";
        }
        text += &format!("  exit code {}\n", step.exit);
        if step.twice {
            text += "  a second run ends the same and prints identical bytes\n";
        }
        for check in &step.check {
            text += &format!("  {check}\n");
        }
    }
    text
}

/// Runs the command of a step and applies its checks.
fn perform(step: &Step) -> Result<()> {
    println!("$ {}", step.run.join(" "));
    let first = execute(step)?;
    verify(step, &first)?;
    if step.twice {
        let second = execute(step)?;
        verify(step, &second).context("the first run was as expected, the second was not")?;
        if first.stdout != second.stdout {
            bail!("two runs printed different bytes");
        }
    }
    Ok(())
}

/// Runs the command of a step once.
fn execute(step: &Step) -> Result<Output> {
    let Some((program, arguments)) = step.run.split_first() else {
        bail!("there is nothing to run");
    };
    let mut command = run::command(program);
    command.args(arguments).stdin(Stdio::null());
    // Output that no check reads is passed on, so that a long build is not silent.
    if step.check.is_empty() && !step.twice {
        command.stdout(Stdio::inherit());
    }
    if !step.check.iter().any(Check::reads_stderr) {
        command.stderr(Stdio::inherit());
    }
    command.output().with_context(|| format!("cannot start {program}"))
}

/// Compares a result with what the step expects of it.
fn verify(step: &Step, output: &Output) -> Result<()> {
    let said = || String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(step.exit) {
        bail!("ended with {}, expected exit code {}\n{}", output.status, step.exit, said());
    }
    for check in &step.check {
        check.apply(&output.stdout, &output.stderr).with_context(|| format!("expected: {check}"))?;
        println!("  ok: {check}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Step {
        let list: List = toml::from_str(text).expect("a valid list");
        list.step.into_iter().next().expect("one step")
    }

    #[test]
    fn a_step_that_ends_with_another_exit_code_fails() {
        let wrong = step("about = 'x'\n[[step]]\nname = 'a'\nrun = ['cargo', '--version']\nexit = 2\n");
        let error = perform(&wrong).expect_err("the exit code is 0");
        assert!(format!("{error:#}").contains("expected exit code 2"), "{error:#}");
        let right = step("about = 'x'\n[[step]]\nname = 'a'\nrun = ['cargo', '--version']\n");
        assert!(perform(&right).is_ok());
    }

    #[test]
    fn a_step_whose_check_fails_fails() {
        let text = |expected: &str| {
            format!(
                "about = 'x'\n[[step]]\nname = 'a'\nrun = ['cargo', '--version']\n[[step.check]]\nwhat = 'stdout-contains'\ntext = '{expected}'\n"
            )
        };
        assert!(perform(&step(&text("cargo"))).is_ok());
        let error = perform(&step(&text("a unicorn"))).expect_err("there is none");
        assert!(format!("{error:#}").contains("a unicorn"), "{error:#}");
    }

    #[test]
    fn a_step_of_the_full_list_is_run_only_when_asked_for() {
        let text = "about = 'x'\n[[step]]\nname = 'a'\nrun = ['false']\nfull = true\n";
        let large = step(text);
        assert!(is_wanted(&large, true) && !is_wanted(&large, false));
        let small = step(&text.replace("full = true", ""));
        assert!(is_wanted(&small, true) && is_wanted(&small, false));
        let list: List = toml::from_str(text).expect("a valid list");
        assert!(describe(&list).contains("only with --full"));
    }

    #[test]
    fn a_step_that_prints_something_else_each_time_fails() {
        let words = |program: &str| {
            format!("about = 'x'\n[[step]]\nname = 'a'\nrun = ['sh', '-c', '{program}']\ntwice = true\n")
        };
        assert!(perform(&step(&words("echo same"))).is_ok());
        assert!(perform(&step(&words("echo $$"))).is_err());
    }

    #[test]
    fn a_step_whose_second_run_fails_fails() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        // Prints the same both times; only a directory that does not exist yet can be made.
        let program = format!("mkdir {} 2>/dev/null", folder.path().join("made").display());
        let text =
            format!("about = 'x'\n[[step]]\nname = 'a'\nrun = ['sh', '-c', '{program}']\nexit = 0\ntwice = true\n");
        let error = format!("{:#}", perform(&step(&text)).expect_err("the second run fails"));
        assert!(error.contains("the second") && error.contains("expected exit code 0"), "{error}");
    }
}
