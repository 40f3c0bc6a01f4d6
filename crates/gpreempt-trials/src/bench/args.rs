//! Flags of `gpreempt bench`.

use clap::{Args, ValueEnum};

/// A part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchPart {
    /// Latency of requests, throughput kept, cycles.
    Requests,
    /// Detection against processor time.
    Detection,
    /// Cost of a doorbell beside the daemon.
    Doorbell,
    /// Cost of observations and decisions with many tenants.
    Tenants,
}

/// Flags of `gpreempt bench`.
#[derive(Args)]
pub struct BenchArgs {
    /// Only this part. May be repeated.
    #[arg(long = "part", value_name = "PART", value_enum)]
    pub parts: Vec<BenchPart>,

    /// Seed of the arrivals, which are the same in every arm.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Run although other processes use the gpu. They are disturbed, and so is the measurement.
    #[arg(long)]
    pub yes: bool,

    /// Print JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}
