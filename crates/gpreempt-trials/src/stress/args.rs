//! Flags of `gpreempt vgpu stress` and of the processes that it starts.

use clap::Args;
use vgpu::launch::KernelProfile;
use vgpu::profile::ReadIndexKind;

/// Flags of `gpreempt vgpu stress`.
#[derive(Args)]
pub struct StressArgs {
    /// Duration; up to three times as long while too few processes have died at some kill point.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,

    /// Processes that compute at the same time.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub processes: u32,

    /// Compute queues of each process.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub queues: u32,

    /// Processes that suspend and resume queues of others.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=16))]
    pub tracers: u32,

    /// Least number of processes that die at each kill point.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub hits: u64,

    /// When the read index of the gpu's queues passes a packet: retire, fetch-rewound-at-save or fetch.
    #[arg(long, value_name = "KIND", default_value = ReadIndexKind::default().name())]
    pub read_index: ReadIndexKind,

    /// Kernel whose driver is imitated: 6.12.107, 6.12.115, 7.2 or dkms.
    #[arg(long, value_name = "KERNEL", default_value = KernelProfile::default().name())]
    pub kernel: KernelProfile,

    /// Seed of all random choices. The course of events also depends on the machine.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Flags of a process that computes.
#[derive(Args)]
pub struct StressClientArgs {
    /// Compute queues at a time.
    #[arg(long)]
    pub queues: u32,
    /// Seed of all random choices.
    #[arg(long)]
    pub seed: u64,
    /// Shared page of kill points.
    #[arg(long)]
    pub points: Option<String>,
}

/// Flags of a process that suspends queues of others.
#[derive(Args)]
pub struct StressTracerArgs {
    /// Seed of all random choices.
    #[arg(long)]
    pub seed: u64,
    /// Shared page of kill points.
    #[arg(long)]
    pub points: Option<String>,
}
