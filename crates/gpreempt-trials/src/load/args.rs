//! Flags of `gpreempt load`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Programs that use a gpu as applications do. They know nothing of gpreempt.
#[derive(Subcommand)]
pub enum Load {
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

/// Flags of `gpreempt load online`.
#[derive(Args)]
pub struct LoadOnline {
    /// Requests.
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
    /// Requests that arrive in a second, on average.
    #[arg(long, value_name = "N")]
    pub rate: f64,
    /// Of the arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Give up what is not answered so long after the last arrival.
    #[arg(long, value_name = "MS")]
    pub patience_ms: Option<u64>,
    /// Begin with the first line on the standard input.
    #[arg(long)]
    pub wait: bool,
    /// Tell the daemon at this socket of every request.
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
    /// End after so many kernels.
    #[arg(long, value_name = "N")]
    pub kernels: Option<u32>,
}

/// Flags of `gpreempt load calibrate`.
#[derive(Args)]
pub struct LoadCalibrate {
    /// Workgroups of a kernel; as many as fill the gpu unless given.
    #[arg(long, value_name = "N")]
    pub groups: Option<u32>,
    /// Workgroups for every one that has room on the gpu, without --groups.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub fill: u32,
    /// Kernels submitted at once, of which the last signals its end.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub batch: u32,
    /// Length of a kernel.
    #[arg(long, value_name = "US")]
    pub target_us: f64,
}

/// Flags of `gpreempt load doorbell`.
#[derive(Args)]
pub struct LoadDoorbell {
    /// Batches, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batches: u32,
    /// Doorbells of a batch.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub batch: u32,
}

/// Flags of `gpreempt load idle`.
#[derive(Args)]
pub struct LoadIdle {
    /// Queues.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub queues: u32,
}
