//! Flags of `gpreempt demo`, and of the programs that it starts.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// What the demo runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoClient {
    /// Programs of this command that talk to the driver themselves. Need nothing else.
    Workload,
    /// HIP programs on real ROCm libraries. Need a checkout and `cargo xtask setup`.
    Hip,
}

#[derive(Args)]
pub(crate) struct Demo {
    /// Programs to run.
    #[arg(long, value_enum, default_value_t = DemoClient::Workload)]
    pub(crate) client: DemoClient,

    /// Requests of the online program in each arm, instead of what the workload says.
    ///
    /// More make high percentiles firmer and take longer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub(crate) requests: Option<u32>,

    /// Seed of the arrivals. Every arm sees the same.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Workload, instead of the one that is built in; `--print-config` shows that.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// Print the built-in workload, to copy and edit.
    #[arg(long)]
    pub(crate) print_config: bool,

    /// Also write a trace of one block with gpreempt, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,

    /// Run although others use the gpu. They will be disturbed, and so will the measurement.
    #[arg(long)]
    pub(crate) yes: bool,

    /// Leave out the arm with gpreempt: how the requests suffer.
    #[arg(long)]
    pub(crate) without_daemon: bool,

    /// Print JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Programs that use a gpu as applications do. They know nothing of gpreempt.
#[derive(Subcommand)]
pub(crate) enum Load {
    /// Answer requests that arrive at random, whether or not the last one was answered.
    Online(LoadOnline),

    /// Compute without a pause until the standard input is closed or SIGTERM comes.
    Offline(LoadOffline),

    /// Find out how many steps a kernel of a given length has on this gpu.
    Calibrate(LoadCalibrate),

    /// Ring doorbells and measure how long that takes, once for every line on the standard input.
    Doorbell(LoadDoorbell),

    /// Have queues and no work, until the standard input is closed.
    Idle(LoadIdle),
}

#[derive(Args)]
pub(crate) struct LoadOnline {
    /// Requests.
    #[arg(long, value_name = "N")]
    pub(crate) requests: u32,
    /// Kernels of a request.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) kernels: u32,
    /// Workgroups of a kernel.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) groups: u32,
    /// Steps of a kernel.
    #[arg(long, value_name = "N")]
    pub(crate) steps: u32,
    /// Requests that arrive in a second, on average.
    #[arg(long, value_name = "N")]
    pub(crate) rate: f64,
    /// Of the arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Give up what is not answered so long after the last arrival.
    #[arg(long, value_name = "MS")]
    pub(crate) patience_ms: Option<u64>,
    /// Begin with the first line on the standard input.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Tell the daemon at this socket of every request.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) notify: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct LoadOffline {
    /// Workgroups of a kernel; as many as fill the gpu unless given.
    #[arg(long, value_name = "N")]
    pub(crate) groups: Option<u32>,
    /// Steps of a kernel.
    #[arg(long, value_name = "N")]
    pub(crate) steps: u32,
    /// Kernels submitted and not yet completed.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) depth: u32,
    /// End after so many kernels.
    #[arg(long, value_name = "N")]
    pub(crate) kernels: Option<u32>,
}

#[derive(Args)]
pub(crate) struct LoadCalibrate {
    /// Workgroups of a kernel; as many as fill the gpu unless given.
    #[arg(long, value_name = "N")]
    pub(crate) groups: Option<u32>,
    /// Workgroups for every one that has room on the gpu, without --groups.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) fill: u32,
    /// Kernels submitted at once, of which the last signals its end.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) batch: u32,
    /// Length of a kernel.
    #[arg(long, value_name = "US")]
    pub(crate) target_us: f64,
}

#[derive(Args)]
pub(crate) struct LoadDoorbell {
    /// Batches, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batches: u32,
    /// Doorbells of a batch.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) batch: u32,
}

#[derive(Args)]
pub(crate) struct LoadIdle {
    /// Queues.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) queues: u32,
}
