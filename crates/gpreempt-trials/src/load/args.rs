//! Flags of `gpreempt load`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Programs that use a gpu as applications do, unaware of gpreempt.
#[derive(Subcommand)]
pub enum Load {
    /// Answer requests that arrive at random, whether or not earlier ones are answered.
    Online(LoadOnline),

    /// Compute without a pause until end of input or SIGTERM.
    Offline(LoadOffline),

    /// Find the number of steps of a kernel of a given duration on this gpu.
    Calibrate(LoadCalibrate),

    /// Ring doorbells and measure how long that takes, once for each line of input.
    Doorbell(LoadDoorbell),

    /// Hold queues without work until end of input.
    Idle(LoadIdle),
}

/// Flags of `gpreempt load online`.
#[derive(Args)]
pub struct LoadOnline {
    /// Number of requests.
    #[arg(long, value_name = "N")]
    pub requests: u32,
    /// Kernels of a request.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub kernels: u32,
    /// Workgroups of a kernel.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub groups: u32,
    /// Steps of a kernel.
    #[arg(long, value_name = "N")]
    pub steps: u32,
    /// Arrivals per second, on average.
    #[arg(long, value_name = "N")]
    pub rate: f64,
    /// Seed of the arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Give up requests that are not answered so long after the last arrival.
    #[arg(long, value_name = "MS")]
    pub patience_ms: Option<u64>,
    /// Begin at the first line of input.
    #[arg(long)]
    pub wait: bool,
    /// Notify the daemon at this socket of every request.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub notify: Option<PathBuf>,
}

/// Flags of `gpreempt load offline`.
#[derive(Args)]
pub struct LoadOffline {
    /// Workgroups of a kernel; as many as fill the gpu unless given.
    #[arg(long, value_name = "N")]
    pub groups: Option<u32>,
    /// Steps of a kernel.
    #[arg(long, value_name = "N")]
    pub steps: u32,
    /// Kernels submitted and not yet completed.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub depth: u32,
    /// Number of kernels after which to end.
    #[arg(long, value_name = "N")]
    pub kernels: Option<u32>,
}

/// Flags of `gpreempt load calibrate`.
#[derive(Args)]
pub struct LoadCalibrate {
    /// Workgroups of a kernel; as many as fill the gpu unless given.
    #[arg(long, value_name = "N")]
    pub groups: Option<u32>,
    /// Without --groups: workgroups as a multiple of those that fit on the gpu.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub fill: u32,
    /// Kernels submitted at once; only the last has a completion signal.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub batch: u32,
    /// Duration of a kernel.
    #[arg(long, value_name = "US")]
    pub target_us: f64,
}

/// Flags of `gpreempt load doorbell`.
#[derive(Args)]
pub struct LoadDoorbell {
    /// Batches; the result is their median.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batches: u32,
    /// Doorbells of a batch.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub batch: u32,
}

/// Flags of `gpreempt load idle`.
#[derive(Args)]
pub struct LoadIdle {
    /// Number of queues.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub queues: u32,
}
