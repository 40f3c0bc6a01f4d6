//! Flags of `gpreempt demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// Programs of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DemoClient {
    /// Built-in programs that call the driver directly. They need nothing else.
    Workload,
    /// HIP programs on the ROCm libraries. They need a checkout, clang-19 and `cargo xtask setup`.
    Hip,
    /// Training with JAX beside a HIP server. They need a checkout, clang-19 and `cargo xtask setup --jax`.
    Jax,
}

/// Flags of `gpreempt demo`.
#[derive(Args)]
pub struct DemoArgs {
    /// Programs to run.
    #[arg(long, value_enum, default_value_t = DemoClient::Workload)]
    pub client: DemoClient,

    /// Requests of the online program in each arm, instead of the number in the workload.
    ///
    /// More requests make high percentiles more certain and take longer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub requests: Option<u32>,

    /// Seed of the arrivals, which are the same in every arm.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Workload file, instead of the built-in one, which `--print-config` prints.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Print the built-in workload, to copy and edit.
    #[arg(long)]
    pub print_config: bool,

    /// Also write a trace of one block with gpreempt, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,

    /// Run although other processes use the gpu. They are disturbed, and so is the measurement.
    #[arg(long)]
    pub yes: bool,

    /// Leave out the arm with gpreempt.
    #[arg(long)]
    pub without_daemon: bool,

    /// Print JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}
