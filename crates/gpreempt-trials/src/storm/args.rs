//! Flags of `gpreempt vgpu storm` and of the programs that it starts.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use vgpu::launch::KernelProfile;
use vgpu::profile::ReadIndexKind;

/// A program that a storm preempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StormClient {
    /// Kernels of the corpus, compared with the host bit by bit. Needs a checkout and clang-19.
    Corpus,
    /// The kernels of `gpreempt selftest` on several queues at once. Needs no compiler.
    Workload,
    /// A HIP program on the ROCm libraries. Needs a checkout, clang-19 and `cargo xtask setup`.
    Hip,
    /// Training with tinygrad. Its runtime does not enable debugging, so its queues cannot be suspended.
    Tinygrad,
}

/// A release of ROCm that `cargo xtask setup` unpacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RocmRelease {
    /// ROCr 6.1 and HIP 5.7 of Debian 13, in target/rocm13 or $GPREEMPT_ROCM.
    #[default]
    #[value(name = "6.1")]
    V6_1,
    /// ROCr and HIP 6.4, in target/rocm64 or $GPREEMPT_ROCM64.
    #[value(name = "6.4")]
    V6_4,
    /// ROCr and HIP 7.2, in target/rocm72 or $GPREEMPT_ROCM72.
    #[value(name = "7.2")]
    V7_2,
}

/// Flags of `gpreempt vgpu storm`.
#[derive(Args)]
pub struct StormArgs {
    /// Program to preempt.
    #[arg(long, value_enum, default_value_t = StormClient::Workload)]
    pub client: StormClient,

    /// ROCm libraries of the client `hip`.
    #[arg(long, value_enum, default_value_t)]
    pub rocm: RocmRelease,

    /// Least number of preemptions by the device, at random instruction counts.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub preemptions: u64,

    /// Least number of preemptions by a tracer that suspends and resumes queues at random moments.
    ///
    /// Ignored for tinygrad.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub suspends: u64,

    /// Instructions that a workgroup executes between two preemptions by the device, on average.
    ///
    /// A small number finds more places to stop at and slows the program down.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub mean_instructions: u64,

    /// When the read index of the gpu's queues passes a packet: retire, fetch-rewound-at-save or fetch.
    #[arg(long, value_name = "KIND", default_value = ReadIndexKind::default().name())]
    pub read_index: ReadIndexKind,

    /// Kernel whose driver is imitated: 6.12.107, 6.12.115, 7.2 or dkms.
    #[arg(long, value_name = "KERNEL", default_value = KernelProfile::default().name())]
    pub kernel: KernelProfile,

    /// Seed of all random choices. The seed of each run follows from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The programs that `gpreempt vgpu storm` and `stress` start on their virtual gpu.
#[derive(Subcommand)]
pub enum StormProgram {
    /// Run the kernels of the self-test on several queues and print a checksum for each.
    Workload {
        /// Number of rounds.
        #[arg(long, value_name = "N")]
        rounds: u64,
        /// Steps of the long kernel that runs beside the others. Results do not depend on them.
        #[arg(long, value_name = "N", default_value_t = 400_000)]
        long: u32,
    },

    /// Run the kernels of the corpus and print a checksum for each.
    Corpus {
        /// Number of rounds.
        #[arg(long, value_name = "N")]
        rounds: u64,
        /// The file that describes the corpus.
        #[arg(long, value_name = "FILE")]
        manifest: PathBuf,
        /// Directory of the compiled kernels.
        #[arg(long, value_name = "DIR")]
        directory: PathBuf,
        /// Steps of the long kernel that runs beside the others. Results do not depend on them.
        #[arg(long, value_name = "N", default_value_t = 400_000)]
        long: u32,
    },

    /// Suspend and resume queues of a process at random.
    Tracer {
        /// Process whose queues are suspended.
        #[arg(long, value_name = "PID")]
        pid: u32,
        /// Number of suspends.
        #[arg(long, value_name = "N")]
        suspends: u64,
        /// Seed of the random choices.
        #[arg(long, value_name = "N")]
        seed: u64,
    },
}
