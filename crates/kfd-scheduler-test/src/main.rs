//! Tests of the scheduler in the kernel: the module kernel/gpreempt and its control device.
//!
//! They run in the guest of `cargo xtask kernel` on the patched driver. A real gpu cannot run the timed packets that
//! show whether a queue runs, and has no firmware that counts.

mod cases;
mod control;
mod firmware;
mod hostile;
mod storm;
mod tenant;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};

/// Tests of the scheduler in the kernel (kernel/gpreempt), for the guest of `cargo xtask kernel`.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Run cases; each prints a line. The last lines are results for the scenario.
    Run(Options),
    /// Stop and resume a process at random moments, until it ends.
    Storm(storm::Options),
    /// Be a process with queues.
    #[command(hide = true)]
    Tenant { gpu: Option<usize> },
    /// Be a policy host that gives processes a job, holds it and waits to be killed.
    #[command(hide = true)]
    Host { keep_ms: u32, pids: Vec<u32> },
    /// Be a process that makes its memory difficult to read.
    #[command(hide = true)]
    Hostile { way: String },
    /// Be a process with less privilege.
    #[command(hide = true)]
    Less { way: String },
}

#[derive(Args)]
struct Options {
    /// Cases to run; without names, all of them.
    names: Vec<String>,

    /// Rounds of cases that repeat something.
    #[arg(long, value_name = "N", default_value_t = 10)]
    rounds: u32,
}

fn main() -> ExitCode {
    let result = match &Cli::parse().part {
        Part::Run(options) => run(options),
        Part::Storm(options) => storm::storm(options),
        Part::Tenant { gpu } => tenant::be(gpu.unwrap_or(0)),
        Part::Host { keep_ms, pids } => cases::be_host(*keep_ms, pids),
        Part::Hostile { way } => hostile::be(way),
        Part::Less { way } => cases::be_less(way),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    if let Some(unknown) = options.names.iter().find(|name| cases::ALL.iter().all(|case| case.name != **name)) {
        bail!("there is no case `{unknown}`");
    }
    let (mut passed, mut failed) = (0, 0);
    for case in
        cases::ALL.iter().filter(|case| options.names.is_empty() || options.names.iter().any(|n| n == case.name))
    {
        let begin = Instant::now();
        let result = (case.run)(options);
        let time = begin.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                passed += 1;
                println!("ok {} ({time:.3} s)", case.name);
            }
            Err(error) => {
                failed += 1;
                println!("FAILED {} ({time:.3} s): {error:#}", case.name);
            }
        }
    }
    report("cases", passed);
    report("failed", failed);
    if failed > 0 {
        bail!("{failed} cases failed");
    }
    Ok(())
}

/// Adds a number to the results of the scenario.
fn report(name: &str, value: u64) {
    println!("@result {}", serde_json::json!({ name: value }));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_start_time_of_this_process_is_that_of_a_process() {
        assert!(control::start_time(std::process::id()).unwrap() > 0);
    }
}
