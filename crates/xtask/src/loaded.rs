//! `cargo xtask loaded`: the tests that watch processes and clocks, repeated beside busy processes.
//!
//! A test that passes on an idle machine only is a test of the machine. This keeps them honest.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::run::command;

/// The test binaries that run a virtual gpu or the daemon.
const TESTS: &[&str] = &["test", "-p", "gpreempt", "--locked", "--test", "vgpu", "--test", "daemon"];
/// What a round runs of them. The stress test is ignored by default because of its duration.
const ROUND: &[&[&str]] =
    &[TESTS, &["test", "-p", "gpreempt", "--locked", "--test", "vgpu", "--", "--ignored", "stress::"]];

/// A process that spins until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Result<Busy> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Ok(Busy(shell.spawn().context("cannot start a busy process")?))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // A process that has ended already needs no kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds the tests, then runs them `times` times beside `busy` spinning processes.
///
/// # Errors
/// If a test fails, or the rounds together take longer than `limit`.
pub(crate) fn loaded(times: u32, busy: u32, limit: Duration) -> Result<()> {
    run(&[TESTS, &["--no-run"]].concat())?;
    repeat(ROUND, times, busy, limit)
}

fn repeat(round: &[&[&str]], times: u32, busy: u32, limit: Duration) -> Result<()> {
    let busy = (0..busy).map(|_| Busy::start()).collect::<Result<Vec<_>>>()?;
    let begin = Instant::now();
    for number in 1..=times {
        let name = format!("round {number} of {times} beside {} busy processes", busy.len());
        let round_begin = Instant::now();
        for words in round {
            run(words).with_context(|| name.clone())?;
        }
        println!("{name}: {:.0} s", round_begin.elapsed().as_secs_f64());
        let elapsed = begin.elapsed();
        if elapsed > limit {
            bail!(
                "{name} ended {:.0} s after the first began, {:.0} s at most (--minutes)",
                elapsed.as_secs_f64(),
                limit.as_secs_f64()
            );
        }
    }
    Ok(())
}

fn run(words: &[&str]) -> Result<()> {
    let line = words.join(" ");
    println!("$ cargo {line}");
    let status = command("cargo").args(words).status().context("cannot start cargo")?;
    if !status.success() {
        bail!("`cargo {line}` ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_spins_until_it_is_dropped() {
        let busy = Busy::start().expect("starts");
        let stat = format!("/proc/{}/stat", busy.0.id());
        while !std::fs::read_to_string(&stat).expect("it lives").contains(") R ") {
            std::thread::yield_now();
        }
        drop(busy);
        assert!(std::fs::read_to_string(&stat).is_err(), "it is gone and reaped");
    }

    #[test]
    fn a_command_that_fails_ends_the_rounds() {
        let round: &[&[&str]] = &[&["--version"], &["no-such-command"]];
        let error = format!("{:#}", repeat(round, 2, 0, Duration::MAX).expect_err("there is no such command"));
        assert!(error.contains("round 1 of 2") && error.contains("cargo no-such-command"), "{error}");
    }

    #[test]
    fn rounds_that_take_too_long_are_an_error() {
        let round: &[&[&str]] = &[&["--version"]];
        assert!(repeat(round, 2, 0, Duration::from_secs(600)).is_ok());
        let error = format!("{:#}", repeat(round, 2, 0, Duration::ZERO).expect_err("everything takes time"));
        assert!(error.contains("0 s at most"), "{error}");
    }

    #[test]
    fn a_round_has_the_stress_test() {
        let source = include_str!("../../gpreempt/tests/vgpu/stress.rs");
        assert!(source.contains("#[ignore"), "the stress test is ignored by default");
        let stress = ROUND.iter().find(|words| words.contains(&"--ignored")).expect("a command for ignored tests");
        assert!(stress.ends_with(&["--ignored", "stress::"]), "{stress:?}");
    }
}
