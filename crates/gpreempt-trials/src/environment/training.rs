//! Training with JAX as the offline program, and its reference: the same training, undisturbed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use gpreempt_output::BlameUser as _;
use tempfile::TempDir;

use super::gpu_under_test::GpuUnderTest;
use super::interrupt::Interrupt;
use super::measure::median;
use super::program::Program;
use crate::load::{End, Line};

/// The training that it repeats.
const TRAIN: &str = include_str!("../../../../examples/jax_train.py");
/// What makes a program of a trial of it.
const LOAD: &str = include_str!("jax_load.py");

/// A training that has not begun anew after so many steps has not computed the same again.
const MOST_STEPS: usize = 1000;

/// The program, ready to be started.
pub(crate) struct Training {
    run: PathBuf,
    files: TempDir,
}

/// The training as it is when nothing else runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reference {
    /// After every step: the hash of all losses and parameters so far.
    pub(crate) checksums: Vec<String>,
    /// How long a step takes.
    pub(crate) step_us: f64,
}

impl Training {
    /// Finds JAX, which `cargo xtask setup --jax` installs, and writes the program.
    pub(crate) fn prepare() -> Result<Training> {
        let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/jax");
        Training::prepare_in(&std::env::var_os("GPREEMPT_JAX").map_or_else(usual, PathBuf::from))
    }

    fn prepare_in(jax: &Path) -> Result<Training> {
        let run = jax.join("run");
        let found = || {
            ensure!(
                run.is_file(),
                "there is no JAX in {}; `cargo xtask setup --jax` puts it there, or GPREEMPT_JAX names another place",
                jax.display()
            );
            Ok(())
        };
        found().blame_user()?;
        let files = tempfile::tempdir().context("cannot make a directory for the scripts")?;
        for (name, text) in [("jax_train.py", TRAIN), ("jax_load.py", LOAD)] {
            fs::write(files.path().join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        Ok(Training { run, files })
    }

    pub(crate) fn command(&self, place: &GpuUnderTest) -> Command {
        let mut command = place.command(&self.run);
        command.arg("python3").arg(self.files.path().join("jax_load.py"));
        command
    }

    /// Trains once, alone.
    pub(crate) fn measure(&self, place: &GpuUnderTest, interrupt: &Interrupt) -> Result<Reference> {
        let mut program = Program::start("reference", &mut self.command(place), interrupt)?;
        let (mut checksums, mut ends) = (Vec::new(), Vec::new());
        let steps = loop {
            match program.line()? {
                Line::Step { ended_ns, checksum, .. } => {
                    checksums.push(checksum);
                    ends.push(ended_ns);
                }
                Line::Trained { steps, .. } => break steps as usize,
                _ => {}
            }
            // Up to the first step that repeats one: then all different ones are known.
            if checksums.len() > 1 && checksums.last() == checksums.first() {
                program.enough();
            }
            ensure!(checksums.len() < MOST_STEPS, "the training does not repeat itself");
        };
        program.wait()?;
        ensure!(steps == checksums.len(), "the training has {steps} steps and told of {}", checksums.len());
        let repeats = checksums.iter().skip(1).position(|checksum| Some(checksum) == checksums.first());
        let once = repeats.context("the training never began anew with the same result")? + 1;
        checksums.truncate(once);
        let times: Vec<f64> = ends.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e3).collect();
        Ok(Reference { checksums, step_us: median(&times) })
    }
}

impl Reference {
    /// Compares every step of a training with the reference.
    pub(crate) fn judge(&self, checksums: &[String], at_ns: u64) -> End {
        let expected =
            |step: usize| self.checksums.get(step % self.checksums.len().max(1)).cloned().unwrap_or_default();
        let last = checksums.len().saturating_sub(1);
        End {
            at_ns,
            kernels: u32::try_from(checksums.len()).unwrap_or(u32::MAX),
            // Nobody counts the runs of JAX's workgroups: one too few or too many shows in the hash.
            lost: 0,
            repeated: 0,
            checksum: checksums.last().cloned().unwrap_or_default(),
            expected: expected(last),
            bit_identical: !checksums.is_empty()
                && checksums.iter().enumerate().all(|(step, checksum)| *checksum == expected(step)),
        }
    }
}

#[cfg(test)]
mod tests {
    use gpreempt_output::UserError;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_missing_installation_names_the_command_that_makes_it() {
        let folder = tempfile::tempdir().unwrap();
        let Err(error) = Training::prepare_in(folder.path()) else { panic!("there is no JAX") };
        assert!(error.is::<UserError>() && error.to_string().contains("`cargo xtask setup --jax`"), "{error:#}");
    }

    #[test]
    fn every_step_is_compared_and_a_training_may_repeat() {
        let reference = Reference { checksums: words("a b c"), step_us: 1.0 };
        let end = reference.judge(&words("a b c a b"), 7);
        assert!(end.bit_identical && end.kernels == 5 && end.checksum == "b" && end.expected == "b");
        let wrong = reference.judge(&words("a x c a b"), 7);
        assert!(!wrong.bit_identical && wrong.checksum == wrong.expected);
        assert!(!reference.judge(&words("a b c b"), 7).bit_identical);
        assert!(!reference.judge(&[], 7).bit_identical);
        assert!(!Reference::default().judge(&words("a"), 7).bit_identical);
    }
}
