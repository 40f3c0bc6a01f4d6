//! Flags of `gpreempt demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// What the demo runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DemoClient {
    /// Programs of this command that talk to the driver themselves. Need nothing else.
    Workload,
    /// HIP programs on real ROCm libraries. Need a checkout and `cargo xtask setup`.
    Hip,
}

/// Flags of `gpreempt demo`.
#[derive(Args)]
pub struct DemoArgs {
    /// Programs to run.
    #[arg(long, value_enum, default_value_t = DemoClient::Workload)]
    pub client: DemoClient,

    /// Requests of the online program in each arm, instead of what the workload says.
    ///
    /// More make high percentiles firmer and take longer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub requests: Option<u32>,

    /// Seed of the arrivals. Every arm sees the same.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Workload, instead of the one that is built in; `--print-config` shows that.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Print the built-in workload, to copy and edit.
    #[arg(long)]
    pub print_config: bool,

    /// Also write a trace of one block with gpreempt, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,

    /// Run although others use the gpu. They will be disturbed, and so will the measurement.
    #[arg(long)]
    pub yes: bool,

    /// Leave out the arm with gpreempt: how the requests suffer.
    #[arg(long)]
    pub without_daemon: bool,

    /// Print JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}
