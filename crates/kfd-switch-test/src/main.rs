//! Tests of one-cycle switching: the interface that kernel/patch adds to amdkfd.
//!
//! They run in the guest of `cargo xtask kernel` on the patched driver. A real gpu cannot run the timed packets that
//! show whether a queue runs, and has no firmware that counts.

mod cases;
mod firmware;
mod interface;
mod sched;
mod tenant;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use linux_host::process::ProcStat;

/// Tests of one-cycle switching (kernel/patch), for the guest of `cargo xtask kernel`.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Run cases; each prints a line. The last line is a result for the scenario.
    Run(Options),
    /// Be a process with queues.
    #[command(hide = true)]
    Tenant,
    /// Be a scheduler that kills itself after a step.
    #[command(hide = true)]
    Owner { step: usize, pids: Vec<u32> },
    /// Be a process with less privilege.
    #[command(hide = true)]
    Less { way: String, victim: u32 },
}

#[derive(Args)]
struct Options {
    /// Cases to run; without names, all of them.
    names: Vec<String>,

    /// Switches whose cycles are counted.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    switches: u32,

    /// Rounds in which processes are killed.
    #[arg(long, value_name = "N", default_value_t = 10)]
    rounds: u32,
}

fn main() -> ExitCode {
    let result = match &Cli::parse().part {
        Part::Run(options) => run(options),
        Part::Tenant => tenant::be(),
        Part::Owner { step, pids } => cases::be_owner(*step, pids),
        Part::Less { way, victim } => cases::be_less(way, *victim),
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
        let result = firmware::await_no_other_process().and_then(|()| (case.run)(options));
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

/// Returns when a process started, in clock ticks after boot.
fn start_time(pid: u32) -> Result<u64> {
    Ok(ProcStat::read(pid).with_context(|| format!("there is no process {pid}"))?.start)
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
        assert!(start_time(std::process::id()).unwrap() > 0);
    }
}
