//! Measures the stages of gpreempt beside each other: no scheduler, the daemon over its actuators, the scheduler in the
//! kernel.
//!
//! It runs in the guest of `cargo xtask kernel`, on AMD's driver and the timed engine of the device, with instructions
//! counted: all times are virtual. The loads are `kfd-timed-load`, the scheduler is `gpreempt daemon`, as they are.
#![forbid(unsafe_code)]

mod arm;
mod calls;
mod device;
mod look;
mod null;
mod processor_time;
mod sample;
mod table;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures the stages of gpreempt in the guest of `cargo xtask kernel`: all times are virtual.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Measure how late threads wake while another thread keeps a processor busy.
    Null(null::Options),
    /// Measure online requests beside offline work with each stage.
    Table(table::Options),
    /// Measure the driver's part of a switch that changes nothing: no cycle.
    Calls(calls::Options),
    /// Measure what a look at queues costs, by their number.
    Look(look::Options),
}

fn main() -> ExitCode {
    match measure(&Cli::parse().part) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and prints one JSON object.
fn measure(part: &Part) -> Result<()> {
    match part {
        Part::Null(options) => print(&null::measure(options)?),
        Part::Table(options) => print(&table::measure(options)?),
        Part::Calls(options) => print(&calls::measure(options)?),
        Part::Look(options) => print(&look::measure(options)?),
    }
}

fn print(report: &impl serde::Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
