//! `cargo xtask loaded`: the tests that watch processes and clocks, repeated beside busy processes.
//!
//! A test that passes on an idle machine only is a test of the machine. This keeps them honest.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::run::command;

/// The test binaries that run a virtual gpu, the daemon, and the stress test.
const TESTS: &[&str] = &["test", "-p", "gpreempt", "--locked", "--test", "vgpu", "--test", "daemon"];

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
/// If a test fails.
pub(crate) fn loaded(times: u32, busy: u32) -> Result<()> {
    repeat(TESTS, times, busy)
}

fn repeat(tests: &[&str], times: u32, busy: u32) -> Result<()> {
    run(tests, &["--no-run"])?;
    let busy = (0..busy).map(|_| Busy::start()).collect::<Result<Vec<_>>>()?;
    for round in 1..=times {
        let begin = Instant::now();
        run(tests, &[]).with_context(|| format!("round {round} of {times} beside {} busy processes", busy.len()))?;
        println!(
            "round {round} of {times} beside {} busy processes: {:.0} s",
            busy.len(),
            begin.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn run(tests: &[&str], more: &[&str]) -> Result<()> {
    let status = command("cargo").args(tests).args(more).status().context("cannot start cargo")?;
    if !status.success() {
        bail!("`cargo {}` ended with {status}", tests.join(" "));
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
        assert!(repeat(&["--version"], 1, 0).is_err(), "`cargo --version --no-run` is no command");
    }
}
